/*
 * msgpack.c - MessagePack (github.com/msgpack/msgpack, spec.md):
 *   00-7f, e0-ff   a small integer          80-8f, de, df  a map: its keys follow, each before its value
 *   90-9f, dc, dd  an array                 a0-bf, d9-db   a text
 *   c0, c2, c3     nil, false, true         c4-c6          bytes
 *   ca, cb         a float of 4 or 8 bytes  cc-d3          an integer of 1, 2, 4 or 8 bytes
 *   c7-c9          an extension: length, type, bytes; d4-d8 are five fixed lengths: type, bytes
 * Lengths and numbers are big-endian. No value begins with c1. Refused: a container with more items than the
 * bytes that are left, minus one byte for each item that the containers around it still lack.
 */
#include "codec/msgpack.h"

#include <inttypes.h>

#include "base/cursor.h"
#include "io/reader.h"

struct msgpack_walk {
    reader r;
    uint64_t unread; /* number of values that are still to be read, at any depth */
    ckpt_error *err;
};

/* For the first bytes c0 to df of a value: the kind of the value, and the size in bytes of the number or
 * length after that byte. */
static const struct {
    uint8_t kind, width;
} forms[] = {
    {MSGPACK_NIL, 0},   {MSGPACK_NEVER, 0}, {MSGPACK_BOOL, 0}, {MSGPACK_BOOL, 0},  {MSGPACK_BYTES, 1},
    {MSGPACK_BYTES, 2}, {MSGPACK_BYTES, 4}, {MSGPACK_EXT, 1},  {MSGPACK_EXT, 2},   {MSGPACK_EXT, 4},
    {MSGPACK_FLOAT, 4}, {MSGPACK_FLOAT, 8}, {MSGPACK_UINT, 1}, {MSGPACK_UINT, 2},  {MSGPACK_UINT, 4},
    {MSGPACK_UINT, 8},  {MSGPACK_INT, 1},   {MSGPACK_INT, 2},  {MSGPACK_INT, 4},   {MSGPACK_INT, 8},
    {MSGPACK_EXT, 0},   {MSGPACK_EXT, 0},   {MSGPACK_EXT, 0},  {MSGPACK_EXT, 0},   {MSGPACK_EXT, 0},
    {MSGPACK_TEXT, 1},  {MSGPACK_TEXT, 2},  {MSGPACK_TEXT, 4}, {MSGPACK_ARRAY, 2}, {MSGPACK_ARRAY, 4},
    {MSGPACK_MAP, 2},   {MSGPACK_MAP, 4},
};

static uint64_t read_number(reader *in, size_t width)
{
    const unsigned char *b = reader_take(in, width);
    return b ? load_number(b, width, true) : 0;
}

/* read_small - sets the kind of VALUE by its first byte BITS, which is below c0 or from e0 on, and returns
 * the number or length in it. */
static uint64_t read_small(struct msgpack_value *value, unsigned bits)
{
    value->kind = bits <= 0x7f   ? MSGPACK_UINT
                  : bits <= 0x8f ? MSGPACK_MAP
                  : bits <= 0x9f ? MSGPACK_ARRAY
                  : bits <= 0xbf ? MSGPACK_TEXT
                                 : MSGPACK_INT;
    return bits <= 0x7f   ? bits
           : bits <= 0x9f ? bits & 15
           : bits <= 0xbf ? bits & 31
                          : (uint64_t)extend_sign(bits, 1);
}

/* read_head - reads the first byte of VALUE, and returns the number or length in it or after it. */
static uint64_t read_head(struct msgpack_walk *walk, struct msgpack_value *value)
{
    unsigned b = (unsigned)read_number(&walk->r, 1);
    if (b < 0xc0 || b >= 0xe0)
        return read_small(value, b);
    value->kind = (enum msgpack_kind)forms[b - 0xc0].kind;
    value->width = forms[b - 0xc0].width;
    if (value->kind == MSGPACK_BOOL)
        return b & 1;
    if (value->kind == MSGPACK_EXT && !value->width)
        return UINT64_C(1) << (b - 0xd4);
    uint64_t n = value->width ? read_number(&walk->r, value->width) : 0;
    return value->kind == MSGPACK_INT ? (uint64_t)extend_sign(n, value->width) : n;
}

static ckpt_status msgpack_fail(struct msgpack_walk *walk, const struct msgpack_value *value)
{
    if (walk->r.status && walk->r.status != CKPT_ETRUNCATED)
        return walk->r.status;
    return fail(walk->err, CKPT_EFORMAT, source_pos(walk->r.src, value->at),
                "{no value} of MessagePack that fits in the {=%" PRIu64 " bytes} left",
                walk->r.end - value->at);
}

static ckpt_status read_value(struct msgpack_walk *walk, struct msgpack_value *value)
{
    *value = (struct msgpack_value){.at = walk->r.pos};
    uint64_t n = read_head(walk, value), nested = 0;
    if (value->kind == MSGPACK_EXT)
        value->type = (int8_t)read_number(&walk->r, 1);
    value->data = walk->r.pos;
    switch (value->kind) {
    case MSGPACK_NEVER: return msgpack_fail(walk, value);
    case MSGPACK_TEXT:
    case MSGPACK_BYTES:
    case MSGPACK_EXT: value->n = n; break;
    case MSGPACK_ARRAY: value->count = nested = n; break;
    case MSGPACK_MAP: value->count = n, nested = 2 * n; break;
    default: value->bits = n; break;
    }
    walk->unread--;
    uint64_t left = reader_left(&walk->r);
    if (walk->r.status || !reader_skip(&walk->r, value->n) || nested > left || walk->unread > left - nested)
        return msgpack_fail(walk, value);
    walk->unread += nested;
    return CKPT_OK;
}

ckpt_status msgpack_read(source *src, msgpack_visit *visit, void *user, ckpt_error *err)
{
    struct msgpack_walk w = {.unread = 1, .err = err};
    struct msgpack_value v;
    ckpt_status st = reader_init(&w.r, src, 0, src->size, err);
    while (st == CKPT_OK && w.unread) {
        st = read_value(&w, &v);
        if (st == CKPT_OK && visit)
            st = visit(user, &v, err);
    }
    if (st == CKPT_OK && reader_left(&w.r))
        st = fail(err, CKPT_EFORMAT, source_pos(src, w.r.pos), "{%" PRIu64 " bytes} follow {=the last value}",
                  reader_left(&w.r));
    reader_free(&w.r);
    return st;
}
