/*
 * rebuild.c - the constructor calls that make tensors, read as
 * descriptions. The argument tuples, by torch/_utils.py:
 *
 *   _rebuild_tensor      (storage, offset, size, stride)
 *   _rebuild_tensor_v2   (storage, offset, size, stride, requires_grad, hooks[, metadata])
 *   _rebuild_tensor_v3   (untyped storage, offset, size, stride, requires_grad, hooks, dtype[, metadata])
 *   _rebuild_parameter   (tensor, requires_grad, hooks)
 *   _rebuild_qtensor     (storage, offset, size, stride, quantizer, requires_grad, hooks)
 *   _rebuild_sparse_tensor (layout, (indices, values, size[, coalesced]) or
 *                           (compressed, plain, values, size))
 *   _rebuild_nested_tensor (buffer, sizes, strides, offsets)
 *   _rebuild_from_type_v2  (function, class, arguments, state): any subclass, and
 *                          plain tensors that carry Python attributes
 *   _rebuild_wrapper_subclass (class, dtype, size, stride, offset, layout, device, requires_grad):
 *                          no bytes of its own; its tensors are in the state
 *
 * metadata is {'conj': True} and/or {'neg': True}: the bytes are stored without.
 */
#include "base/store.h"
#include "core/dtype.h"
#include "format/torch/internal.h"

const ckpt_value *value_class(const ckpt_value *v)
{
    return v->type == CKPT_V_CALL ? v->u.call.callable : NULL;
}

const ckpt_value *object_attr(const ckpt_value *v, const char *name)
{
    const ckpt_value *state = v && v->type == CKPT_V_CALL ? value_state(v) : v;
    const ckpt_value *found = value_get(state, name);
    for (uint32_t i = 0; !found && state && state->type == CKPT_V_TUPLE && i < 2; i++)
        found = value_get(value_item(state, i), name);
    return found;
}

ckpt_value *torch_parameter_data(ckpt_value *v)
{
    for (int i = 0; i < 4; i++) {
        if (!value_calls(v, "torch._utils", "_rebuild_parameter", 1) &&
            !value_calls(v, "torch._utils", "_rebuild_parameter_with_state", 1))
            break;
        v = value_arg(v, 0);
    }
    return v;
}

/* Reads offset, size and stride from argument FIRST on. */
static ckpt_status read_view(struct graph *g, const ckpt_value *call, uint32_t first, ckpt_tensor *t)
{
    uint32_t nstride;
    const uint64_t *shape, *stride;
    int64_t offset;
    char is[64];
    if (!value_integer(value_arg(call, first), &offset) || offset < 0) {
        (void)ckpt_value_text(value_arg(call, first), 4, is, sizeof is);
        return graph_fail(g, call, "the storage offset is {%s}, it must be {=an integer >= 0}", is);
    }
    CKPT_TRY(uint_tuple(g, value_arg(call, first + 1), "size", &t->ndim, &shape));
    CKPT_TRY(uint_tuple(g, value_arg(call, first + 2), "stride", &nstride, &stride));
    if (nstride != t->ndim)
        return graph_fail(g, call, "{=%u sizes} but {%u strides}", t->ndim, nstride);
    t->shape = shape;
    t->stride = stride;
    t->has_shape = true;
    t->storage_offset = (uint64_t)offset;
    return CKPT_OK;
}

static bool truth(const ckpt_value *v) { return v && v->type == CKPT_V_BOOL && v->u.b; }

static void read_metadata(const ckpt_value *meta, ckpt_tensor *t)
{
    if (!meta) /* mostly */
        return;
    t->conj = truth(value_get(meta, "conj"));
    t->neg = truth(value_get(meta, "neg"));
}

/* untyped_swap - torch never swaps an untyped storage of a big-endian archive,
 * and so misreads it; the first tensor's dtype tells the width. */
