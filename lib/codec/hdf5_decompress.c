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

static ckpt_status fail_decoding(const struct decoding *decoding, const char *what)
{
    return hdf5_fail_chunk(decoding->in, decoding->err, what);
}

static uint64_t take_big_endian(cursor *in, size_t count)
{
    const unsigned char *b = cursor_take(in, count);
    return b ? load_number(b, count, true) : 0;
}

/* allocate - allocates two buffers of COUNT bytes each, which the caller frees by *OUT. */
static ckpt_status allocate(const struct decoding *decoding, uint64_t count, unsigned char **out)
{
    *out = count && count <= decoding->max_bytes ? malloc((size_t)(2 * count)) : NULL;
    if (count && count > decoding->max_bytes)
        return fail_decoding(decoding, MORE_THAN_CHUNK);
    return !count || *out ? CKPT_OK : fail_memory(decoding->err);
}

static ckpt_status decode_lz4_blocks(struct decoding *decoding, uint64_t total, uint64_t block,
                                     unsigned char *out)
{
    for (uint64_t size; total; total -= size) {
        size = total < block ? total : block;
        uint64_t stored = take_big_endian(&decoding->c, 4);
        cursor bytes = cursor_sub(&decoding->c, (size_t)stored);
        if (decoding->c.bad)
            return fail_decoding(decoding, "data of lz4 that end early");
        if (stored == size)
            CKPT_TRY(spool_write(decoding->to, bytes.p, (size_t)size, decoding->err));
        else {
            CKPT_TRY(block_decode(BLOCK_LZ4, bytes, out, (size_t)size, decoding->err));
            CKPT_TRY(spool_write(decoding->to, out, (size_t)size, decoding->err));
        }
    }
    return CKPT_OK;
}

