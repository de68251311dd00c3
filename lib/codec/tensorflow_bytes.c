/*
 * tensorflow_bytes.c - sources that compare the checksum of their entry themselves, because the storage has
 * the bytes of several entries (slices of a partitioned tensor) or other bytes than the entry (strings; see
 * tensorflow/core/util/tensor_bundle/tensor_bundle.cc, WriteStringTensor).
 *
 * Strings are stored as
 *   …   the length of each, a varint
 *   4   masked CRC-32C of the lengths, each taken as 4 bytes, or as 8 if it is beyond 32 bits
 *   …   the bytes of the strings
 * The checksum of the entry covers the lengths, taken in the same way, the masked CRC-32C, and the strings.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "base/store.h"
#include "codec/sstable.h"
#include "codec/tensorflow.h"
#include "io/reader.h"

struct checked_source {
    source s;
    struct tf_bytes b;
    uint64_t text_at;     /* if B has strings: offset in B of their bytes, after the lengths; else 0 */
    uint32_t crc_before;  /* if B has strings: CRC-32C of the lengths and their masked CRC-32C; else 0 */
    const uint64_t *ends; /* if B has strings: end of each, relative to text_at; else NULL */
    uint64_t count;       /* number of strings */
    pthread_mutex_t lock; /* held while the checksum is compared */
    atomic_bool checked;
};

static ckpt_status compare_crc(struct checked_source *checked_source, ckpt_error *err)
{
    uint32_t crc = checked_source->crc_before;
    uint64_t n = checked_source->b.size - checked_source->text_at;
    CKPT_TRY(source_crc(checked_source->b.src, checked_source->b.at + checked_source->text_at, n, CRC_32C,
                        &crc, err));
    if (crc != checked_source->b.crc && !checked_source->b.file->ignore_crc) {
        (void)fail(err, CKPT_ECHECKSUM, source_pos(checked_source->b.src, checked_source->b.at),
                   "%" PRIu64 " bytes have the CRC-32C {%08" PRIx32 "}, the index records {=%08" PRIx32 "}",
                   checked_source->b.size, crc, checked_source->b.crc);
        error_add_hint(err, "the data is damaged; --ignore-crc uses it anyway");
        error_add_file(err, checked_source->b.path);
        return CKPT_ECHECKSUM;
    }
    checked_source->checked = true;
    return CKPT_OK;
}

static ckpt_status check_once(struct checked_source *checked_source, ckpt_error *err)
{
    if (checked_source->checked)
        return CKPT_OK;
    pthread_mutex_lock(&checked_source->lock);
    ckpt_status st = checked_source->checked ? CKPT_OK : compare_crc(checked_source, err);
    pthread_mutex_unlock(&checked_source->lock);
    return st;
}

/* get_record_offset - returns the offset in CHECKED_SOURCE of record INDEX, which is the length and the bytes
 * of string INDEX. */
static uint64_t get_record_offset(const struct checked_source *checked_source, uint64_t index)
{
    return 8 * index + (index ? checked_source->ends[index - 1] : 0);
}

/* find_record - returns the number of the record that has byte OFF of CHECKED_SOURCE. */
static uint64_t find_record(const struct checked_source *checked_source, uint64_t off)
{
    uint64_t low = 0, high = checked_source->count;
    while (high - low > 1) {
        uint64_t mid = low + (high - low) / 2;
        if (get_record_offset(checked_source, mid) <= off)
            low = mid;
        else
            high = mid;
    }
    return low;
}

/* read_record - reads up to *COUNT bytes, from byte AT of record INDEX on, to OUT. Sets *COUNT to the number
 * of bytes read. */
static ckpt_status read_record(struct checked_source *checked_source, uint64_t index, uint64_t at,
                               unsigned char *out, size_t *count, ckpt_error *err)
{
    unsigned char length[8];
    uint64_t begin = index ? checked_source->ends[index - 1] : 0, size = checked_source->ends[index] - begin;
    uint64_t left = at < 8 ? 8 - at : 8 + size - at;
    uint64_t from = checked_source->b.at + checked_source->text_at + begin;
    *count = left < *count ? (size_t)left : *count;
    if (at >= 8)
        return source_read(checked_source->b.src, from + (at - 8), out, *count, err);
    store_u64le(length, size);
    memcpy(out, length + at, *count);
    return CKPT_OK;
}

static ckpt_status read_strings(struct checked_source *checked_source, uint64_t off, unsigned char *out,
                                size_t nbytes, ckpt_error *err)
{
    for (uint64_t i = find_record(checked_source, off); nbytes;) {
        size_t got = nbytes;
        CKPT_TRY(read_record(checked_source, i, off - get_record_offset(checked_source, i), out, &got, err));
        out += got;
        off += got;
        nbytes -= got;
        if (i + 1 < checked_source->count && off >= get_record_offset(checked_source, i + 1))
            i++;
    }
    return CKPT_OK;
}

static ckpt_status checked_read(source *src, uint64_t off, void *out, size_t nbytes, ckpt_error *err)
{
    struct checked_source *s = (struct checked_source *)src;
    CKPT_TRY(check_once(s, err));
    return s->ends ? read_strings(s, off, out, nbytes, err)
                   : source_read(s->b.src, s->b.at + off, out, nbytes, err);
}

