/*
 * protobuf.c - the wire format of protobuf (protobuf.dev, "Encoding"). A message is a sequence of fields:
 *
 *   varint   tag: number << 3 | wire type
 *   …        value: VARINT a varint; FIXED64 8 bytes; FIXED32 4 bytes; BYTES a varint, then that many bytes
 *
 * Refused: field 0, groups (wire types 3 and 4), values that are cut off.
 */
#include "codec/protobuf.h"

static void read_value(cursor *c, struct proto_field *f)
{
    switch (f->wire) {
    case PROTO_VARINT: f->value = cursor_varint(c); return;
    case PROTO_FIXED64: f->value = cursor_u64(c); return;
    case PROTO_FIXED32: f->value = cursor_u32(c); return;
    case PROTO_BYTES: f->value = cursor_varint(c); break;
    default: c->bad = true; return;
    }
    size_t n = f->value <= c->left ? (size_t)f->value : SIZE_MAX; /* SIZE_MAX makes C bad */
    f->bytes = cursor_sub(c, n);
}

bool proto_next(cursor *c, struct proto_field *f)
{
    *f = (struct proto_field){.bytes = cursor_of(NULL, 0, c->pos)};
    if (c->bad || !c->left)
        return false;
    uint64_t tag = cursor_varint(c);
    f->number = tag >> 3;
    f->wire = (enum proto_wire)(tag & 7);
    c->bad = c->bad || f->number == 0;
    if (!c->bad)
        read_value(c, f);
    return !c->bad;
}

ckpt_status proto_read(reader *r, struct proto_field *f)
{
    uint64_t at = r->pos, tag;
    bool ok = reader_varint(r, &tag);
    *f = (struct proto_field){.number = ok ? tag >> 3 : 0, .wire = (enum proto_wire)(ok ? tag & 7 : 0)};
    switch (f->wire) {
    case PROTO_BYTES:
    case PROTO_VARINT: ok = ok && reader_varint(r, &f->value); break;
    case PROTO_FIXED64: f->value = reader_u64(r); break;
    case PROTO_FIXED32: f->value = reader_u32(r); break;
    default: ok = false;
    }
    CKPT_TRY(r->status);
    return ok && f->number ? CKPT_OK
                           : fail(r->err, CKPT_EFORMAT, source_pos(r->src, at),
                                  "{malformed} {=field of a protobuf message}");
}
