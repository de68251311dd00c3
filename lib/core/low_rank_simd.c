/* low_rank_simd.c - the kernels of low_rank.h for AVX2 and FMA. */
#include "core/low_rank.h"
#include "core/simd.h"

#if defined(__x86_64__)

_Static_assert(LOW_RANK_COLS == 24 && LOW_RANK_ROWS == 4 && LOW_RANK_VECTOR == 8,
               "the vectors below are as many");

enum { HALF = LOW_RANK_COLS / 2 }; /* columns whose sums are in registers, as doubles */

/* The sums of a row, or numbers of the panel. */
struct vectors {
    __m256d first, second, third;
};

AVX_FMA INLINE struct vectors no_sums(void)
{
    __m256d zero = _mm256_setzero_pd();
    return (struct vectors){zero, zero, zero};
}

AVX_FMA INLINE struct vectors load_vectors(const double *in)
{
    return (struct vectors){_mm256_loadu_pd(in), _mm256_loadu_pd(in + 4), _mm256_loadu_pd(in + 8)};
}

/* add_products - adds *NUMBER times PANEL to SUMS. */
AVX_FMA INLINE void add_products(struct vectors *sums, const double *number, const struct vectors *panel)
{
    __m256d left = _mm256_broadcast_sd(number);
    sums->first = _mm256_fmadd_pd(left, panel->first, sums->first);
    sums->second = _mm256_fmadd_pd(left, panel->second, sums->second);
    sums->third = _mm256_fmadd_pd(left, panel->third, sums->third);
}

AVX_FMA INLINE void add_sums(const struct vectors *sums, double scale, double *out)
{
    __m256d factor = _mm256_set1_pd(scale);
    const struct vectors old = load_vectors(out);
    _mm256_storeu_pd(out, _mm256_add_pd(old.first, _mm256_mul_pd(factor, sums->first)));
    _mm256_storeu_pd(out + 4, _mm256_add_pd(old.second, _mm256_mul_pd(factor, sums->second)));
    _mm256_storeu_pd(out + 8, _mm256_add_pd(old.third, _mm256_mul_pd(factor, sums->third)));
}

/* add_rows - does what low_rank_scalar does for half of the columns of COUNT rows, a constant; the loop
 * over them is written out, so that every compiler keeps the sums in registers. */
AVX_FMA INLINE void add_rows(const double *left, size_t rank, const double *panel, double scale, size_t count,
                             double *out, size_t stride)
{
    struct vectors a = no_sums(), b = a, c = a, d = a;
    for (size_t k = 0; k < rank; k++) {
        const struct vectors right = load_vectors(panel + k * LOW_RANK_COLS);
        add_products(&a, left + k, &right);
        if (count > 1)
            add_products(&b, left + rank + k, &right);
        if (count > 2)
            add_products(&c, left + 2 * rank + k, &right);
        if (count > 3)
            add_products(&d, left + 3 * rank + k, &right);
    }
    add_sums(&a, scale, out);
    if (count > 1)
        add_sums(&b, scale, out + stride);
    if (count > 2)
        add_sums(&c, scale, out + 2 * stride);
    if (count > 3)
        add_sums(&d, scale, out + 3 * stride);
}

AVX_FMA static void low_rank_fma(const double *left, size_t rank, const double *panel, double scale,
                                 size_t count, double *out, size_t stride)
{
    for (size_t half = 0; half < LOW_RANK_COLS; half += HALF)
        switch (count) {
        case 4: add_rows(left, rank, panel + half, scale, 4, out + half, stride); break;
        case 3: add_rows(left, rank, panel + half, scale, 3, out + half, stride); break;
        case 2: add_rows(left, rank, panel + half, scale, 2, out + half, stride); break;
        default: add_rows(left, rank, panel + half, scale, 1, out + half, stride);
        }
}

