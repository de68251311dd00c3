/* CRC-32 and CRC-32C have known values, and every kernel gives the result of a loop over all bits. */
#include <stdlib.h>

#include "base/crc32.h"
#include "unit.h"

static uint32_t compute_crc32(uint32_t crc, const unsigned char *p, size_t n)
{
    crc = ~crc;
    for (size_t i = 0; i < n; i++) {
        crc ^= p[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
    }
    return ~crc;
}

static void crc32_has_known_values(void)
{
    CU_ASSERT(crc32_update(0, "123456789", 9) == 0xCBF43926u); /* the published check value */
    CU_ASSERT(crc32_update(0, "", 0) == 0);
    CU_ASSERT(crc32_update(7, "", 0) == 7);
}

/* crc_by_kernel - returns the CRC-32 that kernel K computes, or WANT if this CPU does not support K. */
static uint32_t crc_by_kernel(enum crc32_kernel k, uint32_t crc, const void *bytes, size_t n, uint32_t want)
{
    return crc32_update_by(k, &crc, bytes, n) ? crc : want;
}

static uint32_t compute_crc32c(uint32_t crc, const unsigned char *p, size_t n)
{
    crc = ~crc;
    for (size_t i = 0; i < n; i++) {
        crc ^= p[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78u : 0);
    }
    return ~crc;
}

static void crc32c_has_known_values_and_can_be_combined(void)
{
    enum { N = 200000 };
    unsigned char *b = malloc(N);
    CU_ASSERT(crc_update(CRC_32C, 0, "123456789", 9) == 0xE3069283u);
    CU_ASSERT(crc_update(CRC_32, 0, "123456789", 9) == 0xCBF43926u);
    for (size_t i = 0; i < N; i++)
        b[i] = (unsigned char)(i * i * 7 >> 4);
    for (size_t n = 0; n <= N; n = n < 300 ? n + 1 : n * 2 + 13) {
        uint32_t want = compute_crc32c(9, b, n), first = crc_update(CRC_32C, 9, b, n / 3);
        CU_ASSERT(crc_update(CRC_32C, 9, b, n) == want);
        CU_ASSERT(crc32c_by_table(9, b, n) == want);
        uint32_t second = crc_update(CRC_32C, 0, b + n / 3, n - n / 3);
        CU_ASSERT(crc_combine(CRC_32C, first, second, n - n / 3) == want);
    }
    CU_ASSERT(strcmp(crc_name(CRC_32C), "CRC-32C") == 0);
    free(b);
}

static void kernels_agree_on_any_length_and_alignment(void)
{
    enum { MAX_LENGTH = 1400 };
    unsigned char b[MAX_LENGTH + 70];
    uint32_t seed = 5, nkernels = CRC32_KERNELS;
    for (size_t i = 0; i < sizeof b; i++)
        b[i] = (unsigned char)((seed = seed * 1664525 + 1013904223) >> 24);
    for (size_t start = 0; start < 67; start += start < 20 ? 1 : 11)
        for (size_t n = 0; n <= MAX_LENGTH; n += n < 640 ? 1 : 37) {
            uint32_t want = compute_crc32(seed, b + start, n);
            CU_ASSERT(crc32_update(seed, b + start, n) == want);
            for (uint32_t k = 0; k < nkernels; k++)
                CU_ASSERT(crc_by_kernel((enum crc32_kernel)k, seed, b + start, n, want) == want);
        }
    CU_ASSERT(crc32_update_by(CRC32_TABLE, &seed, b, 1));
    CU_ASSERT(!crc32_update_by(CRC32_KERNELS, &seed, b, 1));
}

static void pieces_give_the_crc_of_the_whole(void)
{
    enum { N = 100000 };
    unsigned char *b = malloc(N);
    for (size_t i = 0; i < N; i++)
        b[i] = (unsigned char)(i * i >> 3);
    unsigned char *bytes = unit_guard(b, N);
    uint32_t want = compute_crc32(0, b, N), nkernels = CRC32_KERNELS;
    for (uint32_t k = 0; k < nkernels; k++) {
        uint32_t got = 0;
        CU_ASSERT(crc_by_kernel((enum crc32_kernel)k, 0, bytes, N, want) == want);
        for (size_t i = 0, n = 1; i < N; i += n, n = n * 3 + 1) {
            n = n < N - i ? n : N - i;
            if (!crc32_update_by((enum crc32_kernel)k, &got, bytes + i, n))
                got = want;
        }
        CU_ASSERT(got == want);
    }
    for (size_t split = 0; split < N; split += 997)
        CU_ASSERT(crc32_update(crc32_update(0, bytes, split), bytes + split, N - split) == want);
    unit_guard_free(bytes, N);
    free(b);
}

static void crcs_of_pieces_can_be_combined(void)
{
    enum { N = 700 };
    unsigned char b[N], zeros[300] = {0};
    for (size_t i = 0; i < N; i++)
        b[i] = (unsigned char)(i * i * 7 >> 3);
    for (size_t n = 0; n <= N; n += 7)
        for (size_t at = 0; at <= n; at++)
            CU_ASSERT(crc_combine(CRC_32, compute_crc32(0, b, at), compute_crc32(0, b + at, n - at),
                                  n - at) == compute_crc32(0, b, n));
    CU_ASSERT(crc_combine(CRC_32, 0x12345678, 0, 0) == 0x12345678);
    CU_ASSERT(crc_combine(CRC_32, 0, 0x12345678, UINT64_MAX) == 0x12345678);
    /* B followed by zeros, which are added in two halves or at once: up to 300 * 2^50, more than any memory
     * has */
    uint32_t crc_of_b = compute_crc32(0, b, N), crc_of_zeros = compute_crc32(0, zeros, sizeof zeros),
             combined = crc_of_b;
    uint64_t size = sizeof zeros;
    for (int i = 0; i < 50; i++) {
        combined = crc_combine(CRC_32, crc_combine(CRC_32, crc_of_b, crc_of_zeros, size), crc_of_zeros, size);
        crc_of_zeros = crc_combine(CRC_32, crc_of_zeros, crc_of_zeros, size);
        size *= 2;
        CU_ASSERT(crc_combine(CRC_32, crc_of_b, crc_of_zeros, size) == combined);
    }
}

void suite_crc32(void)
{
    UNIT(crcs_of_pieces_can_be_combined);
    UNIT(crc32_has_known_values);
    UNIT(crc32c_has_known_values_and_can_be_combined);
    UNIT(kernels_agree_on_any_length_and_alignment);
    UNIT(pieces_give_the_crc_of_the_whole);
}
