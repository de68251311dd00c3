/* source_patched.c - a file with patches applied, before they are written. */
#include <stdlib.h>

#include "io/journal.h"

bool patches_add(struct patches *patches, uint64_t offset, ckpt_str bytes)
{
    if (patches->n == PATCHES_MAX)
        return false;
    patches->patch[patches->n++] = (struct patch){offset, bytes};
    return true;
}

struct patched_source {
    source source;
    source *parent;
    const struct patches *patches;
};

/* apply_patch - copies the bytes of PATCH that are within the NBYTES bytes at OFF. */
static void apply_patch(const struct patch *patch, uint64_t off, unsigned char *out, size_t nbytes)
{
    uint64_t end = off + nbytes, stop = patch->offset + patch->bytes.len;
    uint64_t from = patch->offset > off ? patch->offset : off, to = stop < end ? stop : end;
    if (from < to)
        memcpy(out + (from - off), patch->bytes.ptr + (from - patch->offset), (size_t)(to - from));
}

static ckpt_status patched_read(source *src, uint64_t off, void *out, size_t nbytes, ckpt_error *err)
{
    const struct patched_source *t = (const struct patched_source *)src;
    uint64_t left = off < t->parent->size ? t->parent->size - off : 0;
    size_t parent_bytes = nbytes < left ? nbytes : (size_t)left;
    if (parent_bytes)
        CKPT_TRY(source_read(t->parent, off, out, parent_bytes, err));
    memset((char *)out + parent_bytes, 0, nbytes - parent_bytes);
    for (size_t i = 0; i < t->patches->n; i++)
        apply_patch(&t->patches->patch[i], off, out, nbytes);
    return CKPT_OK;
}

static void patched_close(source *src)
{
    source_unref(((struct patched_source *)src)->parent);
    free(src);
}

static const struct source_ops patched_ops = {.read_at = patched_read, .close = patched_close};

source *source_patched(source *parent, const struct patches *patches)
{
    struct patched_source *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    t->source = (source){.ops = &patched_ops, .size = patches->new_size, .position = 0, .refs = 1};
    t->parent = source_ref(parent);
    t->patches = patches;
    return &t->source;
}
