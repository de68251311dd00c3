/* buffered_writer.h - collects what one thread writes into skipped ranges of a sink, for few large writes. */
#pragma once

#include "io/sink.h"

struct buffered_writer {
    sink *to; /* NULL: bytes are discarded */
    unsigned char *block;
    uint64_t pos;         /* sink offset of the first byte of BLOCK */
    size_t len, capacity; /* bytes in BLOCK; the most that it can hold */
};

ckpt_status buffered_open(struct buffered_writer *writer, sink *to, ckpt_error *err);
ckpt_status buffered_seek(struct buffered_writer *writer, uint64_t pos, ckpt_error *err);
/* buffered_get_space - sets *SPACE to where *ROOM >= 1024 more bytes fit; buffered_add counts those used. */
ckpt_status buffered_get_space(struct buffered_writer *writer, unsigned char **space, size_t *room,
                               ckpt_error *err);
void buffered_add(struct buffered_writer *writer, size_t count);
ckpt_status buffered_put(struct buffered_writer *writer, const void *bytes, size_t nbytes, ckpt_error *err);
/* buffered_patch - overwrites NBYTES bytes at OFF that were put by WRITER, or by a writer that has flushed
 * since. */
ckpt_status buffered_patch(struct buffered_writer *writer, uint64_t off, const void *bytes, size_t nbytes,
                           ckpt_error *err);
ckpt_status buffered_flush(struct buffered_writer *writer, ckpt_error *err);
void buffered_close(struct buffered_writer *writer); /* without flushing */
