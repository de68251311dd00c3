/*
 * hdf5_filter.c - undoes the filters of a chunk of HDF5, the last one first:
 *
 *   1      deflate     a zlib stream, to its end
 *   2      shuffle     byte 0 of all elements, byte 1 of all elements …; then an incomplete element
 *   3      fletcher32  a checksum after the data: two sums of big-endian words of 16 bits, modulo 65535, as
 *                      32 little-endian bits; old versions swapped the bytes of each half
 *   4      szip, 5 nbit, 6 scaleoffset, 32001 blosc, 32004 lz4, 32008 bitshuffle, 32015 zstd: see
 *          hdf5_decompress.c
 *   32000  lzf         a byte N below 32: N + 1 literals follow. Of any other byte, the upper 3 bits are
 *                      a length (7: the next byte is added); the lower 5 bits and one more byte are a
 *                      distance. length + 2 bytes are copied from distance + 1 bytes back
 *
 * The output of each filter goes to a spool, so that no chunk has to fit in memory.
 */
#include <stdlib.h>

#include "codec/hdf5_filter.h"
#include "codec/inflate.h"
#include "io/reader.h"

#define BAND    65536u /* most bytes of elements that are unshuffled at a time */
#define HISTORY 8192u  /* greatest distance of a copy in lzf */

ckpt_status hdf5_fail_chunk(const struct hdf5_input *in, ckpt_error *err, const char *what)
{
    return fail(err, CKPT_EFORMAT, source_pos(in->src, 0),
                "a chunk has {%s}, which {=its filters} do not write", what);
}

/* write_band - appends COUNT elements of UNIT bytes to TO. PLANES has byte 0 of all elements, then byte 1 of
 * all elements …; OUT has room for the elements. */
static ckpt_status write_band(const unsigned char *planes, size_t count, uint32_t unit, unsigned char *out,
                              spool *to, ckpt_error *err)
{
    for (uint32_t k = 0; k < unit; k++)
        for (size_t i = 0; i < count; i++)
            out[i * unit + k] = planes[k * count + i];
    return spool_write(to, out, count * unit, err);
}

/* unshuffle - undoes shuffle. PLANES has room for two bands of BAND bytes: one as it is stored, one
 * reordered. */
static ckpt_status unshuffle(const struct hdf5_input *in, uint32_t unit, unsigned char *planes, spool *to,
                             ckpt_error *err)
{
    unsigned char *out = planes + BAND;
    uint64_t elements = in->n / unit, per_band = BAND / unit;
    for (uint64_t first = 0; first < elements; first += per_band) {
        size_t count = (size_t)(elements - first < per_band ? elements - first : per_band);
        for (uint32_t k = 0; k < unit; k++)
            CKPT_TRY(source_read(in->src, k * elements + first, planes + k * count, count, err));
        CKPT_TRY(write_band(planes, count, unit, out, to, err));
    }
    uint64_t shuffled = elements * unit;
    return spool_copy(to, in->src, shuffled, in->n - shuffled, err);
}

ckpt_status hdf5_undo_shuffle(const struct hdf5_input *in, uint32_t unit, spool *to, ckpt_error *err)
{
    if (unit == 0)
        return hdf5_fail_chunk(in, err, "shuffled elements of no bytes");
    if (unit == 1)
        return spool_copy(to, in->src, 0, in->n, err);
    if (unit > BAND)
        return hdf5_fail_chunk(in, err, "shuffled elements of more than 64 KiB");
    unsigned char *planes = malloc(2 * BAND);
    ckpt_status st = planes ? unshuffle(in, unit, planes, to, err) : fail_memory(err);
    free(planes);
    return st;
}

struct fletcher {
    uint32_t low, high;
};

static void add_word(struct fletcher *fletcher, uint32_t word)
{
    fletcher->low += word;
    fletcher->high += fletcher->low;
    fletcher->low = (fletcher->low & 0xffff) + (fletcher->low >> 16);
    fletcher->high = (fletcher->high & 0xffff) + (fletcher->high >> 16);
}