static ckpt_status undo_lz4(struct decoding *decoding)
{
    unsigned char *out;
    uint64_t total = take_big_endian(&decoding->c, 8), block = take_big_endian(&decoding->c, 4);
    if (decoding->c.bad || (total && !block))
        return fail_decoding(decoding, "no sizes of lz4");
    if (total > decoding->max_bytes)
        return fail_decoding(decoding, MORE_THAN_CHUNK);
    block = block < total ? block : total;
    CKPT_TRY(allocate(decoding, block, &out));
    ckpt_status st = decode_lz4_blocks(decoding, total, block, out);
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

/* read_shuffled_block - decodes the next block, which has COUNT elements. */
static ckpt_status read_shuffled_block(struct decoding *decoding, const struct bitshuffle *bitshuffle,
                                       uint64_t count)
{
    size_t size = (size_t)count * bitshuffle->width;
    uint64_t stored = bitshuffle->compressor == BITS_ONLY ? size : take_big_endian(&decoding->c, 4);
    cursor bytes = cursor_sub(&decoding->c, (size_t)stored);
    const unsigned char *in = bytes.p;
    if (decoding->c.bad)
        return fail_decoding(decoding, "data of bitshuffle that end early");
    if (bitshuffle->compressor != BITS_ONLY) {
        enum block_codec codec = bitshuffle->compressor == WITH_LZ4 ? BLOCK_LZ4 : BLOCK_ZSTD;
        CKPT_TRY(block_decode(codec, bytes, bitshuffle->scratch, size, decoding->err));
        in = bitshuffle->scratch;
    }
    block_unshuffle_bits(in, (size_t)count, bitshuffle->width, bitshuffle->out);
    return spool_write(decoding->to, bitshuffle->out, size, decoding->err);
}

static ckpt_status read_shuffled_blocks(struct decoding *decoding, const struct bitshuffle *bitshuffle)
{
    uint64_t left = bitshuffle->total;
    for (; left >= bitshuffle->block; left -= bitshuffle->block)
        CKPT_TRY(read_shuffled_block(decoding, bitshuffle, bitshuffle->block));
    if (left >= 8)
        CKPT_TRY(read_shuffled_block(decoding, bitshuffle, left - left % 8));
    size_t unchanged = (size_t)(left % 8) * bitshuffle->width;
    const unsigned char *bytes = cursor_take(&decoding->c, unchanged);
    return bytes ? spool_write(decoding->to, bytes, unchanged, decoding->err)
                 : fail_decoding(decoding, "data of bitshuffle that end early");
}

static ckpt_status undo_bitshuffle(struct decoding *decoding)
{
    const uint32_t *values = decoding->filter->values;
    struct bitshuffle b = {.compressor = values[4], .width = values[2], .block = values[3]};
    uint64_t total = decoding->c.left;
    if (values[4] != BITS_ONLY && values[4] != WITH_LZ4 && values[4] != WITH_ZSTD)
        return fail(decoding->err, CKPT_EUNSUPPORTED, source_pos(decoding->in->src, 0),
                    "bitshuffle with the compressor {%u}; {=LZ4 (2) and zstd (3)} are read", values[4]);
    if (!b.width)
        return fail_decoding(decoding, "elements of no bytes in bitshuffle");
    if (b.compressor != BITS_ONLY) {
        total = take_big_endian(&decoding->c, 8);
        b.block = take_big_endian(&decoding->c, 4) / b.width;
    } else if (!b.block) {
        b.block = BITSHUFFLE_BLOCK / b.width;
        b.block = b.block < BITSHUFFLE_LEAST ? BITSHUFFLE_LEAST : b.block - b.block % 8;
    }
    if (decoding->c.bad || !b.block || b.block % 8 || total % b.width || total > decoding->max_bytes)
        return fail_decoding(decoding, "sizes that bitshuffle cannot have");
    b.total = total / b.width;
    uint64_t largest = b.total < b.block ? b.total : b.block; /* elements in the largest block */
    CKPT_TRY(allocate(decoding, largest * b.width, &b.out));
    b.scratch = b.out ? b.out + largest * b.width : NULL;
    ckpt_status st = read_shuffled_blocks(decoding, &b);
    free(b.out);
    return st;
}

static ckpt_status undo_zstd(const struct decoding *decoding)
{
    source *frame = source_mem(decoding->c.p, decoding->c.left, source_pos(decoding->in->src, 0));
    ckpt_status st = frame ? unpack_zstd(frame, decoding->to, decoding->err) : fail_memory(decoding->err);
    source_unref(frame);
    return st;
}

static ckpt_status run_filter(struct decoding *decoding)
{
    switch (decoding->filter->id) {
    case HDF5_LZ4: return undo_lz4(decoding);
    case HDF5_BITSHUFFLE: return undo_bitshuffle(decoding);
    case HDF5_ZSTD: return undo_zstd(decoding);
    case HDF5_SZIP:
        return hdf5_undo_szip(decoding->filter, decoding->in, decoding->c, decoding->max_bytes, decoding->to,
                              decoding->err);
    case HDF5_NBIT:
        return hdf5_undo_nbit(decoding->filter, decoding->in, decoding->c, decoding->max_bytes, decoding->to,
                              decoding->err);
    case HDF5_SCALEOFFSET:
        return hdf5_undo_scaleoffset(decoding->filter, decoding->in, decoding->c, decoding->to,
                                     decoding->err);
    default:
        return blosc_decode(decoding->c.p, decoding->c.left, decoding->max_bytes, decoding->to,
                            decoding->err);
    }
}

ckpt_status hdf5_decompress(const struct hdf5_filter *filter, const struct hdf5_input *in, uint64_t max_bytes,
                            spool *to, ckpt_error *err)
{
    if (in->n / 2 > max_bytes + 4096)
        return hdf5_fail_chunk(in, err, MORE_THAN_CHUNK);
    unsigned char *bytes = malloc(in->n ? (size_t)in->n : 1);
    ckpt_status st = bytes ? source_read(in->src, 0, bytes, (size_t)in->n, err) : fail_memory(err);
    if (st == CKPT_OK) {
        struct decoding d = {filter, in, cursor_of(bytes, (size_t)in->n, 0), max_bytes, to, err};
        st = run_filter(&d);
    }
    free(bytes);
    return st;
}
