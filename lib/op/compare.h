/* compare.h - the values of two rows of one shape, streamed side by side. */
#ifndef OP_COMPARE_H
#define OP_COMPARE_H

#include "core/distance.h"
#include "core/sweep.h"

struct comparison {
    uint64_t differing; /* elements beyond the tolerance */
    bool identical;     /* byte for byte */
    double max_abs, max_rel;
    double sum;         /* of what is finite of |a-b| */
    struct norms norms; /* with that option, else 0 */
};

/* Called with the bytes read since the last call; nonzero stops. */
struct compare_progress {
    int (*tick)(void *user, uint64_t bytes);
    void *user;
};

/* compare_possible - can values of A and B be compared at all? */
bool compare_possible(const ckpt_tensor *a, const ckpt_tensor *b);
/* compare_rows - the two rows of X, for which compare_possible() holds; of
 * both the elements of PART alone, whose crc it fills, unless that is NULL.
 *
 * Elements with the same bytes in the same dtype are equal, NaN included. Other
 * elements are compared as numbers, complex ones by the modulus of their
 * difference, 64-bit integers exactly; they are equal when |a-b| <= atol +
 * rtol*|b|, or both are NaN and EQUAL_NAN. A difference that is not finite (a
 * NaN or an infinity on one side) counts as infinite in max_abs and max_rel and
 * stays out of the sum. */
ckpt_status compare_rows(const struct sweep_item *x, struct sweep_part *part, const ckpt_diff_options *opts,
                         const struct compare_progress *progress, struct comparison *out, ckpt_error *err);
/* compare_join - TO becomes what it and the part behind it have together. */
void compare_join(struct comparison *to, const struct comparison *part);

#endif
