/* distance.c - see distance.h. Because of the eight lanes, sums do not depend on the width of registers. */
#include "core/distance.h"

#include "core/number.h"

#ifdef __clang__
#pragma STDC FP_CONTRACT OFF /* gcc does not fuse under -std=c11 */
#endif

void distance_add(struct distance *distance, const double *left, const double *right, size_t count,
                  const struct tolerance *tolerance)
{
    for (size_t i = 0; i < count; i++) {
        double difference = fabs(left[i] - right[i]), base = fabs(right[i]), rel = difference / base;
        distance->sum[i & 7] += difference;
        distance->max_abs = difference > distance->max_abs ? difference : distance->max_abs;
        distance->max_rel = rel > distance->max_rel ? rel : distance->max_rel;
        distance->differing += left[i] != right[i] && !(difference <= tolerance->abs + tolerance->rel * base);
    }
}

double distance_sum(const struct distance *distance) { return number_add_lanes(distance->sum); }

/* The sums of products of one call. */
struct products {
    double aa, bb, ab, dd;
};

/* sum_products - sums pair i in lane i % 8, however many lanes the compiler puts into one register. */
static struct products sum_products(const double *left, const double *right, size_t count)
{
    double aa[8] = {0}, bb[8] = {0}, ab[8] = {0}, dd[8] = {0};
    for (size_t i = 0; i < count; i += 8) {
        size_t lanes = count - i < 8 ? count - i : 8;
        for (size_t k = 0; k < lanes; k++) {
            double x = left[i + k], y = right[i + k], difference = x - y;
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

static bool all_equal(const double *left, const double *right, size_t count)
{
    size_t i = 0;
    while (i < count && left[i] == right[i])
        i++;
    return i == count;
}

/* Numbers times the factor of SCALE. */
struct scaled_numbers {
    const double *x;
    double factor;
    int scale;
};

static struct scaled_numbers scale_numbers(const double *in, size_t count)
{
    double largest = 0;
    for (size_t i = 0; i < count; i++)
        largest = fabs(in[i]) > largest ? fabs(in[i]) : largest;
    int scale = scale_for(largest);
    return (struct scaled_numbers){in, scale_factor(scale), scale};
}

static void add_scaled_products(struct scaled_sum *to, const struct scaled_numbers *numbers,
                                const struct scaled_numbers *scaled_numbers, size_t count)
{
    double sums[8] = {0};
    for (size_t i = 0; i < count; i++)
        sums[i & 7] += (numbers->x[i] * numbers->factor) * (scaled_numbers->x[i] * scaled_numbers->factor);
    scaled_sum_add(to, (struct scaled_sum){number_add_lanes(sums), numbers->scale + scaled_numbers->scale});
}

/* add_differences - adds the squares of COUNT differences of LEFT and RIGHT, which may overflow or be too
 * small. */
static void add_differences(struct scaled_sum *to, const double *left, const double *right, size_t count)
{
    double largest = 0, sums[8] = {0};
    for (size_t i = 0; i < count; i++)
        largest = fabs(left[i] - right[i]) > largest ? fabs(left[i] - right[i]) : largest;
    int scale = scale_for(largest);
    for (size_t i = 0; i < count; i++) {
        double d = left[i] * scale_factor(scale) - right[i] * scale_factor(scale);
        sums[i & 7] += d * d;
    }
    scaled_sum_add(to, (struct scaled_sum){number_add_lanes(sums), 2 * scale});
}

static void add_scaled(struct norms *to, const double *left, const double *right, const double *difference,
                       size_t count)
{
    const struct scaled_numbers in_a = scale_numbers(left, count), in_b = scale_numbers(right, count);
    add_scaled_products(&to->aa, &in_a, &in_a, count);
    add_scaled_products(&to->bb, &in_b, &in_b, count);
    add_scaled_products(&to->ab, &in_a, &in_b, count);
    if (difference) {
        const struct scaled_numbers d = scale_numbers(difference, count);
        add_scaled_products(&to->dd, &d, &d, count);
    } else {
        add_differences(&to->dd, left, right, count);
    }
}

void norms_add(struct norms *to, double *left, double *right, const double *difference, size_t count)
{
    struct products s = sum_products(left, right, count);
    for (size_t i = 0; !isfinite(s.aa + s.bb + s.dd) && i < count; i++)
        if (!isfinite(left[i]) || !isfinite(right[i]))
            left[i] = right[i] = 0;
    bool usual = is_usual(s.aa) && is_usual(s.bb) &&
                 (is_usual(s.dd) || (s.dd == 0 && all_equal(left, right, count)));
    if (difference || !usual) {
        add_scaled(to, left, right, difference, count);
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

double norms_distance(const struct norms *norms)
{
    if (norms->dd.value == 0)
        return 0;
    double ratio = sqrt(norms->dd.value) / sqrt(norms->bb.value);
    return norms->bb.value == 0 ? (double)INFINITY
                                : ldexp(ratio, SCALE_BITS / 2 * (norms->bb.scale - norms->dd.scale));
}

double norms_cosine(const struct norms *norms)
{
    if (norms->aa.value == 0 || norms->bb.value == 0)
        return (double)NAN;
    double c = norms->ab.value / (sqrt(norms->aa.value) * sqrt(norms->bb.value));
    c = ldexp(c, SCALE_BITS / 2 * (norms->aa.scale + norms->bb.scale) - SCALE_BITS * norms->ab.scale);
    return c > 1 ? 1 : c < -1 ? -1 : c;
}

void distance_scalar(ckpt_dtype dt, const unsigned char *left, const unsigned char *right, size_t count,
                     const struct tolerance *tolerance, struct distance *out)
{
    double x[64], y[64];
    (void)dt;
    *out = (struct distance){0};
    for (size_t i = 0; i < count; i += 64, left += sizeof x, right += sizeof y) {
        size_t k = count - i < 64 ? count - i : 64;
        memcpy(x, left, k * sizeof *x);
        memcpy(y, right, k * sizeof *y);
        distance_add(out, x, y, k, tolerance);
    }
}
