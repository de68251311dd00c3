/* block_cache.h - decoded blocks of compressed data, kept while they may be read again: a few MiB of them in
 * memory, others in a temporary file. One cache serves all tensors of a file and any number of threads. */
#pragma once

#include "io/spool.h"

typedef struct block_cache block_cache;
struct cached_block;

/* A block as it is stored: STORED bytes at OFFSET of SRC, which decode to SIZE bytes. */
struct block {
    source *src;
    uint64_t offset, stored, size;
    uint64_t start;   /* offset of its decoded bytes in the source that source_blocks makes */
    const char *file; /* name of the file SRC, for errors; NULL: the file that was opened */
};

/* A decoder of blocks. decode - decodes FROM, the stored bytes of one block, to TO; several threads may
 * call it at the same time. */
struct block_decoder {
    const char *name; /* "zlib", for errors */
    ckpt_status (*decode)(void *user, source *from, spool *to, ckpt_error *err);
    void *user;
};

#define BLOCKS_IN_MEMORY ((uint64_t)8 << 20) /* bytes */
#define BLOCKS_IN_FILE   ((uint64_t)4 << 30) /* bytes */

/* block_cache_new - returns a cache with one reference that keeps at most MAX_MEMORY decoded bytes in memory
 * and MAX_FILE in a file, which is made when it is needed. NULL: no memory. */
block_cache *block_cache_new(uint64_t max_memory, uint64_t max_file);
void block_cache_ref(block_cache *cache);
void block_cache_unref(block_cache *cache); /* NULL is allowed */
/* block_cache_read - reads NBYTES bytes at OFF of the decoded bytes of BLOCK, which DECODER decodes if the
 * cache does not have them. Each block has a SLOT, which is NULL at first and is then used by the cache
 * alone. A block larger than half of MAX_MEMORY goes to the file, even if it is larger than MAX_FILE. */
ckpt_status block_cache_read(block_cache *cache, struct cached_block **slot, const struct block *block,
                             const struct block_decoder *decoder, uint64_t off, void *out, size_t nbytes,
                             ckpt_error *err);
/* block_cache_drop - frees the block of SLOT, which is not used any more. */
void block_cache_drop(block_cache *cache, struct cached_block **slot);

/* source_blocks - makes *OUT, a source of the decoded bytes of COUNT blocks, one after the other. A block is
 * decoded when it is first read; if it does not decode to its size, reading fails with CKPT_EFORMAT. *OUT
 * takes references to CACHE and to each SRC; BLOCK and DECODER must outlive it. Fails with CKPT_ETRUNCATED if
 * stored bytes are outside of SRC. */
ckpt_status source_blocks(block_cache *cache, struct block *block, size_t count,
                          const struct block_decoder *decoder, source **out, ckpt_error *err);
