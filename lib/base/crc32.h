/* crc32.h - CRC-32 as zip uses it (polynomial 0xEDB88320), and CRC-32C (0x82F63B78) as TensorFlow does. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* crc32_update - returns the CRC of earlier bytes and NBYTES more. CRC is that of the earlier ones; 0: there
 * are none. */
uint32_t crc32_update(uint32_t crc, const void *bytes, size_t nbytes);
/* Implementations, slowest first; crc32_update uses the fastest that this CPU supports. */
enum crc32_kernel {
    CRC32_TABLE, /* no special instructions: runs on every CPU; the others are tested against it */
    CRC32_CLMUL,
    CRC32_CLMUL_256,
    CRC32_CLMUL_512,
    CRC32_KERNELS
};

/* crc32_update_by - updates *CRC as crc32_update does, by KERNEL; false: this CPU does not support
 * it. */
bool crc32_update_by(enum crc32_kernel kernel, uint32_t *crc, const void *bytes, size_t nbytes);

enum crc_kind { CRC_32, CRC_32C };
/* crc_update - does the same as crc32_update, for either KIND. */
uint32_t crc_update(enum crc_kind kind, uint32_t crc, const void *bytes, size_t nbytes);
/* crc_combine - returns the CRC of some bytes and SECOND_SIZE more after them, from the CRCs of both. */
uint32_t crc_combine(enum crc_kind kind, uint32_t first_crc, uint32_t second_crc, uint64_t second_size);
const char *crc_name(enum crc_kind kind); /* "CRC-32", "CRC-32C" */
/* crc32c_by_table - returns CRC-32C without special instructions; crc_update is tested against it. */
uint32_t crc32c_by_table(uint32_t crc, const void *bytes, size_t nbytes);
