/* window.c - see window.h. A piece that is not in the window is read directly, so that faults
 * are reported as without a window. Runs of pieces may be short or out of order: windows grow while
 * pieces are consecutive, and begin before the last piece once a piece lay before its predecessor. If
 * little of a window was requested, pieces are read without one for a while, longer each time. */
#include "io/window.h"

#include <stdlib.h>
#include <string.h>

#include "io/fd.h"

#define MAX_PIECE   ((size_t)16 * 1024) /* copying a larger piece costs more than a system call */
#define MAX_GAP     ((size_t)48 * 1024) /* from the end of the last piece to the next */
#define MIN_WINDOW  ((size_t)64 * 1024) /* bytes of a window */
#define MAX_BACKOFF 1024u

static bool window_has(const struct window *w, uint64_t at, size_t n)
{
    return w->len && at >= w->pos && range_within(at - w->pos, n, w->len);
}

/* should_prefetch - returns true if reading ahead is likely to help at AT. Counts down the back-off. */
static bool should_prefetch(struct window *w, uint64_t at)
{
    bool backwards = at < w->last_end;
    if (!w->last_end || (backwards ? w->last_end - at : at - w->last_end) > MAX_GAP)
        return false;
    w->descending = w->descending || backwards;
    if (w->len && w->requested < w->len / 4) {
        w->backoff = w->backoff ? w->backoff < MAX_BACKOFF ? 2 * w->backoff : MAX_BACKOFF : 1;
        w->backoff_left = w->backoff;
        w->len = 0;
    }
    return !w->backoff_left || !w->backoff_left--;
}

/* move_window - reads the next window; false: the N bytes at AT are not in it. */
static bool move_window(struct window *w, uint64_t at, size_t n)
{
    size_t got;
    bool consecutive = w->len && w->last_end >= w->pos && w->last_end - w->pos <= w->len;
    uint64_t from = !w->descending ? w->last_end : w->last_end > MAX_GAP ? w->last_end - MAX_GAP : 0;
    w->backoff = consecutive ? w->backoff / 2 : w->backoff;
    w->window_size = consecutive && w->window_size < FD_CHUNK ? 2 * w->window_size
                     : consecutive                            ? FD_CHUNK
                     : w->descending                          ? 2 * MIN_WINDOW
                                                              : MIN_WINDOW;
    w->len = w->requested = 0;
    if (!w->bytes)
        w->bytes = malloc(FD_CHUNK);
    if (!w->bytes || !fd_pread(w->fd, w->bytes, w->window_size, from, &got))
        return false;
    w->pos = from;
    w->len = got;
    return window_has(w, at, n);
}

/* switch_file - drops the bytes in the window, and the positions of pieces, of the previous file. */
static void switch_file(struct window *w, int fd)
{
    if (w->fd == fd)
        return;
    w->fd = fd;
    w->len = w->requested = 0;
    w->last_end = 0;
    w->descending = false;
    w->backoff = w->backoff_left = 0;
}

/* load_block - reads the N bytes of S from AT to the end of their block into the buffer for blocks. */
static ckpt_status load_block(struct window *w, source *s, uint64_t at, size_t n, ckpt_error *err)
{
    w->block_len = 0;
    if (w->block_cap < n) {
        free(w->block);
        w->block_cap = 0;
        CKPT_TRY_ALLOC(w->block = malloc(s->block_size), err);
        w->block_cap = s->block_size;
    }
    CKPT_TRY(source_read(s, at, w->block, n, err));
    w->block_source = s;
    w->block_pos = at;
    w->block_len = n;
    return CKPT_OK;
}

/* read_by_blocks - reads N bytes at OFF, which are within S, in whole blocks. */
static ckpt_status read_by_blocks(struct window *w, source *s, uint64_t off, unsigned char *out, size_t n,
                                  ckpt_error *err)
{
    while (n) {
        bool is_in_block = w->block_source == s && off >= w->block_pos && off - w->block_pos < w->block_len;
        size_t left = s->block_size - (size_t)(off % s->block_size), block_bytes;
        left = left < s->size - off ? left : (size_t)(s->size - off);
        if (!is_in_block && n >= left) { /* the caller wants the block to its end: read it without a copy */
            block_bytes = left;
            CKPT_TRY(source_read(s, off, out, block_bytes, err));
        } else {
            if (!is_in_block)
                CKPT_TRY(load_block(w, s, off, left, err));
            size_t at = (size_t)(off - w->block_pos);
            block_bytes = w->block_len - at < n ? w->block_len - at : n;
            memcpy(out, w->block + at, block_bytes);
        }
        off += block_bytes;
        out += block_bytes;
        n -= block_bytes;
    }
    return CKPT_OK;
}

ckpt_status window_read(struct window *w, source *s, uint64_t off, void *out, size_t n, ckpt_error *err)
{
    int fd;
    uint64_t at;
    if (s->block_size && range_within(off, n, s->size))
        return read_by_blocks(w, s, off, out, n, err);
    if (n > MAX_PIECE || !range_within(off, n, s->size) || !source_extent(s, off, &fd, &at))
        return source_read(s, off, out, n, err);
    switch_file(w, fd);
    bool is_in_window = window_has(w, at, n) || (should_prefetch(w, at) && move_window(w, at, n));
    w->last_end = at + n;
    if (!is_in_window)
        return source_read(s, off, out, n, err);
    w->requested += n;
    memcpy(out, w->bytes + (at - w->pos), n);
    return CKPT_OK;
}

ckpt_status window_locate(struct window *w, source *s, ckpt_error *err)
{
    return s->ops->locate ? s->ops->locate(s, w, err) : CKPT_OK;
}

void window_close(struct window *w)
{
    free(w->bytes);
    free(w->block);
    w->bytes = w->block = NULL;
    w->len = w->block_len = w->block_cap = 0;
}
