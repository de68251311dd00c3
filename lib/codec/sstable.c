/*
 * sstable.c - reads tables of LevelDB (google/leveldb doc/table_format.md, table/format.h), which TensorFlow
 * writes, too.
 *
 *   0   …    blocks with data, each followed by its type and checksum:
 *            …   entries
 *            4*n restarts: offsets of entries whose key shares no bytes with the previous key
 *            4   n, the number of restarts, at least 1
 *            1   type: 0 uncompressed, 1 Snappy
 *            4   CRC-32C of the bytes as they are stored and of the type, masked: rotated right by 15, plus
 *                0xa282ead8
 *   …   …    a block of metadata, which is ignored
 *   …   …    the index, a block whose values are the handles of the data blocks; each key is at least
 *            the last key of its data block, and less than the first key of the next
 *   -48 …    handle of the block of metadata, handle of the index, zeros
 *   -8  8    57 fb 80 8b 24 75 47 db
 *
 * An entry begins with three varints: how many bytes its key shares with the previous key, how many it does
 * not share, and how many the value has. Then come the bytes not shared, and the value. A handle is two
 * varints, offset and size.
 *
 * Refused: keys that do not ascend, blocks that overlap or are out of order, other types of compression,
 * entries that reach beyond their block, and more restarts than fit in it.
 */
#include "codec/sstable.h"

#include <inttypes.h>
#include <stdlib.h>

#include "codec/snappy.h"

#define MAGIC   UINT64_C(0xdb4775248b80fb57)
#define TRAILER 5u /* type and checksum of a block */
#define MAX_KEY 65536u

MODULO uint32_t sstable_unmask(uint32_t masked)
{
    uint32_t rotated = masked - 0xa282ead8u;
    return rotated >> 17 | rotated << 15;
}

/* check_block - fails unless the N stored bytes at P and the type after them have the checksum that follows.
 * OFFSET is where the block is in the file. */
static ckpt_status check_block(const unsigned char *p, size_t n, uint64_t offset, ckpt_error *err)
{
    uint32_t stored = sstable_unmask(load_u32le(p + n + 1)), crc = crc_update(CRC_32C, 0, p, n + 1);
    if (crc == stored)
        return CKPT_OK;
    return fail(err, CKPT_ECHECKSUM, offset,
                "a block of %zu bytes has the CRC-32C {%08" PRIx32 "}, the file records {=%08" PRIx32 "}\n"
                "the table is damaged: get the file again; `ckpt salvage` reads its other blocks",
                n, crc, stored);
}

/* unpack_block - decompresses the *N bytes of B, and sets *N to the number of decompressed bytes. */
static ckpt_status unpack_block(struct sstable_block *b, size_t *n, ckpt_error *err)
{
    cursor compressed = cursor_of(b->bytes, *n, b->at);
    size_t size;
    CKPT_TRY(snappy_read_size(compressed, &size, err));
    unsigned char *out = malloc(size + 1);
    CKPT_TRY_ALLOC(out, err);
    ckpt_status st = snappy_decode(compressed, out, size, err);
    free(b->bytes);
    b->bytes = out;
    *n = size;
    return st;
}

/* set_entries - sets the entries of B: its N bytes without the restarts at their end. */
static ckpt_status set_entries(struct sstable_block *b, size_t n, ckpt_error *err)
{
    size_t max_restarts = n < 4 ? 0 : (n - 4) / 4;
    uint32_t restarts = n < 4 ? 1 : load_u32le(b->bytes + n - 4);
    if (restarts > max_restarts)
        return fail(err, CKPT_EFORMAT, b->at, "a block of %zu bytes with {%" PRIu32 " restarts}; {=%zu} fit",
                    n, restarts, max_restarts);
    b->entries = cursor_of(b->bytes, n - 4 - (size_t)restarts * 4, b->at);
    return CKPT_OK;
}

