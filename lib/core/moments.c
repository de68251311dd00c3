/*
 * moments.c - see moments.h.
 *
 * A block of numbers is summed up as differences from its first: with x0 one of
 * the numbers, the sum of (x - x0)^2 is at most n + 1 times that of (x - mean)^2,
 * so the subtraction that leaves the latter loses no more than twelve bits, however
 * far from zero the numbers are. Blocks are joined by the formula of Chan, Golub
 * and LeVeque, "Updating Formulae and a Pairwise Algorithm for Computing Sample
 * Variances", 1979. Eight lanes, always added up in the same order, make the
 * result the same whatever the width of the CPU's registers.
 */
#include "core/moments.h"

#include <math.h>
#include <string.h>

#include "core/number.h"

#ifdef __clang__
#pragma STDC FP_CONTRACT OFF /* gcc does not fuse under -std=c11 */
#endif

#define HUGE_SCALE 0x1p-540 /* differences of any doubles can be squared and summed */
#define HUGE_SHIFT 540

/* ------------------------------------------------------------------ decoding */

/* magnitude - without the library's hypot, whose last bit is not the same everywhere. */
static double magnitude(double re, double im)
{
    re = fabs(re);
    im = fabs(im);
    if (isnan(re) || isnan(im))
        return (double)NAN;
    if (isinf(re) || isinf(im))
        return (double)INFINITY;
    double most = re > im ? re : im;
    double scale = most > 0x1p+500 ? 0x1p-600 : most < 0x1p-400 ? 0x1p+600 : 1.0;
    re *= scale;
    im *= scale;
    return sqrt(re * re + im * im) / scale;
}

static size_t magnitudes(ckpt_dtype dt, const unsigned char *p, size_t n, double *out)
{
    double pair[128];
    size_t width = ckpt_dtype_bits(dt) / 8;
    for (size_t i = 0; i < n; i += 64, p += 64 * width) {
        size_t k = n - i < 64 ? n - i : 64;
        number_decode(dt, p, k, pair);
        for (size_t j = 0; j < k; j++)
            out[i + j] = magnitude(pair[2 * j], pair[2 * j + 1]);
    }
    return n;
}

size_t moments_decode(ckpt_dtype dt, const unsigned char *p, size_t n, double *out)
{
    if (number_is_complex(dt))
        return magnitudes(dt, p, n, out);
    number_decode(dt, p, n, out);
    return n * number_lanes(dt);
}

/* ---------------------------------------------------------------- plain sums */

void sums_more(struct sums *s, const double *x, size_t n, double shift)
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

static void plain_doubles(const unsigned char *p, size_t n, double shift, struct sums *out)
{
    double x[64];
    *out = (struct sums){.min = (double)INFINITY, .max = -(double)INFINITY};
    for (size_t i = 0; i < n; i += 64, p += sizeof x) {
        size_t k = n - i < 64 ? n - i : 64;
        memcpy(x, p, k * sizeof *x);
        sums_more(out, x, k, shift);
    }
}

const struct moments_kernels moments_plain = {.name = "plain", .doubles = plain_doubles};

static double add_lanes(const double *l)
{
    return ((l[0] + l[4]) + (l[2] + l[6])) + ((l[1] + l[5]) + (l[3] + l[7]));
}

/* -------------------------------------------------------------------- blocks */

/* close_block - B gets mean, m2 and squares from sums of x - SHIFT. */
static void close_block(struct moments *b, double sum, double square, double shift)
{
    double n = (double)b->finite, d = sum / n, m2 = square - sum * d;
    double squares = (square + 2 * shift * sum) + n * shift * shift, mean = shift + d;
    b->mean = mean < b->min ? b->min : mean > b->max ? b->max : mean;
    b->m2 = m2 > 0 ? m2 : 0;
    b->squares = isfinite(squares) ? squares : (double)INFINITY;
}

/* survey - counts and extremes of N numbers of any kind; *FIRST finite one. */
static void survey(struct moments *b, const double *x, size_t n, double *first)
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

/* scaled - the sums of the finite ones, times SCALE. */
static double scaled(const double *x, size_t n, double shift, double scale, double *sum)
{
    double sums[8] = {0}, squares[8] = {0};
    for (size_t i = 0; i < n; i++) {
        double d = isfinite(x[i]) ? x[i] * scale - shift * scale : 0;
        sums[i & 7] += d;
        squares[i & 7] += d * d;
    }
    *sum = add_lanes(sums);
    return add_lanes(squares);
}

