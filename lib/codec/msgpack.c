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

static uint64_t read_number(reader *r, size_t width)
{
    const unsigned char *b = reader_take(r, width);
    return b ? load_number(b, width, true) : 0;
}

/* read_small - sets the kind of V by its first byte B, which is below c0 or from e0 on, and returns the
 * number or length in it. */
static uint64_t read_small(struct msgpack_value *v, unsigned b)
{
    v->kind = b <= 0x7f   ? MSGPACK_UINT
              : b <= 0x8f ? MSGPACK_MAP
              : b <= 0x9f ? MSGPACK_ARRAY
              : b <= 0xbf ? MSGPACK_TEXT
                          : MSGPACK_INT;
    return b <= 0x7f ? b : b <= 0x9f ? b & 15 : b <= 0xbf ? b & 31 : (uint64_t)extend_sign(b, 1);
}

/* read_head - reads the first byte of V, and returns the number or length in it or after it. */
static uint64_t read_head(struct msgpack_walk *w, struct msgpack_value *v)
{
    unsigned b = (unsigned)read_number(&w->r, 1);
    if (b < 0xc0 || b >= 0xe0)
        return read_small(v, b);
    v->kind = (enum msgpack_kind)forms[b - 0xc0].kind;
    v->width = forms[b - 0xc0].width;
    if (v->kind == MSGPACK_BOOL)
        return b & 1;
    if (v->kind == MSGPACK_EXT && !v->width)
        return UINT64_C(1) << (b - 0xd4);
    uint64_t n = v->width ? read_number(&w->r, v->width) : 0;
    return v->kind == MSGPACK_INT ? (uint64_t)extend_sign(n, v->width) : n;
}

static ckpt_status msgpack_fail(struct msgpack_walk *w, const struct msgpack_value *v)
{
    if (w->r.status && w->r.status != CKPT_ETRUNCATED)
        return w->r.status;
    return fail(w->err, CKPT_EFORMAT, source_pos(w->r.src, v->at),
                "{no value} of MessagePack that fits in the {=%" PRIu64 " bytes} left", w->r.end - v->at);
}

static ckpt_status read_value(struct msgpack_walk *w, struct msgpack_value *v)
{
    *v = (struct msgpack_value){.at = w->r.pos};
    uint64_t n = read_head(w, v), nested = 0;
    if (v->kind == MSGPACK_EXT)
        v->type = (int8_t)read_number(&w->r, 1);
    v->data = w->r.pos;
    switch (v->kind) {
    case MSGPACK_NEVER: return msgpack_fail(w, v);
    case MSGPACK_TEXT:
    case MSGPACK_BYTES:
    case MSGPACK_EXT: v->n = n; break;
    case MSGPACK_ARRAY: v->count = nested = n; break;
    case MSGPACK_MAP: v->count = n, nested = 2 * n; break;
    default: v->bits = n; break;
    }
    w->unread--;
    uint64_t bytes_left = reader_left(&w->r);
    if (w->r.status || !reader_skip(&w->r, v->n) || nested > bytes_left || w->unread > bytes_left - nested)
        return msgpack_fail(w, v);
    w->unread += nested;
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
