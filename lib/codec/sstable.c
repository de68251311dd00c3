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

/* check_block - fails unless the NBYTES stored bytes at BYTES and the type after them have the checksum that
 * follows. OFFSET is where the block is in the file. */
static ckpt_status check_block(const unsigned char *bytes, size_t nbytes, uint64_t offset, ckpt_error *err)
{
    uint32_t stored = sstable_unmask(load_u32le(bytes + nbytes + 1)),
             crc = crc_update(CRC_32C, 0, bytes, nbytes + 1);
    if (crc == stored)
        return CKPT_OK;
    return fail(err, CKPT_ECHECKSUM, offset,
                "a block of %zu bytes has the CRC-32C {%08" PRIx32 "}, the file records {=%08" PRIx32 "}\n"
                "the table is damaged: get the file again; `ckpt salvage` reads its other blocks",
                nbytes, crc, stored);
}

/* unpack_block - decompresses the *COUNT bytes of BLOCK, and sets *COUNT to the number of decompressed
 * bytes. */
static ckpt_status unpack_block(struct sstable_block *block, size_t *count, ckpt_error *err)
{
    cursor compressed = cursor_of(block->bytes, *count, block->at);
    size_t size;
    CKPT_TRY(snappy_read_size(compressed, &size, err));
    unsigned char *out = malloc(size + 1);
    CKPT_TRY_ALLOC(out, err);
    ckpt_status st = snappy_decode(compressed, out, size, err);
    free(block->bytes);
    block->bytes = out;
    *count = size;
    return st;
}

/* set_entries - sets the entries of BLOCK: its COUNT bytes without the restarts at their end. */
static ckpt_status set_entries(struct sstable_block *block, size_t count, ckpt_error *err)
{
    size_t max_restarts = count < 4 ? 0 : (count - 4) / 4;
    uint32_t restarts = count < 4 ? 1 : load_u32le(block->bytes + count - 4);
    if (restarts > max_restarts)
        return fail(err, CKPT_EFORMAT, block->at,
                    "a block of %zu bytes with {%" PRIu32 " restarts}; {=%zu} fit", count, restarts,
                    max_restarts);
    block->entries = cursor_of(block->bytes, count - 4 - (size_t)restarts * 4, block->at);
    return CKPT_OK;
}

static ckpt_status load_block(source *src, uint64_t offset, uint64_t size, struct sstable_block *block,
                              ckpt_error *err)
{
    uint64_t all;
    size_t n;
    *block = (struct sstable_block){.at = source_pos(src, offset), .at_first_entry = true};
    buf_init(&block->key, MAX_KEY);
    if (!checked_add(size, TRAILER, &all) || !range_within(offset, all, src->size) || !checked_size(all, &n))
        return fail(err, CKPT_ETRUNCATED, offset < src->size ? block->at : source_pos(src, src->size),
                    "a block of {=%" PRIu64 " bytes}, the file has {%" PRIu64 "} there", size,
                    offset < src->size ? src->size - offset : 0);
    CKPT_TRY_ALLOC(block->bytes = malloc(n), err);
    CKPT_TRY(source_read(src, offset, block->bytes, n, err));
    n -= TRAILER;
    CKPT_TRY(check_block(block->bytes, n, block->at, err));
    unsigned char type = block->bytes[n];
    if (type > 1)
        return fail(err, CKPT_EUNSUPPORTED, block->at,
                    "a block of compression {%u}; {=0 (none) and 1 (Snappy)} are read", type);
    if (type == 1)
        CKPT_TRY(unpack_block(block, &n, err));
    return set_entries(block, n, err);
}

ckpt_status sstable_load(const struct sstable *sstable, size_t index, struct sstable_block *block,
                         ckpt_error *err)
{
    ckpt_status st = load_block(sstable->src, sstable->blocks[index].offset, sstable->blocks[index].size,
                                block, err);
    block->max_key = sstable->blocks[index].max_key;
    block->keys_after = index ? sstable->blocks[index - 1].max_key : str_of(NULL, 0);
    return st;
}

void sstable_unload(struct sstable_block *block)
{
    free(block->bytes);
    block->bytes = NULL;
    buf_free(&block->key);
}

/* read_key - sets the key of BLOCK to the first SHARED bytes of the previous key and the next OTHERS bytes.
 * Sets *ASCENDS to whether it is greater than the previous key. False: the bytes are not there. */