static void checked_close(source *src)
{
    struct checked_source *s = (struct checked_source *)src;
    source_unref(s->b.src);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

static bool checked_extent(source *src, uint64_t off, int *fd, uint64_t *at)
{
    struct checked_source *s = (struct checked_source *)src;
    return !s->ends && s->checked && source_extent(s->b.src, s->b.at + off, fd, at);
}

static const struct source_ops checked_ops = {
    .read_at = checked_read, .close = checked_close, .extent = checked_extent};

static struct checked_source *new_source(const struct tf_bytes *bytes, uint64_t size)
{
    struct checked_source *s = calloc(1, sizeof *s);
    if (!s || pthread_mutex_init(&s->lock, NULL) != 0) {
        free(s);
        return NULL;
    }
    s->s = (source){.ops = &checked_ops, .size = size, .position = CKPT_NO_OFFSET, .refs = 1};
    s->b = *bytes;
    s->b.src = source_ref(bytes->src);
    return s;
}

static ckpt_status check_range(const struct tf_bytes *bytes, ckpt_error *err)
{
    return range_within(bytes->at, bytes->size, bytes->src->size)
               ? CKPT_OK
               : fail(err, CKPT_ETRUNCATED, source_pos(bytes->src, bytes->at),
                      "needs {=%" PRIu64 " bytes}, the file has {%" PRIu64 "} there", bytes->size,
                      bytes->at < bytes->src->size ? bytes->src->size - bytes->at : 0);
}

ckpt_status tf_checked_source(const struct tf_bytes *bytes, source **out, ckpt_error *err)
{
    CKPT_TRY(check_range(bytes, err));
    struct checked_source *s = new_source(bytes, bytes->size);
    CKPT_TRY_ALLOC(s, err);
    s->s.position = source_pos(bytes->src, bytes->at);
    *out = &s->s;
    return CKPT_OK;
}

/* read_lengths - reads COUNT lengths, sets END to where each string ends, and *CRC to the checksum of the
 * lengths. */
static ckpt_status read_lengths(reader *in, uint64_t count, uint64_t *end, uint32_t *crc, ckpt_error *err)
{
    uint64_t all = 0;
    *crc = 0;
    for (uint64_t i = 0; i < count; i++) {
        unsigned char bytes[8];
        uint64_t at = in->pos, length;
        bool ok = reader_varint(in, &length);
        CKPT_TRY(in->status);
        if (!ok || !checked_add(all, length, &all) || all > in->end)
            return fail(err, CKPT_EFORMAT, at, "the strings have {more} bytes than {=their entry}");
        store_u64le(bytes, length);
        *crc = crc_update(CRC_32C, *crc, bytes, length > UINT32_MAX ? 8 : 4);
        end[i] = all;
    }
    return CKPT_OK;
}

/* read_all_lengths - reads the lengths to END, compares their checksum, and sets text_at and crc_before. */
static ckpt_status read_all_lengths(struct checked_source *checked_source, uint64_t *end, ckpt_error *err)
{
    reader r;
    uint32_t crc;
    const unsigned char *masked_crc = NULL;
    CKPT_TRY(reader_init(&r, checked_source->b.src, checked_source->b.at,
                         checked_source->b.at + checked_source->b.size, err));
    ckpt_status st = read_lengths(&r, checked_source->count, end, &crc, err);
    if (st == CKPT_OK) {
        masked_crc = reader_take(&r, 4);
        st = r.status;
    }
    if (st == CKPT_OK && sstable_unmask(load_u32le(masked_crc)) != crc && !checked_source->b.file->ignore_crc)
        st = fail(err, CKPT_ECHECKSUM, r.pos - 4,
                  "the lengths have the CRC-32C {%08" PRIx32 "}, {=%08" PRIx32 "} is recorded", crc,
                  sstable_unmask(load_u32le(masked_crc)));
    if (st == CKPT_OK)
        checked_source->crc_before = crc_update(CRC_32C, crc, masked_crc, 4);
    checked_source->text_at = r.pos - checked_source->b.at;
    reader_free(&r);
    return st;
}

ckpt_status tf_strings_source(arena *a, const struct tf_bytes *tf_bytes, uint64_t count, source **out,
                              ckpt_error *err)
{
    CKPT_TRY(check_range(tf_bytes, err));
    if (tf_bytes->size < 4 || count > tf_bytes->size - 4)
        return fail(err, CKPT_EFORMAT, source_pos(tf_bytes->src, tf_bytes->at),
                    "{%" PRIu64 " strings} in {=%" PRIu64 " bytes}", count, tf_bytes->size);
    uint64_t *end = arena_array(a, count, sizeof *end);
    struct checked_source *s = end ? new_source(tf_bytes, 0) : NULL;
    CKPT_TRY_ALLOC(s, err);
    s->count = count;
    s->s.serializes_reads = 1; /* elements have no common size, by which several threads would share them */
    ckpt_status st = read_all_lengths(s, end, err);
    s->ends = end;
    uint64_t bytes = st == CKPT_OK && count ? end[count - 1] : 0;
    if (st == CKPT_OK && bytes != tf_bytes->size - s->text_at)
        st = fail(err, CKPT_EFORMAT, source_pos(tf_bytes->src, tf_bytes->at),
                  "the strings have {%" PRIu64 " bytes}, their entry {=%" PRIu64 "}", bytes,
                  tf_bytes->size - s->text_at);
    s->s.size = 8 * count + bytes;
    if (st == CKPT_OK)
        *out = &s->s;
    else
        checked_close(&s->s);
    return st;
}
