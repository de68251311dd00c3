/* source.c - checks bounds before any kind of source is read. */
#include "io/source.h"

#include <inttypes.h>
#include <stdlib.h>

#define CHUNK (256u * 1024u)

static ckpt_status check_range(const source *src, uint64_t off, size_t nbytes, ckpt_error *err)
{
    return range_within(off, nbytes, src->size) ? CKPT_OK
                                                : fail(err, CKPT_ETRUNCATED, source_pos(src, off),
                                                       "needs {=%zu bytes}, {%" PRIu64 "} are left", nbytes,
                                                       off < src->size ? src->size - off : 0);
}

ckpt_status source_read(source *src, uint64_t off, void *out, size_t nbytes, ckpt_error *err)
{
    CKPT_TRY(check_range(src, off, nbytes, err));
    return nbytes ? src->ops->read_at(src, off, out, nbytes, err) : CKPT_OK;
}

ckpt_status source_crc(source *src, uint64_t off, uint64_t nbytes, enum crc_kind kind, uint32_t *crc,
                       ckpt_error *err)
{
    size_t room = nbytes < CHUNK ? (size_t)nbytes : CHUNK;
    unsigned char *chunk = malloc(room + 1);
    ckpt_status st = chunk ? CKPT_OK : fail_memory(err);
    while (st == CKPT_OK && nbytes) {
        size_t chunk_size = nbytes < room ? (size_t)nbytes : room;
        st = source_read(src, off, chunk, chunk_size, err);
        if (st == CKPT_OK)
            *crc = crc_update(kind, *crc, chunk, chunk_size);
        off += chunk_size;
        nbytes -= chunk_size;
    }
    free(chunk);
    return st;
}

ckpt_status source_is_zero(source *src, uint64_t off, uint64_t nbytes, bool *zero, ckpt_error *err)
{
    unsigned char bytes[4096];
    *zero = true;
    while (*zero && nbytes) {
        size_t part = nbytes < sizeof bytes ? (size_t)nbytes : sizeof bytes;
        CKPT_TRY(source_read(src, off, bytes, part, err));
        for (size_t i = 0; i < part; i++)
            *zero = *zero && bytes[i] == 0;
        off += part;
        nbytes -= part;
    }
    return CKPT_OK;
}

source *source_ref(source *src)
{
    src->refs++;
    return src;
}

void source_unref(source *src)
{
    if (src && --src->refs == 0)
        src->ops->close(src);
}

void source_advise_sequential(source *src)
{
    if (src->ops->advise_sequential)
        src->ops->advise_sequential(src);
}

ckpt_status source_check(source *src, ckpt_error *err)
{
    return src->ops->check ? src->ops->check(src, err) : CKPT_OK;
}

void source_will_read(source *src, uint64_t off, uint64_t nbytes)
{
    if (src->ops->will_read && nbytes && range_within(off, nbytes, src->size))
        src->ops->will_read(src, off, nbytes);
}

bool source_extent(source *src, uint64_t off, int *fd, uint64_t *at)
{
    return src->ops->extent && off <= src->size && src->ops->extent(src, off, fd, at);
}

ckpt_status source_map(source *src, uint64_t off, size_t nbytes, const unsigned char **out, ckpt_error *err)
{
    CKPT_TRY(check_range(src, off, nbytes, err));
    return src->ops->map ? src->ops->map(src, off, out, err)
                         : fail(err, CKPT_EUNSUPPORTED, source_pos(src, off),
                                "its bytes are compressed, kept as text, or in several pieces");
}

void source_prefetch(source *archive, const char *const *paths, size_t count)
{
    if (archive && archive->ops->prefetch)
        archive->ops->prefetch(archive, paths, count);
}

void source_watch(source *src, struct source_watch *watch)
{
    if (src && src->ops->watch)
        src->ops->watch(src, watch);
    if (watch && watch->reads_all)
        source_watch_add(watch, src ? src->size : 0);
}

void source_watch_add(struct source_watch *watch, uint64_t count)
{
    if (watch)
        watch->total = size_add(watch->total, count);
}

ckpt_status source_watch_read(struct source_watch *watch, uint64_t count, ckpt_error *err)
{
    if (!watch || !watch->progress)
        return CKPT_OK;
    watch->done = size_add(watch->done, count);
    if (watch->total < watch->done) /* some bytes were read twice, or the total was not known */
        watch->total = watch->done;
    watch->stopped = watch->stopped || watch->progress(watch->user, watch->done, watch->total) != 0;
    return watch->stopped ? fail(err, CKPT_ECANCELLED, CKPT_NO_OFFSET, "stopped on request") : CKPT_OK;
}