/* low_rank_fma_vector - does what low_rank_fma does for LOW_RANK_VECTOR columns. */
AVX_FMA static void low_rank_fma_vector(const double *left, size_t rank, const double *panel, double scale,
                                        size_t count, double *out, size_t stride)
{
    const __m256d factor = _mm256_set1_pd(scale);
    for (size_t i = 0; i < count; i++, left += rank, out += stride) {
        __m256d low = _mm256_setzero_pd(), high = low;
        for (size_t k = 0; k < rank; k++) {
            const __m256d number = _mm256_broadcast_sd(left + k);
            low = _mm256_fmadd_pd(number, _mm256_loadu_pd(panel + k * LOW_RANK_COLS), low);
            high = _mm256_fmadd_pd(number, _mm256_loadu_pd(panel + k * LOW_RANK_COLS + 4), high);
        }
        _mm256_storeu_pd(out, _mm256_add_pd(_mm256_loadu_pd(out), _mm256_mul_pd(factor, low)));
        _mm256_storeu_pd(out + 4, _mm256_add_pd(_mm256_loadu_pd(out + 4), _mm256_mul_pd(factor, high)));
    }
}

/* -------------------------------------------------------------------------- in floats */

/* The sums of a row, or numbers of the panel. */
struct floats {
    __m256 first, second, third;
};

AVX_FMA INLINE struct floats no_float_sums(void)
{
    __m256 zero = _mm256_setzero_ps();
    return (struct floats){zero, zero, zero};
}

AVX_FMA INLINE void add_float_products(struct floats *sums, const float *number, const struct floats *panel)
{
    __m256 left = _mm256_broadcast_ss(number);
    sums->first = _mm256_fmadd_ps(left, panel->first, sums->first);
    sums->second = _mm256_fmadd_ps(left, panel->second, sums->second);
    sums->third = _mm256_fmadd_ps(left, panel->third, sums->third);
}

/* What the vectors of a row have in common. */
struct row_bounds {
    __m256 scale, per_weight, per_factors, least;
};

AVX_FMA INLINE struct row_bounds bounds_of(const struct low_rank_tile *tile, size_t row)
{
    return (struct row_bounds){_mm256_set1_ps(tile->scale), _mm256_set1_ps(tile->per_weight),
                               _mm256_set1_ps(tile->row_factors[row] * tile->per_factors),
                               _mm256_set1_ps(tile->least)};
}

/* round_between - sets *OUT to the eight elements of DT, a constant, that numbers from LOW to HIGH are
 * rounded to. Returns a bit for each that all of them are rounded to. No middle between two elements is
 * among them then, so that it does not matter to which side it would be rounded. */
AVX_FMA INLINE int round_between(ckpt_dtype dt, __m256 low, __m256 high, __m128i *out)
{
    const __m256i half = _mm256_set1_epi32(0x8000);
    if (dt == CKPT_DT_F16) {
        __m128i below = _mm256_cvtps_ph(low, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
        *out = _mm256_cvtps_ph(high, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
        __m256i is_same = _mm256_cvtepi16_epi32(_mm_cmpeq_epi16(below, *out));
        return _mm256_movemask_ps(_mm256_castsi256_ps(is_same));
    }
    __m256i below = _mm256_srli_epi32(_mm256_add_epi32(_mm256_castps_si256(low), half), 16);
    __m256i above = _mm256_srli_epi32(_mm256_add_epi32(_mm256_castps_si256(high), half), 16);
    *out = _mm_packus_epi32(_mm256_castsi256_si128(above), _mm256_extracti128_si256(above, 1));
    return _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(below, above)));
}

/* add_vector - adds SUM times the scale to the eight elements at STORED, unless the result is not certain,
 * or near the largest element or NaN: then it returns 1. FACTORS are those of the columns. */
AVX_FMA INLINE uint32_t add_vector(const struct row_bounds *bounds, ckpt_dtype dt, const float *factors,
                                   __m256 sum, unsigned char *stored)
{
    const __m256 sign = _mm256_set1_ps(-0.0F),
                 largest = _mm256_set1_ps(dt == CKPT_DT_F16 ? 65504 : 0x1.fep+127F);
    __m128i rounded;
    __m256 weight = avx_load_floats(dt, stored), size = _mm256_andnot_ps(sign, weight);
    __m256 number = _mm256_fmadd_ps(bounds->scale, sum, weight);
    __m256 of_product = _mm256_fmadd_ps(bounds->per_factors, _mm256_loadu_ps(factors), bounds->least);
    __m256 error = _mm256_fmadd_ps(bounds->per_weight, size, of_product);
    __m256 low = _mm256_sub_ps(number, error), high = _mm256_add_ps(number, error);
    int is_small = _mm256_movemask_ps(_mm256_cmp_ps(_mm256_andnot_ps(sign, high), largest, _CMP_LT_OQ));
    if ((round_between(dt, low, high, &rounded) & is_small) != 0xff)
        return 1;
    _mm_storeu_si128((__m128i *)(void *)stored, rounded);
    return 0;
}

