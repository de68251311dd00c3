/* sstable.h - reads the tables of LevelDB and TensorFlow: keys and values, sorted by key, in blocks with a
 * CRC-32C each. */
#pragma once

#include "base/buf.h"
#include "base/cursor.h"
#include "io/source.h"

#define SSTABLE_FOOTER 48u /* bytes at the end of the file */

/* Where a block is stored: SIZE bytes at OFFSET; its type and checksum follow them. */
struct sstable_handle {
    ckpt_str max_key; /* no key of the block is greater; all keys of the next block are */
    uint64_t offset, size;
};

struct sstable {
    source *src;
    struct sstable_handle *blocks; /* the data blocks, in the order of their keys */
    size_t nblocks;
    uint64_t bytes_outside; /* bytes of the file that are in no block */
};

/* A block in memory, and the entry that was read last. */
struct sstable_block {
    unsigned char *bytes; /* uncompressed */
    cursor entries;       /* those not read yet */
    buf key;
    bool at_first_entry;          /* no entry was read yet */
    ckpt_str keys_after, max_key; /* the index allows keys > keys_after and <= max_key; .ptr NULL: no limit */
    uint64_t at;                  /* offset of the block in the file */
};

/* sstable_unmask - returns the CRC-32C that a table stores as MASKED. */
uint32_t sstable_unmask(uint32_t masked);
/* sstable_has_magic - returns true if SRC ends with the magic number of a table. */
bool sstable_has_magic(source *src);
/* sstable_open - sets *SSTABLE to the table SRC, with its list of blocks in A. Refuses blocks that overlap or
 * are not in the file. */
ckpt_status sstable_open(source *src, arena *a, struct sstable *sstable, ckpt_error *err);
/* sstable_find - returns the number of the block in which KEY would be; SSTABLE->nblocks: KEY is greater than
 * all keys. */
size_t sstable_find(const struct sstable *sstable, ckpt_str key);
/* sstable_load - reads block INDEX of SSTABLE, and checks its CRC-32C. The caller frees BLOCK with
 * sstable_unload, also after a failure. */
ckpt_status sstable_load(const struct sstable *sstable, size_t index, struct sstable_block *block,
                         ckpt_error *err);
/* sstable_next - reads the next entry: *KEY is valid until the next call, *VALUE until BLOCK is unloaded.
 * Sets *MORE to false at the end of the block. Refuses a key that is not greater than the one before it. */
ckpt_status sstable_next(struct sstable_block *block, ckpt_str *key, cursor *value, bool *more,
                         ckpt_error *err);
void sstable_unload(struct sstable_block *block);
