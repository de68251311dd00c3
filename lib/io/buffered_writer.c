/* buffered_writer.c - see buffered_writer.h. The first block ends at a page boundary of the file, so that
 * all later ones are aligned. */
#include "io/buffered_writer.h"

#include <stdlib.h>
#include <string.h>

#include "io/fd.h"

#define PAGE      4096u
#define MIN_SPACE 1024u /* bytes; more than a quantization block of any dtype has, converted or not */

ckpt_status buffered_open(struct buffered_writer *w, sink *to, ckpt_error *err)
{
    *w = (struct buffered_writer){.to = to, .block = aligned_alloc(PAGE, FD_CHUNK), .capacity = FD_CHUNK};
    return w->block ? CKPT_OK : fail_memory(err);
}

void buffered_close(struct buffered_writer *w)
{
    free(w->block);
    w->block = NULL;
}

static void start_block_at(struct buffered_writer *w, uint64_t pos)
{
    w->pos = pos;
    w->len = 0;
    w->capacity = FD_CHUNK - (size_t)(pos % PAGE);
}

ckpt_status buffered_flush(struct buffered_writer *w, ckpt_error *err)
{
    if (w->len && w->to)
        CKPT_TRY(sink_patch(w->to, w->pos, w->block, w->len, err));
    start_block_at(w, w->pos + w->len);
    return CKPT_OK;
}

ckpt_status buffered_seek(struct buffered_writer *w, uint64_t pos, ckpt_error *err)
{
    if (pos == w->pos + w->len)
        return CKPT_OK;
    CKPT_TRY(buffered_flush(w, err));
    start_block_at(w, pos);
    return CKPT_OK;
}

ckpt_status buffered_get_space(struct buffered_writer *w, unsigned char **space, size_t *room,
                               ckpt_error *err)
{
    if (w->capacity - w->len < MIN_SPACE)
        CKPT_TRY(buffered_flush(w, err));
    *room = w->capacity - w->len;
    *space = w->block + w->len;
    return CKPT_OK;
}

void buffered_add(struct buffered_writer *w, size_t n) { w->len += n; }

ckpt_status buffered_put(struct buffered_writer *w, const void *bytes, size_t n, ckpt_error *err)
{
    const unsigned char *p = bytes;
    while (n) {
        size_t room;
        unsigned char *to;
        CKPT_TRY(buffered_get_space(w, &to, &room, err));
        room = room < n ? room : n;
        memcpy(to, p, room);
        buffered_add(w, room);
        p += room;
        n -= room;
    }
    return CKPT_OK;
}

ckpt_status buffered_patch(struct buffered_writer *w, uint64_t off, const void *bytes, size_t n,
                           ckpt_error *err)
{
    uint64_t before = off < w->pos ? w->pos - off : 0;
    size_t written = before < n ? (size_t)before : n;
    if (off >= w->pos + w->len)
        written = n;
    if (written && w->to)
        CKPT_TRY(sink_patch(w->to, off, bytes, written, err));
    if (n > written)
        memcpy(w->block + (off + written - w->pos), (const char *)bytes + written, n - written);
    return CKPT_OK;
}
