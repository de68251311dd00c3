/*
 * numpy.c - numpy arrays and scalars inside pickles; in many files they
 * are the weights. As numpy's __reduce__ writes them:
 *
 *   _reconstruct(ndarray, (0,), b'b')  BUILD (1, shape, dtype, fortran_order, bytes | list)
 *   _frombuffer(bytes, dtype, shape, 'C'|'F')          protocol 5
 *   scalar(dtype, bytes)
 *   dtype('f4', False, True)           BUILD (3, '<', None, None, None, -1, -1, 0)
 *
 * in module numpy.core.multiarray, numpy._core.multiarray from numpy 2 on.
 */
#include "base/checked.h"
#include "base/utf8.h"
#include "core/dtype.h"
#include "core/numpy.h"
#include "format/kit.h"
#include "format/torch/internal.h"

/* array_storage - the array's bytes as a storage of its own. */
static ckpt_status array_storage(struct graph *g, const ckpt_value *v, const ckpt_value *data,
                                 const struct numpy_dtype *d, ckpt_tensor *t)
{
    source *bytes = NULL;
    CKPT_TRY(value_bytes(g, data, &bytes));
    if (!bytes)
        return graph_unlike(g, v, "a numpy array's data are", "bytes", data);
    uint64_t need;
    ckpt_dtype dtype = (ckpt_dtype)t->dtype;
    if (!dtype_bytes(dtype, t->elements, &need) || need != bytes->size) {
        uint64_t has = bytes->size;
        source_unref(bytes);
        return graph_fail(g, v, "a numpy array of {=%llu elements of %s} has {%llu bytes}",
                          (unsigned long long)t->elements, ckpt_dtype_name(dtype), (unsigned long long)has);
    }
    struct storage s = {.src = bytes, .dtype = dtype, .numel = t->elements, .pid = NULL};
    s.s.nbytes = bytes->size;
    s.s.file_offset = source_pos(bytes, 0);
    s.s.key = arena_printf(g->f->a, "numpy@%llu", (unsigned long long)v->offset);
    s.swap = d->big_endian && dtype_info(dtype)->swap_bytes > 1 ? dtype_info(dtype)->swap_bytes : 0;
    CKPT_TRY(table_storage(&g->f->table, &s, &t->storage, g->err));
    t->has_data = true;
    return CKPT_OK;
}

/* array_storage_once - arrays reached by two ways share their storage. */
static ckpt_status array_storage_once(struct graph *g, const ckpt_value *v, const ckpt_value *data,
                                      const struct numpy_dtype *d, ckpt_tensor *t)
{
    ckpt_file *f = g->f;
    if (!f->node_storages && !(f->node_storages = map_new(16)))
        return fail_memory(g->err);
    t->storage = map_get_num(f->node_storages, map_ptr(v));
    t->has_data = t->storage != MAP_NONE;
    if (t->has_data)
        return CKPT_OK;
    CKPT_TRY(array_storage(g, v, data, d, t));
    return map_set_num(f->node_storages, map_ptr(v), t->storage) ? CKPT_OK : fail_memory(g->err);
}

static ckpt_status array(struct graph *g, const ckpt_value *v, const struct numpy_array *made,
                         struct meaning *m)
{
    struct numpy_dtype d;
    const uint64_t *sizes;
    ckpt_tensor *t = &m->row.t;
    if (!numpy_dtype_of(made->dtype, &d))
        return graph_unlike(g, v, "a numpy array's dtype is not understood; it must be", "one of numpy's",
                            made->dtype);
    CKPT_TRY(uint_tuple(g, made->shape, "shape", &t->ndim, &sizes));
    m->is_tensor = true;
    t->has_shape = 1;
    t->kind = CKPT_NDARRAY;
    t->dtype = (uint16_t)(numpy_torch_dtype(&d) == CKPT_DT_NONE ? CKPT_DT_NP : numpy_torch_dtype(&d));
    t->shape = sizes;
    t->elements = 1;
    for (uint32_t k = 0; k < t->ndim; k++)
        if (!checked_mul(t->elements, sizes[k], &t->elements))
            return graph_fail(g, v, "{the product} of a numpy array's sizes does not fit {=64 bits}");
    if (t->dtype == CKPT_DT_NP) {
        t->note = arena_printf(g->f->a, "numpy dtype %s of %u bytes", numpy_name(&d), d.bytes);
        return t->note.ptr ? CKPT_OK : fail_memory(g->err);
    }
    /* Without elements no stride is ever taken, and those of the other sizes may fit nowhere. */
    if (t->elements && !(t->stride = kit_strides(g->f->a, sizes, t->ndim, made->fortran)))
        return fail_memory(g->err);
    return array_storage_once(g, v, made->data, &d, t);
}

ckpt_status numpy_meaning(struct graph *g, const ckpt_value *v, struct meaning *m)
{
    struct numpy_array made;
    return numpy_array_of(v, &made) ? array(g, v, &made, m) : CKPT_OK;
}

static ckpt_status memory_source(struct graph *g, ckpt_str bytes, source **out)
{
    *out = source_mem(bytes.ptr, bytes.len, CKPT_NO_OFFSET);
    return *out ? CKPT_OK : fail_memory(g->err);
}

/* latin1 - text whose code points are bytes. */
static ckpt_status latin1(struct graph *g, const ckpt_value *v, source **out)
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
        return graph_fail(g, v, "latin-1 text with {a code point above} {=U+00FF}");
    return memory_source(g, str_of((const char *)bytes, n), out);
}

static ckpt_status plain_bytes(struct graph *g, const ckpt_value *v, source **out)
{
    if (v->flags & VALUE_SPAN)
        return source_slice(v->u.span->src, v->u.span->off, v->u.span->nbytes, out, g->err);
    return memory_source(g, v->u.str, out);
}

ckpt_status value_bytes(struct graph *g, const ckpt_value *v, source **out)
{
    *out = NULL;
    for (int wraps = 0; v && wraps < 4; wraps++) {
        if (v->type == CKPT_V_BYTES || v->type == CKPT_V_BYTEARRAY || v->type == CKPT_V_STR8)
            return plain_bytes(g, v, out);
        if (value_calls(v, "_codecs", "encode", 1) && value_arg(v, 0)->type == CKPT_V_STR)
            return latin1(g, value_arg(v, 0), out);
        bool empty = value_calls(v, "__builtin__", "bytes", 0) || value_calls(v, "builtins", "bytes", 0) ||
                     value_calls(v, "__builtin__", "bytearray", 0) ||
                     value_calls(v, "builtins", "bytearray", 0);
        if (!empty)
            return CKPT_OK;
        if (value_nargs(v) == 0)
            return memory_source(g, str_of("", 0), out);
        v = value_arg(v, 0);
    }
    return CKPT_OK;
}
