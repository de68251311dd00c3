/* moments.h - extremes, mean, spread and counts of many numbers in one pass; the
 * same bits on any CPU. What is no finite number is counted and left out of the
 * rest. */
#ifndef CORE_MOMENTS_H
#define CORE_MOMENTS_H

#include "core/dtype.h"

#define MOMENTS_BLOCK 4096u /* numbers summed up at once, before they join the others */

struct moments {
    uint64_t finite, nan, inf, zeros;
    double min, max, mean; /* of the finite ones, if there are any */
    double m2;             /* sum of (x - mean)^2 */
    double squares;        /* sum of x^2 */
};

/* moments_add - N elements of DT at P, little-endian, whole blocks of dtype.def,
 * in blocks of MOMENTS_BLOCK from the first on: cut elsewhere, the last bits may
 * differ. Complex elements count by their magnitude, each float4 pair is two
 * numbers, quantised types are their stored integers. */
void moments_add(struct moments *m, ckpt_dtype dt, const unsigned char *p, size_t n);
/* moments_merge - M becomes what it was and B together. */
void moments_merge(struct moments *m, const struct moments *b);

/* moments_decode - what moments_add counts: N elements as doubles, at most
 * number_lanes(DT) for each, of complex ones the magnitude. Returns how many. */
size_t moments_decode(ckpt_dtype dt, const unsigned char *p, size_t n, double *out);

/* What a kernel finds in N numbers: sums in eight lanes, number i in lane i % 8.
 * Where one is infinite or NaN the squares are not finite, and nothing here counts. */
struct sums {
    double sum[8], square[8]; /* of x - shift */
    double min, max;
    uint64_t zeros;
};

/* Of N numbers at any address: doubles as this CPU has them, or elements as they
 * stand in a file (NULL: to be decoded first). */
struct moments_kernels {
    const char *name;
    void (*doubles)(const unsigned char *p, size_t n, double shift, struct sums *out);
    void (*f64)(const unsigned char *p, size_t n, double shift, struct sums *out);
    void (*f32)(const unsigned char *p, size_t n, double shift, struct sums *out);
    void (*f16)(const unsigned char *p, size_t n, double shift, struct sums *out);
    void (*bf16)(const unsigned char *p, size_t n, double shift, struct sums *out);
};

extern const struct moments_kernels moments_plain;
/* moments_best - the fastest kernels that this CPU can run. */
const struct moments_kernels *moments_best(void);
/* moments_simd - the I-th of those in vector code, slowest first; NULL: there are
 * no more. */
const struct moments_kernels *moments_simd(unsigned i);
/* moments_add_by - moments_add with kernels of the caller's choice. */
void moments_add_by(const struct moments_kernels *k, struct moments *m, ckpt_dtype dt, const unsigned char *p,
                    size_t n);
/* sums_more - N more doubles of any order, the first of lane 0. */
void sums_more(struct sums *s, const double *x, size_t n, double shift);

#endif
