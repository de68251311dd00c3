/* distance.h - how much the numbers of two tensors differ, for `ckpt diff`; the same bits on any CPU. */
#pragma once

#include "core/dtype.h"
#include "core/scaled_sum.h"

struct tolerance {
    double abs, rel;
};

/* Totals over N pairs (a, b): the distances |a - b| are summed in eight lanes, pair i in lane i % 8. If any
 * number or distance is not finite, a lane of SUM is not finite: then no field is valid. */
struct distance {
    double sum[8];
    double max_abs, max_rel; /* the largest |a - b|; the largest |a - b| / |b| that is not NaN */
    uint64_t differing;      /* pairs that differ by more than abs + rel * |b| */
};

/* distance_kernel - computes the totals of N pairs at A and B, which need not be aligned: native doubles
 * if DT is F64, else stored elements of DT, for which dtype_has_kernels is true. */
typedef void distance_kernel(ckpt_dtype dt, const unsigned char *a, const unsigned char *b, size_t n,
                             const struct tolerance *t, struct distance *out);

/* distance_scalar - computes the totals for native doubles, whatever DT is. */
distance_kernel distance_scalar;
/* distance_best_kernel - returns the fastest kernel that this CPU can run. */
distance_kernel *distance_best_kernel(void);

/* distance_add - adds COUNT more pairs, the first in lane 0. */
void distance_add(struct distance *distance, const double *left, const double *right, size_t count,
                  const struct tolerance *tolerance);
/* distance_sum - returns the sum of the lanes, always added up in the same order. */
double distance_sum(const struct distance *distance);

/* Sums over pairs (a, b): a*a, b*b, a*b and (a - b)*(a - b). */
struct norms {
    struct scaled_sum aa, bb, ab, dd;
};

/* norms_add - adds COUNT more pairs to TO, summed in eight lanes that are added up in a fixed order.
 * DIFFERENCE: their exact differences, rounded once; NULL: those of the doubles LEFT and RIGHT. A pair with a
 * number that is not finite does not count: both of its numbers are set to 0 in LEFT and RIGHT. */
void norms_add(struct norms *to, double *left, double *right, const double *difference, size_t count);
/* norms_merge - adds the sums of ADDED to TO. */
void norms_merge(struct norms *to, const struct norms *added);
/* norms_distance - returns |a - b| / |b|. */
double norms_distance(const struct norms *norms);
/* norms_cosine - returns a.b / (|a| |b|); NaN: a norm is 0. */
double norms_cosine(const struct norms *norms);
