/* spool.c - see spool.h. */
#include "io/spool.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "io/fd.h"

#define IN_MEMORY ((size_t)1 << 20)

struct spool {
    source s; /* what it becomes */
    uint64_t max;
    unsigned char *bytes; /* NULL once there is a file */
    size_t cap;
    int fd; /* -1: none */
};

spool *spool_new(uint64_t max)
{
    spool *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->max = max;
    s->fd = -1;
    return s;
}

uint64_t spool_size(const spool *s) { return s->s.size; }

void spool_free(spool *s)
{
    if (!s)
        return;
    if (s->fd >= 0)
        close(s->fd);
    free(s->bytes);
    free(s);
}

static ckpt_status no_room(ckpt_error *err, const char *dir)
{
    ckpt_status st = fail_errno(err, CKPT_NO_OFFSET, "cannot spool unpacked bytes to %s", dir);
    fail_hint(err, "set TMPDIR to a folder with room for them");
    return st;
}

/* to_file - what is in memory moves to a file. */
static ckpt_status to_file(spool *s, ckpt_error *err)
{
    const char *dir;
    s->fd = fd_temp(&dir);
    if (s->fd < 0 || !fd_write(s->fd, s->bytes, (size_t)s->s.size))
        return no_room(err, dir);
    free(s->bytes);
    s->bytes = NULL;
    return CKPT_OK;
}

static ckpt_status to_memory(spool *s, size_t n, ckpt_error *err)
{
    if (n > s->cap - (size_t)s->s.size) {
        size_t cap = s->cap ? 2 * s->cap : 4096;
        while (cap - (size_t)s->s.size < n)
            cap *= 2;
        unsigned char *grown = realloc(s->bytes, cap);
        if (!grown)
            return fail_memory(err);
        s->bytes = grown;
        s->cap = cap;
    }
    return CKPT_OK;
}

ckpt_status spool_write(spool *s, const void *bytes, size_t n, ckpt_error *err)
{
    bool full = n > s->max - s->s.size;
    if (full)
        n = (size_t)(s->max - s->s.size);
    if (s->fd < 0 && n > IN_MEMORY - (size_t)s->s.size)
        CKPT_TRY(to_file(s, err));
    if (s->fd < 0) {
        CKPT_TRY(to_memory(s, n, err));
        if (n)
            memcpy(s->bytes + s->s.size, bytes, n); /* bounded: to_memory made room */
    } else if (!fd_write(s->fd, bytes, n)) {
        return no_room(err, "the folder for temporary files");
    }
    s->s.size += n; /* bounded: no more than max */
    return full ? fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET, "unpacks to more than %llu bytes",
                       (unsigned long long)s->max)
                : CKPT_OK;
}

static ckpt_status read_at(source *src, uint64_t off, void *out, size_t n, ckpt_error *err)
{
    spool *s = (spool *)src;
    if (s->fd < 0) {
        memcpy(out, s->bytes + off, n); /* bounded: source_read checked the range */
        return CKPT_OK;
    }
    for (char *to = out; n;) {
        ssize_t got = pread(s->fd, to, n, (off_t)off);
        if (got <= 0 && !(got < 0 && errno == EINTR))
            return fail_errno(err, CKPT_NO_OFFSET, "cannot read unpacked bytes back");
        if (got > 0) {
            to += got;
            n -= (size_t)got;
            off += (uint64_t)got; /* bounded: inside the file */
        }
    }
    return CKPT_OK;
}

static void close_spool(source *src) { spool_free((spool *)src); }

static const struct source_ops ops = {.read_at = read_at, .close = close_spool};

source *spool_source(spool *s)
{
    s->s.ops = &ops;
    s->s.base = CKPT_NO_OFFSET;
    s->s.refs = 1;
    return &s->s;
}
