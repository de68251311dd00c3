/* bit_reader.h - reads numbers of any width from bits in memory, of which the highest of each byte is the
 * first, as filters of HDF5 store them. */
#ifndef CODEC_BIT_READER_H
#define CODEC_BIT_READER_H

#include "base/cursor.h"

struct bit_reader {
    cursor c;      /* the bytes after BITS; bad: a read past the end was attempted */
    uint64_t bits; /* the next NBITS bits, the first one highest, then zeros */
    unsigned nbits;
};

/* bits_refill - makes NBITS 33 or more, if as many bits are left. */
static inline void bits_refill(struct bit_reader *r)
{
    const unsigned char *b = r->nbits <= 32 && r->c.left >= 4 ? cursor_take(&r->c, 4) : NULL;
    if (b) {
        r->bits |= load_number(b, 4, true) << (32 - r->nbits);
        r->nbits += 32;
    }
    for (; r->nbits <= 32 && r->c.left; r->nbits += 8)
        r->bits |= (uint64_t)cursor_u8(&r->c) << (56 - r->nbits);
}

/* bits_drop - passes over N <= NBITS bits. */
static inline void bits_drop(struct bit_reader *r, unsigned n)
{
    r->bits = n < 64 ? r->bits << n : 0;
    r->nbits -= n;
}

/* bits_take32 - returns the next N <= 32 bits as a number, the first one highest; 0 if there are fewer. */
static inline uint32_t bits_take32(struct bit_reader *r, unsigned n)
{
    if (r->nbits < n)
        bits_refill(r);
    if (r->nbits < n) {
        (void)cursor_take(&r->c, r->c.left + 1);
        return 0;
    }
    uint32_t value = n ? (uint32_t)(r->bits >> (64 - n)) : 0;
    bits_drop(r, n);
    return value;
}

/* bits_take - does the same for N <= 64 bits. */
static inline uint64_t bits_take(struct bit_reader *r, unsigned n)
{
    uint64_t high = n > 32 ? bits_take32(r, n - 32) : 0;
    return high << 32 | bits_take32(r, n > 32 ? 32 : n);
}

/* bits_take_unary - returns how many bits are 0 before the next bit 1, and passes over them and that one. */
static inline uint64_t bits_take_unary(struct bit_reader *r)
{
    uint64_t zeros = 0;
    for (bits_refill(r); !r->bits; bits_refill(r)) {
        if (!r->nbits) {
            (void)cursor_take(&r->c, r->c.left + 1);
            return 0;
        }
        zeros += r->nbits;
        r->nbits = 0;
    }
    unsigned n = (unsigned)__builtin_clzll(r->bits);
    bits_drop(r, n + 1);
    return zeros + n;
}

#endif
