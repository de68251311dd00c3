/*
 * blosc.c - decompresses Blosc 1 (Blosc/c-blosc README_CHUNK_FORMAT.rst, blosc.c). A buffer, by offset and
 * size:
 *
 *   0   1   version of the format: 1 or 2
 *   1   1   version of the compressor
 *   2   1   flags: 0x01: bytes are shuffled; 0x02: not compressed; 0x04: bits are shuffled; 0x10: blocks are
 *           not split; the upper three bits: compressor 0: blosclz, 1: LZ4, 2: Snappy, 3: zlib, 4: zstd
 *   3   1   size of an element
 *   4   4   size of the decompressed bytes
 *   8   4   size of a decompressed block; the last block may be shorter
 *   12  4   size of the buffer, including these 16 bytes
 *   16  4…  offset of each block
 *   …   …   blocks. A block is one stream or, if split, a stream for each byte of an element. Before
 *           each stream is its length (i32). A stream of the decompressed length is not compressed
 *
 * A shuffled block has the first bytes of all elements, then all second bytes, and so on. The bytes of an
 * incomplete element follow unchanged. Shuffled bits are those of block_unshuffle_bits; bits are not shuffled
 * in a block whose number of elements is no multiple of 8. A last block that is shorter is never split.
 */
#include "codec/blosc.h"

#include <inttypes.h>
#include <stdlib.h>

#include "codec/block_codecs.h"

/* flags */
#define BYTES_SHUFFLED 1u
#define STORED         2u
#define BITS_SHUFFLED  4u
#define NOT_SPLIT      16u

/* compressors, by the upper three bits of the flags */
static const enum block_codec compressors[] = {BLOCK_BLOSCLZ, BLOCK_LZ4, BLOCK_SNAPPY, BLOCK_ZLIB,
                                               BLOCK_ZSTD};

struct blosc {
    cursor all; /* the buffer */
    unsigned flags, element_size;
    size_t size, block_size;      /* bytes when decompressed */
    unsigned char *out, *scratch; /* a block after unshuffling, and the same block before */
    ckpt_error *err;
};

static ckpt_status fail_blosc(const struct blosc *b, const char *what)
{
    return fail(b->err, CKPT_EFORMAT, CKPT_NO_OFFSET, "a Blosc buffer {%s}; {=an intact one} was expected",
                what);
}

/* read_stream - decompresses the next stream of C to the SIZE bytes at OUT. */
static ckpt_status read_stream(const struct blosc *b, cursor *c, unsigned char *out, size_t size)
{
    uint32_t n = cursor_u32(c);
    cursor stream = cursor_sub(c, n);
    if (c->bad)
        return fail_blosc(b, "with a stream that is cut off");
    if (n == size) {
        memcpy(out, stream.p, size);
        return CKPT_OK;
    }
    return block_decode(compressors[b->flags >> 5], stream, out, size, b->err);
}

/* unshuffle - copies the SIZE bytes of b->scratch to b->out and puts the bits or bytes of each element
 * together. */
static void unshuffle(const struct blosc *b, size_t size)
{
    size_t width = b->element_size, n = size / width, done = n * width;
    if (b->flags & BYTES_SHUFFLED)
        block_unshuffle_bytes(b->scratch, n, width, b->out);
    else if (n % 8 == 0)
        block_unshuffle_bits(b->scratch, n, width, b->out);
    else
        done = 0;
    memcpy(b->out + done, b->scratch + done, size - done);
}

/* read_block - decompresses the block at offset AT of the buffer, and appends its SIZE bytes to TO. */
static ckpt_status read_block(struct blosc *b, uint32_t at, size_t size, spool *to)
{
    bool split = !(b->flags & NOT_SPLIT) && size == b->block_size && size % b->element_size == 0;
    bool shuffled = b->flags & BYTES_SHUFFLED ? b->element_size > 1 : b->flags & BITS_SHUFFLED;
    size_t nstreams = split ? b->element_size : 1, stream_size = size / nstreams;
    unsigned char *out = shuffled ? b->scratch : b->out;
    cursor c = b->all;
    if (!cursor_take(&c, at))
        return fail_blosc(b, "with the offset of a block after its end");
    for (size_t i = 0; i < nstreams; i++)
        CKPT_TRY(read_stream(b, &c, out + i * stream_size, stream_size));
    if (shuffled)
        unshuffle(b, size);
    return spool_write(to, b->out, size, b->err);
}

static ckpt_status read_blocks(struct blosc *b, cursor after_header, spool *to)
{
    if (b->flags & STORED || !b->size) {
        const unsigned char *bytes = cursor_take(&after_header, b->size);
        return bytes ? spool_write(to, bytes, b->size, b->err) : fail_blosc(b, "that is cut off");
    }
    b->out = malloc(b->block_size);
    b->scratch = malloc(b->block_size);
    ckpt_status st = b->out && b->scratch ? CKPT_OK : fail_memory(b->err);
    for (uint64_t done = 0; st == CKPT_OK && done < b->size; done += b->block_size) {
        size_t left = (size_t)(b->size - done);
        uint32_t at = cursor_u32(&after_header);
        st = after_header.bad ? fail_blosc(b, "with too few blocks")
                              : read_block(b, at, left < b->block_size ? left : b->block_size, to);
    }
    free(b->out);
    free(b->scratch);
    return st;
}

ckpt_status blosc_decode(const unsigned char *p, size_t n, uint64_t max_size, spool *to, ckpt_error *err)
{
    struct blosc b = {.all = cursor_of(p, n, 0), .err = err};
    cursor c = b.all;
    unsigned version = cursor_u8(&c);
    (void)cursor_u8(&c); /* the compressor's version */
    b.flags = cursor_u8(&c);
    b.element_size = cursor_u8(&c);
    b.size = cursor_u32(&c);
    b.block_size = cursor_u32(&c);
    uint32_t compressed_size = cursor_u32(&c);
    if (c.bad || compressed_size != n)
        return fail_blosc(&b, "whose length is not the one in its header");
    if (version < 1 || version > 2)
        return fail_blosc(&b, "of an unknown version");
    if (b.size > max_size || !b.element_size || (b.size && (!b.block_size || b.block_size > b.size)))
        return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                    "a Blosc buffer of {%zu bytes in blocks of %zu}; {=%" PRIu64 " bytes} were expected",
                    b.size, b.block_size, max_size);
    if (!(b.flags & STORED) && b.flags >> 5 >= sizeof compressors / sizeof *compressors)
        return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
                    "a Blosc buffer with {compressor %u}; {=blosclz, LZ4, Snappy, zlib and zstd} can be read",
                    b.flags >> 5);
    return read_blocks(&b, c, to);
}
