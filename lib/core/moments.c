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

#include "core/number.h"

#ifdef __clang__
#pragma STDC FP_CONTRACT OFF /* gcc does not fuse under -std=c11 */
#endif

#define DOWNSCALE      0x1p-540 /* differences of any doubles, times this, can be squared and summed */
#define DOWNSCALE_BITS 540

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

/* finish_block - sets mean, m2 and squares of B from SUM and SQUARE, the sums of x - SHIFT and its square. */
static void finish_block(struct moments *b, double sum, double square, double shift)
{
    double n = (double)b->finite, d = sum / n, m2 = square - sum * d; /* D: the mean of x - SHIFT */
    double squares = (square + 2 * shift * sum) + n * shift * shift, mean = shift + d;
    b->mean = mean < b->min ? b->min : mean > b->max ? b->max : mean;
    b->m2 = m2 > 0 ? m2 : 0;
    b->squares = isfinite(squares) ? squares : (double)INFINITY;
}

/* count_block - sets the counts and extremes of B from any N numbers, and *FIRST to the first finite one. */
static void count_block(struct moments *b, const double *x, size_t n, double *first)
{
    b->min = (double)INFINITY;
    b->max = -(double)INFINITY;
    for (size_t i = n; i-- > 0;) {
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
 * squares overflow. */
static void sum_block_slow(struct moments *b, const double *x, size_t n)
{
    double first = 0, sum;
    count_block(b, x, n, &first);
    if (!b->finite)
        return;
    double square = sum_scaled(x, n, first, 1, &sum);
    if (isfinite(square)) {
        finish_block(b, sum, square, first);
        return;
    }
    struct moments small = {.finite = b->finite, .min = b->min * DOWNSCALE, .max = b->max * DOWNSCALE};
    square = sum_scaled(x, n, first, DOWNSCALE, &sum);
    finish_block(&small, sum, square, first * DOWNSCALE);
    b->mean = ldexp(small.mean, DOWNSCALE_BITS);
    b->m2 = ldexp(small.m2, 2 * DOWNSCALE_BITS);
    b->squares = ldexp(small.squares, 2 * DOWNSCALE_BITS);
}

/* sum_block_fast - sums up numbers in B, which is zero, by KERNEL; false: one is not finite or too large. */
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
    finish_block(b, number_add_lanes(s.sum), square, first);
    return true;
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
        m->min = added->min + 0.0; /* turns -0.0 into 0.0 */
        m->max = added->max + 0.0;
        m->mean = added->mean + 0.0;
        m->m2 = added->m2;
        m->squares = added->squares;
        return;
    }
    double n = (double)m->finite, weight = (double)added->finite / n, delta = added->mean - old.mean;
    m->min = added->min < old.min ? added->min + 0.0 : old.min;
    m->max = added->max > old.max ? added->max + 0.0 : old.max;
    m->squares += added->squares;
    m->m2 += added->m2 + delta * delta * ((double)old.finite * weight);
    if (isfinite(delta))
        m->mean += delta * weight;
    else
        m->mean = old.mean * ((double)old.finite / n) + added->mean * weight;
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