/* add_words - adds the NBYTES bytes at BYTES to the sums; NBYTES is even, except in the last call. */
static void add_words(struct fletcher *fletcher, const unsigned char *bytes, size_t nbytes)
{
    for (size_t i = 0; i + 1 < nbytes; i += 2)
        add_word(fletcher, (uint32_t)bytes[i] << 8 | bytes[i + 1]);
    if (nbytes % 2)
        add_word(fletcher, (uint32_t)bytes[nbytes - 1] << 8);
}

/* fletcher_sum - returns the checksum; folds the sums once more, because they may have more than 16 bits. */
static uint32_t fletcher_sum(struct fletcher fletcher)
{
    fletcher.low = (fletcher.low & 0xffff) + (fletcher.low >> 16);
    fletcher.high = (fletcher.high & 0xffff) + (fletcher.high >> 16);
    return fletcher.high << 16 | fletcher.low;
}

/* check_fletcher32 - compares the checksum in the last four bytes of *IN, and removes these from *IN. */
static ckpt_status check_fletcher32(struct hdf5_input *in, ckpt_error *err)
{
    unsigned char bytes[4096], stored[4];
    struct fletcher f = {0, 0};
    if (in->n < 4)
        return hdf5_fail_chunk(in, err, "no room for its checksum");
    in->n -= 4;
    for (uint64_t at = 0; at < in->n; at += sizeof bytes) {
        size_t n = in->n - at < sizeof bytes ? (size_t)(in->n - at) : sizeof bytes;
        CKPT_TRY(source_read(in->src, at, bytes, n, err));
        add_words(&f, bytes, n);
    }
    CKPT_TRY(source_read(in->src, in->n, stored, 4, err));
    uint32_t recorded = load_u32le(stored), computed = fletcher_sum(f);
    uint32_t swapped = (computed & 0x00ff00ff) << 8 | (computed >> 8 & 0x00ff00ff);
    if (recorded == computed || recorded == swapped)
        return CKPT_OK;
    return fail(err, CKPT_ECHECKSUM, source_pos(in->src, 0),
                "a chunk has the fletcher32 {%08x}, the file records {=%08x}", computed, recorded);
}

/* A decoder of lzf. BYTES: the last HISTORY bytes that were written, then those to be written next. */
struct lzf {
    reader r;
    spool *to;
    ckpt_error *err;
    size_t nwritten, n; /* N bytes are in BYTES; the first NWRITTEN of them were written already */
    unsigned char bytes[HISTORY + BAND + 512];
};

/* flush_lzf - writes the bytes decoded since the last call, and keeps the last HISTORY bytes. */
static ckpt_status flush_lzf(struct lzf *lzf)
{
    CKPT_TRY(spool_write(lzf->to, &lzf->bytes[lzf->nwritten], lzf->n - lzf->nwritten, lzf->err));
    size_t keep = lzf->n < HISTORY ? lzf->n : HISTORY;
    memmove(lzf->bytes, &lzf->bytes[lzf->n - keep], keep);
    lzf->nwritten = lzf->n = keep;
    return CKPT_OK;
}

/* step_lzf - decodes the next run; false: the data are malformed, or end too early. */
static bool step_lzf(struct lzf *lzf)
{
    const unsigned char *b = reader_take(&lzf->r, 1);
    if (!b)
        return false;
    unsigned control = *b;
    if (control < 32) {
        const unsigned char *literals = reader_take(&lzf->r, control + 1);
        if (literals)
            memcpy(lzf->bytes + lzf->n, literals, control + 1);
        lzf->n += literals ? control + 1 : 0;
        return literals != NULL;
    }
    size_t length = control >> 5;
    if (length == 7) {
        b = reader_take(&lzf->r, 1);
        length += b ? *b : 0;
    }
    b = b ? reader_take(&lzf->r, 1) : NULL;
    size_t distance = b ? ((control & 31) << 8 | *b) + 1u : 0;
    if (!b || distance > lzf->n)
        return false;
    for (size_t i = 0; i < length + 2; i++, lzf->n++)
        lzf->bytes[lzf->n] = lzf->bytes[lzf->n - distance];
    return true;
}

