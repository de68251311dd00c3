/*
 * tensorflow.c - reads shapes, slices and element types of both checkpoint formats
 * (tensorflow/core/framework: types.proto, tensor_shape.proto, tensor_slice.proto;
 * core/lib/strings/ordered_code.cc, core/util/saved_tensor_slice_util.cc), and the graph of objects
 * (core/protobuf/trackable_object_graph.proto).
 *
 *   TensorShapeProto   2 dim {1 size}, 3 unknown_rank
 *   TensorSliceProto   1 extent {1 start, 2 length}, one for each dimension; no length: all of the dimension
 *
 *   TrackableObjectGraph  1 nodes
 *   TrackableObject       2 attributes
 *   SerializedTensor      2 full_name "dense/kernel", 3 checkpoint_key
 *
 * The key of a slice is in OrderedCode, whose bytes sort as the values do: the number 0, the name, the rank,
 * and for each dimension start and length as signed numbers. They are 0 and -1 if the extent has no length.
 *   number   a byte with the number of bytes that follow, then these, big-endian; the number 0 is one byte 00
 *   text     its bytes, 00 as 00 FF and FF as FF 00, then 00 01
 *   signed   v in n bytes: n set bits, a clear bit, 7 n - 1 bits of v; v < 0 as ~v, with all bits inverted
 */
#include "codec/tensorflow.h"

#include <inttypes.h>

#include "codec/protobuf.h"

static const struct tf_dtype dtypes[] = {
#define TF(number, name, dtype, width, swap, field) {number, name, CKPT_DT_##dtype, width, swap, field},
#include "codec/tensorflow.def"
#undef TF
};

const struct tf_dtype *tf_find_dtype(uint64_t number)
{
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (dtypes[i].number == number)
            return &dtypes[i];
    return NULL;
}

/* read_number - reads field NUMBER of the message IN, and sets *FOUND to whether IN has it. False: IN is
 * malformed. */
static bool read_number(cursor in, uint64_t number, uint64_t *out, bool *found)
{
    struct proto_field f;
    *out = 0;
    *found = false;
    while (proto_next(&in, &f))
        if (proto_is(&f, number, PROTO_VARINT)) {
            *out = f.value;
            *found = true;
        }
    return !in.bad;
}

/* count_messages - sets *COUNT to the number of submessages in field NUMBER of the message IN; false: IN is
 * malformed. */
static bool count_messages(cursor in, uint64_t number, uint32_t *count)
{
    struct proto_field f;
    *count = 0;
    while (proto_next(&in, &f))
        *count += proto_is(&f, number, PROTO_BYTES);
    return !in.bad;
}

static ckpt_status fail_message(ckpt_error *err, uint64_t pos, const char *what)
{
    return fail(err, CKPT_EFORMAT, pos, "{malformed} {=%s}", what);
}

/* read_sizes - reads the sizes of the TensorShapeProto IN to SHAPE, which has room for them. */
static ckpt_status read_sizes(cursor in, struct tf_shape *shape, ckpt_error *err)
{
    struct proto_field f;
    uint64_t size;
    bool found;
    uint32_t i = 0;
    while (proto_next(&in, &f)) {
        if (proto_is(&f, 3, PROTO_VARINT) && f.value)
            return fail(err, CKPT_EUNSUPPORTED, in.pos, "a shape of {unknown rank}; {=its sizes} are needed");
        if (!proto_is(&f, 2, PROTO_BYTES))
            continue;
        if (!read_number(f.bytes, 1, &size, &found))
            return fail_message(err, f.bytes.pos, "dimension");
        if (size > INT64_MAX)
            return fail(err, CKPT_EFORMAT, f.bytes.pos,
                        "dimension %" PRIu32 " is {%" PRId64 "}; it must be {=0 or more}", i, (int64_t)size);
        shape->sizes[i++] = size;
    }
    return CKPT_OK;
}

ckpt_status tf_read_shape(arena *a, cursor in, struct tf_shape *shape, ckpt_error *err)
{
    if (!count_messages(in, 2, &shape->ndim))
        return fail_message(err, in.pos, "shape");
    shape->sizes = arena_array(a, shape->ndim, sizeof *shape->sizes);
    CKPT_TRY_ALLOC(shape->sizes, err);
    CKPT_TRY(read_sizes(in, shape, err));
    return checked_product(shape->sizes, shape->ndim, &shape->elements)
               ? CKPT_OK
               : fail(err, CKPT_EFORMAT, in.pos, "a shape of {more} than {=2^64 elements}");
}

