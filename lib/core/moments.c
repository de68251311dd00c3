/*
 * moments.c - see moments.h.
 *
 * A block of n numbers is summed up as differences from its first, x0. As x0 is one of them, the sum of
 * (x - x0)^2 is at most n + 1 times that of (x - mean)^2, so the subtraction that gives the latter loses at
 * most twelve bits, however far from zero the numbers are. Blocks are merged by the formula of Chan, Golub
 * and LeVeque, "Updating Formulae and a Pairwise Algorithm for Computing Sample Variances", 1979. Eight
 * lanes, always added up in the same order, make the result independent of the width of the CPU's registers.
 */
#include "core/moments.h"

#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "base/cursor.h"
#include "core/number.h"

#ifdef __clang__
#pragma STDC FP_CONTRACT OFF /* gcc does not fuse under -std=c11 */
#endif

/* magnitude_of - returns |re + i im|, without hypot(), whose last bit differs between C libraries. */
static double magnitude_of(double re, double im)
{
    re = fabs(re);
    im = fabs(im);
    if (isnan(re) || isnan(im))
        return (double)NAN;
    if (isinf(re) || isinf(im))
        return (double)INFINITY;
    double larger = re > im ? re : im; /* its square may overflow or be zero: scale first */
    double scale = larger > 0x1p+500 ? 0x1p-600 : larger < 0x1p-400 ? 0x1p+600 : 1.0;
    re *= scale;
    im *= scale;
    return sqrt(re * re + im * im) / scale;
}

static size_t decode_magnitudes(ckpt_dtype dt, const unsigned char *p, size_t n, double *out)
{
    double pair[128];
    size_t width = ckpt_dtype_bits(dt) / 8;
    for (size_t i = 0; i < n; i += 64, p += 64 * width) {
        size_t k = n - i < 64 ? n - i : 64;
        number_decode(dt, p, k, pair);
        for (size_t j = 0; j < k; j++)
            out[i + j] = magnitude_of(pair[2 * j], pair[2 * j + 1]);
    }
    return n;
}

size_t moments_decode(ckpt_dtype dt, const unsigned char *p, size_t n, double *out)
{
    if (number_is_complex(dt))
        return decode_magnitudes(dt, p, n, out);
    number_decode(dt, p, n, out);
    return n * numbers_per_element(dt);
}

void moment_sums_add(struct moment_sums *s, const double *x, size_t n, double shift)
{
    for (size_t i = 0; i < n; i++) {
        double d = x[i] - shift;
        s->sum[i & 7] += d;
        s->square[i & 7] += d * d;
        s->min = x[i] < s->min ? x[i] : s->min;
        s->max = x[i] > s->max ? x[i] : s->max;
        s->zeros += x[i] == 0;
    }
}

void moments_scalar(ckpt_dtype dt, const unsigned char *p, size_t n, double shift, struct moment_sums *out)
{
    double x[64];
    (void)dt;
    *out = (struct moment_sums){.min = (double)INFINITY, .max = -(double)INFINITY};
    for (size_t i = 0; i < n; i += 64, p += sizeof x) {
        size_t k = n - i < 64 ? n - i : 64;
        memcpy(x, p, k * sizeof *x);
        moment_sums_add(out, x, k, shift);
    }
}

/* set_mean - sets the mean of M from its origin and offset. */
static void set_mean(struct moments *m)
{
    double mean = m->origin + m->offset;
    m->mean = mean < m->min ? m->min : mean > m->max ? m->max : mean;
}

/* finish_block - sets mean, m2 and squares of B from SUM and SQUARE, the sums of x - SHIFT and its square, of
 * numbers that were multiplied by the factor of SCALE. */
