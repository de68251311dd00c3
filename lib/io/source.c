/* source.c - the one bounds check in front of every kind of source. */
#include "io/source.h"

#include <inttypes.h>

#include "base/checked.h"

ckpt_status source_read(source *s, uint64_t off, void *out, size_t n, ckpt_error *err)
{
    if (!range_within(off, n, s->size))
        return fail(err, CKPT_ETRUNCATED, source_pos(s, off), "needs {=%zu bytes}, {%" PRIu64 "} are left", n,
                    off < s->size ? s->size - off : 0);
    return n ? s->ops->read_at(s, off, out, n, err) : CKPT_OK;
}

source *source_ref(source *s)
{
    s->refs++;
    return s;
}

void source_unref(source *s)
{
    if (s && --s->refs == 0)
        s->ops->close(s);
}

uint64_t source_pos(const source *s, uint64_t off)
{
    uint64_t at;
    return s->base != CKPT_NO_OFFSET && checked_add(s->base, off, &at) ? at : CKPT_NO_OFFSET;
}

void source_sequential(source *s)
{
    if (s->ops->sequential)
        s->ops->sequential(s);
}

bool source_extent(source *s, uint64_t off, int *fd, uint64_t *at)
{
    return s->ops->extent && off <= s->size && s->ops->extent(s, off, fd, at);
}
