/* source_mem.c - bytes that are in memory already. */
#include <stdlib.h>

#include "io/source.h"

struct mem_source {
    source s;
    const unsigned char *data;
};

static ckpt_status mem_read(source *s, uint64_t off, void *out, size_t n, ckpt_error *err)
{
    (void)err;
    memcpy(out, ((struct mem_source *)s)->data + off, n);
    return CKPT_OK;
}

static void mem_close(source *s) { free(s); }

static const struct source_ops mem_ops = {.read_at = mem_read, .close = mem_close};

source *source_mem(const void *data, size_t size, uint64_t base)
{
    struct mem_source *m = malloc(sizeof *m);
    if (!m)
        return NULL;
    m->s = (source){.ops = &mem_ops, .size = size, .base = base, .refs = 1};
    m->data = data;
    return &m->s;
}
