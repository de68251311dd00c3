/* cursor.h - the only way bytes of a file are read from memory: every getter checks the bounds and advances.
 * After the first failure all getters fail. Read a complete record, then check `bad` once. */
#ifndef BASE_CURSOR_H
#define BASE_CURSOR_H

#include "base/checked.h"
#include "base/str.h"

typedef struct {
    const unsigned char *p;
    size_t left;
    uint64_t pos; /* absolute offset of p in the outermost file */
    bool bad;     /* a read past the end was attempted */
} cursor;

static inline cursor cursor_of(const void *bytes, size_t n, uint64_t pos)
{
    static const unsigned char none;
    return (cursor){n ? (const unsigned char *)bytes : &none, n, pos, false};
}
/* cursor_take - returns the next N bytes. If there are fewer, returns NULL, sets `bad` and drops what is
 * left. Never NULL for N 0 on a good cursor. A position that starts at CKPT_NO_OFFSET wraps. */
MODULO static inline const unsigned char *cursor_take(cursor *c, size_t n)
{
    if (c->bad || n > c->left) {
        c->bad = true;
        c->left = 0;
        return NULL;
    }
    const unsigned char *at = c->p;
    c->p += n;
    c->left -= n;
    c->pos += n;
    return at;
}
/* cursor_sub - returns a cursor over the next N bytes, which C passes over; both are bad if C has fewer. */
static inline cursor cursor_sub(cursor *c, size_t n)
{
    uint64_t pos = c->pos;
    const unsigned char *at = cursor_take(c, n);
    cursor sub = cursor_of(at, at ? n : 0, pos);
    sub.bad = at == NULL;
    return sub;
}
static inline uint16_t load_u16le(const unsigned char *b) { return (uint16_t)(b[0] | b[1] << 8); }
static inline uint32_t load_u32le(const unsigned char *b)
{
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}
static inline uint64_t load_u64le(const unsigned char *b)
{
    return (uint64_t)load_u32le(b) | (uint64_t)load_u32le(b + 4) << 32;
}
/* load_number - returns the N <= 8 bytes at B as an unsigned number. */
static inline uint64_t load_number(const unsigned char *b, size_t n, bool big_endian)
{
    uint64_t v = 0;
    for (size_t i = 0; i < n; i++)
        v = v << 8 | b[big_endian ? i : n - 1 - i];
    return v;
}
/* extend_sign - returns the lowest N bytes of BITS as a signed number; N is 1 to 8. */
MODULO static inline int64_t extend_sign(uint64_t bits, size_t n)
{
    uint64_t sign = UINT64_C(1) << (8 * n - 1);
    return (int64_t)((bits ^ sign) - sign);
}
static inline uint8_t cursor_u8(cursor *c)
{
    const unsigned char *b = cursor_take(c, 1);
    return b ? *b : 0;
}
static inline uint16_t cursor_u16(cursor *c)
{
    const unsigned char *b = cursor_take(c, 2);
    return b ? load_u16le(b) : 0;
}
static inline uint32_t cursor_u32(cursor *c)
{
    const unsigned char *b = cursor_take(c, 4);
    return b ? load_u32le(b) : 0;
}
static inline uint64_t cursor_u64(cursor *c)
{
    const unsigned char *b = cursor_take(c, 8);
    return b ? load_u64le(b) : 0;
}
/* cursor_number - reads the next N <= 8 bytes as an unsigned little-endian number. */
static inline uint64_t cursor_number(cursor *c, size_t n)
{
    const unsigned char *b = cursor_take(c, n);
    return b ? load_number(b, n, false) : 0;
}
/* cursor_varint - reads a number in groups of 7 bits, the lowest first, as protobuf, LevelDB and Snappy
 * write it. Sets `bad` if the number has more than 64 bits. */
static inline uint64_t cursor_varint(cursor *c)
{
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        const unsigned char *b = cursor_take(c, 1);
        if (!b)
            return 0;
        if (shift == 63 && *b > 1)
            break;
        v |= (uint64_t)(*b & 0x7f) << shift;
        if (!(*b & 0x80))
            return v;
    }
    c->bad = true;
    c->left = 0;
    return 0;
}

#endif
