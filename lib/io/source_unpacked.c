/* source_unpacked.c - elements of a few bits, which are packed, as a byte for each. */
#include <stdlib.h>

#include "base/cursor.h"
#include "io/source.h"

struct unpacked_source {
    source s;
    source *packed;
    unsigned bits;
};

#define UNPACK_AT_ONCE 4096u /* bytes that are read at a time */

static ckpt_status unpacked_read(source *src, uint64_t off, void *to, size_t nbytes, ckpt_error *err)
{
    const struct unpacked_source *unpacked = (const struct unpacked_source *)src;
    unsigned char *out = to,
                  packed[UNPACK_AT_ONCE + 1] = {0}; /* one more, so that load_u16le may read past the end */
    const unsigned mask = (1u << unpacked->bits) - 1;
    const uint64_t end = unpacked->packed->size;
    while (nbytes) {
        uint64_t first = off * unpacked->bits / 8;
        uint64_t left = end - first;
        size_t got = left < UNPACK_AT_ONCE ? (size_t)left : UNPACK_AT_ONCE;
        size_t bit = (size_t)(off * unpacked->bits % 8), i = 0;
        CKPT_TRY(source_read(unpacked->packed, first, packed, got, err));
        for (; i < nbytes && (bit + unpacked->bits + 7) / 8 <= got; i++, bit += unpacked->bits)
            out[i] = (unsigned char)((unsigned)load_u16le(packed + bit / 8) >> bit % 8 & mask);
        out += i;
        off += i;
        nbytes -= i;
    }
    return CKPT_OK;
}

static void unpacked_close(source *src)
{
    source_unref(((struct unpacked_source *)src)->packed);
    free(src);
}

static const struct source_ops unpacked_ops = {.read_at = unpacked_read, .close = unpacked_close};

ckpt_status source_unpacked(source *parent, uint64_t count, unsigned bits, source **out, ckpt_error *err)
{
    struct unpacked_source *unpacked = calloc(1, sizeof *unpacked);
    CKPT_TRY_ALLOC(unpacked, err);
    unpacked->s = (source){.ops = &unpacked_ops, .size = count, .position = CKPT_NO_OFFSET, .refs = 1};
    unpacked->packed = source_ref(parent);
    unpacked->bits = bits;
    *out = &unpacked->s;
    return CKPT_OK;
}
