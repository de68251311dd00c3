/* compare.h - compares the values of two rows of one shape as both are read. */
#pragma once

#include "core/distance.h"
#include "core/parallel_rows.h"

/* The result of comparing two rows, or parts of them. */
struct comparison {
    uint64_t differing; /* elements beyond the tolerance; bytes that differ if they are not numbers */
    bool identical;     /* byte for byte */
    double max_abs, max_rel;
    double sum;         /* of the finite |a-b| */
    struct norms norms; /* 0 unless the options request them */
};

/* can_compare_rows - returns true if values of LEFT and RIGHT can be compared. */
bool can_compare_rows(const ckpt_tensor *left, const ckpt_tensor *right);
/* compare_rows - compares the two rows of PAIR, for which can_compare_rows() is true. Reports its progress to
 * RUN. CHUNK, which may be NULL, limits the comparison to some elements; its crc is set.
 *
 * Elements with the same bytes in the same dtype are equal, NaN included. Other elements are compared as
 * numbers: complex ones by the modulus of their difference, 64-bit integers exactly, whatever the other dtype
 * is. They are equal if |a-b| <= atol + rtol*|b|, or if both are NaN and OPTS has equal_nan. If |a-b| is not
 * finite, max_abs and max_rel are infinite, or NaN if one of the two is NaN, and it does not count in the
 * sum. */
ckpt_status compare_rows(const struct parallel_item *pair, struct parallel_chunk *chunk,
                         const ckpt_diff_options *opts, struct parallel_context *run, struct comparison *out,
                         ckpt_error *err);
/* comparison_merge - adds to TO the comparison of the next chunk of the same rows. */
void comparison_merge(struct comparison *to, const struct comparison *next);
