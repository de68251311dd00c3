/* spool.c - see spool.h. */
#include "io/spool.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "io/fd.h"

#define MAX_IN_MEMORY ((size_t)1 << 20)

struct spool {
    source source;          /* the source that spool_source returns */
    uint64_t max;           /* the most bytes in all */
    uint64_t max_in_memory; /* with more bytes, a file is used */
    buf bytes;              /* the bytes in memory; empty once there is a file */
    int fd;                 /* the file; -1: none */
    uint64_t off;           /* offset in the file of the first byte */
    bool borrowed;          /* the file is the caller's */
    bool full;              /* a write failed because of max */
};

static spool *new_spool(uint64_t max, uint64_t max_in_memory, int fd, uint64_t off)
{
    spool *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    *s = (spool){.max = max, .max_in_memory = max_in_memory, .fd = fd, .off = off, .borrowed = fd >= 0};
    buf_init(&s->bytes, max_in_memory < SIZE_MAX ? (size_t)max_in_memory : SIZE_MAX);
    return s;
}

spool *spool_new(uint64_t max) { return new_spool(max, MAX_IN_MEMORY, -1, 0); }
spool *spool_new_in_memory(uint64_t max) { return new_spool(max, max, -1, 0); }
spool *spool_new_at(int fd, uint64_t off, uint64_t max) { return new_spool(max, 0, fd, off); }

uint64_t spool_size(const spool *spooled) { return spooled->source.size; }
bool spool_is_full(const spool *spooled) { return spooled->full; }

void spool_free(spool *spooled)
{
    if (!spooled)
        return;
    if (spooled->fd >= 0 && !spooled->borrowed)
        close(spooled->fd);
    buf_free(&spooled->bytes);
    free(spooled);
}

static ckpt_status fail_spooling(ckpt_error *err, const char *dir)
{
    return fail_errno(err, CKPT_NO_OFFSET,
                      "cannot spool unpacked bytes to %s\nset TMPDIR to a folder with room for them", dir);
}

/* move_to_file - moves the bytes in memory to a temporary file. */
static ckpt_status move_to_file(spool *spooled, ckpt_error *err)
{
    const char *dir;
    spooled->fd = fd_temp(&dir);
    if (spooled->fd < 0 ||
        !fd_pwrite(spooled->fd, spooled->bytes.data, (size_t)spooled->source.size, spooled->off))
        return fail_spooling(err, dir);
    buf_free(&spooled->bytes);
    return CKPT_OK;
}

ckpt_status spool_write(spool *spooled, const void *bytes, size_t nbytes, ckpt_error *err)
{
    bool full = nbytes > spooled->max - spooled->source.size;
    spooled->full = spooled->full || full;
    if (full)
        nbytes = (size_t)(spooled->max - spooled->source.size);
    if (spooled->fd < 0 && nbytes > spooled->max_in_memory - spooled->source.size)
        CKPT_TRY(move_to_file(spooled, err));
    if (spooled->fd < 0) {
        buf_put(&spooled->bytes, bytes, nbytes);
        CKPT_TRY_ALLOC(buf_ok(&spooled->bytes), err);
    } else if (!fd_pwrite(spooled->fd, bytes, nbytes, spooled->off + spooled->source.size)) {
        return fail_spooling(err, "the folder for temporary files");
    }
    spooled->source.size += nbytes;
    return full ? fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET, "unpacks to more than %llu bytes",
                       (unsigned long long)spooled->max)
                : CKPT_OK;
}

ckpt_status spool_copy(spool *spooled, source *src, uint64_t off, uint64_t nbytes, ckpt_error *err)
{
    unsigned char block[16384];
    while (nbytes) {
        size_t chunk_size = nbytes < sizeof block ? (size_t)nbytes : sizeof block;
        CKPT_TRY(source_read(src, off, block, chunk_size, err));
        CKPT_TRY(spool_write(spooled, block, chunk_size, err));
        off += chunk_size;
        nbytes -= chunk_size;
    }
    return CKPT_OK;
}

static ckpt_status read_spool(source *src, uint64_t off, void *out, size_t nbytes, ckpt_error *err)
{
    spool *s = (spool *)src;
    if (s->fd < 0) {
        memcpy(out, s->bytes.data + off, nbytes);
        return CKPT_OK;
    }
    size_t got;
    errno = EIO; /* for a file that is too short */
    return fd_pread(s->fd, out, nbytes, s->off + off, &got) && got == nbytes
               ? CKPT_OK
               : fail_errno(err, CKPT_NO_OFFSET, "cannot read unpacked bytes back");
}

static void close_spool(source *src) { spool_free((spool *)src); }

static const struct source_ops ops = {.read_at = read_spool, .close = close_spool};

source *spool_source(spool *spooled)
{
    spooled->source.ops = &ops;
    spooled->source.position = CKPT_NO_OFFSET;
    spooled->source.refs = 1;
    return &spooled->source;
}

bool spool_move(source *src, int fd, uint64_t off)
{
    spool *s = (spool *)src;
    if (!fd_pwrite(fd, s->bytes.data, (size_t)s->source.size, off))
        return false;
    buf_free(&s->bytes);
    s->fd = fd;
    s->off = off;
    s->borrowed = true;
    return true;
}