/* careful - any numbers: infinities, NaN, and squares beyond the largest double. */
static void careful(struct moments *b, const double *x, size_t n)
{
    double first = 0, sum;
    survey(b, x, n, &first);
    if (!b->finite)
        return;
    double square = scaled(x, n, first, 1, &sum);
    if (isfinite(square)) {
        close_block(b, sum, square, first);
        return;
    }
    struct moments small = {.finite = b->finite, .min = b->min * HUGE_SCALE, .max = b->max * HUGE_SCALE};
    square = scaled(x, n, first, HUGE_SCALE, &sum);
    close_block(&small, sum, square, first * HUGE_SCALE);
    b->mean = ldexp(small.mean, HUGE_SHIFT);
    b->m2 = ldexp(small.m2, 2 * HUGE_SHIFT);
    b->squares = ldexp(small.squares, 2 * HUGE_SHIFT);
}

/* quick - by KERNEL; false: they are not all finite, or too large. */
static bool quick(struct moments *b, void (*kernel)(const unsigned char *, size_t, double, struct sums *),
                  const unsigned char *p, size_t n, double first)
{
    struct sums s;
    if (!isfinite(first))
        return false;
    kernel(p, n, first, &s);
    double square = add_lanes(s.square);
    if (!isfinite(square))
        return false;
    b->finite = n;
    b->zeros = s.zeros;
    b->min = s.min;
    b->max = s.max;
    close_block(b, add_lanes(s.sum), square, first);
    return true;
}

void moments_merge(struct moments *m, const struct moments *b)
{
    struct moments a = *m;
    m->finite += b->finite;
    m->nan += b->nan;
    m->inf += b->inf;
    m->zeros += b->zeros;
    if (!b->finite)
        return;
    if (!a.finite) {
        m->min = b->min + 0.0; /* minus zero is zero */
        m->max = b->max + 0.0;
        m->mean = b->mean + 0.0;
        m->m2 = b->m2;
        m->squares = b->squares;
        return;
    }
    double n = (double)m->finite, part = (double)b->finite / n, delta = b->mean - a.mean;
    m->min = b->min < a.min ? b->min + 0.0 : a.min;
    m->max = b->max > a.max ? b->max + 0.0 : a.max;
    m->squares += b->squares;
    m->m2 += b->m2 + delta * delta * ((double)a.finite * part);
    if (isfinite(delta))
        m->mean += delta * part;
    else
        m->mean = a.mean * ((double)a.finite / n) + b->mean * part;
}

/* ------------------------------------------------------------------- choosing */

typedef void kernel(const unsigned char *p, size_t n, double shift, struct sums *out);

static kernel *direct(const struct moments_kernels *k, ckpt_dtype dt)
{
    switch (dt) {
    case CKPT_DT_F64: return k->f64;
    case CKPT_DT_F32: return k->f32;
    case CKPT_DT_F16: return k->f16;
    case CKPT_DT_BF16: return k->bf16;
    default: return NULL;
    }
}

void moments_add_by(const struct moments_kernels *k, struct moments *m, ckpt_dtype dt, const unsigned char *p,
                    size_t n)
{
    const struct dtype_info *d = dtype_info(dt);
    kernel *run = direct(k, dt);
    double x[MOMENTS_BLOCK];
    size_t lanes = number_is_complex(dt) ? 1 : number_lanes(dt), step = lanes ? MOMENTS_BLOCK / lanes : 0;
    for (size_t i = 0; step && i < n; i += step) {
        size_t count = n - i < step ? n - i : step;
        const unsigned char *at = p + i / d->block_elems * d->block_bytes;
        struct moments b = {0};
        size_t got = run ? moments_decode(dt, at, 1, x) : moments_decode(dt, at, count, x);
        bool done = run ? quick(&b, run, at, count, x[0])
                        : quick(&b, k->doubles, (const unsigned char *)x, got, x[0]);
        if (!done)
            careful(&b, x, moments_decode(dt, at, count, x));
        moments_merge(m, &b);
    }
}

void moments_add(struct moments *m, ckpt_dtype dt, const unsigned char *p, size_t n)
{
    moments_add_by(moments_best(), m, dt, p, n);
}