static void finish_block(struct moments *b, double sum, double square, double shift, int scale)
{
    double n = (double)b->finite, d = sum / n, m2 = square - sum * d; /* D: the mean of x - SHIFT */
    double squares = (square + 2 * shift * sum) + n * shift * shift;
    b->m2 = (struct scaled_sum){m2 > 0 ? m2 : 0, 2 * scale};
    b->squares = (struct scaled_sum){squares, 2 * scale};
    b->origin = ldexp(shift, -SCALE_BITS * scale);
    b->offset = ldexp(d, -SCALE_BITS * scale);
    if (!isfinite(b->offset)) {
        b->origin = ldexp(shift + d, -SCALE_BITS * scale);
        b->offset = 0;
    }
    set_mean(b);
}

static double largest_magnitude(const struct moments *b)
{
    return -b->min > b->max ? -b->min : b->max > -b->max ? b->max : -b->max;
}

/* count_block - sets the counts and extremes of B from any N numbers, and *FIRST to the first finite one. */
static void count_block(struct moments *b, const double *x, size_t n, double *first)
{
    b->min = (double)INFINITY;
    b->max = -(double)INFINITY;
    for (size_t i = n; COUNT_DOWN(i);) {
        if (!isfinite(x[i])) {
            b->nan += isnan(x[i]) != 0;
            b->inf += isinf(x[i]) != 0;
            continue;
        }
        *first = x[i];
        b->finite++;
        b->zeros += x[i] == 0;
        b->min = x[i] < b->min ? x[i] : b->min;
        b->max = x[i] > b->max ? x[i] : b->max;
    }
}

/* sum_scaled - sets *SUM to the sum of (x - SHIFT) * SCALE over the finite X; returns the sum of squares. */
static double sum_scaled(const double *x, size_t n, double shift, double scale, double *sum)
{
    double sums[8] = {0}, squares[8] = {0};
    for (size_t i = 0; i < n; i++) {
        double d = isfinite(x[i]) ? x[i] * scale - shift * scale : 0;
        sums[i & 7] += d;
        squares[i & 7] += d * d;
    }
    *sum = number_add_lanes(sums);
    return number_add_lanes(squares);
}

/* sum_block_slow - sums up in B, which is zero, any numbers: also infinities, NaN, and finite numbers whose
 * squares overflow or vanish. */
static void sum_block_slow(struct moments *b, const double *x, size_t n)
{
    double first = 0, sum;
    count_block(b, x, n, &first);
    if (!b->finite)
        return;
    int scale = scale_for(largest_magnitude(b));
    double square = sum_scaled(x, n, first, scale_factor(scale), &sum);
    finish_block(b, sum, square, first * scale_factor(scale), scale);
}

/* sum_block_wide - sums up in B, which is zero, 64-bit integers. Their differences from the first are exact;
 * as doubles, many of these integers would be equal. */
static void sum_block_wide(struct moments *b, ckpt_dtype dt, const unsigned char *p, const double *x,
                           size_t n)
{
    double sums[8] = {0}, squares[8] = {0}, unused = 0;
    uint64_t sign_bit = dt == CKPT_DT_I64 ? UINT64_C(1) << 63 : 0, first = load_u64le(p) ^ sign_bit;
    count_block(b, x, n, &unused);
    for (size_t i = 0; i < n; i++) {
        double d = number_subtract(load_u64le(p + 8 * i) ^ sign_bit, first);
        sums[i & 7] += d;
        squares[i & 7] += d * d;
    }
    finish_block(b, number_add_lanes(sums), number_add_lanes(squares), x[0], 0);
    b->wide_origin = first;
}

/* sum_block_fast - sums up numbers in B, which is zero, by KERNEL; false: one is not finite, too large
 * or too small. */
static bool sum_block_fast(struct moments *b, moments_kernel *kernel, ckpt_dtype dt, const unsigned char *p,
                           size_t n, double first)
{
    struct moment_sums s;
    if (!isfinite(first))
        return false;
    kernel(dt, p, n, first, &s);
    double square = number_add_lanes(s.square);
    if (!isfinite(square))
        return false;
    b->finite = n;
    b->zeros = s.zeros;
    b->min = s.min;
    b->max = s.max;
    if (scale_for(largest_magnitude(b)) != 0) {
        *b = (struct moments){0};
        return false;
    }
    finish_block(b, number_add_lanes(s.sum), square, first, 0);
    return true;
}

