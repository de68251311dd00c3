/* crc32.h - CRC-32 as zip uses it (polynomial 0xEDB88320). */
#ifndef BASE_CRC32_H
#define BASE_CRC32_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* crc32_update - CRC of what came before (0 at the start) and N more bytes. */
uint32_t crc32_update(uint32_t crc, const void *bytes, size_t n);
/* What it may be computed by, slowest first: the fastest that this CPU has. */
enum crc32_kernel {
    CRC32_TABLE, /* no special instructions: every CPU, and what the rest is held against */
    CRC32_CLMUL,
    CRC32_CLMUL_256,
    CRC32_CLMUL_512,
    CRC32_KERNELS
};

/* crc32_with - crc32_update by kernel K; false where this CPU lacks it. */
bool crc32_with(enum crc32_kernel k, uint32_t *crc, const void *bytes, size_t n);
/* crc32_combine - the CRC of two pieces end to end, from the CRC of each and the
 * length of the second. */
uint32_t crc32_combine(uint32_t first, uint32_t second, uint64_t second_size);

#endif
