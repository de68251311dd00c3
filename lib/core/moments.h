/* moments.h - extremes, mean, spread and counts of many numbers in one pass, for `ckpt stat`; the same
 * bits on any CPU. Numbers that are not finite are only counted. */
#ifndef CORE_MOMENTS_H
#define CORE_MOMENTS_H

#include "core/dtype.h"

#define MOMENTS_BLOCK 4096u /* numbers summed up at once, before they are merged */

struct moments {
    uint64_t finite, nan, inf, zeros;
    double min, max, mean; /* of the finite numbers, if there are any */
    double m2;             /* sum of (x - mean)^2 */
    double squares;        /* sum of x^2 */
};

/* moments_add - adds N elements of DT at P: little-endian, complete blocks of dtype.def, cut into blocks
 * of MOMENTS_BLOCK from the first on (cut elsewhere, the last bits may differ). Complex elements count
 * by their magnitude, each float4 pair is two numbers, quantised types are their stored integers. */
void moments_add(struct moments *m, ckpt_dtype dt, const unsigned char *p, size_t n);
void moments_merge(struct moments *m, const struct moments *added);

/* moments_decode - writes the numbers that moments_add counts in N elements to OUT, at most
 * number_lanes(DT) for each, of complex ones the magnitude. Returns how many. */
size_t moments_decode(ckpt_dtype dt, const unsigned char *p, size_t n, double *out);

/* Totals of a kernel over N numbers, summed in eight lanes, number i in lane i % 8. If any number is not
 * finite, the squares are not finite, and no field is valid. */
struct moment_sums {
    double sum[8], square[8]; /* of x - shift */
    double min, max;
    uint64_t zeros;
};

/* moments_kernel - computes the totals of N numbers at P, which need not be aligned: native doubles as DT
 * F64, or stored elements of a DT that dtype_has_kernels. */
typedef void moments_kernel(ckpt_dtype dt, const unsigned char *p, size_t n, double shift,
                            struct moment_sums *out);

/* moments_scalar - computes the totals for native doubles, whatever DT is. */
moments_kernel moments_scalar;
/* moments_best_kernel - returns the fastest kernel that this CPU can run. */
moments_kernel *moments_best_kernel(void);
/* moments_add_by - does what moments_add does, by KERNEL. */
void moments_add_by(moments_kernel *kernel, struct moments *m, ckpt_dtype dt, const unsigned char *p,
                    size_t n);
/* moment_sums_add - adds N more doubles, the first in lane 0. */
void moment_sums_add(struct moment_sums *s, const double *x, size_t n, double shift);

#endif
