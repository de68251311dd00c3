/* source_mem.c - bytes that are in memory already. */
#include <stdlib.h>

#include "io/source.h"

struct mem_source {
    source source;
    const unsigned char *data;
    struct source_watch *watch;
};

static ckpt_status mem_read(source *s, uint64_t off, void *out, size_t n, ckpt_error *err)
{
    const struct mem_source *m = (const struct mem_source *)s;
    memcpy(out, m->data + off, n);
    return m->watch ? source_watch_read(m->watch, n, err) : CKPT_OK;
}

static void mem_close(source *s) { free(s); }

static ckpt_status mem_map(source *s, uint64_t off, const unsigned char **out, ckpt_error *err)
{
    (void)err;
    *out = ((struct mem_source *)s)->data + off;
    return CKPT_OK;
}

static void mem_watch(source *s, struct source_watch *w) { ((struct mem_source *)s)->watch = w; }

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
