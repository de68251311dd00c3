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

/* add_array_storage - adds DATA, the bytes of array V, as a storage, and sets T->storage to its index. */
static ckpt_status add_array_storage(struct graph *g, const ckpt_value *v, const ckpt_value *data,
                                     const struct numpy_dtype *d, ckpt_tensor *t)
{
    source *bytes = NULL;
    ckpt_str key = arena_printf(g->f->a, "numpy@%llu", (unsigned long long)value_offset(v));
    CKPT_TRY(key.ptr ? graph_open_bytes(g, data, &bytes) : fail_memory(g->err));
    if (!bytes)
        return graph_fail_expected(g, v, "the data of a numpy array must be", "bytes", data);
    if (t->nbytes != bytes->size) {
        uint64_t nbytes = bytes->size;
        source_unref(bytes);
        return graph_fail(g, v, "a numpy array of {=%llu elements of %s} has {%llu bytes}",
                          (unsigned long long)t->elements, ckpt_tensor_dtype_name(t),
                          (unsigned long long)nbytes);
    }
    uint8_t swap = numpy_swap_bytes(d);
    struct storage s = {.src = bytes, .dtype = (uint8_t)t->dtype};
    s.nbytes = bytes->size;
    s.key = key;
    s.swap_width = d->big_endian && swap > 1 ? swap : 0;
    CKPT_TRY(table_add_storage(&g->f->table, &s, &t->storage, g->err));
    t->has_data = true;
    return CKPT_OK;
}

/* get_array_storage - sets T->storage to the storage of array V. Adds it the first time that V is reached. */
static ckpt_status get_array_storage(struct graph *g, const ckpt_value *v, const ckpt_value *data,
                                     const struct numpy_dtype *d, ckpt_tensor *t)
{
    ckpt_file *f = g->f;
    if (!f->storages.by_node && !(f->storages.by_node = map_new(16)))
        return fail_memory(g->err);
    t->storage = map_get_num(f->storages.by_node, ptr_key(v));
    t->has_data = t->storage != MAP_NONE;
    if (t->has_data)
        return CKPT_OK;
    CKPT_TRY(add_array_storage(g, v, data, d, t));
    return map_set_num(f->storages.by_node, ptr_key(v), t->storage) ? CKPT_OK : fail_memory(g->err);
}

/* make_fields_text - returns the fields of DTYPE, a record type, as a text; .ptr NULL: out of memory. */
static ckpt_str make_fields_text(struct graph *g, const ckpt_value *dtype)
{
    char text[512];
    value_text_or_type(value_item(value_state(dtype), 4), 64, text, sizeof text);
    return arena_printf(g->f->a, "fields %s", text);
}

/* transpose - makes T the array that numpy makes of one in C order by transpose(AXES). */
static ckpt_status transpose(struct graph *g, const ckpt_value *v, const ckpt_value *axes, ckpt_tensor *t)
{
    const uint64_t *axis, *size = t->shape, *stride = t->stride;
    uint32_t n;
    if (!axes || axes->type == CKPT_V_NONE)
        return graph_fail(g, v, "a numpy array has the order {K} but no {=axes}");
    CKPT_TRY(graph_read_sizes(g, axes, "axes", &n, &axis));
    if (n != t->ndim)
        return graph_fail(g, v, "a numpy array has {%u axes}, it must have {=%u}", n, t->ndim);
    uint64_t *new_size = arena_array(g->f->a, n, sizeof *new_size);
    uint64_t *new_stride = stride ? arena_array(g->f->a, n, sizeof *new_stride) : NULL;
    bool *used = arena_array(g->f->a, n, sizeof *used);
    if (!new_size || (stride && !new_stride) || !used)
        return fail_memory(g->err);
    memset(used, 0, n * sizeof *used);
    for (uint32_t i = 0; i < n; i++) {
        if (axis[i] >= n || used[axis[i]])
            return graph_fail(g, v,
                              "the axes of a numpy array have {%" PRIu64 "}, "
                              "they must be {=0 to %u, each once}",
                              axis[i], n - 1);
        used[axis[i]] = true;
        new_size[i] = size[axis[i]];
        if (stride)
            new_stride[i] = stride[axis[i]];
    }
    t->shape = new_size;
    t->stride = new_stride;
    return CKPT_OK;
}

/* set_layout - sets the strides of T, whose dimensions are those of ARRAY, and transposes it if need be. */
static ckpt_status set_layout(struct graph *g, const ckpt_value *v, const struct numpy_array *array,
                              ckpt_tensor *t)
{
    if (!array->order)
        return graph_fail_expected(g, v, "the order of a numpy array must be", "C, F or K", value_arg(v, 3));
    /* An array without elements needs no strides, and its strides could exceed 64 bits. */
    if (t->elements && !(t->stride = kit_strides(g->f->a, t->shape, t->ndim, array->order == 'F')))
        return fail_memory(g->err);
    return array->order == 'K' ? transpose(g, v, array->axes, t) : CKPT_OK;
}

