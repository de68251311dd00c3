/*
 * values.c - decodes values of ONNX that are not stored one element after the other (onnx/onnx.proto,
 * TensorProto):
 *   raw data    elements of 2, 4 and 6 bits, one after the other, the least significant bits first
 *   int32_data, int64_data, uint64_data   varints: numbers, bits of floats, or bytes of packed elements
 *   float_data, double_data  numbers of 4 and 8 bytes, in one field or one by one
 *   string_data a field for each text
 */
#include "format/onnx/onnx.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/checked.h"
#include "base/store.h"
#include "codec/protobuf.h"

/* ------------------------------------------------------------------------------ packed */

struct unpacked {
    source s;
    source *from;
    unsigned bits;
};

#define UNPACK_AT_ONCE 4096u /* bytes that are read at a time */

static ckpt_status unpacked_read(source *s, uint64_t off, void *to, size_t n, ckpt_error *err)
{
    const struct unpacked *u = (const struct unpacked *)s;
    unsigned char *out = to,
                  packed[UNPACK_AT_ONCE + 1] = {0}; /* one more, so that load_u16le may read past the end */
    const unsigned mask = (1u << u->bits) - 1;
    const uint64_t end = u->from->size;
    while (n) {
        uint64_t first = off * u->bits / 8; /* bounded: inside of the source */
        uint64_t left = end - first;        /* bounded: FIRST is below END */
        size_t got = left < UNPACK_AT_ONCE ? (size_t)left : UNPACK_AT_ONCE;
        size_t bit = (size_t)(off * u->bits % 8), i = 0; /* bounded: as FIRST */
        CKPT_TRY(source_read(u->from, first, packed, got, err));
        for (; i < n && (bit + u->bits + 7) / 8 <= got; i++, bit += u->bits)
            out[i] = (unsigned char)((unsigned)load_u16le(packed + bit / 8) >> bit % 8 & mask);
        out += i;
        off += i; /* bounded: up to the size */
        n -= i;
    }
    return CKPT_OK;
}

static void unpacked_close(source *s)
{
    source_unref(((struct unpacked *)s)->from);
    free(s);
}

static const struct source_ops unpacked_ops = {.read_at = unpacked_read, .close = unpacked_close};

ckpt_status onnx_unpack(source *src, uint64_t count, unsigned bits, source **out, ckpt_error *err)
{
    struct unpacked *u = calloc(1, sizeof *u);
    if (!u)
        return fail_memory(err);
    u->s = (source){.ops = &unpacked_ops, .size = count, .base = CKPT_NO_OFFSET, .refs = 1};
    u->from = source_ref(src);
    u->bits = bits;
    *out = &u->s;
    return CKPT_OK;
}

/* ----------------------------------------------------------------------------- decoded */

/* Values that are being decoded. */
struct decoding {
    const struct onnx_tensor *t;
    source *src;
    reader r;
    unsigned char *out;
    uint64_t n, count; /* numbers or texts: how many so far, and how many in all */
    ckpt_error *err;
};

static ckpt_status fail_count(const struct decoding *d, bool more)
{
    return fail(d->err, CKPT_EFORMAT, source_pos(d->src, d->t->values),
                more ? "{more} values than {=%" PRIu64 "}, which dtype and shape take"
                     : "{fewer} values than {=%" PRIu64 "}, which dtype and shape take",
                d->count);
}

static ckpt_status put_number(struct decoding *d, uint64_t bits)
{
    unsigned char bytes[8];
    if (d->n == d->count)
        return fail_count(d, true);
    store_u64le(bytes, bits);
    memcpy(d->out, bytes, d->t->type->width); /* bounded: at most 8 */
    d->out += d->t->type->width;
    d->n++;
    return CKPT_OK;
}

/* put_packed - appends the numbers up to END. */
static ckpt_status put_packed(struct decoding *d, uint64_t end)
{
    enum onnx_field field = d->t->field;
    while (d->r.pos < end) {
        uint64_t bits, at = d->r.pos;
        bool ok = true;
        if (field == ONNX_FLOATS)
            bits = reader_u32(&d->r);
        else if (field == ONNX_DOUBLES)
            bits = reader_u64(&d->r);
        else
            ok = reader_varint(&d->r, &bits);
        CKPT_TRY(d->r.status);
        if (!ok || d->r.pos > end)
            return fail(d->err, CKPT_EFORMAT, source_pos(d->src, at), "{malformed} {=number}");
        CKPT_TRY(put_number(d, bits));
    }
    return CKPT_OK;
}

/* put_text - appends the next N bytes as a text. */
static ckpt_status put_text(struct decoding *d, uint64_t n)
{
    uint64_t at = d->r.pos;
    if (d->n == d->count)
        return fail_count(d, true);
    store_u64le(d->out, n);
    d->n++;
    if (!reader_skip(&d->r, n))
        return d->r.status;
    ckpt_status st = source_read(d->src, at, d->out + 8, (size_t)n, d->err);
    d->out += 8 + n; /* bounded: it has room for the bytes of all texts */
    return st;
}

static ckpt_status put_fields(struct decoding *d)
{
    struct proto_field f;
    while (d->r.pos < d->t->end) {
        CKPT_TRY(proto_read(&d->r, &f));
        if (f.number == d->t->field && f.wire != PROTO_BYTES) /* of the wire type: the codec checked it */
            CKPT_TRY(put_number(d, f.value));
        else if (f.number == d->t->field && d->t->field == ONNX_STRINGS)
            CKPT_TRY(put_text(d, f.value));
        else if (f.number == d->t->field)
            CKPT_TRY(put_packed(d, d->r.pos + f.value)); /* bounded: inside of the message */
        else if (f.wire == PROTO_BYTES && !reader_skip(&d->r, f.value))
            return d->r.status;
    }
    return d->n == d->count ? CKPT_OK : fail_count(d, false);
}

/* decode - decodes COUNT values to BYTES bytes. */
static ckpt_status decode(arena *a, source *src, const struct onnx_tensor *t, uint64_t count, uint64_t bytes,
                          source **out, ckpt_error *err)
{
    struct decoding d = {.t = t, .src = src, .count = count, .err = err};
    size_t size;
    unsigned char *to = checked_size(bytes, &size) ? arena_alloc(a, size) : NULL;
    if (!to)
        return fail_memory(err);
    d.out = to;
    CKPT_TRY(reader_init(&d.r, src, t->at, t->end, err));
    ckpt_status st = put_fields(&d);
    reader_free(&d.r);
    CKPT_TRY(st);
    *out = source_mem(to, size, CKPT_NO_OFFSET);
    return *out ? CKPT_OK : fail_memory(err);
}

ckpt_status onnx_decode(arena *a, source *src, const struct onnx_tensor *t, uint64_t count, source **out,
                        ckpt_error *err)
{
    if (count > t->bytes) /* a number takes at least a byte */
        return fail(err, CKPT_EFORMAT, source_pos(src, t->values),
                    "{%" PRIu64 " bytes} of values; dtype and shape take {=%" PRIu64 " values}", t->bytes,
                    count);
    return decode(a, src, t, count, count * t->type->width, out, err); /* bounded: 8 times those bytes */
}

ckpt_status onnx_decode_texts(arena *a, source *src, const struct onnx_tensor *t, uint64_t count,
                              source **out, ckpt_error *err)
{
    if (count != t->nfields)
        return fail(err, CKPT_EFORMAT, source_pos(src, t->values),
                    "{%" PRIu64 " texts}; the shape takes {=%" PRIu64 "}", t->nfields, count);
    return decode(a, src, t, count, 8 * count + t->bytes, out, err); /* bounded: each is in the message */
}
