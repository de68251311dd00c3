/* store.h - stores numbers as little-endian bytes; the width is that of the parameter. */
#ifndef BASE_STORE_H
#define BASE_STORE_H

#include <stdint.h>

static inline void store_u16le(unsigned char *b, uint16_t v)
{
    b[0] = (unsigned char)v;
    b[1] = (unsigned char)(v >> 8);
}
static inline void store_u32le(unsigned char *b, uint32_t v)
{
    store_u16le(b, (uint16_t)v);
    store_u16le(b + 2, (uint16_t)(v >> 16));
}
static inline void store_u64le(unsigned char *b, uint64_t v)
{
    store_u32le(b, (uint32_t)v);
    store_u32le(b + 4, (uint32_t)(v >> 32));
}

#endif
