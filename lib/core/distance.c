/* distance.c - see distance.h. Because of the eight lanes, sums do not depend on the width of registers. */
#include "core/distance.h"

#include <math.h>
#include <string.h>

#include "core/number.h"

#ifdef __clang__
#pragma STDC FP_CONTRACT OFF /* gcc does not fuse under -std=c11 */
#endif

void distance_add(struct distance *d, const double *a, const double *b, size_t n, const struct tolerance *t)
{
    for (size_t i = 0; i < n; i++) {
        double difference = fabs(a[i] - b[i]), base = fabs(b[i]), rel = difference / base;
        d->sum[i & 7] += difference;
        d->max_abs = difference > d->max_abs ? difference : d->max_abs;
        d->max_rel = rel > d->max_rel ? rel : d->max_rel;
        d->differing += a[i] != b[i] && !(difference <= t->abs + t->rel * base);
    }
}

double distance_sum(const struct distance *d) { return number_add_lanes(d->sum); }

/* sum_products - sums pair i in lane i % 8, however many lanes the compiler puts into one register. */
static struct norms sum_products(const double *a, const double *b, size_t n)
{
    double aa[8] = {0}, bb[8] = {0}, ab[8] = {0}, dd[8] = {0};
    for (size_t i = 0; i < n; i += 8) {
        size_t lanes = n - i < 8 ? n - i : 8;
        for (size_t k = 0; k < lanes; k++) {
            double x = a[i + k], y = b[i + k], difference = x - y;
            aa[k] += x * x;
            bb[k] += y * y;
            ab[k] += x * y;
            dd[k] += difference * difference;
        }
    }
    return (struct norms){number_add_lanes(aa), number_add_lanes(bb), number_add_lanes(ab),
                          number_add_lanes(dd)};
}

static bool are_sums_finite(const struct norms *s)
{
    return isfinite(s->aa) && isfinite(s->bb) && isfinite(s->ab) && isfinite(s->dd);
}

void norms_add(struct norms *to, double *a, double *b, size_t n)
{
    struct norms s = sum_products(a, b, n);
    if (!are_sums_finite(&s)) {
        for (size_t i = 0; i < n; i++)
            if (!isfinite(a[i]) || !isfinite(b[i]))
                a[i] = b[i] = 0;
        s = sum_products(a, b, n);
    }
    to->aa += s.aa;
    to->bb += s.bb;
    to->ab += s.ab;
    to->dd += s.dd;
}

double norms_distance(const struct norms *s)
{
    if (!isfinite(s->dd) || !isfinite(s->bb))
        return (double)NAN;
    if (s->dd == 0)
        return 0;
    return s->bb == 0 ? (double)INFINITY : sqrt(s->dd) / sqrt(s->bb);
}

double norms_cosine(const struct norms *s)
{
    if (!are_sums_finite(s) || s->aa == 0 || s->bb == 0)
        return (double)NAN;
    double c = s->ab / (sqrt(s->aa) * sqrt(s->bb));
    return c > 1 ? 1 : c < -1 ? -1 : c;
}

void distance_scalar(ckpt_dtype dt, const unsigned char *a, const unsigned char *b, size_t n,
                     const struct tolerance *t, struct distance *out)
{
    double x[64], y[64];
    (void)dt;
    *out = (struct distance){0};
    for (size_t i = 0; i < n; i += 64, a += sizeof x, b += sizeof y) {
        size_t k = n - i < 64 ? n - i : 64;
        memcpy(x, a, k * sizeof *x);
        memcpy(y, b, k * sizeof *y);
        distance_add(out, x, y, k, t);
    }
}
