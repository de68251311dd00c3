/* sink_ops.h - what each kind of sink provides; sink.c has checked all bounds before. */
#ifndef IO_SINK_OPS_H
#define IO_SINK_OPS_H

#include "io/sink.h"

struct sink_ops {
    ckpt_status (*reserve)(sink *s, uint64_t size, ckpt_error *err);
    ckpt_status (*write)(sink *s, const void *bytes, size_t n, ckpt_error *err); /* appends; N > 0 */
    ckpt_status (*skip)(sink *s, uint64_t n, ckpt_error *err);
    ckpt_status (*patch)(sink *s, uint64_t off, const void *bytes, size_t n, ckpt_error *err);
    ckpt_status (*read)(sink *s, uint64_t off, void *out, size_t n, ckpt_error *err);
    ckpt_status (*commit)(sink *s, ckpt_error *err); /* frees S */
    void (*abort)(sink *s);                          /* frees S */
    bool (*clone)(sink *s, uint64_t off, int fd, uint64_t from, uint64_t n); /* may be NULL */
};

struct sink {
    const struct sink_ops *ops;
    uint64_t len; /* bytes written */
};

#endif
