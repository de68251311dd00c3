/* window.h - joins reads of small pieces, near each other in a file, into few large reads, for one thread. */
#pragma once

#include "io/source.h"

/* A window is empty when all its fields are 0. */
struct window {
    unsigned char *bytes;
    int fd; /* the file whose bytes [pos, pos + len) are in BYTES */
    uint64_t pos;
    size_t len, requested; /* bytes in BYTES; how many of them were requested */
    size_t window_size;    /* bytes to read for the next window */
    uint64_t last_end;     /* where the last piece ended */
    bool descending;       /* a piece lay before its predecessor in the file */
    unsigned backoff;      /* after a window of which little was read: number of pieces to read without one */
    unsigned backoff_left; /* how many of them are still to be read */
    unsigned char *block;  /* bytes [block_pos, block_pos + block_len) of BLOCK_SOURCE */
    const source *block_source; /* the source of the bytes in BLOCK */
    uint64_t block_pos;
    size_t block_len, block_cap;
    size_t max_block;   /* bytes that BLOCK may take for a source with larger_is_better; 0: one block */
    uint64_t block_end; /* where in its source the caller will stop, to read no more; 0: unknown */
};

/* window_read - does what source_read does, but reads a small piece close to the last one together with the
 * bytes around it, and reads a source that has a block size in whole blocks. Every source outlives WINDOW. */
ckpt_status window_read(struct window *window, source *src, uint64_t off, void *out, size_t nbytes,
                        ckpt_error *err);
/* window_locate - sets the position of SRC (source_locate), whose bytes will be read next. What must be read
 * for this alone, such as the header of a member of an archive, is read by WINDOW. */
ckpt_status window_locate(struct window *window, source *src, ckpt_error *err);
void window_close(struct window *window);
