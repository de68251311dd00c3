/* parallel_rows.h - processes many tensors, each read once, on several threads; results are reported in order
 * and do not depend on the number of threads. */
#pragma once

#include "core/file.h"

/* A tensor, two tensors that are compared, or all bytes of a storage. */
struct parallel_item {
    ckpt_file *file, *other; /* other: NULL for one tensor */
    uint32_t row, other_row;
    uint32_t tag;            /* a number that only the caller uses */
    struct storage *storage; /* a storage instead of tensors, read as bytes; no other item has it */
    /* The elements (of a storage: bytes) to process, if COUNT is not 0: of one tensor for which
     * stream_can_split is true, or of a storage. Its chunks begin at FIRST, and the CRC of the storage is the
     * caller's to check. */
    uint64_t first, count;
};

struct parallel_context;

/* The size of a chunk of a large tensor. Chunk boundaries depend only on the tensor, so that joined results
 * are the same for any number of threads. */
#define PARALLEL_CHUNK_BYTES (64u << 20)
/* What all threads together may keep of sources with a block_size, which limits their number, and what one
 * should if larger blocks are better. */
#define PARALLEL_BLOCK_BYTES (48u << 20)
#define PARALLEL_LARGE_BLOCK (8u << 20)

/* A chunk of an item whose elements are contiguous (in both tensors). */
struct parallel_chunk {
    uint64_t first, count; /* elements */
    uint32_t crc[2]; /* of the stored bytes: [0] of the tensor, [1] of the other one; see stream_open_range */
    void *out;       /* the result: one block from malloc, which is freed after join_chunks */
};

struct parallel_job {
    bool defers_check;  /* the caller checks that the files did not change, once for many jobs */
    bool locates_items; /* process locates the storages that it reads; else all are located before */
    const struct parallel_item *items;
    struct parallel_item (*get_item)(void *user, size_t i); /* if ITEMS is NULL; called on any thread */
    size_t n;
    unsigned threads; /* 0: as pool_threads chooses */
    /* process - processes item I, on any thread, but never two items at a time that share a storage with an
     * unchecked CRC. It calls parallel_advance for the bytes that it has read. */
    ckpt_status (*process)(void *user, size_t i, struct parallel_context *run, ckpt_error *err);
    /* process_chunk - processes one chunk of item I, on any thread, several chunks at a time; NULL: no item
     * is split. join_chunks - joins the results of all chunks of I, on the thread that processed the
     * last one; it should call parallel_check_crc first. */
    ckpt_status (*process_chunk)(void *user, size_t i, struct parallel_chunk *c, struct parallel_context *run,
                                 ckpt_error *err);
    ckpt_status (*join_chunks)(void *user, size_t i, const struct parallel_chunk *chunks, size_t n,
                               ckpt_error *err);
    /* report - reports item I, in the order of the items, on the calling thread; nonzero stops the job. */
    int (*report)(void *user, size_t i);
    int (*progress)(void *user, uint64_t done, uint64_t total); /* calling thread; NULL: none */
    void *user, *progress_user;
};

/* parallel_run - processes all items. It uses one thread for less than 8 MiB in total, for compressed files,
 * and if wrong checksums are ignored, so that their notices come in order. */
ckpt_status parallel_run(const struct parallel_job *job, ckpt_error *err);
static inline uint64_t parallel_chunk_elements(uint64_t width) { return PARALLEL_CHUNK_BYTES / width; }
/* parallel_combine_crc - returns the CRC of ITEM's tensor, or of the other one if SIDE is 1, from CHUNKS. */
uint32_t parallel_combine_crc(enum crc_kind kind, const struct parallel_item *item,
                              const struct parallel_chunk *chunks, size_t count, int side);
/* parallel_check_crc - compares the CRCs of ITEM, computed from its chunks, with the recorded ones. */
ckpt_status parallel_check_crc(const struct parallel_item *item, const struct parallel_chunk *chunks,
                               size_t count, ckpt_error *err);
/* parallel_advance - counts BYTES more as processed; false: the callback should return, with any status. */
bool parallel_advance(struct parallel_context *run, uint64_t bytes);
/* parallel_worker - returns the number of the current thread, below pool_threads(threads). */
unsigned parallel_worker(const struct parallel_context *run);
