/* sink.c - checks the arguments and passes each call on to the kind of sink. */
#include <inttypes.h>

#include "base/checked.h"
#include "io/sink.h"

ckpt_status sink_reserve(sink *out, uint64_t size, ckpt_error *err)
{
    return out->ops->reserve(out, size, err);
}

static ckpt_status compute_new_length(const sink *out, uint64_t count, uint64_t *new_len, ckpt_error *err)
{
    if (checked_add(out->len, count, new_len) && *new_len <= INT64_MAX)
        return CKPT_OK;
    return fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET, "the output would exceed the largest file size");
}

ckpt_status sink_write(sink *out, const void *bytes, size_t nbytes, ckpt_error *err)
{
    uint64_t len = 0;
    CKPT_TRY(compute_new_length(out, nbytes, &len, err));
    if (nbytes)
        CKPT_TRY(out->ops->write(out, bytes, nbytes, err));
    out->len = len;
    return CKPT_OK;
}

ckpt_status sink_skip(sink *out, uint64_t count, ckpt_error *err)
{
    uint64_t len = 0;
    CKPT_TRY(compute_new_length(out, count, &len, err));
    if (count)
        CKPT_TRY(out->ops->skip(out, count, err));
    out->len = len;
    return CKPT_OK;
}

static ckpt_status require_written(const sink *out, uint64_t off, size_t nbytes, ckpt_error *err)
{
    return range_within(off, nbytes, out->len)
               ? CKPT_OK
               : fail(err, CKPT_EUSAGE, off, "%zu bytes reach past the %" PRIu64 " that are written", nbytes,
                      out->len);
}

ckpt_status sink_patch(sink *out, uint64_t off, const void *bytes, size_t nbytes, ckpt_error *err)
{
    CKPT_TRY(require_written(out, off, nbytes, err));
    return nbytes ? out->ops->patch(out, off, bytes, nbytes, err) : CKPT_OK;
}

bool sink_clone(sink *out, uint64_t off, int fd, uint64_t from, uint64_t nbytes)
{
    return out->ops->clone && nbytes && range_within(off, nbytes, out->len) &&
           out->ops->clone(out, off, fd, from, nbytes);
}

ckpt_status sink_end(sink *out, ckpt_status st, ckpt_error *err)
{
    if (st == CKPT_OK)
        return sink_commit(out, err);
    sink_abort(out);
    return st;
}

ckpt_status sink_write_whole_file(const char *path, const struct sink_options *opts, ckpt_str bytes,
                                  ckpt_error *err)
{
    sink *out;
    CKPT_TRY(sink_file(path, opts, &out, err));
    return sink_end(out, sink_write(out, bytes.ptr, bytes.len, err), err);
}

uint64_t sink_tell(const sink *out) { return out->len; }

ckpt_status sink_read(sink *output, uint64_t off, void *out, size_t nbytes, ckpt_error *err)
{
    CKPT_TRY(require_written(output, off, nbytes, err));
    return nbytes ? output->ops->read(output, off, out, nbytes, err) : CKPT_OK;
}

ckpt_status sink_commit(sink *out, ckpt_error *err) { return out->ops->commit(out, err); }

void sink_abort(sink *out)
{
    if (out)
        out->ops->abort(out);
}
