/*
 * hdf5_decompress.c - undoes those filters of HDF5 that are compressors of other projects. A number after a
 * field is its size in bytes; these numbers are big-endian.
 *
 *   lz4         decoded size 8, size of a block 4; for each block: stored size 4, bytes. A block of the
 *               decoded size is not compressed; the last block may be smaller
 *   bitshuffle  parameters: version, version, size of an element, elements in a block (0: as many as fill
 *               8 KiB), compressor (0 none, 2 LZ4, 3 zstd). If there is a compressor: decoded size 8, bytes
 *               in a block 4; then for each block: stored size 4, bytes. The bits of each block are shuffled
 *               (block_codecs.h). The last block has fewer elements, a multiple of 8. The bytes of up to 7
 *               more elements follow unchanged
 *   zstd        a frame
 *   blosc       a buffer of Blosc 1
 *   szip, nbit, scaleoffset  see hdf5_szip.c, hdf5_nbit.c, hdf5_scaleoffset.c
 */
#include <stdlib.h>

#include "codec/block_codecs.h"
#include "codec/blosc.h"
#include "codec/hdf5_filter.h"
#include "codec/unpack_archive.h"

#define BITSHUFFLE_BLOCK 8192u /* bytes of a block, unless the file has another size */
#define BITSHUFFLE_LEAST 128u  /* least elements in such a block */
#define MORE_THAN_CHUNK  "more bytes than it can have"

/* The decoding of one chunk. */
struct decoding {
    const struct hdf5_filter *filter;
    const struct hdf5_input *in;
    cursor c;           /* the bytes of IN that were not decoded yet */
    uint64_t max_bytes; /* most decoded bytes */
    spool *to;
    ckpt_error *err;
};

static ckpt_status fail_decoding(const struct decoding *d, const char *what)
{
    return hdf5_fail_chunk(d->in, d->err, what);
}

static uint64_t take_big_endian(cursor *c, size_t n)
{
    const unsigned char *b = cursor_take(c, n);
    return b ? load_number(b, n, true) : 0;
}

/* allocate - allocates two buffers of N bytes each, which the caller frees by *OUT. */
static ckpt_status allocate(const struct decoding *d, uint64_t n, unsigned char **out)
{
    *out = n && n <= d->max_bytes ? malloc((size_t)(2 * n)) : NULL;
    if (n && n > d->max_bytes)
        return fail_decoding(d, MORE_THAN_CHUNK);
    return !n || *out ? CKPT_OK : fail_memory(d->err);
}

static ckpt_status decode_lz4_blocks(struct decoding *d, uint64_t total, uint64_t block, unsigned char *out)
{
    for (uint64_t size; total; total -= size) {
        size = total < block ? total : block;
        uint64_t stored = take_big_endian(&d->c, 4);
        cursor bytes = cursor_sub(&d->c, (size_t)stored);
        if (d->c.bad)
            return fail_decoding(d, "data of lz4 that end early");
        if (stored == size)
            CKPT_TRY(spool_write(d->to, bytes.p, (size_t)size, d->err));
        else {
            CKPT_TRY(block_decode(BLOCK_LZ4, bytes, out, (size_t)size, d->err));
            CKPT_TRY(spool_write(d->to, out, (size_t)size, d->err));
        }
    }
    return CKPT_OK;
}

static ckpt_status undo_lz4(struct decoding *d)
{
    unsigned char *out;
    uint64_t total = take_big_endian(&d->c, 8), block = take_big_endian(&d->c, 4);
    if (d->c.bad || (total && !block))
        return fail_decoding(d, "no sizes of lz4");
    if (total > d->max_bytes)
        return fail_decoding(d, MORE_THAN_CHUNK);
    block = block < total ? block : total;
    CKPT_TRY(allocate(d, block, &out));
    ckpt_status st = decode_lz4_blocks(d, total, block, out);
    free(out);
    return st;
}

/* The blocks of a chunk with shuffled bits. */
struct bitshuffle {
    enum { BITS_ONLY = 0, WITH_LZ4 = 2, WITH_ZSTD = 3 } compressor;
    size_t width;                 /* bytes of an element */
    uint64_t total, block;        /* elements in the chunk, and in a block */
    unsigned char *out, *scratch; /* each as large as a block */
};