/* add_row - adds SUMS to the vectors of TILE that are in row ROW. Returns those that are not certain, by
 * bits. */
AVX_FMA INLINE uint32_t add_row(const struct low_rank_tile *tile, ckpt_dtype dt, size_t row,
                                const struct floats *sums)
{
    const struct row_bounds bounds = bounds_of(tile, row);
    const size_t first = tile->first_vector, end = first + tile->nvectors, width = LOW_RANK_VECTOR * 2;
    const float *factors = tile->col_factors;
    unsigned char *stored = tile->stored + row * tile->stride;
    uint32_t uncertain = 0;
    if (first == 0)
        uncertain |= add_vector(&bounds, dt, factors, sums->first, stored);
    if (first <= 1 && end > 1)
        uncertain |=
            add_vector(&bounds, dt, factors + LOW_RANK_VECTOR, sums->second, stored + (1 - first) * width)
            << 1;
    if (end > 2)
        uncertain |=
            add_vector(&bounds, dt, factors + 2 * LOW_RANK_VECTOR, sums->third, stored + (2 - first) * width)
            << 2;
    return uncertain << (4 * row);
}

/* add_tile - does what low_rank_add_tile does for TILE with NROWS rows and dtype DT, which are constants. */
AVX_FMA INLINE uint32_t add_tile(const struct low_rank_tile *tile, ckpt_dtype dt, size_t nrows)
{
    const size_t rank = tile->rank;
    const float *left = tile->left;
    struct floats a = no_float_sums(), b = a, c = a, d = a;
    for (size_t k = 0; k < rank; k++) {
        const float *at = tile->panel + k * LOW_RANK_COLS;
        const struct floats right = {_mm256_loadu_ps(at), _mm256_loadu_ps(at + 8), _mm256_loadu_ps(at + 16)};
        add_float_products(&a, left + k, &right);
        if (nrows > 1)
            add_float_products(&b, left + rank + k, &right);
        if (nrows > 2)
            add_float_products(&c, left + 2 * rank + k, &right);
        if (nrows > 3)
            add_float_products(&d, left + 3 * rank + k, &right);
    }
    uint32_t uncertain = add_row(tile, dt, 0, &a);
    if (nrows > 1)
        uncertain |= add_row(tile, dt, 1, &b);
    if (nrows > 2)
        uncertain |= add_row(tile, dt, 2, &c);
    if (nrows > 3)
        uncertain |= add_row(tile, dt, 3, &d);
    return uncertain;
}

AVX_FMA INLINE uint32_t add_tile_of(const struct low_rank_tile *tile, ckpt_dtype dt)
{
    switch (tile->nrows) {
    case 4: return add_tile(tile, dt, 4);
    case 3: return add_tile(tile, dt, 3);
    case 2: return add_tile(tile, dt, 2);
    default: return add_tile(tile, dt, 1);
    }
}

AVX_FMA uint32_t low_rank_add_tile(const struct low_rank_tile *tile)
{
    return tile->dtype == CKPT_DT_F16 ? add_tile_of(tile, CKPT_DT_F16) : add_tile_of(tile, CKPT_DT_BF16);
}

bool low_rank_has_tiles(void) { return simd_has_fma(); }

const struct low_rank_kernels *low_rank_best(bool are_floats)
{
    static const struct low_rank_kernels fma = {low_rank_fma, low_rank_fma_vector};
    return are_floats && simd_has_fma() ? &fma : &low_rank_scalar;
}

#else

uint32_t low_rank_add_tile(const struct low_rank_tile *tile)
{
    (void)tile;
    return 0;
}

bool low_rank_has_tiles(void) { return false; }

const struct low_rank_kernels *low_rank_best(bool are_floats)
{
    (void)are_floats;
    return &low_rank_scalar;
}

#endif
