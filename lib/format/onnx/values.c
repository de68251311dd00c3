/*
 * values.c - decodes those values of a TensorProto (onnx/onnx.proto) that are not in raw_data:
 *
 *   int32_data, int64_data, uint64_data   varints: numbers, bits of floats, or bytes of packed elements
 *   float_data, double_data  numbers of 4 and 8 bytes, in one field or one by one
 *   string_data a field for each text
 */
#include "format/onnx/onnx.h"

#include <inttypes.h>

#include "base/store.h"
#include "codec/protobuf.h"

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
    memcpy(decoding->out, bytes, decoding->t->type->width);
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

static ckpt_status put_text(struct decoding *decoding, uint64_t count)
{
    uint64_t at = decoding->r.pos;
    if (decoding->ndecoded == decoding->count)
        return fail_count(decoding, true);
    store_u64le(decoding->out, count);
    decoding->ndecoded++;
    if (!reader_skip(&decoding->r, count))
        return decoding->r.status;
    ckpt_status st = source_read(decoding->src, at, decoding->out + 8, (size_t)count, decoding->err);
    decoding->out += 8 + count; /* it has room for the bytes of all texts */
    return st;
}

static ckpt_status put_fields(struct decoding *decoding)
{
    struct proto_field f;
    while (decoding->r.pos < decoding->t->end) {
        CKPT_TRY(proto_read(&decoding->r, &f));
        if (f.number == decoding->t->field && f.wire != PROTO_BYTES) /* the codec checked the wire type */
            CKPT_TRY(put_number(decoding, f.value));
        else if (f.number == decoding->t->field && decoding->t->field == ONNX_STRINGS)
            CKPT_TRY(put_text(decoding, f.value));
        else if (f.number == decoding->t->field)
            CKPT_TRY(put_packed_numbers(decoding, decoding->r.pos + f.value));
        else if (f.wire == PROTO_BYTES && !reader_skip(&decoding->r, f.value))
            return decoding->r.status;
    }
    return decoding->ndecoded == decoding->count ? CKPT_OK : fail_count(decoding, false);
}

static ckpt_status decode(arena *a, source *src, const struct onnx_tensor *tensor, uint64_t count,
                          uint64_t bytes, source **out, ckpt_error *err)
{
    struct decoding decoding = {.t = tensor, .src = src, .count = count, .err = err};
    size_t size;
    unsigned char *to = checked_size(bytes, &size) ? arena_alloc(a, size) : NULL;
    CKPT_TRY_ALLOC(to, err);
    decoding.out = to;
    CKPT_TRY(reader_init(&decoding.r, src, tensor->at, tensor->end, err));
    ckpt_status st = put_fields(&decoding);
    reader_free(&decoding.r);
    CKPT_TRY(st);
    *out = source_mem(to, size, CKPT_NO_OFFSET);
    return *out ? CKPT_OK : fail_memory(err);
}

ckpt_status onnx_decode(arena *a, source *src, const struct onnx_tensor *tensor, uint64_t count, source **out,
                        ckpt_error *err)
{
    if (count > tensor->bytes) /* a number takes at least a byte */
        return fail(err, CKPT_EFORMAT, source_pos(src, tensor->values),
                    "{%" PRIu64 " bytes} of values; dtype and shape take {=%" PRIu64 " values}",
                    tensor->bytes, count);
    return decode(a, src, tensor, count, count * tensor->type->width, out, err);
}

ckpt_status onnx_decode_texts(arena *a, source *src, const struct onnx_tensor *tensor, uint64_t count,
                              source **out, ckpt_error *err)
{
    if (count != tensor->nfields)
        return fail(err, CKPT_EFORMAT, source_pos(src, tensor->values),
                    "{%" PRIu64 " texts}; the shape takes {=%" PRIu64 "}", tensor->nfields, count);
    return decode(a, src, tensor, count, 8 * count + tensor->bytes, out, err);
}
