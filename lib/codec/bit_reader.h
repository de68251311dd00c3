/* bit_reader.h - reads numbers of any width from bits in memory, of which the highest of each byte is the
 * first, as filters of HDF5 store them. */
#pragma once

#include "base/cursor.h"

struct bit_reader {
    cursor c;      /* the bytes after BITS; bad: a read past the end was attempted */
    uint64_t bits; /* the next NBITS bits, the first one highest, then zeros */
    unsigned nbits;
};

/* bits_refill - makes NBITS 33 or more, if as many bits are left. */
static inline void bits_refill(struct bit_reader *bit_reader)
{
    const unsigned char *b = bit_reader->nbits <= 32 && bit_reader->c.left >= 4
                                 ? cursor_take(&bit_reader->c, 4)
                                 : NULL;
    if (b) {
        bit_reader->bits |= load_number(b, 4, true) << (32 - bit_reader->nbits);
        bit_reader->nbits += 32;
    }
    for (; bit_reader->nbits <= 32 && bit_reader->c.left; bit_reader->nbits += 8)
        bit_reader->bits |= (uint64_t)cursor_u8(&bit_reader->c) << (56 - bit_reader->nbits);
}

/* bits_drop - passes over COUNT <= NBITS bits. */
static inline void bits_drop(struct bit_reader *bit_reader, unsigned count)
{
    bit_reader->bits = count < 64 ? bit_reader->bits << count : 0;
    bit_reader->nbits -= count;
}

/* bits_take32 - returns the next COUNT <= 32 bits as a number, the first one highest; 0 if there are
 * fewer. */
static inline uint32_t bits_take32(struct bit_reader *bit_reader, unsigned count)
{
    if (bit_reader->nbits < count)
        bits_refill(bit_reader);
    if (bit_reader->nbits < count) {
        (void)cursor_take(&bit_reader->c, bit_reader->c.left + 1);
        return 0;
    }
    uint32_t value = count ? (uint32_t)(bit_reader->bits >> (64 - count)) : 0;
    bits_drop(bit_reader, count);
    return value;
}

/* bits_take - does the same for COUNT <= 64 bits. */
static inline uint64_t bits_take(struct bit_reader *bit_reader, unsigned count)
{
    uint64_t high = count > 32 ? bits_take32(bit_reader, count - 32) : 0;
    return high << 32 | bits_take32(bit_reader, count > 32 ? 32 : count);
}

/* bits_take_unary - returns how many bits are 0 before the next bit 1, and passes over them and that one. */
static inline uint64_t bits_take_unary(struct bit_reader *bit_reader)
{
    uint64_t zeros = 0;
    for (bits_refill(bit_reader); !bit_reader->bits; bits_refill(bit_reader)) {
        if (!bit_reader->nbits) {
            (void)cursor_take(&bit_reader->c, bit_reader->c.left + 1);
            return 0;
        }
        zeros += bit_reader->nbits;
        bit_reader->nbits = 0;
    }
    unsigned n = (unsigned)__builtin_clzll(bit_reader->bits);
    bits_drop(bit_reader, n + 1);
    return zeros + n;
}
