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

static size_t decode_magnitudes(ckpt_dtype dt, const unsigned char *bytes, size_t count, double *out)
{
    double pair[128];
    size_t width = ckpt_dtype_bits(dt) / 8;
    for (size_t i = 0; i < count; i += 64, bytes += 64 * width) {
        size_t k = count - i < 64 ? count - i : 64;
        number_decode(dt, bytes, k, pair);
        for (size_t j = 0; j < k; j++)
            out[i + j] = magnitude_of(pair[2 * j], pair[2 * j + 1]);
    }
    return count;
}

size_t moments_decode(ckpt_dtype dt, const unsigned char *bytes, size_t count, double *out)
{
    if (number_is_complex(dt))
        return decode_magnitudes(dt, bytes, count, out);
    number_decode(dt, bytes, count, out);
    return count * numbers_per_element(dt);
}

void moment_sums_add(struct moment_sums *sums, const double *in, size_t count, double shift)
{
    for (size_t i = 0; i < count; i++) {
        double d = in[i] - shift;
        sums->sum[i & 7] += d;
        sums->square[i & 7] += d * d;
        sums->min = in[i] < sums->min ? in[i] : sums->min;
        sums->max = in[i] > sums->max ? in[i] : sums->max;
        sums->zeros += in[i] == 0;
    }
}

void moments_scalar(ckpt_dtype dt, const unsigned char *bytes, size_t count, double shift,
                    struct moment_sums *out)
{
    double x[64];
    (void)dt;
    *out = (struct moment_sums){.min = (double)INFINITY, .max = -(double)INFINITY};
    for (size_t i = 0; i < count; i += 64, bytes += sizeof x) {
        size_t k = count - i < 64 ? count - i : 64;
        memcpy(x, bytes, k * sizeof *x);
        moment_sums_add(out, x, k, shift);
    }
}

/* set_mean - sets the mean of MOMENTS from its origin and offset. */
static void set_mean(struct moments *moments)
{
    double mean = moments->origin + moments->offset;
    moments->mean = mean < moments->min ? moments->min : mean > moments->max ? moments->max : mean;
}

/* finish_block - sets mean, m2 and squares of MOMENTS from SUM and SQUARE, the sums of x - SHIFT and its
 * square, of numbers that were multiplied by the factor of SCALE. */
static void finish_block(struct moments *moments, double sum, double square, double shift, int scale)
{
    double n = (double)moments->finite, d = sum / n, m2 = square - sum * d; /* D: the mean of x - SHIFT */
    double squares = (square + 2 * shift * sum) + n * shift * shift;
    moments->m2 = (struct scaled_sum){m2 > 0 ? m2 : 0, 2 * scale};
    moments->squares = (struct scaled_sum){squares, 2 * scale};
    moments->origin = ldexp(shift, -SCALE_BITS * scale);
    moments->offset = ldexp(d, -SCALE_BITS * scale);
    if (!isfinite(moments->offset)) {
        moments->origin = ldexp(shift + d, -SCALE_BITS * scale);
        moments->offset = 0;
    }
    set_mean(moments);
}

static double largest_magnitude(const struct moments *moments)
{
    return -moments->min > moments->max   ? -moments->min
           : moments->max > -moments->max ? moments->max
                                          : -moments->max;
}

/* count_block - sets the counts and extremes of MOMENTS from any COUNT numbers, and *FIRST to the first
 * finite one. */
static void count_block(struct moments *moments, const double *in, size_t count, double *first)
{
    moments->min = (double)INFINITY;
    moments->max = -(double)INFINITY;
    for (size_t i = count; COUNT_DOWN(i);) {
        if (!isfinite(in[i])) {
            moments->nan += isnan(in[i]) != 0;
            moments->inf += isinf(in[i]) != 0;
            continue;
        }
        *first = in[i];
        moments->finite++;
        moments->zeros += in[i] == 0;
        moments->min = in[i] < moments->min ? in[i] : moments->min;
        moments->max = in[i] > moments->max ? in[i] : moments->max;
    }
}

/* sum_scaled - sets *SUM to the sum of (x - SHIFT) * SCALE over the finite IN; returns the sum of squares. */
static double sum_scaled(const double *in, size_t count, double shift, double scale, double *sum)
{
    double sums[8] = {0}, squares[8] = {0};
    for (size_t i = 0; i < count; i++) {
        double d = isfinite(in[i]) ? in[i] * scale - shift * scale : 0;
        sums[i & 7] += d;
        squares[i & 7] += d * d;
    }
    *sum = number_add_lanes(sums);
    return number_add_lanes(squares);
}

/* sum_block_slow - sums up in MOMENTS, which is zero, any numbers: also infinities, NaN, and finite numbers
 * whose squares overflow or vanish. */
static void sum_block_slow(struct moments *moments, const double *in, size_t count)
{
    double first = 0, sum;
    count_block(moments, in, count, &first);
    if (!moments->finite)
        return;
    int scale = scale_for(largest_magnitude(moments));
    double square = sum_scaled(in, count, first, scale_factor(scale), &sum);
    finish_block(moments, sum, square, first * scale_factor(scale), scale);
}

/* sum_block_wide - sums up in MOMENTS, which is zero, 64-bit integers. Their differences from the first are
 * exact; as doubles, many of these integers would be equal. */