/* read_extents - reads the extents of the TensorSliceProto IN to SLICE. They must be inside SHAPE. */
static ckpt_status read_extents(cursor in, const struct tf_shape *shape, struct tf_slice *slice,
                                ckpt_error *err)
{
    struct proto_field f;
    uint32_t i = 0;
    while (proto_next(&in, &f)) {
        uint64_t start, length;
        bool has_start, has_length;
        if (!proto_is(&f, 1, PROTO_BYTES))
            continue;
        if (!read_number(f.bytes, 1, &start, &has_start) || !read_number(f.bytes, 2, &length, &has_length))
            return fail_message(err, f.bytes.pos, "extent of a slice");
        slice->covers_all[i] = !has_length;
        slice->offset[i] = has_length ? start : 0;
        slice->size[i] = has_length ? length : shape->sizes[i];
        if (!range_within(slice->offset[i], slice->size[i], shape->sizes[i]))
            return fail(err, CKPT_EFORMAT, f.bytes.pos,
                        "a slice of {%" PRIu64 " from %" PRIu64 "} in dimension %" PRIu32
                        ", which has {=%" PRIu64 "}",
                        length, start, i, shape->sizes[i]);
        i++;
    }
    return CKPT_OK;
}

ckpt_status tf_read_slice(arena *a, cursor in, const struct tf_shape *shape, struct tf_slice *slice,
                          ckpt_error *err)
{
    uint32_t n;
    if (!count_messages(in, 1, &n))
        return fail_message(err, in.pos, "slice");
    if (n != shape->ndim)
        return fail(err, CKPT_EFORMAT, in.pos,
                    "a slice of {%" PRIu32 " dimensions}, the tensor has {=%" PRIu32 "}", n, shape->ndim);
    slice->offset = arena_array(a, n, sizeof *slice->offset);
    slice->size = arena_array(a, n, sizeof *slice->size);
    slice->covers_all = arena_array(a, n, sizeof *slice->covers_all);
    return slice->offset && slice->size && slice->covers_all ? read_extents(in, shape, slice, err)
                                                             : fail_memory(err);
}

uint64_t tf_count_elements(const struct tf_slice *slice, uint32_t ndim)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < ndim; i++)
        n *= slice->size[i];
    return n;
}

/* put_number - appends NUMBER as a number of OrderedCode. */
static void put_number(buf *key, uint64_t number)
{
    unsigned n = 0;
    while (n < 8 && number >> (8 * n))
        n++;
    buf_byte(key, (unsigned char)n);
    while (COUNT_DOWN(n))
        buf_byte(key, (unsigned char)(number >> (8 * n)));
}

/* put_text - appends TEXT as a text of OrderedCode. */
static void put_text(buf *key, ckpt_str text)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        buf_byte(key, c);
        if (c == 0 || c == 0xff)
            buf_byte(key, c == 0 ? 0xff : 0);
    }
    buf_put(key, "\0\1", 2);
}

/* put_signed - appends NUMBER >= 0 as a signed number of OrderedCode. */
static void put_signed(buf *key, uint64_t number)
{
    unsigned n = 1;
    unsigned char bytes[10] = {0};
    while (n < 10 && number >> (7 * n - 1))
        n++;
    for (unsigned i = 0; i < 8 && i < n; i++)
        bytes[n - 1 - i] = (unsigned char)(number >> (8 * i));
    for (unsigned i = 0; i < n; i++)
        bytes[i / 8] |= (unsigned char)(0x80 >> i % 8);
    buf_put(key, bytes, n);
}

void tf_put_slice_key(buf *key, ckpt_str name, const struct tf_slice *slice, uint32_t ndim)
{
    put_number(key, 0);
    put_text(key, name);
    put_number(key, ndim);
    for (uint32_t i = 0; i < ndim; i++) {
        put_signed(key, slice->offset[i]);
        if (slice->covers_all[i])
            buf_byte(key, 0x7f); /* -1 */
        else
            put_signed(key, slice->size[i]);
    }
}

struct variable_callback {
    tf_name_variable *call;
    void *user;
    ckpt_error *err;
};

static ckpt_status read_attribute(const struct variable_callback *each, cursor in)
{
    struct proto_field f;
    ckpt_str variable = {NULL, 0}, key = {NULL, 0};
    while (proto_next(&in, &f)) {
        if (proto_is(&f, 2, PROTO_BYTES))
            variable = proto_text(&f);
        else if (proto_is(&f, 3, PROTO_BYTES))
            key = proto_text(&f);
    }
    if (in.bad)
        return fail_message(each->err, in.pos, "attribute of the object graph");
    return variable.len && key.len ? each->call(each->user, key, variable, each->err) : CKPT_OK;
}

static ckpt_status read_node(const struct variable_callback *each, cursor in)
{
    struct proto_field f;
    while (proto_next(&in, &f))
        if (proto_is(&f, 2, PROTO_BYTES))
            CKPT_TRY(read_attribute(each, f.bytes));
    return in.bad ? fail_message(each->err, in.pos, "object of the object graph") : CKPT_OK;
}

ckpt_status tf_read_object_graph(cursor in, tf_name_variable *call, void *user, ckpt_error *err)
{
    const struct variable_callback each = {call, user, err};
    struct proto_field f;
    while (proto_next(&in, &f))
        if (proto_is(&f, 1, PROTO_BYTES))
            CKPT_TRY(read_node(&each, f.bytes));
    return in.bad ? fail_message(err, in.pos, "object graph") : CKPT_OK;
}
