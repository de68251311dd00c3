/* source_mem.c - bytes that are in memory already. */
#include <stdlib.h>

#include "io/source.h"

struct mem_source {
    source source;
    const unsigned char *data;
    struct source_watch *watch;
};

static ckpt_status mem_read(source *src, uint64_t off, void *out, size_t nbytes, ckpt_error *err)
{
    const struct mem_source *m = (const struct mem_source *)src;
    memcpy(out, m->data + off, nbytes);
    return m->watch ? source_watch_read(m->watch, nbytes, err) : CKPT_OK;
}

static void mem_close(source *src) { free(src); }

static ckpt_status mem_map(source *src, uint64_t off, const unsigned char **out, ckpt_error *err)
{
    (void)err;
    *out = ((struct mem_source *)src)->data + off;
    return CKPT_OK;
}

static void mem_watch(source *src, struct source_watch *watch) { ((struct mem_source *)src)->watch = watch; }

static const struct source_ops mem_ops = {
    .read_at = mem_read, .close = mem_close, .map = mem_map, .watch = mem_watch};

source *source_mem(const void *data, size_t size, uint64_t position)
{
    struct mem_source *m = malloc(sizeof *m);
    if (!m)
        return NULL;
    m->source = (source){.ops = &mem_ops, .size = size, .position = position, .refs = 1};
    m->data = data;
    m->watch = NULL;
    return &m->source;
}
