/* remote_file.c - a file on a server as callbacks, for a program that passes its bytes on: see
 * ckpt_remote_open. */
#include <errno.h>
#include <stdlib.h>

#include "base/sized.h"
#include "format/files/path.h"
#include "format/files/server.h"
#include "io/address.h"

struct remote_file {
    source *src;
    char *shown;        /* the URL as errors show it */
    ckpt_error failure; /* of the first read that failed; its status is CKPT_OK: none did */
};

/* errno_of - returns the errno for a read that failed with ERR. */
static int64_t errno_of(const ckpt_error *err)
{
    return err->status == CKPT_ENOMEM ? ENOMEM : err->sys_errno ? err->sys_errno : EIO;
}

static int64_t remote_read_at(void *user, uint64_t offset, void *buf, size_t nbytes)
{
    struct remote_file *r = user;
    ckpt_error err;
    if (r->failure.status != CKPT_OK)
        return -errno_of(&r->failure);
    if (source_read(r->src, offset, buf, nbytes, &err) == CKPT_OK)
        return (int64_t)nbytes; /* it is in memory */
    error_add_file(&err, r->shown);
    r->failure = err;
    return -errno_of(&err);
}

static void remote_will_read(void *user, uint64_t offset, uint64_t nbytes)
{
    source_will_read(((struct remote_file *)user)->src, offset, nbytes);
}

static void remote_close(void *user)
{
    struct remote_file *r = user;
    source_unref(r->src);
    free(r->shown);
    free(r);
}

/* open_url - opens URL as the source of OUT. */
static ckpt_status open_url(const char *url, const ckpt_remote *remote, struct remote_file *out,
                            ckpt_error *err)
{
    out->shown = path_to_show(url);
    CKPT_TRY_ALLOC(out->shown, err);
    ckpt_status st = server_open(url, remote, &out->src, err);
    if (st == CKPT_OK && members_is_archive(out->src))
        st = fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
                  "{a folder} on a server, not {=a file}\nname the file in it");
    return name_file_if_failed(st, out->shown, err);
}

ckpt_status ckpt_remote_open(const char *url, const ckpt_remote *remote, ckpt_callbacks *out, ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    CKPT_TRY(sized_struct_clear(out, err));
    CKPT_REQUIRE(err, url && remote);
    CKPT_TRY(sized_struct_check(remote, err));
    if (!address_is_url(url))
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "{a path}, expected {=a URL}");
    struct remote_file *r = calloc(1, sizeof *r);
    CKPT_TRY_ALLOC(r, err);
    ckpt_status st = open_url(url, remote, r, err);
    if (st != CKPT_OK) {
        remote_close(r);
        return st;
    }
    const ckpt_callbacks made = {.serialize = 1,
                                 .size = r->src->size,
                                 .read_at = remote_read_at,
                                 .close = remote_close,
                                 .user = r,
                                 .will_read = remote_will_read};
    sized_struct_copy_out(out, &made, sizeof made);
    return CKPT_OK;
}

ckpt_status ckpt_remote_failure(const ckpt_callbacks *callbacks, ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    CKPT_REQUIRE(err, callbacks && callbacks->read_at == remote_read_at);
    const struct remote_file *r = callbacks->user;
    if (r->failure.status != CKPT_OK)
        *err = r->failure;
    return (ckpt_status)r->failure.status;
}