static ckpt_status untyped_swap(struct graph *g, const ckpt_value *call, struct storage *s, ckpt_dtype dtype)
{
    uint8_t width = dtype_info(dtype)->swap_bytes;
    if (!g->st->big_endian || s->dtype != CKPT_DT_U8 || width <= 1 || s->swap == width)
        return CKPT_OK;
    if (s->swap)
        return graph_fail(g, call,
                          "big-endian storage \"%.*s\" is viewed in elements of {two widths}, {=one} can be",
                          STR_ARG(s->s.key));
    s->swap = width;
    file_notice(g->f,
                "big-endian untyped storage \"%.*s\" is swapped by its tensor's dtype; torch.load would not",
                STR_ARG(s->s.key));
    return CKPT_OK;
}

/* The view that arguments 0..3 describe, in elements of DTYPE or, when that is
 * NONE, of the storage's class. */
static ckpt_status strided(struct graph *g, const ckpt_value *call, ckpt_dtype dtype, struct meaning *m)
{
    ckpt_tensor *t = &m->row.t;
    ckpt_dtype class_dtype;
    uint64_t numel, view;
    CKPT_TRY(read_view(g, call, 1, t));
    CKPT_TRY(torch_storage(g, value_arg(call, 0), &t->storage, &class_dtype, &numel, &view));
    t->dtype = (uint16_t)(dtype == CKPT_DT_NONE ? class_dtype : dtype);
    struct storage *s = &g->f->table.storages[t->storage];
    CKPT_TRY(untyped_swap(g, call, s, (ckpt_dtype)t->dtype));
    t->storage_offset += view; /* bounded: both were int64_t */
    t->location = s->s.location;
    t->has_data = s->src != NULL;
    if (!s->src)
        t->kind = CKPT_META;
    if (t->conj && dtype_info((ckpt_dtype)t->dtype)->klass != 'c')
        return graph_fail(g, call, "the conj bit on {%s}, which is not {=complex}",
                          ckpt_dtype_name((ckpt_dtype)t->dtype));
    m->is_tensor = true;
    return CKPT_OK;
}

static ckpt_status tensor_v1(struct graph *g, const ckpt_value *call, struct meaning *m)
{
    return strided(g, call, CKPT_DT_NONE, m);
}

static ckpt_status tensor_v2(struct graph *g, const ckpt_value *call, struct meaning *m)
{
    m->row.t.requires_grad = truth(value_arg(call, 4));
    read_metadata(value_arg(call, 6), &m->row.t);
    return strided(g, call, CKPT_DT_NONE, m);
}

static ckpt_dtype dtype_value(const ckpt_value *v)
{
    return str_is(value_module(v), "torch") ? dtype_by_name(value_name(v)) : CKPT_DT_NONE;
}

static const char *type_text(const ckpt_value *v, char *out, size_t cap)
{
    (void)ckpt_value_text(v, 4, out, cap);
    return out;
}

static ckpt_status tensor_v3(struct graph *g, const ckpt_value *call, struct meaning *m)
{
    char is[80];
    ckpt_dtype dtype = dtype_value(value_arg(call, 6));
    if (dtype == CKPT_DT_NONE)
        return graph_fail(g, call, "the dtype is {%s}, it must be {=one of torch's}",
                          type_text(value_arg(call, 6), is, sizeof is));
    m->row.t.requires_grad = truth(value_arg(call, 4));
    read_metadata(value_arg(call, 7), &m->row.t);
    return strided(g, call, dtype, m);
}

static ckpt_status parameter(struct graph *g, const ckpt_value *call, struct meaning *m)
{
    char is[64];
    CKPT_TRY(torch_meaning(g, value_arg(call, 0), m));
    if (!m->is_tensor)
        return graph_fail(g, call, "a Parameter of {a %s}, it must be of {=a tensor}",
                          ckpt_value_type_name(value_arg(call, 0), is, sizeof is));
    m->row.t.parameter = true;
    m->row.t.requires_grad = truth(value_arg(call, 1));
    return CKPT_OK;
}

/* Parameters and Variables of torch 0.1-0.3: (data,) as arguments, or a state
 * tuple that begins with the data. */