/* read_shuffled_block - decodes the next block, which has N elements. */
static ckpt_status read_shuffled_block(struct decoding *d, const struct bitshuffle *b, uint64_t n)
{
    size_t size = (size_t)n * b->width;
    uint64_t stored = b->compressor == BITS_ONLY ? size : take_big_endian(&d->c, 4);
    cursor bytes = cursor_sub(&d->c, (size_t)stored);
    const unsigned char *in = bytes.p;
    if (d->c.bad)
        return fail_decoding(d, "data of bitshuffle that end early");
    if (b->compressor != BITS_ONLY) {
        enum block_codec codec = b->compressor == WITH_LZ4 ? BLOCK_LZ4 : BLOCK_ZSTD;
        CKPT_TRY(block_decode(codec, bytes, b->scratch, size, d->err));
        in = b->scratch;
    }
    block_unshuffle_bits(in, (size_t)n, b->width, b->out);
    return spool_write(d->to, b->out, size, d->err);
}

static ckpt_status read_shuffled_blocks(struct decoding *d, const struct bitshuffle *b)
{
    uint64_t left = b->total;
    for (; left >= b->block; left -= b->block)
        CKPT_TRY(read_shuffled_block(d, b, b->block));
    if (left >= 8)
        CKPT_TRY(read_shuffled_block(d, b, left - left % 8));
    size_t unchanged = (size_t)(left % 8) * b->width;
    const unsigned char *bytes = cursor_take(&d->c, unchanged);
    return bytes ? spool_write(d->to, bytes, unchanged, d->err)
                 : fail_decoding(d, "data of bitshuffle that end early");
}

static ckpt_status undo_bitshuffle(struct decoding *d)
{
    const uint32_t *values = d->filter->values;
    struct bitshuffle b = {.compressor = values[4], .width = values[2], .block = values[3]};
    uint64_t total = d->c.left;
    if (values[4] != BITS_ONLY && values[4] != WITH_LZ4 && values[4] != WITH_ZSTD)
        return fail(d->err, CKPT_EUNSUPPORTED, source_pos(d->in->src, 0),
                    "bitshuffle with the compressor {%u}; {=LZ4 (2) and zstd (3)} are read", values[4]);
    if (!b.width)
        return fail_decoding(d, "elements of no bytes in bitshuffle");
    if (b.compressor != BITS_ONLY) {
        total = take_big_endian(&d->c, 8);
        b.block = take_big_endian(&d->c, 4) / b.width;
    } else if (!b.block) {
        b.block = BITSHUFFLE_BLOCK / b.width;
        b.block = b.block < BITSHUFFLE_LEAST ? BITSHUFFLE_LEAST : b.block - b.block % 8;
    }
    if (d->c.bad || !b.block || b.block % 8 || total % b.width || total > d->max_bytes)
        return fail_decoding(d, "sizes that bitshuffle cannot have");
    b.total = total / b.width;
    uint64_t largest = b.total < b.block ? b.total : b.block; /* elements in the largest block */
    CKPT_TRY(allocate(d, largest * b.width, &b.out));
    b.scratch = b.out ? b.out + largest * b.width : NULL;
    ckpt_status st = read_shuffled_blocks(d, &b);
    free(b.out);
    return st;
}

static ckpt_status undo_zstd(const struct decoding *d)
{
    source *frame = source_mem(d->c.p, d->c.left, source_pos(d->in->src, 0));
    ckpt_status st = frame ? unpack_zstd(frame, d->to, d->err) : fail_memory(d->err);
    source_unref(frame);
    return st;
}

static ckpt_status run_filter(struct decoding *d)
{
    switch (d->filter->id) {
    case HDF5_LZ4: return undo_lz4(d);
    case HDF5_BITSHUFFLE: return undo_bitshuffle(d);
    case HDF5_ZSTD: return undo_zstd(d);
    case HDF5_SZIP: return hdf5_undo_szip(d->filter, d->in, d->c, d->max_bytes, d->to, d->err);
    case HDF5_NBIT: return hdf5_undo_nbit(d->filter, d->in, d->c, d->max_bytes, d->to, d->err);
    case HDF5_SCALEOFFSET: return hdf5_undo_scaleoffset(d->filter, d->in, d->c, d->to, d->err);
    default: return blosc_decode(d->c.p, d->c.left, d->max_bytes, d->to, d->err);
    }
}

ckpt_status hdf5_decompress(const struct hdf5_filter *f, const struct hdf5_input *in, uint64_t max_bytes,
                            spool *to, ckpt_error *err)
{
    if (in->n / 2 > max_bytes + 4096)
        return hdf5_fail_chunk(in, err, MORE_THAN_CHUNK);
    unsigned char *bytes = malloc(in->n ? (size_t)in->n : 1);
    ckpt_status st = bytes ? source_read(in->src, 0, bytes, (size_t)in->n, err) : fail_memory(err);
    if (st == CKPT_OK) {
        struct decoding d = {f, in, cursor_of(bytes, (size_t)in->n, 0), max_bytes, to, err};
        st = run_filter(&d);
    }
    free(bytes);
    return st;
}
