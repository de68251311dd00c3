/* source.c - checks bounds before any kind of source is read. */
#include "io/source.h"

#include <inttypes.h>
#include <stdlib.h>

#define CHUNK (256u * 1024u)

static ckpt_status check_range(const source *s, uint64_t off, size_t n, ckpt_error *err)
{
    return range_within(off, n, s->size)
               ? CKPT_OK
               : fail(err, CKPT_ETRUNCATED, source_pos(s, off), "needs {=%zu bytes}, {%" PRIu64 "} are left",
                      n, off < s->size ? s->size - off : 0);
}

ckpt_status source_read(source *s, uint64_t off, void *out, size_t n, ckpt_error *err)
{
    CKPT_TRY(check_range(s, off, n, err));
    return n ? s->ops->read_at(s, off, out, n, err) : CKPT_OK;
}

ckpt_status source_crc(source *s, uint64_t off, uint64_t n, enum crc_kind kind, uint32_t *crc,
                       ckpt_error *err)
{
    size_t room = n < CHUNK ? (size_t)n : CHUNK;
    unsigned char *chunk = malloc(room + 1);
    ckpt_status st = chunk ? CKPT_OK : fail_memory(err);
    while (st == CKPT_OK && n) {
        size_t chunk_size = n < room ? (size_t)n : room;
        st = source_read(s, off, chunk, chunk_size, err);
        if (st == CKPT_OK)
            *crc = crc_update(kind, *crc, chunk, chunk_size);
        off += chunk_size;
        n -= chunk_size;
    }
    free(chunk);
    return st;
}

ckpt_status source_is_zero(source *s, uint64_t off, uint64_t n, bool *zero, ckpt_error *err)
{
    unsigned char bytes[4096];
    *zero = true;
    while (*zero && n) {
        size_t part = n < sizeof bytes ? (size_t)n : sizeof bytes;
        CKPT_TRY(source_read(s, off, bytes, part, err));
        for (size_t i = 0; i < part; i++)
            *zero = *zero && bytes[i] == 0;
        off += part;
        n -= part;
    }
    return CKPT_OK;
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

void source_advise_sequential(source *s)
{
    if (s->ops->advise_sequential)
        s->ops->advise_sequential(s);
}

ckpt_status source_check(source *s, ckpt_error *err)
{
    return s->ops->check ? s->ops->check(s, err) : CKPT_OK;
}

bool source_extent(source *s, uint64_t off, int *fd, uint64_t *at)
{
    return s->ops->extent && off <= s->size && s->ops->extent(s, off, fd, at);
}

ckpt_status source_map(source *s, uint64_t off, size_t n, const unsigned char **out, ckpt_error *err)
{
    CKPT_TRY(check_range(s, off, n, err));
    return s->ops->map ? s->ops->map(s, off, out, err)
                       : fail(err, CKPT_EUNSUPPORTED, source_pos(s, off),
                              "its bytes are compressed, kept as text, or in several pieces");
}

void source_watch(source *s, struct source_watch *w)
{
    if (s && s->ops->watch)
        s->ops->watch(s, w);
    if (w && w->reads_all)
        source_watch_add(w, s ? s->size : 0);
}

void source_watch_add(struct source_watch *w, uint64_t n)
{
    if (w)
        w->total = size_add(w->total, n);
}

ckpt_status source_watch_read(struct source_watch *w, uint64_t n, ckpt_error *err)
{
    if (!w || !w->progress)
        return CKPT_OK;
    w->done = size_add(w->done, n);
    if (w->total < w->done) /* some bytes were read twice, or the total was not known */
        w->total = w->done;
    w->stopped = w->stopped || w->progress(w->user, w->done, w->total) != 0;
    return w->stopped ? fail(err, CKPT_ECANCELLED, CKPT_NO_OFFSET, "stopped on request") : CKPT_OK;
}
