/* source_elements.c - elements of another source, which are converted when they are read. */
#include <stdalign.h>
#include <stdlib.h>

#include "io/source.h"

#define AT_ONCE 1024u /* elements that are converted at a time */
#define WIDEST  8u    /* bytes of an element, before and after */

struct elements_source {
    source source;
    source *parent;
    uint64_t offset;
    struct element_converter how;
    alignas(max_align_t) unsigned char user[];
};

static ckpt_status elements_read(source *src, uint64_t off, void *to, size_t nbytes, ckpt_error *err)
{
    const struct elements_source *s = (const struct elements_source *)(const void *)src;
    unsigned char stored[AT_ONCE * WIDEST], converted[AT_ONCE * WIDEST], *out = to;
    size_t width = s->how.out_bytes;
    while (nbytes) {
        size_t skip = (size_t)(off % width), room = AT_ONCE * width - skip;
        size_t take = nbytes < room ? nbytes : room, count = (skip + take + width - 1) / width;
        uint64_t at = s->offset + off / width * s->how.in_bytes;
        CKPT_TRY(source_read(s->parent, at, stored, count * s->how.in_bytes, err));
        s->how.convert(s->user, stored, count, converted);
        memcpy(out, converted + skip, take);
        out += take;
        off += take;
        nbytes -= take;
    }
    return CKPT_OK;
}

static void elements_close(source *src)
{
    source_unref(((struct elements_source *)(void *)src)->parent);
    free(src);
}

source *source_elements(source *parent, uint64_t off, uint64_t size, const struct element_converter *how,
                        const void *user, size_t user_size)
{
    static const struct source_ops ops = {.read_at = elements_read, .close = elements_close};
    struct elements_source *s = calloc(1, sizeof *s + user_size);
    if (!s)
        return NULL;
    s->source = (source){.ops = &ops,
                         .size = size,
                         .position = CKPT_NO_OFFSET,
                         .refs = 1,
                         .serializes_reads = parent->serializes_reads,
                         .block_size = parent->block_size};
    s->parent = source_ref(parent);
    s->offset = off;
    s->how = *how;
    memcpy(s->user, user, user_size);
    return &s->source;
}
