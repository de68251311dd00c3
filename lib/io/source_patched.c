/* source_patched.c - a file with patches applied, before they are written. */
#include <stdlib.h>
#include <string.h>

#include "io/journal.h"

bool patches_add(struct patches *p, uint64_t offset, ckpt_str bytes)
{
    if (p->n == PATCHES_MAX)
        return false;
    p->patch[p->n++] = (struct patch){offset, bytes};
    return true;
}

struct patched_source {
    source source;
    source *parent;
    const struct patches *patches;
};

/* apply_patch - copies the bytes of X that are within the N bytes at OFF. */
static void apply_patch(const struct patch *x, uint64_t off, unsigned char *out, size_t n)
{
    uint64_t end = off + n, stop = x->offset + x->bytes.len;
    uint64_t from = x->offset > off ? x->offset : off, to = stop < end ? stop : end;
    if (from < to)
        memcpy(out + (from - off), x->bytes.ptr + (from - x->offset), (size_t)(to - from));
}

static ckpt_status patched_read(source *s, uint64_t off, void *out, size_t n, ckpt_error *err)
{
    const struct patched_source *t = (const struct patched_source *)s;
    uint64_t left = off < t->parent->size ? t->parent->size - off : 0;
    size_t parent_bytes = n < left ? n : (size_t)left;
    if (parent_bytes)
        CKPT_TRY(source_read(t->parent, off, out, parent_bytes, err));
    memset((char *)out + parent_bytes, 0, n - parent_bytes);
    for (size_t i = 0; i < t->patches->n; i++)
        apply_patch(&t->patches->patch[i], off, out, n);
    return CKPT_OK;
}

static void patched_close(source *s)
{
    source_unref(((struct patched_source *)s)->parent);
    free(s);
}

static const struct source_ops patched_ops = {.read_at = patched_read, .close = patched_close};

source *source_patched(source *parent, const struct patches *p)
{
    struct patched_source *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    t->source = (source){.ops = &patched_ops, .size = p->new_size, .position = 0, .refs = 1};
    t->parent = source_ref(parent);
    t->patches = p;
    return &t->source;
}
