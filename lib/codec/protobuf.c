/*
 * protobuf.c - the wire format of protobuf (protobuf.dev, "Encoding"). A message is a sequence of fields:
 *
 *   varint   tag: number << 3 | wire type
 *   …        value: VARINT a varint; FIXED64 8 bytes; FIXED32 4 bytes; BYTES a varint, then that many bytes
 *
 * Refused: field 0, groups (wire types 3 and 4), values that are cut off.
 */
#include "codec/protobuf.h"

static void read_value(cursor *in, struct proto_field *field)
{
    switch (field->wire) {
    case PROTO_VARINT: field->value = cursor_varint(in); return;
    case PROTO_FIXED64: field->value = cursor_u64(in); return;
    case PROTO_FIXED32: field->value = cursor_u32(in); return;
    case PROTO_BYTES: field->value = cursor_varint(in); break;
    default: in->bad = true; return;
    }
    size_t n = field->value <= in->left ? (size_t)field->value : SIZE_MAX; /* SIZE_MAX makes IN bad */
    field->bytes = cursor_sub(in, n);
}

bool proto_next(cursor *in, struct proto_field *field)
{
    *field = (struct proto_field){.bytes = cursor_of(NULL, 0, in->pos)};
    if (in->bad || !in->left)
        return false;
    uint64_t tag = cursor_varint(in);
    field->number = tag >> 3;
    field->wire = (enum proto_wire)(tag & 7);
    in->bad = in->bad || field->number == 0;
    if (!in->bad)
        read_value(in, field);
    return !in->bad;
}

ckpt_status proto_read(reader *in, struct proto_field *field)
{
    uint64_t at = in->pos, tag;
    bool ok = reader_varint(in, &tag);
    *field = (struct proto_field){.number = ok ? tag >> 3 : 0, .wire = (enum proto_wire)(ok ? tag & 7 : 0)};
    switch (field->wire) {
    case PROTO_BYTES:
    case PROTO_VARINT: ok = ok && reader_varint(in, &field->value); break;
    case PROTO_FIXED64: field->value = reader_u64(in); break;
    case PROTO_FIXED32: field->value = reader_u32(in); break;
    default: ok = false;
    }
    CKPT_TRY(in->status);
    return ok && field->number ? CKPT_OK
                               : fail(in->err, CKPT_EFORMAT, source_pos(in->src, at),
                                      "{malformed} {=field of a protobuf message}");
}