static ckpt_status old_parameter(struct graph *g, const ckpt_value *call, struct meaning *m)
{
    const ckpt_value *data = value_arg(call, 0);
    if (!data)
        data = value_item(value_state(call), 0);
    if (!data)
        return CKPT_OK;
    CKPT_TRY(torch_meaning(g, data, m));
    m->row.t.parameter = m->is_tensor && !str_is(value_name(value_class(call)), "Variable");
    return CKPT_OK;
}

static ckpt_status qtensor(struct graph *g, const ckpt_value *call, struct meaning *m)
{
    const ckpt_value *q = value_arg(call, 4);
    CKPT_TRY(strided(g, call, CKPT_DT_NONE, m));
    m->row.t.kind = CKPT_QUANTIZED;
    m->row.t.requires_grad = truth(value_arg(call, 5));
    if (q->type != CKPT_V_TUPLE || value_count(q) < 3 || value_item(q, 0)->type != CKPT_V_GLOBAL)
        return graph_unlike(g, call, "a quantizer must be",
                            "(scheme, scale, zero_point) or (scheme, scales, zero_points, axis)", q);
    ckpt_str scheme = value_name(value_item(q, 0));
    if (str_starts(scheme, STR_LIT("per_channel"))) {
        m->parts[m->nparts++] = (struct part){"scales", value_item(q, 1)};
        m->parts[m->nparts++] = (struct part){"zero_points", value_item(q, 2)};
    }
    char scale[32], zero[32];
    (void)ckpt_value_text(value_item(q, 1), 1, scale, sizeof scale);
    (void)ckpt_value_text(value_item(q, 2), 1, zero, sizeof zero);
    m->row.t.note = m->nparts ? arena_printf(g->f->a, "%.*s", STR_ARG(scheme))
                              : arena_printf(g->f->a, "%.*s, scale %s, zero_point %s", STR_ARG(scheme), scale,
                                             zero);
    return m->row.t.note.ptr ? CKPT_OK : fail_memory(g->err);
}

/* Eight little-endian bytes of a number, whatever the host. */
static bool number_bytes(const ckpt_value *v, bool as_float, unsigned char out[8])
{
    uint64_t bits;
    if (v->type != (as_float ? CKPT_V_FLOAT : CKPT_V_INT))
        return false;
    memcpy(&bits, as_float ? (const void *)&v->u.f : (const void *)&v->u.i, sizeof bits);
    store_u64le(out, bits);
    return true;
}

ckpt_status numbers_meaning(struct graph *g, const ckpt_value *v, struct meaning *m)
{
    uint32_t n = value_count(v);
    if (!n)
        return CKPT_OK;
    bool as_float = value_item(v, 0)->type == CKPT_V_FLOAT;
    unsigned char *bytes = arena_array(g->f->a, n, 8);
    uint64_t *shape = arena_array(g->f->a, 1, sizeof *shape);
    if (!bytes || !shape)
        return fail_memory(g->err);
    for (uint32_t i = 0; i < n; i++)
        /* bounded: n times 8 bytes were allocated */
        if (!number_bytes(value_item(v, i), as_float, bytes + 8 * (size_t)i))
            return CKPT_OK;
    ckpt_dtype dtype = as_float ? CKPT_DT_F64 : CKPT_DT_I64;
    shape[0] = n;
    *m = (struct meaning){.is_tensor = true};
    m->row.t = (ckpt_tensor){
        .dtype = (uint16_t)dtype, .ndim = 1, .shape = shape, .has_shape = true, .has_data = true, .value = v};
    return memory_storage(g, str_of((const char *)bytes, 8 * (size_t)n), dtype, n, &m->row.t.storage);
}

