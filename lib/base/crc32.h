/* crc32.h - CRC-32 as zip uses it (polynomial 0xEDB88320). */
#ifndef BASE_CRC32_H
#define BASE_CRC32_H

#include <stddef.h>
#include <stdint.h>

/* crc32_update - CRC of what came before (0 at the start) and N more bytes. */
uint32_t crc32_update(uint32_t crc, const void *bytes, size_t n);
/* crc32_table - the same without special instructions: what every CPU can do,
 * and what the fast variant is held against. */
uint32_t crc32_table(uint32_t crc, const void *bytes, size_t n);
/* crc32_combine - the CRC of two pieces end to end, from the CRC of each and the
 * length of the second. */
uint32_t crc32_combine(uint32_t first, uint32_t second, uint64_t second_size);

#endif
