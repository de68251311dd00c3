/* sink.c - checks the arguments and passes each call on to the kind of sink. */
#include <inttypes.h>

#include "base/checked.h"
#include "io/sink.h"

ckpt_status sink_reserve(sink *s, uint64_t size, ckpt_error *err) { return s->ops->reserve(s, size, err); }

static ckpt_status compute_new_length(const sink *s, uint64_t n, uint64_t *new_len, ckpt_error *err)
{
    if (checked_add(s->len, n, new_len) && *new_len <= INT64_MAX)
        return CKPT_OK;
    return fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET, "the output would exceed the largest file size");
}

ckpt_status sink_write(sink *s, const void *bytes, size_t n, ckpt_error *err)
{
    uint64_t len = 0;
    CKPT_TRY(compute_new_length(s, n, &len, err));
    if (n)
        CKPT_TRY(s->ops->write(s, bytes, n, err));
    s->len = len;
    return CKPT_OK;
}

ckpt_status sink_skip(sink *s, uint64_t n, ckpt_error *err)
{
    uint64_t len = 0;
    CKPT_TRY(compute_new_length(s, n, &len, err));
    if (n)
        CKPT_TRY(s->ops->skip(s, n, err));
    s->len = len;
    return CKPT_OK;
}

static ckpt_status require_written(const sink *s, uint64_t off, size_t n, ckpt_error *err)
{
    return range_within(off, n, s->len)
               ? CKPT_OK
               : fail(err, CKPT_EUSAGE, off, "%zu bytes reach past the %" PRIu64 " that are written", n,
                      s->len);
}

ckpt_status sink_patch(sink *s, uint64_t off, const void *bytes, size_t n, ckpt_error *err)
{
    CKPT_TRY(require_written(s, off, n, err));
    return n ? s->ops->patch(s, off, bytes, n, err) : CKPT_OK;
}

bool sink_clone(sink *s, uint64_t off, int fd, uint64_t from, uint64_t n)
{
    return s->ops->clone && n && range_within(off, n, s->len) && s->ops->clone(s, off, fd, from, n);
}

ckpt_status sink_end(sink *s, ckpt_status st, ckpt_error *err)
{
    if (st == CKPT_OK)
        return sink_commit(s, err);
    sink_abort(s);
    return st;
}

ckpt_status sink_write_whole_file(const char *path, const struct sink_options *opts, ckpt_str bytes,
                                  ckpt_error *err)
{
    sink *out;
    CKPT_TRY(sink_file(path, opts, &out, err));
    return sink_end(out, sink_write(out, bytes.ptr, bytes.len, err), err);
}

uint64_t sink_tell(const sink *s) { return s->len; }

ckpt_status sink_read(sink *s, uint64_t off, void *out, size_t n, ckpt_error *err)
{
    CKPT_TRY(require_written(s, off, n, err));
    return n ? s->ops->read(s, off, out, n, err) : CKPT_OK;
}

ckpt_status sink_commit(sink *s, ckpt_error *err) { return s->ops->commit(s, err); }

void sink_abort(sink *s)
{
    if (s)
        s->ops->abort(s);
}
