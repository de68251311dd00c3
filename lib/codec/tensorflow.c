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

/* read_number - reads field NUMBER of the message C, and sets *FOUND to whether C has it. False: C is
 * malformed. */
static bool read_number(cursor c, uint64_t number, uint64_t *out, bool *found)
{
    struct proto_field f;
    *out = 0;
    *found = false;
    while (proto_next(&c, &f))
        if (proto_is(&f, number, PROTO_VARINT)) {
            *out = f.value;
            *found = true;
        }
    return !c.bad;
}

/* count_messages - sets *N to the number of submessages in field NUMBER of the message C; false: C is
 * malformed. */
static bool count_messages(cursor c, uint64_t number, uint32_t *n)
{
    struct proto_field f;
    *n = 0;
    while (proto_next(&c, &f))
        *n += proto_is(&f, number, PROTO_BYTES);
    return !c.bad;
}

static ckpt_status fail_message(ckpt_error *err, uint64_t pos, const char *what)
{
    return fail(err, CKPT_EFORMAT, pos, "{malformed} {=%s}", what);
}

/* read_sizes - reads the sizes of the TensorShapeProto C to S, which has room for them. */
static ckpt_status read_sizes(cursor c, struct tf_shape *s, ckpt_error *err)
{
    struct proto_field f;
    uint64_t size;
    bool found;
    uint32_t i = 0;
    while (proto_next(&c, &f)) {
        if (proto_is(&f, 3, PROTO_VARINT) && f.value)
            return fail(err, CKPT_EUNSUPPORTED, c.pos, "a shape of {unknown rank}; {=its sizes} are needed");
        if (!proto_is(&f, 2, PROTO_BYTES))
            continue;
        if (!read_number(f.bytes, 1, &size, &found))
            return fail_message(err, f.bytes.pos, "dimension");
        if (size > INT64_MAX)
            return fail(err, CKPT_EFORMAT, f.bytes.pos,
                        "dimension %" PRIu32 " is {%" PRId64 "}; it must be {=0 or more}", i, (int64_t)size);
        s->sizes[i++] = size;
    }
    return CKPT_OK;
}

ckpt_status tf_read_shape(arena *a, cursor c, struct tf_shape *s, ckpt_error *err)
{
    if (!count_messages(c, 2, &s->ndim))
        return fail_message(err, c.pos, "shape");
    s->sizes = arena_array(a, s->ndim, sizeof *s->sizes);
    CKPT_TRY_ALLOC(s->sizes, err);
    CKPT_TRY(read_sizes(c, s, err));
    return checked_product(s->sizes, s->ndim, &s->elements)
               ? CKPT_OK
               : fail(err, CKPT_EFORMAT, c.pos, "a shape of {more} than {=2^64 elements}");
}

/* read_extents - reads the extents of the TensorSliceProto C to S. They must be inside SHAPE. */
static ckpt_status read_extents(cursor c, const struct tf_shape *shape, struct tf_slice *s, ckpt_error *err)
{
    struct proto_field f;
    uint32_t i = 0;
    while (proto_next(&c, &f)) {
        uint64_t start, length;
        bool has_start, has_length;
        if (!proto_is(&f, 1, PROTO_BYTES))
            continue;
        if (!read_number(f.bytes, 1, &start, &has_start) || !read_number(f.bytes, 2, &length, &has_length))
            return fail_message(err, f.bytes.pos, "extent of a slice");
        s->covers_all[i] = !has_length;
        s->offset[i] = has_length ? start : 0;
        s->size[i] = has_length ? length : shape->sizes[i];
        if (!range_within(s->offset[i], s->size[i], shape->sizes[i]))
            return fail(err, CKPT_EFORMAT, f.bytes.pos,
                        "a slice of {%" PRIu64 " from %" PRIu64 "} in dimension %" PRIu32
                        ", which has {=%" PRIu64 "}",
                        length, start, i, shape->sizes[i]);
        i++;
    }
    return CKPT_OK;
}