static void sum_block_wide(struct moments *moments, ckpt_dtype dt, const unsigned char *bytes,
                           const double *in, size_t count)
{
    double sums[8] = {0}, squares[8] = {0}, unused = 0;
    uint64_t sign_bit = dt == CKPT_DT_I64 ? UINT64_C(1) << 63 : 0, first = load_u64le(bytes) ^ sign_bit;
    count_block(moments, in, count, &unused);
    for (size_t i = 0; i < count; i++) {
        double d = number_subtract(load_u64le(bytes + 8 * i) ^ sign_bit, first);
        sums[i & 7] += d;
        squares[i & 7] += d * d;
    }
    finish_block(moments, number_add_lanes(sums), number_add_lanes(squares), in[0], 0);
    moments->wide_origin = first;
}

/* sum_block_fast - sums up numbers in MOMENTS, which is zero, by KERNEL; false: one is not finite, too large
 * or too small. */
static bool sum_block_fast(struct moments *moments, moments_kernel *kernel, ckpt_dtype dt,
                           const unsigned char *bytes, size_t count, double first)
{
    struct moment_sums s;
    if (!isfinite(first))
        return false;
    kernel(dt, bytes, count, first, &s);
    double square = number_add_lanes(s.square);
    if (!isfinite(square))
        return false;
    moments->finite = count;
    moments->zeros = s.zeros;
    moments->min = s.min;
    moments->max = s.max;
    if (scale_for(largest_magnitude(moments)) != 0) {
        *moments = (struct moments){0};
        return false;
    }
    finish_block(moments, number_add_lanes(s.sum), square, first, 0);
    return true;
}

/* subtract_means - returns the mean of LEFT - that of RIGHT, times FACTOR. */
static double subtract_means(const struct moments *left, const struct moments *right, double factor)
{
    double origins = left->wide_origin || right->wide_origin
                         ? number_subtract(left->wide_origin, right->wide_origin) * factor
                         : left->origin * factor - right->origin * factor;
    return origins + (left->offset * factor - right->offset * factor);
}

/* merge_means - sets the mean of MOMENTS, which is that of OLD, to the mean of OLD and ADDED. DELTA: the
 * difference of both. */
static void merge_means(struct moments *moments, const struct moments *old, const struct moments *added,
                        double delta)
{
    double n = (double)moments->finite, weight = (double)added->finite / n;
    moments->offset += delta * weight;
    if (!isfinite(moments->offset)) {
        moments->origin = old->mean * ((double)old->finite / n) + added->mean * weight;
        moments->offset = 0;
    }
    set_mean(moments);
}

void moments_merge(struct moments *moments, const struct moments *added)
{
    struct moments old = *moments;
    moments->finite += added->finite;
    moments->nan += added->nan;
    moments->inf += added->inf;
    moments->zeros += added->zeros;
    if (!added->finite)
        return;
    if (!old.finite) {
        uint64_t nan = moments->nan, inf = moments->inf;
        *moments = *added;
        moments->nan = nan;
        moments->inf = inf;
        moments->min += 0.0; /* turns -0.0 into 0.0 */
        moments->max += 0.0;
        moments->mean += 0.0;
        return;
    }
    double weight = (double)added->finite / (double)moments->finite, delta = subtract_means(added, &old, 1);
    int scale = isfinite(delta) ? scale_for(fabs(delta)) : -1;
    double scaled = subtract_means(added, &old, scale_factor(scale));
    struct scaled_sum between = {scaled * scaled * ((double)old.finite * weight), 2 * scale};
    moments->min = added->min < old.min ? added->min + 0.0 : old.min;
    moments->max = added->max > old.max ? added->max + 0.0 : old.max;
    scaled_sum_add(&moments->squares, added->squares);
    scaled_sum_add(&between, added->m2);
    scaled_sum_add(&moments->m2, between);
    merge_means(moments, &old, added, delta);
}

void moments_add_by(moments_kernel *kernel, struct moments *moments, ckpt_dtype dt,
                    const unsigned char *bytes, size_t count)
{
    const struct dtype_info *d = dtype_info(dt);
    bool reads_stored = kernel != moments_scalar && dtype_has_kernels(dt); /* else it reads decoded doubles */
    double x[MOMENTS_BLOCK];
    size_t lanes = number_is_complex(dt) ? 1 : numbers_per_element(dt);
    size_t step = lanes ? MOMENTS_BLOCK / lanes : 0;
    for (size_t i = 0; step && i < count; i += step) {
        size_t chunk = count - i < step ? count - i : step;
        const unsigned char *elements = bytes + i / d->block_elems * d->block_bytes;
        struct moments block = {0};
        size_t decoded = moments_decode(dt, elements, reads_stored ? 1 : chunk, x);
        if (number_is_wide(dt)) {
            sum_block_wide(&block, dt, elements, x, chunk);
            moments_merge(moments, &block);
            continue;
        }
        bool summed = reads_stored ? sum_block_fast(&block, kernel, dt, elements, chunk, x[0])
                                   : sum_block_fast(&block, kernel, CKPT_DT_F64, (const unsigned char *)x,
                                                    decoded, x[0]);
        if (!summed)
            sum_block_slow(&block, x, moments_decode(dt, elements, chunk, x));
        moments_merge(moments, &block);
    }
}

void moments_add(struct moments *moments, ckpt_dtype dt, const unsigned char *bytes, size_t count)
{
    moments_add_by(moments_best_kernel(), moments, dt, bytes, count);
}