static bool read_key(struct sstable_block *block, uint64_t shared, uint64_t others, bool *ascends)
{
    if (shared > block->key.len || others > block->entries.left)
        return false;
    ckpt_str added = str_of((const char *)cursor_take(&block->entries, (size_t)others), (size_t)others);
    *ascends = block->at_first_entry
                   ? !block->keys_after.ptr || str_compare(block->keys_after, added) < 0
                   : str_compare(str_skip(buf_view(&block->key), (size_t)shared), added) < 0;
    block->at_first_entry = false;
    block->key.len = (size_t)shared;
    buf_put(&block->key, added.ptr, added.len);
    return true;
}

ckpt_status sstable_next(struct sstable_block *block, ckpt_str *key, cursor *value, bool *more,
                         ckpt_error *err)
{
    cursor *c = &block->entries;
    bool ascends = true;
    *more = c->left > 0;
    if (!*more)
        return CKPT_OK;
    uint64_t shared = cursor_varint(c), others = cursor_varint(c), size = cursor_varint(c);
    bool ok = !c->bad && read_key(block, shared, others, &ascends) && size <= c->left;
    if (!buf_ok(&block->key))
        return block->key.no_memory
                   ? fail_memory(err)
                   : fail(err, CKPT_ELIMIT, block->at, "a key of {more} than {=%u bytes}", MAX_KEY);
    if (!ok)
        return fail(err, CKPT_EFORMAT, block->at, "an entry reaches beyond {the end} of {=its block}");
    *key = buf_view(&block->key);
    *value = cursor_sub(c, (size_t)size);
    bool is_in_block = !block->max_key.ptr || str_compare(*key, block->max_key) <= 0;
    return ascends && is_in_block
               ? CKPT_OK
               : fail(err, CKPT_EFORMAT, block->at, "the keys {do not ascend} at \"%.*s\", as {=they must}",
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
static ckpt_status add_handle(struct sstable *sstable, arena *a, ckpt_str key, cursor value, size_t *cap,
                              ckpt_error *err)
{
    struct sstable_handle h = {.offset = cursor_varint(&value), .size = cursor_varint(&value)};
    uint64_t end, before = sstable->nblocks ? sstable->blocks[sstable->nblocks - 1].offset +
                                                  sstable->blocks[sstable->nblocks - 1].size
                                            : 0;
    if (value.bad || value.left)
        return fail(err, CKPT_EFORMAT, value.pos, "{a malformed handle}; it has to be {=two numbers}");
    if (!checked_add(h.offset, h.size, &end) || end > sstable->src->size || h.offset < before)
        return fail(err, CKPT_EFORMAT, h.offset,
                    "a block at {%" PRIu64 " of %" PRIu64 " bytes}; {=%" PRIu64 " to %" PRIu64 "} are left",
                    h.offset, h.size, before, sstable->src->size);
    h.max_key = arena_str(a, key);
    return h.max_key.ptr && arena_push(a, &sstable->blocks, &sstable->nblocks, cap, &h, sizeof h)
               ? CKPT_OK
               : fail_memory(err);
}

/* count_bytes_outside - sets sstable->bytes_outside. METADATA and INDEX are the sizes of the blocks of
 * metadata and index. */
static void count_bytes_outside(struct sstable *sstable, uint64_t metadata, uint64_t index)
{
    uint64_t all = SSTABLE_FOOTER + 2 * TRAILER;
    bool fits = checked_add(all, metadata, &all) && checked_add(all, index, &all);
    for (size_t i = 0; fits && i < sstable->nblocks; i++)
        fits = checked_add(all, sstable->blocks[i].size + TRAILER, &all);
    sstable->bytes_outside = fits && all < sstable->src->size ? sstable->src->size - all : 0;
}

ckpt_status sstable_open(source *src, arena *a, struct sstable *sstable, ckpt_error *err)
{
    unsigned char footer[SSTABLE_FOOTER];
    struct sstable_block index;
    size_t cap = 0;
    bool more = true;
    *sstable = (struct sstable){.src = src};
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
            st = add_handle(sstable, a, key, value, &cap, err);
    }
    sstable_unload(&index);
    count_bytes_outside(sstable, metadata, size);
    return st;
}

size_t sstable_find(const struct sstable *sstable, ckpt_str key)
{
    size_t low = 0, high = sstable->nblocks; /* the result is in [low, high] */
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (str_compare(sstable->blocks[mid].max_key, key) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}