static ckpt_status run_lzf(struct lzf *lzf, const struct hdf5_input *in)
{
    while (reader_left(&lzf->r)) {
        if (!step_lzf(lzf))
            return lzf->r.status != CKPT_OK && lzf->r.status != CKPT_ETRUNCATED
                       ? lzf->r.status
                       : hdf5_fail_chunk(in, lzf->err, "data of lzf that end early or copy from before them");
        if (lzf->n >= HISTORY + BAND)
            CKPT_TRY(flush_lzf(lzf));
    }
    return flush_lzf(lzf);
}

static ckpt_status undo_lzf(const struct hdf5_input *in, spool *to, ckpt_error *err)
{
    struct lzf *z = calloc(1, sizeof *z);
    CKPT_TRY_ALLOC(z, err);
    z->to = to;
    z->err = err;
    ckpt_status st = reader_init(&z->r, in->src, 0, in->n, err);
    CKPT_THEN(st, run_lzf(z, in));
    reader_free(&z->r);
    free(z);
    return st;
}

/* undo_filter - undoes FILTER, and appends the result, of at most MAX_BYTES, to TO. */
static ckpt_status undo_filter(const struct hdf5_filter *filter, const struct hdf5_input *in,
                               uint64_t max_bytes, spool *to, ckpt_error *err)
{
    uint64_t used;
    switch (filter->id) {
    case HDF5_DEFLATE: return inflate_into(in->src, 0, in->n, INFLATE_ZLIB, to, &used, err);
    case HDF5_SHUFFLE: return hdf5_undo_shuffle(in, filter->values[0], to, err);
    case HDF5_LZF: return undo_lzf(in, to, err);
    default: return hdf5_decompress(filter, in, max_bytes, to, err);
    }
}

/* replace_input - undoes FILTER, and replaces *IN by the result, of at most MAX_BYTES. */
static ckpt_status replace_input(const struct hdf5_filter *filter, struct hdf5_input *in, uint64_t max_bytes,
                                 ckpt_error *err)
{
    spool *to = spool_new(max_bytes);
    CKPT_TRY_ALLOC(to, err);
    ckpt_status st = undo_filter(filter, in, max_bytes, to, err);
    if (st != CKPT_OK) {
        if (spool_is_full(to))
            (void)hdf5_fail_chunk(in, err, "more bytes than it can have");
        spool_free(to);
        return st == CKPT_ELIMIT ? CKPT_EFORMAT : st;
    }
    source *result = spool_source(to);
    source_unref(in->src);
    *in = (struct hdf5_input){result, result->size};
    return CKPT_OK;
}

static ckpt_status undo_filters(const struct hdf5_decoding *decoding, struct hdf5_input *in, spool *to,
                                ckpt_error *err)
{
    /* what a filter made of the chunk may be larger than it: by a checksum, or since it did not compress */
    uint64_t max_bytes = decoding->chunk_bytes + decoding->chunk_bytes / 64 + 4096;
    uint32_t applied = ~decoding->skipped_filters & ((1u << decoding->nfilters) - 1);
    for (uint32_t i = decoding->nfilters; COUNT_DOWN(i);) {
        const struct hdf5_filter *f = &decoding->filters[i];
        bool is_last = !(applied & ((1u << i) - 1)); /* no filter is to be undone after this one */
        if (!(applied >> i & 1))
            continue;
        if (f->id == HDF5_FLETCHER32)
            CKPT_TRY(check_fletcher32(in, err));
        else if (is_last)
            return undo_filter(f, in, decoding->chunk_bytes, to, err);
        else
            CKPT_TRY(replace_input(f, in, max_bytes, err));
    }
    return spool_copy(to, in->src, 0, in->n, err);
}

ckpt_status hdf5_decode(const struct hdf5_decoding *decoding, source *stored, spool *to, ckpt_error *err)
{
    struct hdf5_input in = {source_ref(stored), stored->size};
    ckpt_status st = undo_filters(decoding, &in, to, err);
    source_unref(in.src);
    return st;
}
