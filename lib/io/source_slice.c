/* source_slice.c - a source that is a byte range of another source. */
#include <inttypes.h>
#include <stdlib.h>

#include "io/source.h"

struct slice_source {
    source source;
    source *parent;
    uint64_t off;
};

static ckpt_status slice_read(source *src, uint64_t off, void *out, size_t nbytes, ckpt_error *err)
{
    struct slice_source *sl = (struct slice_source *)src;
    return source_read(sl->parent, sl->off + off, out, nbytes, err);
}

static void slice_close(source *src)
{
    source_unref(((struct slice_source *)src)->parent);
    free(src);
}

static void slice_advise(source *src) { source_advise_sequential(((struct slice_source *)src)->parent); }

static void slice_will_read(source *src, uint64_t off, uint64_t nbytes)
{
    const struct slice_source *sl = (const struct slice_source *)src;
    source_will_read(sl->parent, sl->off + off, nbytes);
}

static ckpt_status slice_locate(source *src, struct window *window, ckpt_error *err)
{
    const struct slice_source *sl = (const struct slice_source *)src;
    CKPT_TRY(sl->parent->ops->locate ? sl->parent->ops->locate(sl->parent, window, err) : CKPT_OK);
    src->position = source_pos(sl->parent, sl->off);
    return CKPT_OK;
}

static bool slice_extent(source *src, uint64_t off, int *fd, uint64_t *at)
{
    const struct slice_source *sl = (const struct slice_source *)src;
    return source_extent(sl->parent, sl->off + off, fd, at);
}

static ckpt_status slice_map(source *src, uint64_t off, const unsigned char **out, ckpt_error *err)
{
    const struct slice_source *sl = (const struct slice_source *)src;
    /* Any length would do: our caller, source_map, has checked the range. */
    return source_map(sl->parent, sl->off + off, 1, out, err);
}

static const struct source_ops slice_ops = {.read_at = slice_read,
                                            .close = slice_close,
                                            .locate = slice_locate,
                                            .advise_sequential = slice_advise,
                                            .will_read = slice_will_read,
                                            .extent = slice_extent,
                                            .map = slice_map};

ckpt_status source_slice(source *parent, uint64_t off, uint64_t size, source **out, ckpt_error *err)
{
    if (!range_within(off, size, parent->size))
        return fail(err, CKPT_ETRUNCATED, source_pos(parent, off),
                    "needs {=%" PRIu64 " bytes}, {%" PRIu64 "} are left", size,
                    off < parent->size ? parent->size - off : 0);
    uint64_t base = source_pos(parent, off);
    /* A slice of a slice refers to the outermost source, so that nested slices are not slower to read. */
    while (parent->ops == &slice_ops) {
        off += ((struct slice_source *)parent)->off;
        parent = ((struct slice_source *)parent)->parent;
    }
    struct slice_source *sl = malloc(sizeof *sl);
    CKPT_TRY_ALLOC(sl, err);
    sl->source = (source){.ops = &slice_ops,
                          .size = size,
                          .position = base,
                          .refs = 1,
                          .serializes_reads = parent->serializes_reads,
                          .block_size = parent->block_size,
                          .larger_is_better = parent->larger_is_better,
                          .is_remote = parent->is_remote};
    sl->parent = source_ref(parent);
    sl->off = off;
    *out = &sl->source;
    return CKPT_OK;
}

const source *source_root(const source *src, uint64_t *off)
{
    const struct slice_source *sl = (const struct slice_source *)src;
    *off = src->ops == &slice_ops ? sl->off : 0;
    return src->ops == &slice_ops ? sl->parent : src;
}
