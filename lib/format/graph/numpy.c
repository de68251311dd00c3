/*
 * numpy.c - reads numpy arrays and scalars inside pickles. In many files they are the weights. numpy's
 * __reduce__ writes these calls:
 *
 *   _reconstruct(ndarray, (0,), b'b')  BUILD (1, shape, dtype, fortran_order, bytes | list)
 *   _frombuffer(bytes, dtype, shape, 'C'|'F')          protocol 5
 *   _frombuffer(bytes, dtype, shape, 'K', axes)        protocol 5, from numpy 2.3 on: transposed dimensions
 *   _reconstruct_array(_reconstruct, (ndarray, (0,), b'b'), (1, shape, dtype, fortran_order, bytes), {…})
 *                                                      an array of jax, in jax._src.array
 *   scalar(dtype, bytes)
 *   dtype('f4', False, True)           BUILD (3, '<', None, None, None, -1, -1, 0)
 *
 * dtype is in module numpy, the others are in numpy.core.*, from numpy 2 on in numpy._core.*.
 */
#include <inttypes.h>

#include "base/checked.h"
#include "base/utf8.h"
#include "core/numpy.h"
#include "format/graph/numpy.h"
#include "format/kit.h"

/* add_array_storage - adds DATA, the bytes of array VALUE, as a storage, and sets TENSOR->storage to its
 * index. */
static ckpt_status add_array_storage(struct graph *graph, const ckpt_value *value, const ckpt_value *data,
                                     const struct numpy_dtype *dtype, ckpt_tensor *tensor)
{
    source *bytes = NULL;
    ckpt_str key = arena_printf(graph->f->a, "numpy@%llu", (unsigned long long)value_offset(value));
    CKPT_TRY(key.ptr ? graph_open_bytes(graph, data, &bytes) : fail_memory(graph->err));
    if (!bytes)
        return graph_fail_expected(graph, value, "the data of a numpy array must be", "bytes", data);
    if (tensor->nbytes != bytes->size) {
        uint64_t nbytes = bytes->size;
        source_unref(bytes);
        return graph_fail(graph, value, "a numpy array of {=%llu elements of %s} has {%llu bytes}",
                          (unsigned long long)tensor->elements, ckpt_tensor_dtype_name(tensor),
                          (unsigned long long)nbytes);
    }
    uint8_t swap = numpy_swap_bytes(dtype);
    struct storage s = {.src = bytes, .dtype = (uint8_t)tensor->dtype};
    s.nbytes = bytes->size;
    s.key = key;
    s.swap_width = dtype->big_endian && swap > 1 ? swap : 0;
    CKPT_TRY(table_add_storage(&graph->f->table, &s, &tensor->storage, graph->err));
    tensor->has_data = true;
    return CKPT_OK;
}

/* get_array_storage - sets TENSOR->storage to the storage of array VALUE. Adds it the first time that VALUE
 * is reached. */
static ckpt_status get_array_storage(struct graph *graph, const ckpt_value *value, const ckpt_value *data,
                                     const struct numpy_dtype *dtype, ckpt_tensor *tensor)
{
    ckpt_file *f = graph->f;
    if (!f->storages.by_node && !(f->storages.by_node = map_new(16)))
        return fail_memory(graph->err);
    tensor->storage = map_get_num(f->storages.by_node, ptr_key(value));
    tensor->has_data = tensor->storage != MAP_NONE;
    if (tensor->has_data)
        return CKPT_OK;
    CKPT_TRY(add_array_storage(graph, value, data, dtype, tensor));
    return map_set_num(f->storages.by_node, ptr_key(value), tensor->storage) ? CKPT_OK
                                                                             : fail_memory(graph->err);
}

/* make_fields_text - returns the fields of DTYPE, a record type, as a text; .ptr NULL: out of memory. */
static ckpt_str make_fields_text(struct graph *graph, const ckpt_value *dtype)
{
    char text[512];
    value_text_or_type(value_item(value_state(dtype), 4), 64, text, sizeof text);
    return arena_printf(graph->f->a, "fields %s", text);
}

/* transpose - makes TENSOR the array that numpy makes of one in C order by transpose(AXES). */
static ckpt_status transpose(struct graph *graph, const ckpt_value *value, const ckpt_value *axes,
                             ckpt_tensor *tensor)
{
    const uint64_t *axis, *size = tensor->shape, *stride = tensor->stride;
    uint32_t n;
    if (!axes || axes->type == CKPT_V_NONE)
        return graph_fail(graph, value, "a numpy array has the order {K} but no {=axes}");
    CKPT_TRY(graph_read_sizes(graph, axes, "axes", &n, &axis));
    if (n != tensor->ndim)
        return graph_fail(graph, value, "a numpy array has {%u axes}, it must have {=%u}", n, tensor->ndim);
    uint64_t *new_size = arena_array(graph->f->a, n, sizeof *new_size);
    uint64_t *new_stride = stride ? arena_array(graph->f->a, n, sizeof *new_stride) : NULL;
    bool *used = arena_array(graph->f->a, n, sizeof *used);
    if (!new_size || (stride && !new_stride) || !used)
        return fail_memory(graph->err);
    memset(used, 0, n * sizeof *used);
    for (uint32_t i = 0; i < n; i++) {
        if (axis[i] >= n || used[axis[i]])
            return graph_fail(graph, value,
                              "the axes of a numpy array have {%" PRIu64 "}, "
                              "they must be {=0 to %u, each once}",
                              axis[i], n - 1);
        used[axis[i]] = true;
        new_size[i] = size[axis[i]];
        if (stride)
            new_stride[i] = stride[axis[i]];
    }
    tensor->shape = new_size;
    tensor->stride = new_stride;
    return CKPT_OK;
}