static ckpt_status sparse_coo(struct graph *g, const ckpt_value *call, const ckpt_value *data,
                              struct meaning *m)
{
    const uint64_t *shape;
    m->row.t.kind = CKPT_SPARSE_COO;
    m->parts[0] = (struct part){"indices", value_item(data, 0)};
    m->parts[1] = (struct part){"values", value_item(data, 1)};
    m->nparts = 2;
    if (value_item(data, 2) == NULL)
        return graph_unlike(g, call, "a sparse tensor is", "(indices, values, size)", data);
    CKPT_TRY(uint_tuple(g, value_item(data, 2), "size", &m->row.t.ndim, &shape));
    m->row.t.shape = shape;
    m->row.t.note = truth(value_item(data, 3)) ? STR_LIT("coalesced") : str_of("", 0);
    return CKPT_OK;
}

static ckpt_status sparse_compressed(struct graph *g, const ckpt_value *call, const ckpt_value *data,
                                     ckpt_kind kind, struct meaning *m)
{
    const uint64_t *shape;
    m->row.t.kind = (uint16_t)kind;
    m->parts[0] = (struct part){"compressed_indices", value_item(data, 0)};
    m->parts[1] = (struct part){"plain_indices", value_item(data, 1)};
    m->parts[2] = (struct part){"values", value_item(data, 2)};
    m->nparts = 3;
    if (value_item(data, 3) == NULL)
        return graph_unlike(g, call, "a compressed sparse tensor must be",
                            "(compressed, plain, values, size)", data);
    CKPT_TRY(uint_tuple(g, value_item(data, 3), "size", &m->row.t.ndim, &shape));
    m->row.t.shape = shape;
    return CKPT_OK;
}

static ckpt_kind layout_kind(const ckpt_value *layout)
{
    static const struct {
        const char *name;
        ckpt_kind kind;
    } layouts[] = {{"torch.sparse_coo", CKPT_SPARSE_COO},
                   {"torch.sparse_csr", CKPT_SPARSE_CSR},
                   {"torch.sparse_csc", CKPT_SPARSE_CSC},
                   {"torch.sparse_bsr", CKPT_SPARSE_BSR},
                   {"torch.sparse_bsc", CKPT_SPARSE_BSC}};
    ckpt_str name;
    if (value_calls(layout, "torch.serialization", "_get_layout", 1) &&
        value_text(value_arg(layout, 0), &name))
        for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
            if (str_is(name, layouts[i].name))
                return layouts[i].kind;
    return CKPT_OPAQUE;
}

/* part_dtype - a composite's dtype is that of one of its parts. */
static ckpt_status part_dtype(struct graph *g, const ckpt_value *v, struct meaning *m)
{
    struct meaning part = {0};
    CKPT_TRY(v ? torch_meaning(g, v, &part) : CKPT_OK);
    m->row.t.dtype = part.row.t.dtype;
    m->row.t.location = part.row.t.location;
    return CKPT_OK;
}

static ckpt_status sparse(struct graph *g, const ckpt_value *call, struct meaning *m)
{
    const ckpt_value *data = value_arg(call, 1);
    ckpt_kind kind = layout_kind(value_arg(call, 0));
    char is[80], type[64];
    if (data->type != CKPT_V_TUPLE || kind == CKPT_OPAQUE)
        return graph_fail(g, call, "layout {%s with a %s}, it must be {=a sparse one with a tuple}",
                          type_text(value_arg(call, 0), is, sizeof is),
                          ckpt_value_type_name(data, type, sizeof type));
    m->is_tensor = true;
    m->row.t.has_shape = 1;
    CKPT_TRY(kind == CKPT_SPARSE_COO ? sparse_coo(g, call, data, m)
                                     : sparse_compressed(g, call, data, kind, m));
    return part_dtype(g, m->parts[m->nparts - 1].value, m);
}

static ckpt_status nested(struct graph *g, const ckpt_value *call, struct meaning *m)
{
    static const char *const names[] = {"buffer", "sizes", "strides", "offsets"};
    m->is_tensor = true;
    m->row.t.kind = CKPT_NESTED;
    for (uint32_t i = 0; i < 4; i++)
        m->parts[m->nparts++] = (struct part){names[i], value_arg(call, i)};
    return part_dtype(g, value_arg(call, 0), m);
}

