/* cursor.h - the only way bytes of a file are read from memory: every getter checks the bounds and advances.
 * After the first failure all getters fail. Read a complete record, then check `bad` once. */
#pragma once

#include "base/checked.h"
#include "base/str.h"

typedef struct {
    const unsigned char *p;
    size_t left;
    uint64_t pos; /* absolute offset of p in the outermost file */
    bool bad;     /* a read past the end was attempted */
} cursor;

static inline cursor cursor_of(const void *bytes, size_t nbytes, uint64_t pos)
{
    static const unsigned char none;
    return (cursor){nbytes ? (const unsigned char *)bytes : &none, nbytes, pos, false};
}
/* cursor_take - returns the next COUNT bytes. If there are fewer, returns NULL, sets `bad` and drops what is
 * left. Never NULL for COUNT 0 on a good cursor. A position that starts at CKPT_NO_OFFSET wraps. */
MODULO static inline const unsigned char *cursor_take(cursor *in, size_t count)
{
    if (in->bad || count > in->left) {
        in->bad = true;
        in->left = 0;
        return NULL;
    }
    const unsigned char *at = in->p;
    in->p += count;
    in->left -= count;
    in->pos += count;
    return at;
}
/* cursor_sub - returns a cursor over the next COUNT bytes, which IN passes over; both are bad if IN has
 * fewer. */
static inline cursor cursor_sub(cursor *in, size_t count)
{
    uint64_t pos = in->pos;
    const unsigned char *at = cursor_take(in, count);
    cursor sub = cursor_of(at, at ? count : 0, pos);
    sub.bad = at == NULL;
    return sub;
}
static inline uint16_t load_u16le(const unsigned char *bytes) { return (uint16_t)(bytes[0] | bytes[1] << 8); }
static inline uint32_t load_u32le(const unsigned char *bytes)
{
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}
static inline uint64_t load_u64le(const unsigned char *bytes)
{
    return (uint64_t)load_u32le(bytes) | (uint64_t)load_u32le(bytes + 4) << 32;
}
/* find_byte8 - returns the index of the first of the eight bytes of WORD, little-endian, that is BYTE; 8:
 * none is. */
MODULO static inline size_t find_byte8(uint64_t word, unsigned char byte)
{
    uint64_t differ = word ^ byte * UINT64_C(0x0101010101010101); /* zero where it is BYTE */
    uint64_t zeros = (differ - UINT64_C(0x0101010101010101)) & ~differ & UINT64_C(0x8080808080808080);
    return zeros ? (size_t)__builtin_ctzll(zeros) / 8 : 8;
}
/* load_digits8 - sets *NUMBER to the decimal number that the eight bytes at BYTES begin with, 0 if none;
 * returns how many of them are its digits. */
MODULO static inline size_t load_digits8(const unsigned char *bytes, uint64_t *number)
{
    /* A digit becomes 0 to 9. The sum sets the high bit of any other byte, and carries into the next only
     * from such a byte. */
    uint64_t digits = load_u64le(bytes) ^ UINT64_C(0x3030303030303030);
    uint64_t others = ((digits + UINT64_C(0x7676767676767676)) | digits) & UINT64_C(0x8080808080808080);
    size_t n = others ? (size_t)__builtin_ctzll(others) / 8 : 8;
    digits = n ? digits << (64 - 8 * n) : 0; /* zeros in front */
    digits = (digits * (1 + (UINT64_C(10) << 8))) >> 8 & UINT64_C(0x00ff00ff00ff00ff);
    digits = (digits * (1 + (UINT64_C(100) << 16))) >> 16 & UINT64_C(0x0000ffff0000ffff);
    *number = (digits * (1 + (UINT64_C(10000) << 32))) >> 32;
    return n;
}
/* load_number - returns the NBYTES <= 8 bytes at BYTES as an unsigned number. */
static inline uint64_t load_number(const unsigned char *bytes, size_t nbytes, bool big_endian)
{
    uint64_t v = 0;
    for (size_t i = 0; i < nbytes; i++)
        v = v << 8 | bytes[big_endian ? i : nbytes - 1 - i];
    return v;
}
/* extend_sign - returns the lowest COUNT bytes of BITS as a signed number; COUNT is 1 to 8. */
MODULO static inline int64_t extend_sign(uint64_t bits, size_t count)
{
    uint64_t sign = UINT64_C(1) << (8 * count - 1);
    return (int64_t)((bits ^ sign) - sign);
}
static inline uint8_t cursor_u8(cursor *in)
{
    const unsigned char *b = cursor_take(in, 1);
    return b ? *b : 0;
}
static inline uint16_t cursor_u16(cursor *in)
{
    const unsigned char *b = cursor_take(in, 2);
    return b ? load_u16le(b) : 0;
}
static inline uint32_t cursor_u32(cursor *in)
{
    const unsigned char *b = cursor_take(in, 4);
    return b ? load_u32le(b) : 0;
}
static inline uint64_t cursor_u64(cursor *in)
{
    const unsigned char *b = cursor_take(in, 8);
    return b ? load_u64le(b) : 0;
}
/* cursor_number - reads the next COUNT <= 8 bytes as an unsigned little-endian number. */
static inline uint64_t cursor_number(cursor *in, size_t count)
{
    const unsigned char *b = cursor_take(in, count);
    return b ? load_number(b, count, false) : 0;
}
/* cursor_varint - reads a number in groups of 7 bits, the lowest first, as protobuf, LevelDB and Snappy
 * write it. Sets `bad` if the number has more than 64 bits. */
static inline uint64_t cursor_varint(cursor *in)
{
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        const unsigned char *b = cursor_take(in, 1);
        if (!b)
            return 0;
        if (shift == 63 && *b > 1)
            break;
        v |= (uint64_t)(*b & 0x7f) << shift;
        if (!(*b & 0x80))
            return v;
    }
    in->bad = true;
    in->left = 0;
    return 0;
}
