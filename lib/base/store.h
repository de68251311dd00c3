/* store.h - stores numbers as little-endian bytes; the width is that of the parameter. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static inline void store_u16le(unsigned char *bytes, uint16_t number)
{
    bytes[0] = (unsigned char)number;
    bytes[1] = (unsigned char)(number >> 8);
}
static inline void store_u32le(unsigned char *bytes, uint32_t number)
{
    store_u16le(bytes, (uint16_t)number);
    store_u16le(bytes + 2, (uint16_t)(number >> 16));
}
static inline void store_u64le(unsigned char *bytes, uint64_t number)
{
    store_u32le(bytes, (uint32_t)number);
    store_u32le(bytes + 4, (uint32_t)(number >> 32));
}

/* is_little_endian - returns true if this machine stores numbers as little-endian bytes; a constant. */
static inline bool is_little_endian(void)
{
    const uint16_t one = 1;
    unsigned char first;
    memcpy(&first, &one, sizeof first);
    return first == 1;
}
