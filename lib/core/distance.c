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

/* The sums of products of one call. */
struct products {
    double aa, bb, ab, dd;
};

/* sum_products - sums pair i in lane i % 8, however many lanes the compiler puts into one register. */
static struct products sum_products(const double *a, const double *b, size_t n)
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
    return (struct products){number_add_lanes(aa), number_add_lanes(bb), number_add_lanes(ab),
                             number_add_lanes(dd)};
}

/* is_usual - returns true if SUM, a sum of squares, did not overflow and lost nothing that was too small. */
static bool is_usual(double sum) { return sum >= 0x1p-800 && sum <= 0x1p+960; }

static bool all_equal(const double *a, const double *b, size_t n)
{
    size_t i = 0;
    while (i < n && a[i] == b[i])
        i++;
    return i == n;
}

/* Numbers times the factor of SCALE. */
struct scaled_numbers {
    const double *x;
    double factor;
    int scale;
};

static struct scaled_numbers scale_numbers(const double *x, size_t n)
{
    double largest = 0;
    for (size_t i = 0; i < n; i++)
        largest = fabs(x[i]) > largest ? fabs(x[i]) : largest;
    int scale = scale_for(largest);
    return (struct scaled_numbers){x, scale_factor(scale), scale};
}

static void add_scaled_products(struct scaled_sum *to, const struct scaled_numbers *x,
                                const struct scaled_numbers *y, size_t n)
{
    double sums[8] = {0};
    for (size_t i = 0; i < n; i++)
        sums[i & 7] += (x->x[i] * x->factor) * (y->x[i] * y->factor);
    scaled_sum_add(to, (struct scaled_sum){number_add_lanes(sums), x->scale + y->scale});
}

/* add_differences - adds the squares of N differences of A and B, which may overflow or be too small. */
static void add_differences(struct scaled_sum *to, const double *a, const double *b, size_t n)
{
    double largest = 0, sums[8] = {0};
    for (size_t i = 0; i < n; i++)
        largest = fabs(a[i] - b[i]) > largest ? fabs(a[i] - b[i]) : largest;
    int scale = scale_for(largest);
    for (size_t i = 0; i < n; i++) {
        double d = a[i] * scale_factor(scale) - b[i] * scale_factor(scale);
        sums[i & 7] += d * d;
    }
    scaled_sum_add(to, (struct scaled_sum){number_add_lanes(sums), 2 * scale});
}

static void add_scaled(struct norms *to, const double *a, const double *b, const double *difference, size_t n)
{
    const struct scaled_numbers in_a = scale_numbers(a, n), in_b = scale_numbers(b, n);
    add_scaled_products(&to->aa, &in_a, &in_a, n);
    add_scaled_products(&to->bb, &in_b, &in_b, n);
    add_scaled_products(&to->ab, &in_a, &in_b, n);
    if (difference) {
        const struct scaled_numbers d = scale_numbers(difference, n);
        add_scaled_products(&to->dd, &d, &d, n);
    } else {
        add_differences(&to->dd, a, b, n);
    }
}

void norms_add(struct norms *to, double *a, double *b, const double *difference, size_t n)
{
    struct products s = sum_products(a, b, n);
    for (size_t i = 0; !isfinite(s.aa + s.bb + s.dd) && i < n; i++)
        if (!isfinite(a[i]) || !isfinite(b[i]))
            a[i] = b[i] = 0;
    bool usual = is_usual(s.aa) && is_usual(s.bb) && (is_usual(s.dd) || (s.dd == 0 && all_equal(a, b, n)));
    if (difference || !usual) {
        add_scaled(to, a, b, difference, n);
        return;
    }
    const struct norms sums = {{s.aa, 0}, {s.bb, 0}, {s.ab, 0}, {s.dd, 0}};
    norms_merge(to, &sums);
}

void norms_merge(struct norms *to, const struct norms *added)
{
    scaled_sum_add(&to->aa, added->aa);
    scaled_sum_add(&to->bb, added->bb);
    scaled_sum_add(&to->ab, added->ab);
    scaled_sum_add(&to->dd, added->dd);
}

double norms_distance(const struct norms *s)
{
    if (s->dd.value == 0)
        return 0;
    double ratio = sqrt(s->dd.value) / sqrt(s->bb.value);
    return s->bb.value == 0 ? (double)INFINITY : ldexp(ratio, SCALE_BITS / 2 * (s->bb.scale - s->dd.scale));
}

double norms_cosine(const struct norms *s)
{
    if (s->aa.value == 0 || s->bb.value == 0)
        return (double)NAN;
    double c = s->ab.value / (sqrt(s->aa.value) * sqrt(s->bb.value));
    c = ldexp(c, SCALE_BITS / 2 * (s->aa.scale + s->bb.scale) - SCALE_BITS * s->ab.scale);
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
