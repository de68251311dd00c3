/*
 * blosc.c - decompresses Blosc 1 (Blosc/c-blosc README_CHUNK_FORMAT.rst, blosc.c), and blocks of LZ4 in it
 * (lz4/lz4 doc/lz4_Block_format.md). A buffer, by offset and size:
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
 * incomplete element follow unchanged. A last block that is shorter is never split.
 *
 * An LZ4 sequence is a byte of two 4-bit numbers (the number of literals, and the length of the copy minus
 * 4), the literals, and the distance (u16) back to the bytes to copy. To a number that is 15, more bytes are
 * added, up to and including the first below 255: they precede the literals, or follow the distance.
 */
#include "codec/blosc.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/cursor.h"
#include "codec/inflate.h"
#include "codec/unpack_archive.h"

/* flags */
#define BYTES_SHUFFLED 1u
#define STORED         2u
#define BITS_SHUFFLED  4u
#define NOT_SPLIT      16u

/* compressors: the upper three bits of the flags */
#define WITH_LZ4  1u
#define WITH_ZLIB 3u
#define WITH_ZSTD 4u

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

/* lz4_length - returns the length that begins with NIBBLE: if that is 15, the next bytes of C are added. C
 * becomes bad if it ends before the last of them. */
static size_t lz4_length(cursor *c, unsigned nibble)
{
    size_t n = nibble;
    const unsigned char *more = NULL;
    do {
        more = nibble == 15 ? cursor_take(c, 1) : NULL;
        n += more ? *more : 0; /* bounded: at most 255 times the bytes in memory */
    } while (more && *more == 255);
    return n;
}

/* lz4_decode - decodes the LZ4 block in C to the SIZE bytes at OUT; false: the block is damaged, or has
 * another size. */
static bool lz4_decode(cursor c, unsigned char *out, size_t size)
{
    size_t n = 0; /* bytes decoded */
    while (c.left && !c.bad) {
        const unsigned char *token = cursor_take(&c, 1);
        size_t nliterals = lz4_length(&c, *token >> 4);
        const unsigned char *literals = cursor_take(&c, nliterals);
        if (!literals || nliterals > size - n)
            return false;
        memcpy(out + n, literals, nliterals);
        n += nliterals;
        if (!c.left)
            return n == size; /* the last sequence has no copy */
        size_t distance = cursor_u16(&c),
               length = lz4_length(&c, *token & 15) + 4; /* bounded: see lz4_length */
        if (c.bad || !distance || distance > n || length > size - n)
            return false;
        for (size_t i = 0; i < length; i++, n++)
            out[n] = out[n - distance];
    }
    return false;
}

/* unpack_stream - decompresses the zlib or zstd stream in C to the SIZE bytes at OUT. */
static ckpt_status unpack_stream(const struct blosc *b, cursor c, unsigned char *out, size_t size)
{
    uint64_t used;
    source *in = source_mem(c.p, c.left, CKPT_NO_OFFSET);
    spool *to = in ? spool_new_in_memory(size) : NULL;
    ckpt_status st = !to ? fail_memory(b->err)
                     : b->flags >> 5 == WITH_ZSTD
                         ? unpack_zstd(in, to, b->err)
                         : inflate_into(in, 0, c.left, INFLATE_ZLIB, to, &used, b->err);
    source *result = to ? spool_source(to) : NULL;
    if (st == CKPT_OK)
        st = result->size == size ? source_read(result, 0, out, size, b->err)
                                  : fail_blosc(b, "with a stream of a wrong size");
    source_unref(result);
    source_unref(in);
    return st;
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
    if (b->flags >> 5 != WITH_LZ4)
        return unpack_stream(b, stream, out, size);
    return lz4_decode(stream, out, size) ? CKPT_OK : fail_blosc(b, "with damaged LZ4 data");
}

/* unshuffle - copies the SIZE bytes of b->scratch to b->out and puts the bytes of each element together. */
static void unshuffle(const struct blosc *b, size_t size)
{
    size_t width = b->element_size, n = size / width;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < width; k++)
            b->out[i * width + k] = b->scratch[k * n + i];                /* bounded: within the block */
    memcpy(b->out + n * width, b->scratch + n * width, size - n * width); /* bounded: within the block */
}

/* read_block - decompresses the block at offset AT of the buffer, and appends its SIZE bytes to TO. */
static ckpt_status read_block(struct blosc *b, uint32_t at, size_t size, spool *to)
{
    bool split = !(b->flags & NOT_SPLIT) && size == b->block_size && size % b->element_size == 0;
    bool shuffled = b->flags & BYTES_SHUFFLED && b->element_size > 1;
    size_t nstreams = split ? b->element_size : 1, stream_size = size / nstreams;
    unsigned char *out = shuffled ? b->scratch : b->out;
    cursor c = b->all;
    if (!cursor_take(&c, at))
        return fail_blosc(b, "with the offset of a block after its end");
    for (size_t i = 0; i < nstreams; i++)
        CKPT_TRY(read_stream(b, &c, out + i * stream_size, stream_size)); /* bounded: within the block */
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
    for (uint64_t done = 0; st == CKPT_OK && done < b->size;
         done += b->block_size) { /* bounded: below 2^33 */
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
    static const char *const names[] = {"blosclz", "LZ4", "Snappy", "zlib", "zstd"};
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
    unsigned compressor = b.flags >> 5;
    bool is_supported = compressor == WITH_LZ4 || compressor == WITH_ZLIB || compressor == WITH_ZSTD;
    if (!(b.flags & STORED) && (!is_supported || b.flags & BITS_SHUFFLED))
        return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
                    "a Blosc buffer with {%s}; {=LZ4, zlib and zstd} with shuffled bytes can be read",
                    is_supported                                ? "shuffled bits"
                    : compressor < sizeof names / sizeof *names ? names[compressor]
                                                                : "an unknown compressor");
    return read_blocks(&b, c, to);
}
