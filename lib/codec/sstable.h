/* sstable.h - the entries of a table as LevelDB and TensorFlow write it: keys and values, sorted by key, in
 * blocks that each have a CRC-32C. */
#ifndef CODEC_SSTABLE_H
#define CODEC_SSTABLE_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/cursor.h"
#include "io/source.h"

#define SSTABLE_FOOTER 48u /* bytes at the end of the file */

/* A block as it is stored: SIZE bytes at OFFSET, before its type and checksum. */
struct sstable_handle {
    ckpt_str last; /* no key of the block is greater than this, none of the next is smaller */
    uint64_t offset, size;
};

struct sstable {
    source *src;
    struct sstable_handle *block; /* those with data, in the order of their keys */
    size_t nblocks;
    uint64_t outside; /* bytes of the file that are in no block */
};

/* A block that was read, and the entry that was found last. */
struct sstable_block {
    unsigned char *bytes; /* decoded */
    cursor rest;          /* entries that follow */
    buf key;
    bool first; /* no entry was read yet */
    ckpt_str after,
        last;    /* its keys are greater than AFTER, and not greater than LAST; NULL: of the index itself */
    uint64_t at; /* of the block in the file */
};

/* sstable_unmask - the CRC-32C that a table stores as MASKED. */
uint32_t sstable_unmask(uint32_t masked);
/* sstable_has_magic - does SRC end as a table? */
bool sstable_has_magic(source *src);
/* sstable_open - *T is the table SRC; its blocks are in A. Refuses blocks that overlap or are not in the
 * file. */
ckpt_status sstable_open(source *src, arena *a, struct sstable *t, ckpt_error *err);
/* sstable_find - the block where KEY would be; nblocks: in none. */
size_t sstable_find(const struct sstable *t, ckpt_str key);
/* sstable_load - reads block I of T, and checks its CRC-32C; free B with sstable_unload, also after a
 * failure. */
ckpt_status sstable_load(const struct sstable *t, size_t i, struct sstable_block *b, ckpt_error *err);
/* sstable_next - the next entry: *KEY is valid until the next call, *VALUE as long as B. *MORE is false at
 * the end. Refuses keys that do not ascend. */
ckpt_status sstable_next(struct sstable_block *b, ckpt_str *key, cursor *value, bool *more, ckpt_error *err);
void sstable_unload(struct sstable_block *b);

#endif