static ckpt_status load_block(source *src, uint64_t offset, uint64_t size, struct sstable_block *b,
                              ckpt_error *err)
{
    uint64_t all;
    size_t n;
    *b = (struct sstable_block){.at = source_pos(src, offset), .at_first_entry = true};
    buf_init(&b->key, MAX_KEY);
    if (!checked_add(size, TRAILER, &all) || !range_within(offset, all, src->size) || !checked_size(all, &n))
        return fail(err, CKPT_ETRUNCATED, offset < src->size ? b->at : source_pos(src, src->size),
                    "a block of {=%" PRIu64 " bytes}, the file has {%" PRIu64 "} there", size,
                    offset < src->size ? src->size - offset : 0);
    CKPT_TRY_ALLOC(b->bytes = malloc(n), err);
    CKPT_TRY(source_read(src, offset, b->bytes, n, err));
    n -= TRAILER;
    CKPT_TRY(check_block(b->bytes, n, b->at, err));
    unsigned char type = b->bytes[n];
    if (type > 1)
        return fail(err, CKPT_EUNSUPPORTED, b->at,
                    "a block of compression {%u}; {=0 (none) and 1 (Snappy)} are read", type);
    if (type == 1)
        CKPT_TRY(unpack_block(b, &n, err));
    return set_entries(b, n, err);
}

ckpt_status sstable_load(const struct sstable *t, size_t i, struct sstable_block *b, ckpt_error *err)
{
    ckpt_status st = load_block(t->src, t->blocks[i].offset, t->blocks[i].size, b, err);
    b->max_key = t->blocks[i].max_key;
    b->keys_after = i ? t->blocks[i - 1].max_key : str_of(NULL, 0);
    return st;
}

void sstable_unload(struct sstable_block *b)
{
    free(b->bytes);
    b->bytes = NULL;
    buf_free(&b->key);
}

/* read_key - sets the key of B to the first SHARED bytes of the previous key and the next OTHERS bytes. Sets
 * *ASCENDS to whether it is greater than the previous key. False: the bytes are not there. */
static bool read_key(struct sstable_block *b, uint64_t shared, uint64_t others, bool *ascends)
{
    if (shared > b->key.len || others > b->entries.left)
        return false;
    ckpt_str added = str_of((const char *)cursor_take(&b->entries, (size_t)others), (size_t)others);
    *ascends = b->at_first_entry ? !b->keys_after.ptr || str_compare(b->keys_after, added) < 0
                                 : str_compare(str_skip(buf_view(&b->key), (size_t)shared), added) < 0;
    b->at_first_entry = false;
    b->key.len = (size_t)shared;
    buf_put(&b->key, added.ptr, added.len);
    return true;
}

ckpt_status sstable_next(struct sstable_block *b, ckpt_str *key, cursor *value, bool *more, ckpt_error *err)
{
    cursor *c = &b->entries;
    bool ascends = true;
    *more = c->left > 0;
    if (!*more)
        return CKPT_OK;
    uint64_t shared = cursor_varint(c), others = cursor_varint(c), size = cursor_varint(c);
    bool ok = !c->bad && read_key(b, shared, others, &ascends) && size <= c->left;
    if (!buf_ok(&b->key))
        return b->key.no_memory ? fail_memory(err)
                                : fail(err, CKPT_ELIMIT, b->at, "a key of {more} than {=%u bytes}", MAX_KEY);
    if (!ok)
        return fail(err, CKPT_EFORMAT, b->at, "an entry reaches beyond {the end} of {=its block}");
    *key = buf_view(&b->key);
    *value = cursor_sub(c, (size_t)size);
    bool is_in_block = !b->max_key.ptr || str_compare(*key, b->max_key) <= 0;
    return ascends && is_in_block
               ? CKPT_OK
               : fail(err, CKPT_EFORMAT, b->at, "the keys {do not ascend} at \"%.*s\", as {=they must}",
                      STR_ARG(*key));
}

bool sstable_has_magic(source *src)
{
    ckpt_error ignored;
    unsigned char last[8];
    return src->size >= SSTABLE_FOOTER && source_read(src, src->size - 8, last, 8, &ignored) == CKPT_OK &&
           load_u64le(last) == MAGIC;
}