ckpt_status tf_read_slice(arena *a, cursor c, const struct tf_shape *shape, struct tf_slice *s,
                          ckpt_error *err)
{
    uint32_t n;
    if (!count_messages(c, 1, &n))
        return fail_message(err, c.pos, "slice");
    if (n != shape->ndim)
        return fail(err, CKPT_EFORMAT, c.pos,
                    "a slice of {%" PRIu32 " dimensions}, the tensor has {=%" PRIu32 "}", n, shape->ndim);
    s->offset = arena_array(a, n, sizeof *s->offset);
    s->size = arena_array(a, n, sizeof *s->size);
    s->covers_all = arena_array(a, n, sizeof *s->covers_all);
    return s->offset && s->size && s->covers_all ? read_extents(c, shape, s, err) : fail_memory(err);
}

uint64_t tf_count_elements(const struct tf_slice *s, uint32_t ndim)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < ndim; i++)
        n *= s->size[i];
    return n;
}

/* put_number - appends V as a number of OrderedCode. */
static void put_number(buf *key, uint64_t v)
{
    unsigned n = 0;
    while (n < 8 && v >> (8 * n))
        n++;
    buf_byte(key, (unsigned char)n);
    while (COUNT_DOWN(n))
        buf_byte(key, (unsigned char)(v >> (8 * n)));
}

/* put_text - appends S as a text of OrderedCode. */
static void put_text(buf *key, ckpt_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.ptr[i];
        buf_byte(key, c);
        if (c == 0 || c == 0xff)
            buf_byte(key, c == 0 ? 0xff : 0);
    }
    buf_put(key, "\0\1", 2);
}

/* put_signed - appends V >= 0 as a signed number of OrderedCode. */
static void put_signed(buf *key, uint64_t v)
{
    unsigned n = 1;
    unsigned char bytes[10] = {0};
    while (n < 10 && v >> (7 * n - 1))
        n++;
    for (unsigned i = 0; i < 8 && i < n; i++)
        bytes[n - 1 - i] = (unsigned char)(v >> (8 * i));
    for (unsigned i = 0; i < n; i++)
        bytes[i / 8] |= (unsigned char)(0x80 >> i % 8);
    buf_put(key, bytes, n);
}

void tf_put_slice_key(buf *key, ckpt_str name, const struct tf_slice *s, uint32_t ndim)
{
    put_number(key, 0);
    put_text(key, name);
    put_number(key, ndim);
    for (uint32_t i = 0; i < ndim; i++) {
        put_signed(key, s->offset[i]);
        if (s->covers_all[i])
            buf_byte(key, 0x7f); /* -1 */
        else
            put_signed(key, s->size[i]);
    }
}

struct variable_callback {
    tf_name_variable *call;
    void *user;
    ckpt_error *err;
};

static ckpt_status read_attribute(const struct variable_callback *each, cursor c)
{
    struct proto_field f;
    ckpt_str variable = {NULL, 0}, key = {NULL, 0};
    while (proto_next(&c, &f)) {
        if (proto_is(&f, 2, PROTO_BYTES))
            variable = proto_text(&f);
        else if (proto_is(&f, 3, PROTO_BYTES))
            key = proto_text(&f);
    }
    if (c.bad)
        return fail_message(each->err, c.pos, "attribute of the object graph");
    return variable.len && key.len ? each->call(each->user, key, variable, each->err) : CKPT_OK;
}

static ckpt_status read_node(const struct variable_callback *each, cursor c)
{
    struct proto_field f;
    while (proto_next(&c, &f))
        if (proto_is(&f, 2, PROTO_BYTES))
            CKPT_TRY(read_attribute(each, f.bytes));
    return c.bad ? fail_message(each->err, c.pos, "object of the object graph") : CKPT_OK;
}

ckpt_status tf_read_object_graph(cursor c, tf_name_variable *call, void *user, ckpt_error *err)
{
    const struct variable_callback each = {call, user, err};
    struct proto_field f;
    while (proto_next(&c, &f))
        if (proto_is(&f, 1, PROTO_BYTES))
            CKPT_TRY(read_node(&each, f.bytes));
    return c.bad ? fail_message(err, c.pos, "object graph") : CKPT_OK;
}