/* subtract_means - returns the mean of A - that of B, times FACTOR. */
static double subtract_means(const struct moments *a, const struct moments *b, double factor)
{
    double origins = a->wide_origin || b->wide_origin
                         ? number_subtract(a->wide_origin, b->wide_origin) * factor
                         : a->origin * factor - b->origin * factor;
    return origins + (a->offset * factor - b->offset * factor);
}

/* merge_means - sets the mean of M, which is that of OLD, to the mean of OLD and ADDED. DELTA: the difference
 * of both. */
static void merge_means(struct moments *m, const struct moments *old, const struct moments *added,
                        double delta)
{
    double n = (double)m->finite, weight = (double)added->finite / n;
    m->offset += delta * weight;
    if (!isfinite(m->offset)) {
        m->origin = old->mean * ((double)old->finite / n) + added->mean * weight;
        m->offset = 0;
    }
    set_mean(m);
}

void moments_merge(struct moments *m, const struct moments *added)
{
    struct moments old = *m;
    m->finite += added->finite;
    m->nan += added->nan;
    m->inf += added->inf;
    m->zeros += added->zeros;
    if (!added->finite)
        return;
    if (!old.finite) {
        uint64_t nan = m->nan, inf = m->inf;
        *m = *added;
        m->nan = nan;
        m->inf = inf;
        m->min += 0.0; /* turns -0.0 into 0.0 */
        m->max += 0.0;
        m->mean += 0.0;
        return;
    }
    double weight = (double)added->finite / (double)m->finite, delta = subtract_means(added, &old, 1);
    int scale = isfinite(delta) ? scale_for(fabs(delta)) : -1;
    double scaled = subtract_means(added, &old, scale_factor(scale));
    struct scaled_sum between = {scaled * scaled * ((double)old.finite * weight), 2 * scale};
    m->min = added->min < old.min ? added->min + 0.0 : old.min;
    m->max = added->max > old.max ? added->max + 0.0 : old.max;
    scaled_sum_add(&m->squares, added->squares);
    scaled_sum_add(&between, added->m2);
    scaled_sum_add(&m->m2, between);
    merge_means(m, &old, added, delta);
}

void moments_add_by(moments_kernel *kernel, struct moments *m, ckpt_dtype dt, const unsigned char *p,
                    size_t n)
{
    const struct dtype_info *d = dtype_info(dt);
    bool reads_stored = kernel != moments_scalar && dtype_has_kernels(dt); /* else it reads decoded doubles */
    double x[MOMENTS_BLOCK];
    size_t lanes = number_is_complex(dt) ? 1 : numbers_per_element(dt);
    size_t step = lanes ? MOMENTS_BLOCK / lanes : 0;
    for (size_t i = 0; step && i < n; i += step) {
        size_t count = n - i < step ? n - i : step;
        const unsigned char *elements = p + i / d->block_elems * d->block_bytes;
        struct moments block = {0};
        size_t decoded = moments_decode(dt, elements, reads_stored ? 1 : count, x);
        if (number_is_wide(dt)) {
            sum_block_wide(&block, dt, elements, x, count);
            moments_merge(m, &block);
            continue;
        }
        bool summed = reads_stored ? sum_block_fast(&block, kernel, dt, elements, count, x[0])
                                   : sum_block_fast(&block, kernel, CKPT_DT_F64, (const unsigned char *)x,
                                                    decoded, x[0]);
        if (!summed)
            sum_block_slow(&block, x, moments_decode(dt, elements, count, x));
        moments_merge(m, &block);
    }
}

void moments_add(struct moments *m, ckpt_dtype dt, const unsigned char *p, size_t n)
{
    moments_add_by(moments_best_kernel(), m, dt, p, n);
}
