/* moments.h - extremes, mean, spread and counts of many numbers in one pass, for `ckpt stat`; the same
 * bits on any CPU. Numbers that are not finite are only counted. */
#pragma once

#include "core/dtype.h"
#include "core/scaled_sum.h"

#define MOMENTS_BLOCK 4096u /* numbers that are summed up at once; then blocks are merged */

struct moments {
    uint64_t finite, nan, inf, zeros;
    double min, max, mean;     /* of the finite numbers, if there are any */
    struct scaled_sum m2;      /* sum of (x - mean)^2 */
    struct scaled_sum squares; /* sum of x^2 */
    /* The mean is ORIGIN, which is a number of the tensor, + OFFSET: more digits than a double has. */
    double origin, offset;
    uint64_t wide_origin; /* of 64-bit integers, ORIGIN exactly; of int64, with its sign bit inverted */
};

/* moments_add - adds COUNT elements of DT at BYTES, little-endian and in complete blocks (dtype.def).
 * MOMENTS_BLOCK numbers at a time are summed up, from BYTES on; calls that cut elsewhere may differ in the
 * last bits. A complex element counts by its magnitude, a float4 pair as two numbers, a quantised one as its
 * stored integer. */
void moments_add(struct moments *moments, ckpt_dtype dt, const unsigned char *bytes, size_t count);
void moments_merge(struct moments *moments, const struct moments *added);

/* moments_decode - writes to OUT the numbers that moments_add counts for COUNT elements: the magnitude of
 * each complex element, numbers_per_element(DT) numbers for any other. Returns how many. */
size_t moments_decode(ckpt_dtype dt, const unsigned char *bytes, size_t count, double *out);

/* Totals of a kernel over N numbers, summed in eight lanes, number i in lane i % 8. If any number is not
 * finite, SQUARE is not finite, and no field is valid. */
struct moment_sums {
    double sum[8], square[8]; /* the sums of x - shift, and of (x - shift)^2 */
    double min, max;
    uint64_t zeros;
};

/* moments_kernel - computes the totals of N numbers at P, which need not be aligned: native doubles if DT
 * is F64, or stored elements if dtype_has_kernels(DT). */
typedef void moments_kernel(ckpt_dtype dt, const unsigned char *p, size_t n, double shift,
                            struct moment_sums *out);

/* moments_scalar - computes the totals for native doubles, whatever DT is. */
moments_kernel moments_scalar;
/* moments_best_kernel - returns the fastest kernel that this CPU can run. */
moments_kernel *moments_best_kernel(void);
/* moments_add_by - does what moments_add does, with KERNEL. */
void moments_add_by(moments_kernel *kernel, struct moments *moments, ckpt_dtype dt,
                    const unsigned char *bytes, size_t count);
/* moment_sums_add - adds COUNT more doubles, the first in lane 0. */
void moment_sums_add(struct moment_sums *sums, const double *in, size_t count, double shift);
