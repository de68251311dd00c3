/* source_callbacks.c - a source of bytes that the program reads itself, see ckpt_callbacks of ckpt.h. Each
 * result of the program's read_at is checked against what was asked for. */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/sized.h"
#include "io/source.h"

#define LARGEST_ERRNO 4095

struct callback_source {
    source source;
    ckpt_callbacks callbacks;
    pthread_mutex_t lock; /* held during read_at if only one call at a time is allowed */
    struct source_watch *watch;
    bool is_open;           /* opening succeeded: callbacks_close calls callbacks.close */
    int read_errno;         /* errno of the first read that failed while the file was being opened */
    uint64_t failed_offset; /* offset of that read */
};

static ckpt_status fail_read_at(uint64_t at, int64_t result, ckpt_error *err)
{
    errno = result < -LARGEST_ERRNO ? EIO : (int)-result;
    (void)fail_errno(err, at, "the program's read_at failed");
    if (err)
        err->status = CKPT_EIO;
    return CKPT_EIO;
}

/* read_some - reads at least one and at most NBYTES bytes at AT; sets *GOT to their number. */
static ckpt_status read_some(const struct callback_source *callback_source, uint64_t at, void *out,
                             size_t nbytes, size_t *got, ckpt_error *err)
{
    int64_t given = callback_source->callbacks.read_at(callback_source->callbacks.user, at, out, nbytes);
    if (given < 0)
        return fail_read_at(at, given, err);
    *got = (size_t)given;
    if (given > 0 && (uint64_t)given <= nbytes)
        return CKPT_OK;
    return fail(err, CKPT_EIO, at, "the program's read_at gave {%" PRId64 " bytes}, expected {=1 to %zu}",
                given, nbytes);
}

static ckpt_status read_all(const struct callback_source *callback_source, uint64_t off, unsigned char *out,
                            size_t nbytes, uint64_t *at, ckpt_error *err)
{
    for (size_t done = 0, got; done < nbytes; done += got) {
        *at = off + done;
        CKPT_TRY(read_some(callback_source, *at, out + done, nbytes - done, &got, err));
    }
    return CKPT_OK;
}

static ckpt_status callbacks_read(source *src, uint64_t off, void *out, size_t nbytes, ckpt_error *err)
{
    struct callback_source *c = (struct callback_source *)src;
    uint64_t at = off;
    if (c->callbacks.serialize)
        pthread_mutex_lock(&c->lock);
    ckpt_status st = read_all(c, off, out, nbytes, &at, err);
    if (c->callbacks.serialize)
        pthread_mutex_unlock(&c->lock);
    if (st != CKPT_OK && !c->is_open && !c->read_errno) {
        c->read_errno = err->sys_errno ? err->sys_errno : EIO;
        c->failed_offset = at;
    }
    return st == CKPT_OK ? source_watch_read(c->watch, nbytes, err) : st;
}

static void callbacks_close(source *src)
{
    struct callback_source *c = (struct callback_source *)src;
    if (c->is_open && c->callbacks.close)
        c->callbacks.close(c->callbacks.user);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

static ckpt_status callbacks_map(source *src, uint64_t off, const unsigned char **out, ckpt_error *err)
{
    (void)src;
    *out = NULL;
    return fail(err, CKPT_EUNSUPPORTED, off, "its bytes come from the program's read_at");
}

static void callbacks_will_read(source *src, uint64_t off, uint64_t nbytes)
{
    struct callback_source *c = (struct callback_source *)src;
    if (!c->callbacks.will_read)
        return;
    if (c->callbacks.serialize)
        pthread_mutex_lock(&c->lock);
    c->callbacks.will_read(c->callbacks.user, off, nbytes);
    if (c->callbacks.serialize)
        pthread_mutex_unlock(&c->lock);
}

static void callbacks_watch(source *src, struct source_watch *watch)
{
    ((struct callback_source *)src)->watch = watch;
}

static const struct source_ops callbacks_ops = {.read_at = callbacks_read,
                                                .close = callbacks_close,
                                                .map = callbacks_map,
                                                .watch = callbacks_watch,
                                                .will_read = callbacks_will_read};

ckpt_status source_callbacks(const ckpt_callbacks *from, source **out, ckpt_error *err)
{
    ckpt_callbacks own;
    CKPT_TRY(sized_struct_copy_in(from, &own, sizeof own, err));
    CKPT_REQUIRE(err, own.read_at);
    struct callback_source *c = calloc(1, sizeof *c);
    CKPT_TRY_ALLOC(c, err);
    pthread_mutex_init(&c->lock, NULL);
    c->source = (source){
        .ops = &callbacks_ops, .size = own.size, .refs = 1, .is_remote = own.will_read != NULL};
    c->callbacks = own;
    *out = &c->source;
    return CKPT_OK;
}

ckpt_status source_finish_opening(source *src, ckpt_status st, bool salvage, ckpt_error *err)
{
    struct callback_source *c = (struct callback_source *)src;
    bool reported = st == CKPT_EIO || st == CKPT_ECANCELLED;
    if (c->read_errno && !salvage && !reported) /* what was opened without those bytes is invalid */
        return fail_read_at(c->failed_offset, -c->read_errno, err);
    c->is_open = st == CKPT_OK;
    return st;
}
