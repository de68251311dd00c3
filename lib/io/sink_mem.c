/* sink_mem.c - output kept in memory, up to a maximum. */
#include <stdlib.h>

#include "base/buf.h"
#include "io/sink.h"

struct mem_sink {
    sink sink;
    buf bytes;
    struct sink_bytes *to;
};

static ckpt_status fail_too_much(const struct mem_sink *mem_sink, ckpt_error *err)
{
    return fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET,
                "the output has more than the %zu bytes that may be kept in memory", mem_sink->bytes.max);
}

static ckpt_status mem_reserve(sink *out, uint64_t size, ckpt_error *err)
{
    struct mem_sink *m = (struct mem_sink *)out;
    if (size > m->bytes.max)
        return fail_too_much(m, err);
    return size <= m->bytes.len || buf_reserve(&m->bytes, (size_t)size - m->bytes.len) ? CKPT_OK
                                                                                       : fail_memory(err);
}

static ckpt_status mem_write(sink *out, const void *bytes, size_t nbytes, ckpt_error *err)
{
    struct mem_sink *m = (struct mem_sink *)out;
    if (nbytes > m->bytes.max - m->bytes.len)
        return fail_too_much(m, err);
    buf_put(&m->bytes, bytes, nbytes);
    return buf_ok(&m->bytes) ? CKPT_OK : fail_memory(err);
}

static ckpt_status mem_skip(sink *out, uint64_t count, ckpt_error *err)
{
    struct mem_sink *m = (struct mem_sink *)out;
    if (count > m->bytes.max - m->bytes.len)
        return fail_too_much(m, err);
    unsigned char *skipped = buf_extend(&m->bytes, (size_t)count);
    CKPT_TRY_ALLOC(skipped, err);
    memset(skipped, 0, (size_t)count);
    return CKPT_OK;
}

static ckpt_status mem_patch(sink *out, uint64_t off, const void *bytes, size_t nbytes, ckpt_error *err)
{
    (void)err;
    memcpy(((struct mem_sink *)out)->bytes.data + off, bytes, nbytes);
    return CKPT_OK;
}

static ckpt_status mem_read(sink *output, uint64_t off, void *out, size_t nbytes, ckpt_error *err)
{
    (void)err;
    memcpy(out, ((struct mem_sink *)output)->bytes.data + off, nbytes);
    return CKPT_OK;
}

static void mem_abort(sink *out)
{
    buf_free(&((struct mem_sink *)out)->bytes);
    free(out);
}

static ckpt_status mem_commit(sink *out, ckpt_error *err)
{
    struct mem_sink *m = (struct mem_sink *)out;
    (void)err;
    if (m->to) {
        *m->to = (struct sink_bytes){m->bytes.data, m->bytes.len};
        m->bytes.data = NULL;
    }
    mem_abort(out);
    return CKPT_OK;
}

static const struct sink_ops mem_ops = {mem_reserve, mem_write,  mem_skip,  mem_patch,
                                        mem_read,    mem_commit, mem_abort, NULL};

ckpt_status sink_mem(size_t max, struct sink_bytes *to, sink **out, ckpt_error *err)
{
    struct mem_sink *m = calloc(1, sizeof *m);
    CKPT_TRY_ALLOC(m, err);
    m->sink.ops = &mem_ops;
    buf_init(&m->bytes, max);
    m->to = to;
    *out = &m->sink;
    return CKPT_OK;
}

ckpt_str sink_mem_view(const sink *out) { return buf_view(&((const struct mem_sink *)out)->bytes); }
