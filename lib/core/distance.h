/* distance.h - how far numbers are from those in the same places elsewhere; the
 * same bits on any CPU. */
#ifndef CORE_DISTANCE_H
#define CORE_DISTANCE_H

#include "core/dtype.h"

struct tolerance {
    double abs, rel;
};

/* What is found in N pairs (a, b): their distances |a - b| in eight lanes, that of
 * pair i in lane i % 8. Where a number or a distance is not finite, neither is a
 * lane, and nothing here counts. */
struct distance {
    double sum[8];
    double max_abs, max_rel; /* of |a - b| / |b|, unless it is NaN */
    uint64_t differing;      /* pairs whose numbers differ by more than abs + rel * |b| */
};

typedef void distance_kernel(const unsigned char *a, const unsigned char *b, size_t n,
                             const struct tolerance *t, struct distance *out);

/* For numbers at any address: doubles as this CPU has them, or elements of one type
 * as they stand in a file (NULL: to be decoded first). */
struct distance_kernels {
    const char *name;
    distance_kernel *doubles, *f64, *f32, *f16, *bf16;
};

extern const struct distance_kernels distance_plain;
/* distance_best - the fastest kernels that this CPU can run. */
const struct distance_kernels *distance_best(void);
/* distance_simd - the I-th of those in vector code, slowest first; NULL: there are
 * no more. */
const struct distance_kernels *distance_simd(unsigned i);
/* distance_direct - the one for stored elements of DT, or NULL. */
distance_kernel *distance_direct(const struct distance_kernels *k, ckpt_dtype dt);

/* distance_more - N more pairs, the first of lane 0. */
void distance_more(struct distance *d, const double *a, const double *b, size_t n, const struct tolerance *t);
/* Sums over pairs (a, b): a*a, b*b, a*b and (a - b)*(a - b). */
struct norms {
    double aa, bb, ab, dd;
};

/* norms_add - N pairs more, summed in eight lanes that are added up in one order, then to TO. Pairs with a
 * number that is not finite do not count: both numbers become 0. */
void norms_add(struct norms *to, double *a, double *b, size_t n);
/* norms_distance - |a - b| / |b|; NaN: the sums are too large. norms_cosine - a.b / (|a| |b|); NaN likewise,
 * and where one of them is 0. */
double norms_distance(const struct norms *s);
double norms_cosine(const struct norms *s);

/* distance_sum - the lanes, always added up in the same order. */
double distance_sum(const struct distance *d);

#endif
