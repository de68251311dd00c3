/* protobuf.h - the fields of a protobuf message, in memory or not, one after the other. */
#ifndef CODEC_PROTOBUF_H
#define CODEC_PROTOBUF_H

#include "base/cursor.h"
#include "io/reader.h"

enum proto_wire { PROTO_VARINT = 0, PROTO_FIXED64 = 1, PROTO_BYTES = 2, PROTO_FIXED32 = 5 };

struct proto_field {
    uint64_t number;
    enum proto_wire wire;
    uint64_t value; /* of a number; of FIXED32 and FIXED64 its bits */
    cursor bytes;   /* of PROTO_BYTES: a text, a message, or packed numbers */
};

/* proto_next - *F is the next field of the message C; false at its end, and where C is bad: a field that is
 * cut off, a wire type that does not exist, or a group, which no format that is read here has. */
bool proto_next(cursor *c, struct proto_field *f);
/* proto_read - *F is the next field of a message that R is in. Of PROTO_BYTES the value is their number: they
 * come next in R, if the message has so many. CKPT_ETRUNCATED: cut off; CKPT_EFORMAT: as for proto_next. */
ckpt_status proto_read(reader *r, struct proto_field *f);
/* proto_is - is F field NUMBER, stored as WIRE? A field of another wire type is an unknown one. */
static inline bool proto_is(const struct proto_field *f, uint64_t number, enum proto_wire wire)
{
    return f->number == number && f->wire == wire;
}
/* proto_text - the bytes of F as text. */
static inline ckpt_str proto_text(const struct proto_field *f)
{
    return str_of((const char *)f->bytes.p, f->bytes.left);
}

#endif