static ckpt_status jagged(struct graph *g, const ckpt_value *call, struct meaning *m)
{
    static const char *const keys[] = {"values", "offsets", "lengths"};
    const ckpt_value *d = value_arg(call, 0);
    m->is_tensor = true;
    m->row.t.kind = CKPT_NESTED_JAGGED;
    for (size_t i = 0; i < 3; i++) {
        const ckpt_value *v = value_get(d, keys[i]);
        if (v && v->type != CKPT_V_NONE)
            m->parts[m->nparts++] = (struct part){keys[i], v};
    }
    return part_dtype(g, value_get(d, "values"), m);
}

static ckpt_status meta(struct graph *g, const ckpt_value *call, struct meaning *m)
{
    uint32_t nstride;
    const uint64_t *shape, *stride;
    ckpt_tensor *t = &m->row.t;
    CKPT_TRY(uint_tuple(g, value_arg(call, 1), "size", &t->ndim, &shape));
    CKPT_TRY(uint_tuple(g, value_arg(call, 2), "stride", &nstride, &stride));
    if (nstride != t->ndim)
        return graph_fail(g, call, "{=%u sizes} but {%u strides}", t->ndim, nstride);
    m->is_tensor = true;
    t->has_shape = 1;
    t->kind = CKPT_META;
    t->dtype = (uint16_t)dtype_value(value_arg(call, 0));
    t->shape = shape;
    t->stride = stride;
    t->location = STR_LIT("meta");
    t->requires_grad = truth(value_arg(call, 3));
    return CKPT_OK;
}

static ckpt_status uninitialized(struct graph *g, const ckpt_value *call, struct meaning *m)
{
    (void)g;
    m->is_tensor = true;
    m->row.t.kind = CKPT_UNINITIALIZED;
    m->row.t.dtype = CKPT_DT_F32; /* what torch makes it until someone says otherwise */
    m->row.t.requires_grad = truth(value_arg(call, 0));
    return CKPT_OK;
}

/* XLA and other devices: the data are numpy bytes inside the pickle. */
static ckpt_status from_numpy(struct graph *g, const ckpt_value *call, struct meaning *m)
{
    CKPT_TRY(numpy_meaning(g, value_arg(call, 0), m));
    if (!m->is_tensor)
        return graph_unlike(g, call, "a device tensor made of something that is no", "numpy array",
                            value_arg(call, 0));
    m->row.t.kind = CKPT_DENSE;
    m->row.t.requires_grad = truth(value_arg(call, 3));
    return CKPT_OK;
}

static ckpt_status from_cpu(struct graph *g, const ckpt_value *call, struct meaning *m)
{
    CKPT_TRY(torch_meaning(g, value_arg(call, 0), m));
    m->row.t.requires_grad = truth(value_arg(call, 3));
    return CKPT_OK;
}

/* The logical dtype and shape; whoever wraps it (from_type) knows the parts. */
static ckpt_status wrapper(struct graph *g, const ckpt_value *call, struct meaning *m)
{
    const uint64_t *shape;
    ckpt_tensor *t = &m->row.t;
    CKPT_TRY(uint_tuple(g, value_arg(call, 2), "size", &t->ndim, &shape));
    m->is_tensor = true;
    t->has_shape = 1;
    t->kind = CKPT_WRAPPER;
    t->dtype = (uint16_t)dtype_value(value_arg(call, 1));
    t->shape = shape;
    t->requires_grad = truth(value_arg(call, 7));
    return CKPT_OK;
}

/* "[8, 4]" of the shape, for notes. */
static ckpt_str shape_text(arena *a, const ckpt_tensor *t)
{
    ckpt_str s = STR_LIT("[");
    for (uint32_t k = 0; s.ptr && k < t->ndim; k++)
        s = arena_printf(a, "%.*s%s%llu", (int)s.len, s.ptr, k ? ", " : "", (unsigned long long)t->shape[k]);
    return s.ptr ? arena_printf(a, "%.*s]", (int)s.len, s.ptr) : s;
}