/* add_handle - adds the block of the index entry KEY, VALUE. It must be stored after the blocks before. */
static ckpt_status add_handle(struct sstable *t, arena *a, ckpt_str key, cursor value, size_t *cap,
                              ckpt_error *err)
{
    struct sstable_handle h = {.offset = cursor_varint(&value), .size = cursor_varint(&value)};
    uint64_t end, before = t->nblocks ? t->blocks[t->nblocks - 1].offset + t->blocks[t->nblocks - 1].size : 0;
    if (value.bad || value.left)
        return fail(err, CKPT_EFORMAT, value.pos, "{a malformed handle}; it has to be {=two numbers}");
    if (!checked_add(h.offset, h.size, &end) || end > t->src->size || h.offset < before)
        return fail(err, CKPT_EFORMAT, h.offset,
                    "a block at {%" PRIu64 " of %" PRIu64 " bytes}; {=%" PRIu64 " to %" PRIu64 "} are left",
                    h.offset, h.size, before, t->src->size);
    h.max_key = arena_str(a, key);
    return h.max_key.ptr && arena_push(a, &t->blocks, &t->nblocks, cap, &h, sizeof h) ? CKPT_OK
                                                                                      : fail_memory(err);
}

/* count_bytes_outside - sets t->bytes_outside. METADATA and INDEX are the sizes of the blocks of metadata and
 * index. */
static void count_bytes_outside(struct sstable *t, uint64_t metadata, uint64_t index)
{
    uint64_t all = SSTABLE_FOOTER + 2 * TRAILER;
    bool fits = checked_add(all, metadata, &all) && checked_add(all, index, &all);
    for (size_t i = 0; fits && i < t->nblocks; i++)
        fits = checked_add(all, t->blocks[i].size + TRAILER, &all);
    t->bytes_outside = fits && all < t->src->size ? t->src->size - all : 0;
}

ckpt_status sstable_open(source *src, arena *a, struct sstable *t, ckpt_error *err)
{
    unsigned char footer[SSTABLE_FOOTER];
    struct sstable_block index;
    size_t cap = 0;
    bool more = true;
    *t = (struct sstable){.src = src};
    if (src->size < sizeof footer)
        return fail(err, CKPT_ETRUNCATED, source_pos(src, 0),
                    "{%" PRIu64 " bytes}; a table has {=%u} at least", src->size, SSTABLE_FOOTER);
    CKPT_TRY(source_read(src, src->size - sizeof footer, footer, sizeof footer, err));
    cursor c = cursor_of(footer, sizeof footer - 8, source_pos(src, src->size - sizeof footer));
    (void)cursor_varint(&c);
    uint64_t metadata = cursor_varint(&c), offset = cursor_varint(&c), size = cursor_varint(&c);
    if (load_u64le(footer + sizeof footer - 8) != MAGIC)
        return fail(err, CKPT_EFORMAT, source_pos(src, src->size - 8),
                    "{other bytes} at the end than {=a table has}");
    if (c.bad)
        return fail(err, CKPT_EFORMAT, c.pos, "{a footer} without {=two handles}");
    ckpt_status st = load_block(src, offset, size, &index, err);
    error_add_position(st == CKPT_OK ? NULL : err, CKPT_NO_OFFSET, STR_LIT("index of the table"));
    while (st == CKPT_OK && more) {
        ckpt_str key;
        cursor value;
        st = sstable_next(&index, &key, &value, &more, err);
        if (st == CKPT_OK && more)
            st = add_handle(t, a, key, value, &cap, err);
    }
    sstable_unload(&index);
    count_bytes_outside(t, metadata, size);
    return st;
}

size_t sstable_find(const struct sstable *t, ckpt_str key)
{
    size_t low = 0, high = t->nblocks; /* the result is in [low, high] */
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (str_compare(t->blocks[mid].max_key, key) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}
