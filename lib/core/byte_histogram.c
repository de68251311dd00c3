/* byte_histogram.c - see byte_histogram.h. */
#include "core/byte_histogram.h"

#include "core/number.h"

#ifdef __clang__
#pragma STDC FP_CONTRACT OFF /* gcc does not fuse under -std=c11 */
#endif

#define COUNTED_AT_ONCE (3u << 28) /* bytes; fits the 32-bit counts; a multiple of the block sizes 1 and 3 */

static bool is_f6(ckpt_dtype dt) { return dt == CKPT_DT_F6_E2M3 || dt == CKPT_DT_F6_E3M2; }

bool byte_histogram_supports(ckpt_dtype dt)
{
    return is_f6(dt) || (numbers_per_element(dt) && dtype_info(dt)->block_bytes == 1);
}

/* count_bytes - counts in four tables, so that the counts of equal bytes need not wait for each other. */
static void count_bytes(uint64_t *count, const unsigned char *bytes, size_t nbytes)
{
    uint32_t counts[4][256] = {{0}};
    size_t i = 0;
    for (; i + 8 <= nbytes; i += 8) {
        uint64_t w;
        memcpy(&w, bytes + i, sizeof w);
        for (unsigned k = 0; k < 8; k++)
            counts[k & 3][w >> (8 * k) & 255]++;
    }
    for (; i < nbytes; i++)
        counts[0][bytes[i]]++;
    for (unsigned b = 0; b < 256; b++)
        count[b] += (uint64_t)counts[0][b] + counts[1][b] + counts[2][b] + counts[3][b];
}

static void count_float6(uint64_t *count, const unsigned char *bytes, size_t nbytes)
{
    for (size_t i = 0; i + 3 <= nbytes; i += 3, bytes += 3) {
        uint32_t block = (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16;
        for (unsigned k = 0; k < 4; k++)
            count[block >> (6 * k) & 63]++;
    }
}

void byte_histogram_add(struct byte_histogram *histogram, ckpt_dtype dt, const unsigned char *bytes,
                        size_t count)
{
    const struct dtype_info *d = dtype_info(dt);
    for (size_t left = count / d->block_elems * d->block_bytes; left;) {
        size_t chunk_size = left < COUNTED_AT_ONCE ? left : COUNTED_AT_ONCE;
        if (is_f6(dt))
            count_float6(histogram->count, bytes, chunk_size);
        else
            count_bytes(histogram->count, bytes, chunk_size);
        bytes += chunk_size;
        left -= chunk_size;
    }
}

void byte_histogram_merge(struct byte_histogram *histogram, const struct byte_histogram *added)
{
    for (size_t i = 0; i < 256; i++)
        histogram->count[i] += added->count[i];
}

/* decode_pattern - decodes the elements in the bit pattern BITS to OUT; returns how many numbers they
 * have. */
static size_t decode_pattern(ckpt_dtype dt, unsigned bits, double out[4])
{
    unsigned char block[3] = {(unsigned char)bits};
    number_decode(dt, block, dtype_info(dt)->block_elems, out);
    return is_f6(dt) ? 1 : dtype_info(dt)->block_elems * numbers_per_element(dt);
}

/* The current position: number NEXT of the N numbers that the bit pattern PATTERN decodes to. */
struct histogram_iterator {
    unsigned pattern;
    size_t next, n;
    double number[4];
};

/* next_finite - sets *IN to the next finite number that occurs; returns how often, 0: there are no more. */
static uint64_t next_finite(struct histogram_iterator *it, const struct byte_histogram *histogram,
                            ckpt_dtype dt, double *in)
{
    for (;; it->pattern++, it->next = it->n = 0) {
        if (it->pattern == 256)
            return 0;
        if (!histogram->count[it->pattern])
            continue;
        if (!it->n)
            it->n = decode_pattern(dt, it->pattern, it->number);
        for (; it->next < it->n; it->next++) {
            if (!isfinite(it->number[it->next]))
                continue;
            *in = it->number[it->next++];
            return histogram->count[it->pattern];
        }
    }
}

static void count_nonfinite(struct moments *moments, const struct byte_histogram *histogram, ckpt_dtype dt)
{
    double x[4];
    for (unsigned b = 0; b < 256; b++) {
        size_t n = histogram->count[b] ? decode_pattern(dt, b, x) : 0;
        for (size_t k = 0; k < n; k++) {
            moments->nan += isnan(x[k]) ? histogram->count[b] : 0;
            moments->inf += isinf(x[k]) ? histogram->count[b] : 0;
        }
    }
}

struct moments byte_histogram_moments(const struct byte_histogram *histogram, ckpt_dtype dt)
{
    struct moments m = {.min = (double)INFINITY, .max = -(double)INFINITY};
    double x, sum = 0;
    uint64_t n;
    count_nonfinite(&m, histogram, dt);
    for (struct histogram_iterator it = {0}; (n = next_finite(&it, histogram, dt, &x));) {
        m.finite += n;
        m.zeros += x == 0 ? n : 0;
        m.min = x < m.min ? x : m.min;
        m.max = x > m.max ? x : m.max;
        m.squares.value += (double)n * (x * x);
        sum += (double)n * x;
    }
    if (!m.finite) {
        m.min = m.max = 0;
        return m;
    }
    m.min += 0.0; /* -0.0 becomes 0.0 */
    m.max += 0.0;
    m.mean = sum / (double)m.finite + 0.0;
    for (struct histogram_iterator it = {0}; (n = next_finite(&it, histogram, dt, &x));)
        m.m2.value += (double)n * ((x - m.mean) * (x - m.mean));
    return m;
}

void byte_histogram_fill_bins(const struct byte_histogram *histogram, ckpt_dtype dt, uint64_t *bins,
                              size_t (*bin_of)(const void *user, double x), const void *user)
{
    double x;
    uint64_t n;
    for (struct histogram_iterator it = {0}; (n = next_finite(&it, histogram, dt, &x));)
        bins[bin_of(user, x)] += n;
}