/* "Shard(0)", "Replicate" … of a DTensorSpec. */
static ckpt_str placements_text(arena *a, const ckpt_value *spec)
{
    const ckpt_value *list = object_attr(spec, "placements");
    ckpt_str s = STR_LIT("");
    for (uint32_t i = 0; list && s.ptr && i < value_count(list) && i < 8; i++) {
        const ckpt_value *p = value_item(list, i), *klass = p ? value_class(p) : NULL;
        int64_t d;
        ckpt_str name = klass ? value_name(klass) : STR_LIT("?");
        s = value_integer(object_attr(p, "dim"), &d)
                ? arena_printf(a, "%.*s, %.*s(%lld)", (int)s.len, s.ptr, STR_ARG(name), (long long)d)
                : arena_printf(a, "%.*s, %.*s", (int)s.len, s.ptr, STR_ARG(name));
    }
    return s;
}

static ckpt_status dtensor(struct graph *g, const ckpt_value *state, struct meaning *m)
{
    ckpt_str shape = shape_text(g->f->a, &m->row.t),
             where = placements_text(g->f->a, object_attr(state, "_spec"));
    m->row.t.kind = CKPT_DTENSOR;
    m->parts[m->nparts++] = (struct part){"_local_tensor", object_attr(state, "_local_tensor")};
    if (shape.ptr && where.ptr)
        m->row.t.note = arena_printf(g->f->a, "local part of %.*s%.*s", STR_ARG(shape), STR_ARG(where));
    return m->row.t.note.ptr ? CKPT_OK : fail_memory(g->err);
}

/* ([Shard], ShardedTensorMetadata, ProcessGroupState, spec, …) */
static ckpt_status sharded(struct graph *g, const ckpt_value *state, struct meaning *m)
{
    const uint64_t *shape;
    const ckpt_value *meta_ = value_item(state, 1), *size = object_attr(meta_, "size");
    const ckpt_value *props = object_attr(meta_, "tensor_properties"), *dtype = object_attr(props, "dtype");
    m->row.t.kind = CKPT_SHARDED;
    m->parts[m->nparts++] = (struct part){"local_shards", value_item(state, 0)};
    if (!dtype) /* newer: BUILD with a tuple that begins with the dtype */
        dtype = value_item(value_state(props), 0);
    if (dtype_value(dtype) != CKPT_DT_NONE)
        m->row.t.dtype = (uint16_t)dtype_value(dtype);
    if (size) {
        CKPT_TRY(uint_tuple(g, size, "size", &m->row.t.ndim, &shape));
        m->row.t.shape = shape;
        m->row.t.has_shape = true;
    }
    ckpt_str text = shape_text(g->f->a, &m->row.t);
    m->row.t.note = text.ptr ? arena_printf(g->f->a, "local part of %.*s", STR_ARG(text)) : text;
    return m->row.t.note.ptr ? CKPT_OK : fail_memory(g->err);
}

static const struct rebuild *rebuild_of(struct graph *g, const ckpt_value *global);

/* A wrapper subclass we know only by name: its tensors are whatever tensors its
 * state holds. */
static ckpt_status unknown_wrapper(struct graph *g, const ckpt_value *state, struct meaning *m)
{
    for (unsigned half = 0; half < 2; half++) {
        uint32_t n;
        const ckpt_value *d = state->type == CKPT_V_TUPLE ? value_item(state, half) : half ? NULL : state;
        const value_pair *pairs = value_pairs(d, &n);
        for (uint32_t i = 0; i < n && m->nparts < MAX_PARTS; i++) {
            ckpt_str key;
            const ckpt_value *klass = value_class(pairs[i].val);
            if (!klass || !rebuild_of(g, klass) || !value_text(pairs[i].key, &key))
                continue;
            key = arena_str(g->f->a, key);
            if (!key.ptr)
                return fail_memory(g->err);
            m->parts[m->nparts++] = (struct part){key.ptr, pairs[i].val};
        }
    }
    return CKPT_OK;
}

