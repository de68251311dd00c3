/* protobuf.h - reads the fields of a protobuf message one after the other, from memory or from a file. */
#pragma once

#include "base/cursor.h"
#include "io/reader.h"

enum proto_wire { PROTO_VARINT = 0, PROTO_FIXED64 = 1, PROTO_BYTES = 2, PROTO_FIXED32 = 5 };

struct proto_field {
    uint64_t number;
    enum proto_wire wire;
    uint64_t value; /* value of a varint; bits of FIXED32 and FIXED64; length of PROTO_BYTES */
    cursor bytes;   /* content of PROTO_BYTES: a text, a message, or packed numbers */
};

/* proto_next - sets *FIELD to the next field of the message IN. False: IN is at its end, or is bad because
 * the field is cut off, is a group, or has a wire type that does not exist. */
bool proto_next(cursor *in, struct proto_field *field);
/* proto_read - sets *FIELD to the next field of the message that IN reads. FIELD->value is the number of
 * bytes of PROTO_BYTES, which the caller reads or skips. CKPT_ETRUNCATED: the field is cut off; CKPT_EFORMAT:
 * it is a group, or has a wire type that does not exist. */
ckpt_status proto_read(reader *in, struct proto_field *field);
/* proto_is - returns true if FIELD is the field NUMBER with the wire type WIRE. With a different wire type,
 * it is an unknown field. */
static inline bool proto_is(const struct proto_field *field, uint64_t number, enum proto_wire wire)
{
    return field->number == number && field->wire == wire;
}
/* proto_text - returns the bytes of FIELD as text. */
static inline ckpt_str proto_text(const struct proto_field *field)
{
    return str_of((const char *)field->bytes.p, field->bytes.left);
}