/* set_layout - sets the strides of TENSOR, whose dimensions are those of ARRAY, and transposes it if need
 * be. */
static ckpt_status set_layout(struct graph *graph, const ckpt_value *value, const struct numpy_array *array,
                              ckpt_tensor *tensor)
{
    if (!array->order)
        return graph_fail_expected(graph, value, "the order of a numpy array must be", "C, F or K",
                                   value_arg(value, 3));
    /* An array without elements needs no strides, and its strides could exceed 64 bits. */
    if (tensor->elements &&
        !(tensor->stride = kit_strides(graph->f->a, tensor->shape, tensor->ndim, array->order == 'F')))
        return fail_memory(graph->err);
    return array->order == 'K' ? transpose(graph, value, array->axes, tensor) : CKPT_OK;
}

static ckpt_status describe_array(struct graph *graph, const ckpt_value *value,
                                  const struct numpy_array *array, struct tensor_description *description)
{
    struct numpy_dtype d;
    const uint64_t *sizes;
    ckpt_tensor *t = &description->row.t;
    if (!numpy_dtype_of(array->dtype, &d))
        return graph_fail_expected(graph, value, "the dtype of a numpy array must be", "one of numpy's",
                                   array->dtype);
    CKPT_TRY(graph_read_sizes(graph, array->shape, "shape", &t->ndim, &sizes));
    description->is_tensor = true;
    t->has_shape = 1;
    t->kind = CKPT_NDARRAY;
    t->dtype = (uint16_t)(numpy_known_dtype(&d) == CKPT_DT_NONE ? CKPT_DT_NAMED : numpy_known_dtype(&d));
    t->shape = sizes;
    t->elements = 1;
    for (uint32_t k = 0; k < t->ndim; k++)
        if (!checked_mul(t->elements, sizes[k], &t->elements))
            return graph_fail(graph, value,
                              "{the number of elements} of a numpy array does not fit {=64 bits}");
    if (!checked_mul(t->elements, d.bytes, &t->nbytes))
        return graph_fail(graph, value, "{the number of bytes} of a numpy array does not fit {=64 bits}");
    if (t->dtype == CKPT_DT_NAMED && !(t->dtype_name = numpy_dtype_text(graph->f->a, &d)))
        return fail_memory(graph->err);
    CKPT_TRY(set_layout(graph, value, array, t));
    if (d.kind == 'O')
        return CKPT_OK;
    if (d.record && !(t->note = make_fields_text(graph, array->dtype)).ptr)
        return fail_memory(graph->err);
    return get_array_storage(graph, value, array->data, &d, t);
}

ckpt_status graph_describe_numpy(struct graph *graph, const ckpt_value *value,
                                 struct tensor_description *description)
{
    struct numpy_array array;
    return numpy_array_of(value, &array) ? describe_array(graph, value, &array, description) : CKPT_OK;
}

static ckpt_status open_memory(struct graph *graph, ckpt_str bytes, source **out)
{
    *out = source_mem(bytes.ptr, bytes.len, CKPT_NO_OFFSET);
    return *out ? CKPT_OK : fail_memory(graph->err);
}

/* open_latin1 - opens the text VALUE, whose code points are bytes, as a source of these bytes. */
static ckpt_status open_latin1(struct graph *graph, const ckpt_value *value, source **out)
{
    if (value->flags & VALUE_SPAN) {
        const struct value_span *s = value->u.span;
        return source_latin1(s->src, s->off, s->nbytes, s->count, out, graph->err);
    }
    unsigned char *bytes = arena_alloc(graph->f->a, value->u.str.len);
    if (!bytes)
        return fail_memory(graph->err);
    size_t n = utf8_latin1(value->u.str, bytes);
    if (n == SIZE_MAX)
        return graph_fail(graph, value, "a latin-1 text has {a code point above} {=U+00FF}");
    return open_memory(graph, str_of((const char *)bytes, n), out);
}

static ckpt_status open_stored_bytes(struct graph *graph, const ckpt_value *value, source **out)
{
    if (value->flags & VALUE_SPAN)
        return source_slice(value->u.span->src, value->u.span->off, value->u.span->nbytes, out, graph->err);
    return open_memory(graph, value->u.str, out);
}

ckpt_status graph_open_bytes(struct graph *graph, const ckpt_value *value, source **out)
{
    *out = NULL;
    for (int wraps = 0; value && wraps < MAX_WRAPPERS; wraps++) {
        if (value->type == CKPT_V_BYTES || value->type == CKPT_V_BYTEARRAY || value->type == CKPT_V_STR8)
            return open_stored_bytes(graph, value, out);
        if (value_calls(value, "_codecs", "encode", 1) && value_arg(value, 0)->type == CKPT_V_STR)
            return open_latin1(graph, value_arg(value, 0), out);
        bool is_bytes = value_calls(value, "__builtin__", "bytes", 0) ||
                        value_calls(value, "builtins", "bytes", 0) ||
                        value_calls(value, "__builtin__", "bytearray", 0) ||
                        value_calls(value, "builtins", "bytearray", 0);
        if (!is_bytes)
            return CKPT_OK;
        if (value_nargs(value) == 0)
            return open_memory(graph, str_of("", 0), out);
        value = value_arg(value, 0);
    }
    return CKPT_OK;
}

ckpt_status file_open_bytes(ckpt_file *f, const ckpt_value *value, source **out, ckpt_error *err)
{
    static const struct graph_input none = {.user = NULL};
    struct graph g = {.f = f, .input = &none, .err = err};
    return graph_open_bytes(&g, value, out);
}