static ckpt_status subclass_parts(struct graph *g, const ckpt_value *klass, const ckpt_value *state,
                                  struct meaning *m)
{
    ckpt_str name = value_name(klass);
    if (str_is(name, "DTensor") && object_attr(state, "_local_tensor"))
        return dtensor(g, state, m);
    if (str_is(name, "ShardedTensor") && state->type == CKPT_V_TUPLE)
        return sharded(g, state, m);
    return unknown_wrapper(g, state, m);
}

static bool plain_class(const ckpt_value *klass)
{
    return value_is_global(klass, "torch", "Tensor") ||
           value_is_global(klass, "torch.nn.parameter", "Parameter") ||
           value_is_global(klass, "torch.nn.parameter", "Buffer");
}

static ckpt_status from_type(struct graph *g, const ckpt_value *call, struct meaning *m)
{
    const ckpt_value *func = value_arg(call, 0), *klass = value_arg(call, 1), *args = value_arg(call, 2);
    /* The inner call is not in the file as such: it is made here, for reading only. */
    ckpt_value *inner = func->type == CKPT_V_GLOBAL
                            ? value_call(g->f->a, CALL_REDUCE, (ckpt_value *)(uintptr_t)func,
                                         (ckpt_value *)(uintptr_t)args, call->offset)
                            : NULL;
    if (!inner)
        return func->type == CKPT_V_GLOBAL
                   ? fail_memory(g->err)
                   : graph_unlike(g, call, "the function of _rebuild_from_type_v2 is no", "name", func);
    CKPT_TRY(torch_meaning(g, inner, m));
    if (!m->is_tensor)
        return CKPT_OK;
    if (value_is_global(klass, "torch.nn.parameter", "Parameter"))
        m->row.t.parameter = true;
    if (!plain_class(klass) && klass->type == CKPT_V_GLOBAL)
        m->row.t.klass = arena_printf(g->f->a, "%.*s.%.*s", STR_ARG(value_module(klass)),
                                      STR_ARG(value_name(klass)));
    /* A wrapper's own parts, or the state of ShardedTensor before it was one. */
    if (m->row.t.kind == CKPT_WRAPPER || str_is(value_name(klass), "ShardedTensor"))
        return subclass_parts(g, klass, value_arg(call, 3), m);
    return CKPT_OK;
}

static const struct rebuild rebuilds[] = {
#define REBUILD(module, name, min_args, function) {module, name, min_args, function},
#include "format/torch/rebuild.def"
#undef REBUILD
};

/* rebuild_of - by name; the last answer is kept, for a state dict's tensors all
 * share one memoized global. */
static const struct rebuild *rebuild_of(struct graph *g, const ckpt_value *global)
{
    if (g->last_global == global)
        return g->last_rebuild;
    ckpt_str module = value_module(global), name = value_name(global);
    g->last_global = global;
    g->last_rebuild = NULL;
    for (size_t i = 0; i < sizeof rebuilds / sizeof *rebuilds; i++)
        if (str_is(name, rebuilds[i].name) && str_is(module, rebuilds[i].module))
            g->last_rebuild = &rebuilds[i];
    return g->last_rebuild;
}

const ckpt_value *torch_wrapped_tensor(struct graph *g, const ckpt_value *v, const ckpt_value **state)
{
    const ckpt_value *klass = value_class(v), *func;
    const struct rebuild *r = klass ? rebuild_of(g, klass) : NULL;
    *state = r ? value_state(v) : NULL;
    if (r && r->build == parameter) {
        *state = value_arg(v, 3); /* of _rebuild_parameter_with_state */
        return value_arg(v, 0);
    }
    if (!r || r->build != from_type) {
        *state = *state && (*state)->type == CKPT_V_DICT ? *state : NULL; /* a tuple is the tensor itself */
        return NULL;
    }
    *state = value_arg(v, 3);
    func = rebuild_of(g, value_arg(v, 0)) ? value_item(value_arg(v, 2), 0) : NULL;
    return func && func->type == CKPT_V_CALL ? func : NULL;
}

