/* window.c - see window.h. What the window cannot give, a fault included, is read by
 * itself, and so said as without it. Runs may be short, and their pieces out of order:
 * the window grows while one follows the other, reaches back once a piece was in front of
 * the last one, and is left alone, longer each time, when little of it was wanted. */
#include "io/window.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "io/fd.h"

#define SMALL ((size_t)16 * 1024) /* copying larger pieces costs more than asking the kernel */
#define NEAR  ((size_t)48 * 1024) /* no further from the last piece */
#define LEAST ((size_t)64 * 1024) /* of a window */
#define RESTS 1024u

static bool holds(const struct window *w, uint64_t at, size_t n)
{
    return w->len && at >= w->at && range_within(at - w->at, n, w->len);
}

/* worth - is a window of use for a piece at AT? */
static bool worth(struct window *w, uint64_t at)
{
    bool back = at < w->next;
    if (!w->next || (back ? w->next - at : at - w->next) > NEAR)
        return false;
    w->back = w->back || back;
    if (w->len && w->used < w->len / 4) {
        w->rest = w->rest ? w->rest < RESTS ? 2 * w->rest : RESTS : 1;
        w->due = w->rest;
        w->len = 0;
    }
    return !w->due || !w->due--;
}

/* slide - the window to the end of the last piece; false: the N bytes at AT are not in it. */
static bool slide(struct window *w, uint64_t at, size_t n)
{
    size_t got;
    bool on = w->len && w->next >= w->at && w->next - w->at <= w->len;
    uint64_t from = !w->back ? w->next : w->next > NEAR ? w->next - NEAR : 0;
    w->rest = on ? w->rest / 2 : w->rest;
    w->want = on && w->want < FD_CHUNK ? 2 * w->want : on ? FD_CHUNK : w->back ? 2 * LEAST : LEAST;
    w->len = w->used = 0;
    if (!w->bytes)
        w->bytes = malloc(FD_CHUNK);
    if (!w->bytes || !fd_pread(w->fd, w->bytes, w->want, from, &got))
        return false;
    w->at = from;
    w->len = got;
    return holds(w, at, n);
}

/* turn_to - the bytes that are held, and what was learnt of the places of pieces, are of one file. */
static void turn_to(struct window *w, int fd)
{
    if (w->fd == fd)
        return;
    w->fd = fd;
    w->len = w->used = 0;
    w->next = 0;
    w->back = false;
    w->rest = w->due = 0;
}

/* load_block - what S has from AT to the end of that block. */
static ckpt_status load_block(struct window *w, source *s, uint64_t at, size_t n, ckpt_error *err)
{
    w->block_len = 0;
    if (w->block_room < n) {
        free(w->block);
        w->block_room = 0;
        if (!(w->block = malloc(s->block)))
            return fail_memory(err);
        w->block_room = s->block;
    }
    CKPT_TRY(source_read(s, at, w->block, n, err));
    w->block_of = s;
    w->block_at = at;
    w->block_len = n;
    return CKPT_OK;
}

/* read_by_blocks - N bytes at OFF, which are all there. */
static ckpt_status read_by_blocks(struct window *w, source *s, uint64_t off, unsigned char *out, size_t n,
                                  ckpt_error *err)
{
    while (n) {
        uint64_t into = off - w->block_at;
        bool here = w->block_of == s && off >= w->block_at && into < w->block_len;
        size_t left = s->block - (size_t)(off % s->block), some;
        left = left < s->size - off ? left : (size_t)(s->size - off);
        if (!here && n >= left) { /* all that this block has: it need not be copied */
            some = left;
            CKPT_TRY(source_read(s, off, out, some, err));
        } else {
            if (!here)
                CKPT_TRY(load_block(w, s, off, left, err));
            some = w->block_len - (here ? (size_t)into : 0);
            some = some < n ? some : n;
            memcpy(out, w->block + (here ? (size_t)into : 0), some);
        }
        off += some;
        out += some;
        n -= some;
    }
    return CKPT_OK;
}

ckpt_status window_read(struct window *w, source *s, uint64_t off, void *out, size_t n, ckpt_error *err)
{
    int fd;
    uint64_t at;
    if (s->block && range_within(off, n, s->size))
        return read_by_blocks(w, s, off, out, n, err);
    if (n > SMALL || !range_within(off, n, s->size) || !source_extent(s, off, &fd, &at))
        return source_read(s, off, out, n, err);
    turn_to(w, fd);
    bool here = holds(w, at, n) || (worth(w, at) && slide(w, at, n));
    w->next = at + n; /* bounded: in the file */
    if (!here)
        return source_read(s, off, out, n, err);
    w->used += n; /* bounded: by what is copied */
    memcpy(out, w->bytes + (at - w->at), n);
    return CKPT_OK;
}

void window_close(struct window *w)
{
    free(w->bytes);
    free(w->block);
    w->bytes = w->block = NULL;
    w->len = w->block_len = w->block_room = 0;
}
