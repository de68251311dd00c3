/* outlet.h - what one thread writes to a sink: bytes anywhere in what was skipped
 * there, gathered so that the sink gets few and large pieces. */
#ifndef IO_OUTLET_H
#define IO_OUTLET_H

#include "io/sink.h"

struct outlet {
    sink *to; /* NULL: nowhere */
    unsigned char *block;
    uint64_t at; /* of the first byte of BLOCK */
    size_t len, room; /* bytes in BLOCK; that it takes */
};

ckpt_status outlet_open(struct outlet *o, sink *to, ckpt_error *err);
/* outlet_seek - what comes next goes to AT. */
ckpt_status outlet_seek(struct outlet *o, uint64_t at, ckpt_error *err);
/* outlet_space - *SPACE takes the next *ROOM >= 16 bytes or fewer, which outlet_add
 * then says. */
ckpt_status outlet_space(struct outlet *o, unsigned char **space, size_t *room, ckpt_error *err);
void outlet_add(struct outlet *o, size_t n);
ckpt_status outlet_put(struct outlet *o, const void *bytes, size_t n, ckpt_error *err);
/* outlet_patch - overwrites N bytes at OFF that were put before, by O or anyone who has
 * flushed since. */
ckpt_status outlet_patch(struct outlet *o, uint64_t off, const void *bytes, size_t n, ckpt_error *err);
ckpt_status outlet_flush(struct outlet *o, ckpt_error *err);
void outlet_close(struct outlet *o); /* without flushing */

#endif
