/* sweep.h - many rows, each read once, by several threads; what comes of it is
 * handed on in order and does not depend on how many there were. */
#ifndef CORE_SWEEP_H
#define CORE_SWEEP_H

#include "core/file.h"

/* A row, or two that are read side by side. */
struct sweep_item {
    ckpt_file *file, *other; /* other: NULL for one row */
    uint32_t row, other_row;
    uint32_t tag; /* the caller's own */
};

struct sweep_run;

struct sweep {
    const struct sweep_item *items;
    size_t n;
    unsigned threads; /* 0: as many as are of use */
    /* work - item I, on any thread, no two at a time that share a storage whose CRC
     * is to be checked. Says by sweep_moved how it goes on. */
    ckpt_status (*work)(void *user, size_t i, struct sweep_run *run, ckpt_error *err);
    /* done - after work, in order of items, on the calling thread; nonzero stops. */
    int (*done)(void *user, size_t i);
    int (*progress)(void *user, uint64_t done, uint64_t total); /* calling thread; NULL: none */
    void *user, *progress_user;
};

/* sweep_run - all items. Files below 8 MiB, compressed ones and those whose wrong
 * checksums are to be ignored (each is a notice, in order) get one thread. */
ckpt_status sweep_run(const struct sweep *s, ckpt_error *err);
/* sweep_moved - work has dealt with BYTES more; false: it is to end, with any status. */
bool sweep_moved(struct sweep_run *run, uint64_t bytes);

#endif
