/* sweep.h - many rows, each read once, by several threads; what comes of it is
 * handed on in order and does not depend on how many there were. */
#ifndef CORE_SWEEP_H
#define CORE_SWEEP_H

#include "core/file.h"

/* A row, two that are read side by side, or all bytes of a storage. */
struct sweep_item {
    ckpt_file *file, *other; /* other: NULL for one row */
    uint32_t row, other_row;
    uint32_t tag; /* the caller's own */
    struct storage *storage; /* instead of rows, in elements of one byte; no other item's */
};

struct sweep_run;

/* What of large rows is dealt with at once; the places of the cuts depend on
 * nothing but the row, so that what is joined from parts is the same for any
 * number of threads. */
#define SWEEP_PART (64u << 20)

/* A part of an item whose elements lie one behind the other (on both sides). */
struct sweep_part {
    uint64_t first, count; /* elements */
    uint32_t crc[2];       /* of the stored bytes read by stream_open_part, of the row and of the other */
    void *out;             /* what was found: one block of malloc, which the sweep frees */
};

struct sweep {
    const struct sweep_item *items;
    struct sweep_item (*item)(void *user, size_t i); /* instead of items, on any thread */
    size_t n;
    unsigned threads; /* 0: as many as are of use */
    /* work - item I, on any thread, no two at a time that share a storage whose CRC
     * is to be checked. Says by sweep_moved how it goes on. */
    ckpt_status (*work)(void *user, size_t i, struct sweep_run *run, ckpt_error *err);
    /* part - work, but for one part of item I, on any thread, several at a time; NULL:
     * rows are never cut. join - when all parts of it are done, on the thread that
     * did the last one; begins with sweep_check. */
    ckpt_status (*part)(void *user, size_t i, struct sweep_part *p, struct sweep_run *run, ckpt_error *err);
    ckpt_status (*join)(void *user, size_t i, const struct sweep_part *parts, size_t n, ckpt_error *err);
    /* done - after work, in order of items, on the calling thread; nonzero stops. */
    int (*done)(void *user, size_t i);
    int (*progress)(void *user, uint64_t done, uint64_t total); /* calling thread; NULL: none */
    void *user, *progress_user;
};

/* sweep_run - all items. Files below 8 MiB, compressed ones and those whose wrong
 * checksums are to be ignored (each is a notice, in order) get one thread. */
ckpt_status sweep_run(const struct sweep *s, ckpt_error *err);
/* sweep_cut - how many elements of WIDTH bytes make a part. */
static inline uint64_t sweep_cut(uint64_t width) { return SWEEP_PART / width; }
/* sweep_crc - of the parts of X, put together; SIDE 1: of other. */
uint32_t sweep_crc(const struct sweep_item *x, const struct sweep_part *parts, size_t n, int side);
/* sweep_check - holds the CRC of the parts of X, put together, against the ones
 * recorded. Errors name the file. */
ckpt_status sweep_check(const struct sweep_item *x, const struct sweep_part *parts, size_t n,
                        ckpt_error *err);
/* sweep_moved - work has dealt with BYTES more; false: it is to end, with any status. */
bool sweep_moved(struct sweep_run *run, uint64_t bytes);
/* sweep_worker - number of the thread that works, below pool_threads(threads). */
unsigned sweep_worker(const struct sweep_run *run);

#endif
