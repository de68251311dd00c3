/* outlet.c - see outlet.h. The first piece ends where a page of the file does, so
 * that those behind it are whole pages. */
#include "io/outlet.h"

#include <stdlib.h>
#include <string.h>

#include "io/fd.h"

#define PAGE  4096u
#define LEAST 16u

ckpt_status outlet_open(struct outlet *o, sink *to, ckpt_error *err)
{
    *o = (struct outlet){.to = to, .block = aligned_alloc(PAGE, FD_CHUNK), .room = FD_CHUNK};
    return o->block ? CKPT_OK : fail_memory(err);
}

void outlet_close(struct outlet *o)
{
    free(o->block);
    o->block = NULL;
}

static void move_to(struct outlet *o, uint64_t at)
{
    o->at = at;
    o->len = 0;
    o->room = FD_CHUNK - (size_t)(at % PAGE);
}

ckpt_status outlet_flush(struct outlet *o, ckpt_error *err)
{
    if (o->len && o->to)
        CKPT_TRY(sink_patch(o->to, o->at, o->block, o->len, err));
    move_to(o, o->at + o->len); /* bounded: inside the sink */
    return CKPT_OK;
}

ckpt_status outlet_seek(struct outlet *o, uint64_t at, ckpt_error *err)
{
    if (at == o->at + o->len) /* bounded: inside the sink */
        return CKPT_OK;
    CKPT_TRY(outlet_flush(o, err));
    move_to(o, at);
    return CKPT_OK;
}

ckpt_status outlet_space(struct outlet *o, unsigned char **space, size_t *room, ckpt_error *err)
{
    if (o->room - o->len < LEAST)
        CKPT_TRY(outlet_flush(o, err));
    *room = o->room - o->len;
    *space = o->block + o->len;
    return CKPT_OK;
}

void outlet_add(struct outlet *o, size_t n) { o->len += n; }

ckpt_status outlet_put(struct outlet *o, const void *bytes, size_t n, ckpt_error *err)
{
    const unsigned char *p = bytes;
    while (n) {
        size_t room;
        unsigned char *to;
        CKPT_TRY(outlet_space(o, &to, &room, err));
        room = room < n ? room : n;
        memcpy(to, p, room);
        outlet_add(o, room);
        p += room;
        n -= room;
    }
    return CKPT_OK;
}

ckpt_status outlet_patch(struct outlet *o, uint64_t off, const void *bytes, size_t n, ckpt_error *err)
{
    uint64_t before = off < o->at ? o->at - off : 0;
    size_t first = before < n ? (size_t)before : n;
    if (off >= o->at + o->len) /* bounded: inside the sink */
        first = n;
    if (first && o->to)
        CKPT_TRY(sink_patch(o->to, off, bytes, first, err));
    if (n > first)
        memcpy(o->block + (off + first - o->at), (const char *)bytes + first, n - first);
    return CKPT_OK;
}
