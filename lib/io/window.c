/* window.c - see window.h. A piece that is not in the window is read directly, so that faults
 * are reported as without a window. Runs of pieces may be short or out of order: windows grow while
 * pieces are consecutive, and begin before the last piece once a piece lay before its predecessor. If
 * little of a window was requested, pieces are read without one for a while, longer each time. */
#include "io/window.h"

#include <stdlib.h>

#include "io/fd.h"

#define MAX_PIECE   ((size_t)16 * 1024) /* copying a larger piece costs more than a system call */
#define MAX_GAP     ((size_t)48 * 1024) /* from the end of the last piece to the next */
#define MIN_WINDOW  ((size_t)64 * 1024) /* bytes of a window */
#define MAX_BACKOFF 1024u

static bool window_has(const struct window *window, uint64_t at, size_t nbytes)
{
    return window->len && at >= window->pos && range_within(at - window->pos, nbytes, window->len);
}

/* should_prefetch - returns true if reading ahead is likely to help at AT. Counts down the back-off. */
static bool should_prefetch(struct window *window, uint64_t at)
{
    bool backwards = at < window->last_end;
    if (!window->last_end || (backwards ? window->last_end - at : at - window->last_end) > MAX_GAP)
        return false;
    window->descending = window->descending || backwards;
    if (window->len && window->requested < window->len / 4) {
        if (window->backoff < MAX_BACKOFF)
            window->backoff = window->backoff ? 2 * window->backoff : 1;
        window->backoff_left = window->backoff;
        window->len = 0;
    }
    return !window->backoff_left || !window->backoff_left--;
}

/* read_ahead - reads the next window: from the end of the last piece on, or if pieces come in descending
 * order, from before it. False: the NBYTES bytes at AT are not in it, and have to be read by themselves. */
static bool read_ahead(struct window *window, uint64_t at, size_t nbytes)
{
    size_t got;
    bool consecutive = window->len && window->last_end >= window->pos &&
                       window->last_end - window->pos <= window->len;
    uint64_t from = window->last_end;
    if (window->descending)
        from = from > MAX_GAP ? from - MAX_GAP : 0;
    if (consecutive) {
        window->backoff /= 2;
        window->window_size = window->window_size < FD_CHUNK ? 2 * window->window_size : FD_CHUNK;
    } else {
        window->window_size = window->descending ? 2 * MIN_WINDOW : MIN_WINDOW;
    }
    window->len = window->requested = 0;
    if (!window->bytes)
        window->bytes = malloc(FD_CHUNK);
    if (!window->bytes || !fd_pread(window->fd, window->bytes, window->window_size, from, &got))
        return false;
    window->pos = from;
    window->len = got;
    return window_has(window, at, nbytes);
}

/* switch_file - starts anew if FD is not the file of the last piece. */
static void switch_file(struct window *window, int fd)
{
    if (window->fd == fd)
        return;
    window->fd = fd;
    window->len = window->requested = 0;
    window->last_end = 0;
    window->descending = false;
    window->backoff = window->backoff_left = 0;
}

/* find_block_end - returns where the block of SRC with byte OFF ends, or where the caller stops in it. */
static uint64_t find_block_end(const struct window *window, const source *src, uint64_t off)
{
    uint64_t blocks = src->larger_is_better ? window->max_block / src->block_size : 1;
    uint64_t size = src->block_size * (blocks ? blocks : 1), left = size - off % size;
    uint64_t end = left < src->size - off ? off + left : src->size;
    return window->block_end > off && window->block_end < end ? window->block_end : end;
}

/* load_block - reads the NBYTES bytes of SRC from AT to the end of their block into the buffer for blocks. */
static ckpt_status load_block(struct window *window, source *src, uint64_t at, size_t nbytes, ckpt_error *err)
{
    window->block_len = 0;
    if (window->block_cap < nbytes) {
        free(window->block);
        window->block_cap = 0;
        size_t size = nbytes > src->block_size ? nbytes : src->block_size;
        CKPT_TRY_ALLOC(window->block = malloc(size), err);
        window->block_cap = size;
    }
    CKPT_TRY(source_read(src, at, window->block, nbytes, err));
    window->block_source = src;
    window->block_pos = at;
    window->block_len = nbytes;
    return CKPT_OK;
}

/* read_by_blocks - reads NBYTES bytes at OFF, which are within SRC, in whole blocks. */
static ckpt_status read_by_blocks(struct window *window, source *src, uint64_t off, unsigned char *out,
                                  size_t nbytes, ckpt_error *err)
{
    while (nbytes) {
        bool is_in_block = window->block_source == src && off >= window->block_pos &&
                           off - window->block_pos < window->block_len;
        size_t to_block_end = (size_t)(find_block_end(window, src, off) - off), nread;
        if (!is_in_block && nbytes >= to_block_end) { /* the caller wants all of it: read it without a copy */
            nread = to_block_end;
            CKPT_TRY(source_read(src, off, out, nread, err));
        } else {
            if (!is_in_block)
                CKPT_TRY(load_block(window, src, off, to_block_end, err));
            size_t at = (size_t)(off - window->block_pos);
            nread = window->block_len - at < nbytes ? window->block_len - at : nbytes;
            memcpy(out, window->block + at, nread);
        }
        off += nread;
        out += nread;
        nbytes -= nread;
    }
    return CKPT_OK;
}

ckpt_status window_read(struct window *window, source *src, uint64_t off, void *out, size_t nbytes,
                        ckpt_error *err)
{
    int fd;
    uint64_t at;
    if (src->block_size && range_within(off, nbytes, src->size))
        return read_by_blocks(window, src, off, out, nbytes, err);
    if (nbytes > MAX_PIECE || !range_within(off, nbytes, src->size) || !source_extent(src, off, &fd, &at))
        return source_read(src, off, out, nbytes, err);
    switch_file(window, fd);
    bool is_in_window = window_has(window, at, nbytes) ||
                        (should_prefetch(window, at) && read_ahead(window, at, nbytes));
    window->last_end = at + nbytes;
    if (!is_in_window)
        return source_read(src, off, out, nbytes, err);
    window->requested += nbytes;
    memcpy(out, window->bytes + (at - window->pos), nbytes);
    return CKPT_OK;
}

ckpt_status window_locate(struct window *window, source *src, ckpt_error *err)
{
    return src->ops->locate ? src->ops->locate(src, window, err) : CKPT_OK;
}

void window_close(struct window *window)
{
    free(window->bytes);
    free(window->block);
    window->bytes = window->block = NULL;
    window->len = window->block_len = window->block_cap = 0;
}
