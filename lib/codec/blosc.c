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

static ckpt_status fail_blosc(const struct blosc *blosc, const char *what)
{
    return fail(blosc->err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                "a Blosc buffer {%s}; {=an intact one} was expected", what);
}

/* read_stream - decompresses the next stream of IN to the SIZE bytes at OUT. */
static ckpt_status read_stream(const struct blosc *blosc, cursor *in, unsigned char *out, size_t size)
{
    uint32_t n = cursor_u32(in);
    cursor stream = cursor_sub(in, n);
    if (in->bad)
        return fail_blosc(blosc, "with a stream that is cut off");
    if (n == size) {
        memcpy(out, stream.p, size);
        return CKPT_OK;
    }
    return block_decode(compressors[blosc->flags >> 5], stream, out, size, blosc->err);
}

/* unshuffle - copies the SIZE bytes of blosc->scratch to blosc->out and puts the bits or bytes of each
 * element together. */
static void unshuffle(const struct blosc *blosc, size_t size)
{
    size_t width = blosc->element_size, n = size / width, done = n * width;
    if (blosc->flags & BYTES_SHUFFLED)
        block_unshuffle_bytes(blosc->scratch, n, width, blosc->out);
    else if (n % 8 == 0)
        block_unshuffle_bits(blosc->scratch, n, width, blosc->out);
    else
        done = 0;
    memcpy(blosc->out + done, blosc->scratch + done, size - done);
}

/* read_block - decompresses the block at offset AT of the buffer, and appends its SIZE bytes to TO. */
static ckpt_status read_block(struct blosc *blosc, uint32_t at, size_t size, spool *to)
{
    bool split = !(blosc->flags & NOT_SPLIT) && size == blosc->block_size && size % blosc->element_size == 0;
    bool shuffled = blosc->flags & BYTES_SHUFFLED ? blosc->element_size > 1 : blosc->flags & BITS_SHUFFLED;
    size_t nstreams = split ? blosc->element_size : 1, stream_size = size / nstreams;
    unsigned char *out = shuffled ? blosc->scratch : blosc->out;
    cursor c = blosc->all;
    if (!cursor_take(&c, at))
        return fail_blosc(blosc, "with the offset of a block after its end");
    for (size_t i = 0; i < nstreams; i++)
        CKPT_TRY(read_stream(blosc, &c, out + i * stream_size, stream_size));
    if (shuffled)
        unshuffle(blosc, size);
    return spool_write(to, blosc->out, size, blosc->err);
}

static ckpt_status read_blocks(struct blosc *blosc, cursor after_header, spool *to)
{
    if (blosc->flags & STORED || !blosc->size) {
        const unsigned char *bytes = cursor_take(&after_header, blosc->size);
        return bytes ? spool_write(to, bytes, blosc->size, blosc->err) : fail_blosc(blosc, "that is cut off");
    }
    blosc->out = malloc(blosc->block_size);
    blosc->scratch = malloc(blosc->block_size);
    ckpt_status st = blosc->out && blosc->scratch ? CKPT_OK : fail_memory(blosc->err);
    for (uint64_t done = 0; st == CKPT_OK && done < blosc->size; done += blosc->block_size) {
        size_t left = (size_t)(blosc->size - done);
        uint32_t at = cursor_u32(&after_header);
        st = after_header.bad
                 ? fail_blosc(blosc, "with too few blocks")
                 : read_block(blosc, at, left < blosc->block_size ? left : blosc->block_size, to);
    }
    free(blosc->out);
    free(blosc->scratch);
    return st;
}

ckpt_status blosc_decode(const unsigned char *bytes, size_t nbytes, uint64_t max, spool *to, ckpt_error *err)
{
    struct blosc b = {.all = cursor_of(bytes, nbytes, 0), .err = err};
    cursor c = b.all;
    unsigned version = cursor_u8(&c);
    (void)cursor_u8(&c); /* the compressor's version */
    b.flags = cursor_u8(&c);
    b.element_size = cursor_u8(&c);
    b.size = cursor_u32(&c);
    b.block_size = cursor_u32(&c);
    uint32_t compressed_size = cursor_u32(&c);
    if (c.bad || compressed_size != nbytes)
        return fail_blosc(&b, "whose length is not the one in its header");
    if (version < 1 || version > 2)
        return fail_blosc(&b, "of an unknown version");
    if (b.size > max || !b.element_size || (b.size && (!b.block_size || b.block_size > b.size)))
        return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                    "a Blosc buffer of {%zu bytes in blocks of %zu}; {=%" PRIu64 " bytes} were expected",
                    b.size, b.block_size, max);
    if (!(b.flags & STORED) && b.flags >> 5 >= sizeof compressors / sizeof *compressors)
        return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
                    "a Blosc buffer with {compressor %u}; {=blosclz, LZ4, Snappy, zlib and zstd} can be read",
                    b.flags >> 5);
    return read_blocks(&b, c, to);
}
