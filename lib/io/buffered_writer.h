/* buffered_writer.h - what one thread writes to a sink: bytes anywhere in what was skipped there, gathered
 * so that the sink gets few and large pieces. */
#ifndef IO_BUFFERED_WRITER_H
#define IO_BUFFERED_WRITER_H

#include "io/sink.h"

struct buffered_writer {
    sink *to; /* NULL: nowhere */
    unsigned char *block;
    uint64_t at;      /* of the first byte of BLOCK */
    size_t len, room; /* bytes in BLOCK; that it takes */
};

ckpt_status buffered_open(struct buffered_writer *w, sink *to, ckpt_error *err);
/* buffered_seek - what comes next goes to AT. */
ckpt_status buffered_seek(struct buffered_writer *w, uint64_t at, ckpt_error *err);
/* buffered_space - *SPACE takes the next *ROOM >= 16 bytes or fewer; buffered_add counts them. */
ckpt_status buffered_space(struct buffered_writer *w, unsigned char **space, size_t *room, ckpt_error *err);
void buffered_add(struct buffered_writer *w, size_t n);
ckpt_status buffered_put(struct buffered_writer *w, const void *bytes, size_t n, ckpt_error *err);
/* buffered_patch - overwrites N bytes at OFF that were put before, by W or anyone who has flushed since. */
ckpt_status buffered_patch(struct buffered_writer *w, uint64_t off, const void *bytes, size_t n,
                           ckpt_error *err);
ckpt_status buffered_flush(struct buffered_writer *w, ckpt_error *err);
void buffered_close(struct buffered_writer *w); /* without flushing */

#endif