/* Tensor.__setstate__ of 0.1-0.3: (storage, offset, size, stride). */
static ckpt_status set_state(struct graph *g, const ckpt_value *v, const ckpt_value *klass, struct meaning *m)
{
    const ckpt_value *state = value_state(v);
    if (!str_starts(value_module(klass), STR_LIT("torch")) ||
        !str_ends(value_name(klass), STR_LIT("Tensor")) || !state || state->type != CKPT_V_TUPLE ||
        value_count(state) != 4 || !torch_is_storage(value_item(state, 0)))
        return CKPT_OK;
    ckpt_value *inner = value_call(g->f->a, CALL_REDUCE, (ckpt_value *)(uintptr_t)klass,
                                   (ckpt_value *)(uintptr_t)state, v->offset);
    return inner ? strided(g, inner, CKPT_DT_NONE, m) : fail_memory(g->err);
}

static ckpt_status bare_storage(struct graph *g, const ckpt_value *v, struct meaning *m)
{
    ckpt_tensor *t = &m->row.t;
    ckpt_dtype dtype;
    uint64_t *shape = arena_array(g->f->a, 1, sizeof *shape);
    if (!shape)
        return fail_memory(g->err);
    CKPT_TRY(torch_storage(g, v, &t->storage, &dtype, &shape[0], &t->storage_offset));
    const struct storage *s = &g->f->table.storages[t->storage];
    if (dtype_info(dtype)->block_elems > 1)
        dtype = CKPT_DT_U8; /* packed quantised storages count bytes */
    t->dtype = (uint16_t)dtype;
    t->kind = CKPT_STORAGE;
    t->ndim = 1;
    t->shape = shape;
    t->has_shape = true;
    t->has_data = s->src != NULL;
    t->location = s->s.location;
    m->is_tensor = true;
    return CKPT_OK;
}

static ckpt_status call_meaning(struct graph *g, const ckpt_value *v, struct meaning *m)
{
    const ckpt_value *klass = value_class(v);
    const struct rebuild *r = rebuild_of(g, klass);
    if (!r && torch_is_storage(v))
        return bare_storage(g, v, m);
    if (r && value_nargs(v) < r->min_args)
        return graph_fail(g, v, "%s.%s is given {%u arguments}, it takes {=at least %u}", r->module, r->name,
                          value_nargs(v), r->min_args);
    if (r)
        CKPT_TRY(r->build(g, v, m));
    else
        CKPT_TRY(set_state(g, v, klass, m));
    return m->is_tensor ? CKPT_OK : numpy_meaning(g, v, m);
}

/* Constructors wrap one another (a Parameter of a subclass of a view), each at
 * most one more, so a chain this long is made to exhaust the stack. */
#define MEANING_DEPTH 16

ckpt_status torch_meaning(struct graph *g, const ckpt_value *v, struct meaning *m)
{
    *m = (struct meaning){0};
    m->row.t.storage = CKPT_NO_STORAGE;
    m->row.t.part_of = CKPT_NO_TENSOR;
    m->row.t.value = v;
    if (g->depth >= MEANING_DEPTH)
        return graph_fail(g, v, "tensor constructors nested {deeper} than {=%u}", g->depth);
    if (v->type == CKPT_V_PERSID) {
        if (g->st->object && g->st->object(g->st->user, v->u.pid, &m->row)) {
            m->is_tensor = true;
            return CKPT_OK;
        }
        return torch_is_storage(v) ? bare_storage(g, v, m) : CKPT_OK;
    }
    if (v->type != CKPT_V_CALL)
        return CKPT_OK;
    g->depth++;
    ckpt_status st = call_meaning(g, v, m);
    g->depth--;
    m->row.t.value = v;
    return st;
}