static ckpt_status describe_array(struct graph *g, const ckpt_value *v, const struct numpy_array *array,
                                  struct tensor_description *m)
{
    struct numpy_dtype d;
    const uint64_t *sizes;
    ckpt_tensor *t = &m->row.t;
    if (!numpy_dtype_of(array->dtype, &d))
        return graph_fail_expected(g, v, "the dtype of a numpy array must be", "one of numpy's",
                                   array->dtype);
    CKPT_TRY(graph_read_sizes(g, array->shape, "shape", &t->ndim, &sizes));
    m->is_tensor = true;
    t->has_shape = 1;
    t->kind = CKPT_NDARRAY;
    t->dtype = (uint16_t)(numpy_known_dtype(&d) == CKPT_DT_NONE ? CKPT_DT_NAMED : numpy_known_dtype(&d));
    t->shape = sizes;
    t->elements = 1;
    for (uint32_t k = 0; k < t->ndim; k++)
        if (!checked_mul(t->elements, sizes[k], &t->elements))
            return graph_fail(g, v, "{the number of elements} of a numpy array does not fit {=64 bits}");
    if (!checked_mul(t->elements, d.bytes, &t->nbytes))
        return graph_fail(g, v, "{the number of bytes} of a numpy array does not fit {=64 bits}");
    if (t->dtype == CKPT_DT_NAMED && !(t->dtype_name = numpy_dtype_text(g->f->a, &d)))
        return fail_memory(g->err);
    CKPT_TRY(set_layout(g, v, array, t));
    if (d.kind == 'O')
        return CKPT_OK;
    if (d.record && !(t->note = make_fields_text(g, array->dtype)).ptr)
        return fail_memory(g->err);
    return get_array_storage(g, v, array->data, &d, t);
}

ckpt_status graph_describe_numpy(struct graph *g, const ckpt_value *v, struct tensor_description *m)
{
    struct numpy_array array;
    return numpy_array_of(v, &array) ? describe_array(g, v, &array, m) : CKPT_OK;
}

static ckpt_status open_memory(struct graph *g, ckpt_str bytes, source **out)
{
    *out = source_mem(bytes.ptr, bytes.len, CKPT_NO_OFFSET);
    return *out ? CKPT_OK : fail_memory(g->err);
}

/* open_latin1 - opens the text V, whose code points are bytes, as a source of these bytes. */
static ckpt_status open_latin1(struct graph *g, const ckpt_value *v, source **out)
{
    if (v->flags & VALUE_SPAN) {
        const struct value_span *s = v->u.span;
        return source_latin1(s->src, s->off, s->nbytes, s->count, out, g->err);
    }
    unsigned char *bytes = arena_alloc(g->f->a, v->u.str.len);
    if (!bytes)
        return fail_memory(g->err);
    size_t n = utf8_latin1(v->u.str, bytes);
    if (n == SIZE_MAX)
        return graph_fail(g, v, "a latin-1 text has {a code point above} {=U+00FF}");
    return open_memory(g, str_of((const char *)bytes, n), out);
}

static ckpt_status open_stored_bytes(struct graph *g, const ckpt_value *v, source **out)
{
    if (v->flags & VALUE_SPAN)
        return source_slice(v->u.span->src, v->u.span->off, v->u.span->nbytes, out, g->err);
    return open_memory(g, v->u.str, out);
}

ckpt_status graph_open_bytes(struct graph *g, const ckpt_value *v, source **out)
{
    *out = NULL;
    for (int wraps = 0; v && wraps < MAX_WRAPPERS; wraps++) {
        if (v->type == CKPT_V_BYTES || v->type == CKPT_V_BYTEARRAY || v->type == CKPT_V_STR8)
            return open_stored_bytes(g, v, out);
        if (value_calls(v, "_codecs", "encode", 1) && value_arg(v, 0)->type == CKPT_V_STR)
            return open_latin1(g, value_arg(v, 0), out);
        bool is_bytes = value_calls(v, "__builtin__", "bytes", 0) || value_calls(v, "builtins", "bytes", 0) ||
                        value_calls(v, "__builtin__", "bytearray", 0) ||
                        value_calls(v, "builtins", "bytearray", 0);
        if (!is_bytes)
            return CKPT_OK;
        if (value_nargs(v) == 0)
            return open_memory(g, str_of("", 0), out);
        v = value_arg(v, 0);
    }
    return CKPT_OK;
}

ckpt_status file_open_bytes(ckpt_file *f, const ckpt_value *v, source **out, ckpt_error *err)
{
    static const struct graph_input none = {.user = NULL};
    struct graph g = {.f = f, .input = &none, .err = err};
    return graph_open_bytes(&g, v, out);
}
