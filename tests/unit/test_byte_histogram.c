/* A byte histogram must give the same statistics as adding up the elements one by one. */
#include <math.h>
#include <stdlib.h>

#include "core/byte_histogram.h"
#include "core/dtype.h"
#include "core/number.h"
#include "unit.h"

/* return_one_bin - the callback BIN_OF of byte_histogram_fill_bins: it puts every number into bin *USER. */
static size_t return_one_bin(const void *user, double x)
{
    (void)x;
    return *(const size_t *)user;
}

static bool is_close(double a, double b, double scale) { return fabs(a - b) <= 1e-12 * scale; }

static void check_same_statistics(ckpt_dtype dt, const unsigned char *p, size_t n)
{
    struct byte_histogram h = {{0}};
    struct moments want = {0};
    const struct dtype_info *d = dtype_info(dt);
    size_t half_elements = n / 8 * 4, half_bytes = half_elements / d->block_elems * d->block_bytes, bin = 3;
    uint64_t bins[4] = {0};
    byte_histogram_add(&h, dt, p, half_elements);
    byte_histogram_add(&h, dt, p + half_bytes, n - half_elements);
    moments_add(&want, dt, p, n);
    struct moments m = byte_histogram_moments(&h, dt);
    CU_ASSERT(m.finite == want.finite && m.nan == want.nan && m.inf == want.inf && m.zeros == want.zeros);
    CU_ASSERT(m.min == want.min && m.max == want.max && signbit(m.min) == signbit(want.min));
    double mean_square = want.finite ? want.squares.value / (double)want.finite : 0;
    CU_ASSERT(is_close(m.mean, want.mean, sqrt(mean_square)));
    CU_ASSERT(is_close(m.squares.value, want.squares.value, want.squares.value));
    CU_ASSERT(is_close(m.m2.value, want.m2.value, want.squares.value));
    byte_histogram_fill_bins(&h, dt, bins, return_one_bin, &bin);
    CU_ASSERT(bins[3] == m.finite && bins[0] == 0);
}

static void histograms_have_the_statistics_of_the_elements(void)
{
    unsigned nsupported = 0;
    for (ckpt_dtype dt = CKPT_DT_NONE; dt < DTYPE_COUNT; dt++) {
        if (!byte_histogram_supports(dt))
            continue;
        nsupported++;
        unsigned char elements[768];
        for (unsigned i = 0; i < sizeof elements; i++)
            elements[i] = (unsigned char)(i * 37 + i / 256);
        size_t elements_per_block = dtype_info(dt)->block_elems, block_bytes = dtype_info(dt)->block_bytes;
        for (size_t nblocks = 0; nblocks * block_bytes <= sizeof elements; nblocks++) {
            unsigned char *at = unit_guard(elements, nblocks * block_bytes);
            check_same_statistics(dt, at, nblocks * elements_per_block);
            unit_guard_free(at, nblocks * block_bytes);
        }
    }
    /* 8: float8, float6 and float4 of torch or safetensors; 3: int8, uint8, bool; 2: qint8, quint8;
     * 2: quint4x2, quint2x4; 4: bits8, bits1x8, bits2x4, bits4x2; 12: the dtypes of ml_dtypes */
    CU_ASSERT_EQUAL(nsupported, 8 + 3 + 2 + 2 + 4 + 12);
    CU_ASSERT(!byte_histogram_supports(CKPT_DT_F16) && !byte_histogram_supports(CKPT_DT_NAMED) &&
              !byte_histogram_supports(CKPT_DT_QI32));
}

static void equal_elements_have_no_spread(void)
{
    unsigned char p[1000];
    struct byte_histogram h = {{0}};
    memset(p, 0x2d, sizeof p); /* 0.40625 as float8_e4m3fn */
    byte_histogram_add(&h, CKPT_DT_F8_E4M3, p, sizeof p);
    struct moments m = byte_histogram_moments(&h, CKPT_DT_F8_E4M3);
    CU_ASSERT(m.mean == 0.40625 && m.m2.value == 0 && m.finite == 1000 &&
              m.squares.value == 1000 * 0.40625 * 0.40625);
}

void suite_byte_histogram(void)
{
    UNIT(histograms_have_the_statistics_of_the_elements);
    UNIT(equal_elements_have_no_spread);
}
