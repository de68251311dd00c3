/*
 * values.c - decodes those values of a TensorProto (onnx/onnx.proto) that are not whole bytes in raw_data:
 *
 *   raw_data    elements of 2, 4 and 6 bits, packed, the least significant bits first
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

struct unpacked_source {
    source s;
    source *packed;
    unsigned bits;
};

#define UNPACK_AT_ONCE 4096u /* bytes that are read at a time */

static ckpt_status unpacked_read(source *s, uint64_t off, void *to, size_t n, ckpt_error *err)
{
    const struct unpacked_source *unpacked = (const struct unpacked_source *)s;
    unsigned char *out = to,
                  packed[UNPACK_AT_ONCE + 1] = {0}; /* one more, so that load_u16le may read past the end */
    const unsigned mask = (1u << unpacked->bits) - 1;
    const uint64_t end = unpacked->packed->size;
    while (n) {
        uint64_t first = off * unpacked->bits / 8; /* bounded: inside of the source */
        uint64_t left = end - first;        /* bounded: FIRST is below END */
        size_t got = left < UNPACK_AT_ONCE ? (size_t)left : UNPACK_AT_ONCE;
        size_t bit = (size_t)(off * unpacked->bits % 8), i = 0; /* bounded: as FIRST */
        CKPT_TRY(source_read(unpacked->packed, first, packed, got, err));
        for (; i < n && (bit + unpacked->bits + 7) / 8 <= got; i++, bit += unpacked->bits)
            out[i] = (unsigned char)((unsigned)load_u16le(packed + bit / 8) >> bit % 8 & mask);
        out += i;
        off += i; /* bounded: up to the size */
        n -= i;
    }
    return CKPT_OK;
}

static void unpacked_close(source *s)
{
    source_unref(((struct unpacked_source *)s)->packed);
    free(s);
}

static const struct source_ops unpacked_ops = {.read_at = unpacked_read, .close = unpacked_close};

ckpt_status onnx_unpack(source *src, uint64_t count, unsigned bits, source **out, ckpt_error *err)
{
    struct unpacked_source *unpacked = calloc(1, sizeof *unpacked);
    if (!unpacked)
        return fail_memory(err);
    unpacked->s = (source){.ops = &unpacked_ops, .size = count, .position = CKPT_NO_OFFSET, .refs = 1};
    unpacked->packed = source_ref(src);
    unpacked->bits = bits;
    *out = &unpacked->s;
    return CKPT_OK;
}

struct decoding {
    const struct onnx_tensor *t;
    source *src;
    reader r;
    unsigned char *out;
    uint64_t ndecoded, count; /* numbers or texts: how many so far, and how many in all */
    ckpt_error *err;
};

static ckpt_status fail_count(const struct decoding *decoding, bool more)
{
    return fail(decoding->err, CKPT_EFORMAT, source_pos(decoding->src, decoding->t->values),
                more ? "{more} values than {=%" PRIu64 "}, which dtype and shape take"
                     : "{fewer} values than {=%" PRIu64 "}, which dtype and shape take",
                decoding->count);
}

static ckpt_status put_number(struct decoding *decoding, uint64_t bits)
{
    unsigned char bytes[8];
    if (decoding->ndecoded == decoding->count)
        return fail_count(decoding, true);
    store_u64le(bytes, bits);
    memcpy(decoding->out, bytes, decoding->t->type->width); /* bounded: at most 8 */
    decoding->out += decoding->t->type->width;
    decoding->ndecoded++;
    return CKPT_OK;
}

static ckpt_status put_packed_numbers(struct decoding *decoding, uint64_t end)
{
    enum onnx_field field = decoding->t->field;
    while (decoding->r.pos < end) {
        uint64_t bits, at = decoding->r.pos;
        bool ok = true;
        if (field == ONNX_FLOATS)
            bits = reader_u32(&decoding->r);
        else if (field == ONNX_DOUBLES)
            bits = reader_u64(&decoding->r);
        else
            ok = reader_varint(&decoding->r, &bits);
        CKPT_TRY(decoding->r.status);
        if (!ok || decoding->r.pos > end)
            return fail(decoding->err, CKPT_EFORMAT, source_pos(decoding->src, at), "{malformed} {=number}");
        CKPT_TRY(put_number(decoding, bits));
    }
    return CKPT_OK;
}

static ckpt_status put_text(struct decoding *decoding, uint64_t n)
{
    uint64_t at = decoding->r.pos;
    if (decoding->ndecoded == decoding->count)
        return fail_count(decoding, true);
    store_u64le(decoding->out, n);
    decoding->ndecoded++;
    if (!reader_skip(&decoding->r, n))
        return decoding->r.status;
    ckpt_status st = source_read(decoding->src, at, decoding->out + 8, (size_t)n, decoding->err);
    decoding->out += 8 + n; /* bounded: it has room for the bytes of all texts */
    return st;
}

static ckpt_status put_fields(struct decoding *decoding)
{
    struct proto_field f;
    while (decoding->r.pos < decoding->t->end) {
        CKPT_TRY(proto_read(&decoding->r, &f));
        if (f.number == decoding->t->field &&
            f.wire != PROTO_BYTES) /* the codec checked the wire type */
            CKPT_TRY(put_number(decoding, f.value));
        else if (f.number == decoding->t->field && decoding->t->field == ONNX_STRINGS)
            CKPT_TRY(put_text(decoding, f.value));
        else if (f.number == decoding->t->field)
            CKPT_TRY(
                put_packed_numbers(decoding, decoding->r.pos + f.value)); /* bounded: inside of the message */
        else if (f.wire == PROTO_BYTES && !reader_skip(&decoding->r, f.value))
            return decoding->r.status;
    }
    return decoding->ndecoded == decoding->count ? CKPT_OK : fail_count(decoding, false);
}

static ckpt_status decode(arena *a, source *src, const struct onnx_tensor *t, uint64_t count, uint64_t bytes,
                          source **out, ckpt_error *err)
{
    struct decoding decoding = {.t = t, .src = src, .count = count, .err = err};
    size_t size;
    unsigned char *to = checked_size(bytes, &size) ? arena_alloc(a, size) : NULL;
    if (!to)
        return fail_memory(err);
    decoding.out = to;
    CKPT_TRY(reader_init(&decoding.r, src, t->at, t->end, err));
    ckpt_status st = put_fields(&decoding);
    reader_free(&decoding.r);
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
    return decode(a, src, t, count, count * t->type->width, out, err); /* bounded: 8 * t->bytes */
}

ckpt_status onnx_decode_texts(arena *a, source *src, const struct onnx_tensor *t, uint64_t count,
                              source **out, ckpt_error *err)
{
    if (count != t->nfields)
        return fail(err, CKPT_EFORMAT, source_pos(src, t->values),
                    "{%" PRIu64 " texts}; the shape takes {=%" PRIu64 "}", t->nfields, count);
    return decode(a, src, t, count, 8 * count + t->bytes, out, err); /* bounded: all texts are in SRC */
}
