/* window.h - small pieces that lie near each other in a file, read by one thread in few
 * and large reads. */
#ifndef IO_WINDOW_H
#define IO_WINDOW_H

#include "io/source.h"

/* All 0: empty. */
struct window {
    unsigned char *bytes;
    int fd; /* whose bytes [at, at + len) are in it */
    uint64_t at;
    size_t len, used;   /* how many are in it, how many of them were asked for */
    size_t want;        /* bytes that it reads */
    uint64_t next;      /* where the last piece ended */
    bool back;          /* pieces are out of order */
    unsigned rest, due; /* pieces read by themselves after a window that was of no use; still to come */
    unsigned char *block;   /* bytes [block_at, block_at + block_len) … */
    const source *block_of; /* … of this source, which is best read in blocks */
    uint64_t block_at;
    size_t block_len, block_room;
};

/* window_read - source_read, but a small piece shortly behind the last one brings those
 * around it along; of a source with a block size whole blocks are read. Every source outlives W. */
ckpt_status window_read(struct window *w, source *s, uint64_t off, void *out, size_t n, ckpt_error *err);
void window_close(struct window *w);

#endif
