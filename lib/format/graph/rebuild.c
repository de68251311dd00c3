/*
 * rebuild.c - turns the calls by which pickles make tensors into descriptions of these tensors. The arguments
 * of the calls, from torch/_utils.py:
 *
 *   _rebuild_tensor      (storage, offset, size, stride)
 *   _rebuild_tensor_v2   (storage, offset, size, stride, requires_grad, hooks[, metadata])
 *   _rebuild_tensor_v3   (untyped storage, offset, size, stride, requires_grad, hooks, dtype[, metadata])
 *   _rebuild_parameter   (tensor, requires_grad, hooks)
 *   _rebuild_qtensor     (storage, offset, size, stride, quantizer, requires_grad, hooks)
 *   _rebuild_sparse_tensor (layout, (indices, values, size[, coalesced]) or
 *                           (compressed indices, plain indices, values, size))
 *   _rebuild_nested_tensor (buffer, sizes, strides, offsets)
 *   _rebuild_from_type_v2  (function, class, arguments, state): any subclass, and
 *                          torch.Tensor with Python attributes
 *   _rebuild_wrapper_subclass (class, dtype, size, stride, offset, layout, device, requires_grad):
 *                          no bytes of its own; its tensors are in the state
 *
 * metadata is a dict. With 'conj': True the tensor is the conjugate of what is stored, with 'neg': True its
 * negative.
 */
#include <stdio.h>

#include "base/store.h"
#include "core/dtype.h"
#include "format/graph/numpy.h"
#include "format/graph/persistent_id.h"
#include "format/graph/rebuild.h"

/* A constructor of tensors: one line of rebuild.def. READ fills *M from the arguments of CALL. */
struct rebuild {
    const char *module, *name;
    uint32_t min_args;
    ckpt_status (*read)(struct graph *g, const ckpt_value *call, struct tensor_description *m);
};

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
    for (int i = 0; i < MAX_WRAPPERS; i++) {
        if (!value_calls(v, "torch._utils", "_rebuild_parameter", 1) &&
            !value_calls(v, "torch._utils", "_rebuild_parameter_with_state", 1))
            break;
        v = value_arg(v, 0);
    }
    return v;
}

static const char *show_value(const ckpt_value *v, char *out, size_t cap)
{
    value_text_or_type(v, 4, out, cap);
    return out;
}

static ckpt_status read_shape(struct graph *g, const ckpt_value *v, ckpt_tensor *t)
{
    t->has_shape = true;
    return graph_read_sizes(g, v, "size", &t->ndim, &t->shape);
}

/* read_shape_and_stride - sets shape and strides of T from arguments FIRST and FIRST + 1 of CALL. */
static ckpt_status read_shape_and_stride(struct graph *g, const ckpt_value *call, uint32_t first,
                                         ckpt_tensor *t)
{
    uint32_t nstride;
    CKPT_TRY(read_shape(g, value_arg(call, first), t));
    CKPT_TRY(graph_read_sizes(g, value_arg(call, first + 1), "stride", &nstride, &t->stride));
    return nstride == t->ndim ? CKPT_OK
                              : graph_fail(g, call, "{=%u sizes} but {%u strides}", t->ndim, nstride);
}

static bool is_true(const ckpt_value *v) { return v && v->type == CKPT_V_BOOL && v->u.b; }

static void read_metadata(const ckpt_value *meta, ckpt_tensor *t)
{
    if (!meta) /* the usual case */
        return;
    t->conj = is_true(value_get(meta, "conj"));
    t->neg = is_true(value_get(meta, "neg"));
}

/* set_untyped_swap - in a big-endian archive, gives the untyped storage S the swap width of DTYPE, the dtype
 * of its first tensor. torch never swaps the bytes of untyped storages, so it misreads them. */
static ckpt_status set_untyped_swap(struct graph *g, const ckpt_value *call, struct storage *s,
                                    ckpt_dtype dtype)
{
    uint8_t width = dtype_info(dtype)->swap_bytes;
    if (!g->input->big_endian || s->dtype != CKPT_DT_U8 || width <= 1 || s->swap_width == width)
        return CKPT_OK;
    if (s->swap_width)
        return graph_fail(
            g, call, "big-endian storage \"%.*s\" is viewed in elements of {two widths}, {=one} is possible",
            STR_ARG(s->key));
    s->swap_width = width;
    file_notice(
        g->f,
        "big-endian untyped storage \"%.*s\" is swapped by its tensor's dtype; torch.load does not swap it",
        STR_ARG(s->key));
    return CKPT_OK;
}

/* read_strided - fills *M from arguments 0..3 of CALL: storage, offset, size, stride. The dtype is DTYPE or,
 * if that is CKPT_DT_NONE, that of the storage class. */
static ckpt_status read_strided(struct graph *g, const ckpt_value *call, ckpt_dtype dtype,
                                struct tensor_description *m)
{
    ckpt_tensor *t = &m->row.t;
    ckpt_dtype class_dtype;
    uint64_t numel, view_offset;
    char shown[64];
    if (!value_size(value_arg(call, 1), &t->storage_offset))
        return graph_fail(g, call, "the storage offset is {%s}, it must be {=an integer >= 0}",
                          show_value(value_arg(call, 1), shown, sizeof shown));
    CKPT_TRY(read_shape_and_stride(g, call, 2, t));
    CKPT_TRY(graph_get_storage(g, value_arg(call, 0), &t->storage, &class_dtype, &numel, &view_offset));
    t->dtype = (uint16_t)(dtype == CKPT_DT_NONE ? class_dtype : dtype);
    struct storage *s = &g->f->table.storages[t->storage];
    CKPT_TRY(set_untyped_swap(g, call, s, (ckpt_dtype)t->dtype));
    t->storage_offset += view_offset;
    t->location = storage_location(s);
    t->has_data = s->src != NULL;
    if (!s->src)
        t->kind = CKPT_META;
    if (t->conj && dtype_info((ckpt_dtype)t->dtype)->klass != 'c')
        return graph_fail(g, call, "the conj bit is set on a tensor of {%s}, which is not {=complex}",
                          ckpt_dtype_name((ckpt_dtype)t->dtype));
    m->is_tensor = true;
    return CKPT_OK;
}

static ckpt_status read_tensor_v1(struct graph *g, const ckpt_value *call, struct tensor_description *m)
{
    return read_strided(g, call, CKPT_DT_NONE, m);
}

static ckpt_status read_tensor_v2(struct graph *g, const ckpt_value *call, struct tensor_description *m)
{
    m->row.t.requires_grad = is_true(value_arg(call, 4));
    read_metadata(value_arg(call, 6), &m->row.t);
    return read_strided(g, call, CKPT_DT_NONE, m);
}

static ckpt_dtype get_dtype_value(const ckpt_value *v)
{
    return str_is(value_module(v), "torch") ? dtype_by_name(value_name(v)) : CKPT_DT_NONE;
}

static ckpt_status read_tensor_v3(struct graph *g, const ckpt_value *call, struct tensor_description *m)
{
    char shown[80];
    ckpt_dtype dtype = get_dtype_value(value_arg(call, 6));
    if (dtype == CKPT_DT_NONE)
        return graph_fail(g, call, "the dtype is {%s}, it must be {=one of torch's}",
                          show_value(value_arg(call, 6), shown, sizeof shown));
    m->row.t.requires_grad = is_true(value_arg(call, 4));
    read_metadata(value_arg(call, 7), &m->row.t);
    return read_strided(g, call, dtype, m);
}

static ckpt_status read_parameter(struct graph *g, const ckpt_value *call, struct tensor_description *m)
{
    char type[64];
    CKPT_TRY(graph_describe(g, value_arg(call, 0), m));
    if (!m->is_tensor)
        return graph_fail(g, call, "a Parameter holds {a %s}, it must hold {=a tensor}",
                          ckpt_value_type_name(value_arg(call, 0), type, sizeof type));
    m->row.t.parameter = true;
    m->row.t.requires_grad = is_true(value_arg(call, 1));
    return CKPT_OK;
}

/* read_old_parameter - reads a Parameter or Variable of torch 0.1-0.3: its arguments are (data,), or its
 * state is a tuple that begins with the data. */
static ckpt_status read_old_parameter(struct graph *g, const ckpt_value *call, struct tensor_description *m)
{
    const ckpt_value *data = value_arg(call, 0);
    if (!data)
        data = value_item(value_state(call), 0);
    if (!data)
        return CKPT_OK;
    CKPT_TRY(graph_describe(g, data, m));
    m->row.t.parameter = m->is_tensor && !str_is(value_name(value_class(call)), "Variable");
    return CKPT_OK;
}

static ckpt_status read_qtensor(struct graph *g, const ckpt_value *call, struct tensor_description *m)
{
    const ckpt_value *quantizer = value_arg(call, 4);
    CKPT_TRY(read_strided(g, call, CKPT_DT_NONE, m));
    m->row.t.kind = CKPT_QUANTIZED;
    m->row.t.requires_grad = is_true(value_arg(call, 5));
    if (quantizer->type != CKPT_V_TUPLE || value_count(quantizer) < 3 ||
        value_item(quantizer, 0)->type != CKPT_V_GLOBAL)
        return graph_fail_expected(g, call, "a quantizer must be",
                                   "(scheme, scale, zero_point) or (scheme, scales, zero_points, axis)",
                                   quantizer);
    ckpt_str scheme = value_name(value_item(quantizer, 0));
    if (str_starts(scheme, STR_LIT("per_channel"))) {
        m->components[m->ncomponents++] = (struct component){"scales", value_item(quantizer, 1)};
        m->components[m->ncomponents++] = (struct component){"zero_points", value_item(quantizer, 2)};
    }
    char scale[32], zero[32], axis[32] = "none";
    value_text_or_type(value_item(quantizer, 1), 1, scale, sizeof scale);
    value_text_or_type(value_item(quantizer, 2), 1, zero, sizeof zero);
    if (value_item(quantizer, 3))
        value_text_or_type(value_item(quantizer, 3), 1, axis, sizeof axis);
    m->row.t.note = m->ncomponents ? ARENA_CONCAT(g->f->a, scheme, STR_LIT(", axis "), str_c(axis))
                                   : ARENA_CONCAT(g->f->a, scheme, STR_LIT(", scale "), str_c(scale),
                                                  STR_LIT(", zero_point "), str_c(zero));
    return m->row.t.note.ptr ? CKPT_OK : fail_memory(g->err);
}

/* store_number - stores V, a float if AS_FLOAT, else an int, little-endian. False: V has another type. */
static bool store_number(const ckpt_value *v, bool as_float, unsigned char out[8])
{
    uint64_t bits;
    if (v->type != (as_float ? CKPT_V_FLOAT : CKPT_V_INT))
        return false;
    memcpy(&bits, as_float ? (const void *)&v->u.f : (const void *)&v->u.i, sizeof bits);
    store_u64le(out, bits);
    return true;
}

ckpt_status graph_describe_numbers(struct graph *g, const ckpt_value *v, struct tensor_description *m)
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
        if (!store_number(value_item(v, i), as_float, bytes + 8 * (size_t)i))
            return CKPT_OK;
    ckpt_dtype dtype = as_float ? CKPT_DT_F64 : CKPT_DT_I64;
    shape[0] = n;
    *m = (struct tensor_description){.is_tensor = true};
    m->row.t = (ckpt_tensor){
        .dtype = (uint16_t)dtype, .ndim = 1, .shape = shape, .has_shape = true, .has_data = true, .value = v};
    return graph_add_memory_storage(g, str_of((const char *)bytes, 8 * (size_t)n), dtype, &m->row.t.storage);
}

static ckpt_kind get_layout_kind(const ckpt_value *layout)
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

/* take_component_dtype - gives the composite *M the dtype and location of its component V. */
static ckpt_status take_component_dtype(struct graph *g, const ckpt_value *v, struct tensor_description *m)
{
    struct tensor_description part = {0};
    CKPT_TRY(v ? graph_describe(g, v, &part) : CKPT_OK);
    m->row.t.dtype = part.row.t.dtype;
    m->row.t.location = part.row.t.location;
    return CKPT_OK;
}

/* add_components - adds the first N items of TUPLE as components NAMES[0], NAMES[1] … of *M. */
static void add_components(struct tensor_description *m, uint32_t n, const char *const *names,
                           const ckpt_value *tuple)
{
    for (uint32_t i = 0; i < n; i++)
        m->components[m->ncomponents++] = (struct component){names[i], value_item(tuple, i)};
}

static ckpt_status read_sparse_tensor(struct graph *g, const ckpt_value *call, struct tensor_description *m)
{
    static const char *const coo_names[] = {"indices", "values"};
    static const char *const compressed_names[] = {"compressed_indices", "plain_indices", "values"};
    const ckpt_value *data = value_arg(call, 1);
    ckpt_kind kind = get_layout_kind(value_arg(call, 0));
    char shown[80], type[64];
    if (data->type != CKPT_V_TUPLE || kind == CKPT_OPAQUE)
        return graph_fail(
            g, call, "a sparse tensor has {layout %s and a %s}, it must have {=a sparse layout and a tuple}",
            show_value(value_arg(call, 0), shown, sizeof shown),
            ckpt_value_type_name(data, type, sizeof type));
    bool is_coo = kind == CKPT_SPARSE_COO;
    m->is_tensor = true;
    m->row.t.kind = (uint16_t)kind;
    add_components(m, is_coo ? 2 : 3, is_coo ? coo_names : compressed_names, data);
    if (!value_item(data, m->ncomponents))
        return is_coo ? graph_fail_expected(g, call, "a sparse tensor must have", "(indices, values, size)",
                                            data)
                      : graph_fail_expected(g, call, "a compressed sparse tensor must have",
                                            "(compressed, plain, values, size)", data);
    CKPT_TRY(read_shape(g, value_item(data, m->ncomponents), &m->row.t));
    if (is_coo && is_true(value_item(data, 3)))
        m->row.t.note = STR_LIT("coalesced");
    return take_component_dtype(g, m->components[m->ncomponents - 1].value, m);
}

static ckpt_status read_nested_tensor(struct graph *g, const ckpt_value *call, struct tensor_description *m)
{
    static const char *const names[] = {"buffer", "sizes", "strides", "offsets"};
    m->is_tensor = true;
    m->row.t.kind = CKPT_NESTED;
    add_components(m, 4, names, call->u.call.args);
    return take_component_dtype(g, value_arg(call, 0), m);
}

static ckpt_status read_jagged_tensor(struct graph *g, const ckpt_value *call, struct tensor_description *m)
{
    static const char *const keys[] = {"values", "offsets", "lengths"};
    const ckpt_value *d = value_arg(call, 0);
    m->is_tensor = true;
    m->row.t.kind = CKPT_NESTED_JAGGED;
    for (size_t i = 0; i < 3; i++) {
        const ckpt_value *v = value_get(d, keys[i]);
        if (v && v->type != CKPT_V_NONE)
            m->components[m->ncomponents++] = (struct component){keys[i], v};
    }
    return take_component_dtype(g, value_get(d, "values"), m);
}

static ckpt_status read_meta_tensor(struct graph *g, const ckpt_value *call, struct tensor_description *m)
{
    ckpt_tensor *t = &m->row.t;
    CKPT_TRY(read_shape_and_stride(g, call, 1, t));
    m->is_tensor = true;
    t->kind = CKPT_META;
    t->dtype = (uint16_t)get_dtype_value(value_arg(call, 0));
    t->location = STR_LIT("meta");
    t->requires_grad = is_true(value_arg(call, 3));
    return CKPT_OK;
}

static ckpt_status read_uninitialized(struct graph *g, const ckpt_value *call, struct tensor_description *m)
{
    (void)g;
    m->is_tensor = true;
    m->row.t.kind = CKPT_UNINITIALIZED;
    m->row.t.dtype = CKPT_DT_F32; /* torch's default, because none is stored */
    m->row.t.requires_grad = is_true(value_arg(call, 0));
    return CKPT_OK;
}

/* read_from_numpy - reads a tensor of XLA or another device, for which the pickle has a numpy array. */
static ckpt_status read_from_numpy(struct graph *g, const ckpt_value *call, struct tensor_description *m)
{
    CKPT_TRY(graph_describe_numpy(g, value_arg(call, 0), m));
    if (!m->is_tensor)
        return graph_fail_expected(g, call, "a device tensor must be made of", "a numpy array",
                                   value_arg(call, 0));
    m->row.t.kind = CKPT_DENSE;
    m->row.t.requires_grad = is_true(value_arg(call, 3));
    return CKPT_OK;
}

static ckpt_status read_from_cpu(struct graph *g, const ckpt_value *call, struct tensor_description *m)
{
    CKPT_TRY(graph_describe(g, value_arg(call, 0), m));
    m->row.t.requires_grad = is_true(value_arg(call, 3));
    return CKPT_OK;
}

/* read_wrapper - reads the dtype and shape of a wrapper subclass; read_from_type adds its components. */
static ckpt_status read_wrapper(struct graph *g, const ckpt_value *call, struct tensor_description *m)
{
    ckpt_tensor *t = &m->row.t;
    CKPT_TRY(read_shape(g, value_arg(call, 2), t));
    m->is_tensor = true;
    t->kind = CKPT_WRAPPER;
    t->dtype = (uint16_t)get_dtype_value(value_arg(call, 1));
    t->requires_grad = is_true(value_arg(call, 7));
    return CKPT_OK;
}

/* make_shape_text - returns the shape of T as "[8, 4]"; .ptr NULL: out of memory. */
static ckpt_str make_shape_text(arena *a, const ckpt_tensor *t)
{
    char number[STR_NUMBER_MAX];
    ckpt_str s = STR_LIT("[");
    for (uint32_t k = 0; s.ptr && k < t->ndim; k++)
        s = ARENA_CONCAT(a, s, str_c(k ? ", " : ""), format_number(t->shape[k], number));
    return s.ptr ? ARENA_CONCAT(a, s, STR_LIT("]")) : s;
}

/* make_placements_text - returns ", Shard(0), Replicate" for a DTensorSpec; .ptr NULL: out of memory. */
static ckpt_str make_placements_text(arena *a, const ckpt_value *spec)
{
    const ckpt_value *placements = object_attr(spec, "placements");
    ckpt_str s = STR_LIT("");
    for (uint32_t i = 0; placements && s.ptr && i < value_count(placements) && i < 8; i++) {
        const ckpt_value *p = value_item(placements, i), *klass = p ? value_class(p) : NULL;
        int64_t d;
        ckpt_str name = klass ? value_name(klass) : STR_LIT("?");
        char dim[32] = "";
        if (value_integer(object_attr(p, "dim"), &d))
            (void)snprintf(dim, sizeof dim, "(%lld)", (long long)d);
        s = ARENA_CONCAT(a, s, STR_LIT(", "), name, str_c(dim));
    }
    return s;
}

static ckpt_status describe_dtensor(struct graph *g, const ckpt_value *state, struct tensor_description *m)
{
    ckpt_str shape = make_shape_text(g->f->a, &m->row.t),
             placements = make_placements_text(g->f->a, object_attr(state, "_spec"));
    m->row.t.kind = CKPT_DTENSOR;
    m->components[m->ncomponents++] = (struct component){"_local_tensor",
                                                         object_attr(state, "_local_tensor")};
    if (shape.ptr && placements.ptr)
        m->row.t.note = ARENA_CONCAT(g->f->a, STR_LIT("local part of "), shape, placements);
    return m->row.t.note.ptr ? CKPT_OK : fail_memory(g->err);
}

/* describe_sharded - reads the STATE of a ShardedTensor:
 * ([Shard], ShardedTensorMetadata, ProcessGroupState, spec, …). */
static ckpt_status describe_sharded(struct graph *g, const ckpt_value *state, struct tensor_description *m)
{
    const ckpt_value *meta = value_item(state, 1), *size = object_attr(meta, "size");
    const ckpt_value *props = object_attr(meta, "tensor_properties"), *dtype = object_attr(props, "dtype");
    m->row.t.kind = CKPT_SHARDED;
    m->components[m->ncomponents++] = (struct component){"local_shards", value_item(state, 0)};
    if (!dtype) /* newer versions BUILD with a tuple, which begins with the dtype */
        dtype = value_item(value_state(props), 0);
    if (get_dtype_value(dtype) != CKPT_DT_NONE)
        m->row.t.dtype = (uint16_t)get_dtype_value(dtype);
    if (size)
        CKPT_TRY(read_shape(g, size, &m->row.t));
    ckpt_str text = make_shape_text(g->f->a, &m->row.t);
    m->row.t.note = text.ptr ? ARENA_CONCAT(g->f->a, STR_LIT("local part of "), text) : text;
    return m->row.t.note.ptr ? CKPT_OK : fail_memory(g->err);
}

static const struct rebuild *find_rebuild(struct graph *g, const ckpt_value *global);

/* add_wrapper_components - adds the tensors in the STATE of an unknown wrapper subclass as components. */
static ckpt_status add_wrapper_components(struct graph *g, const ckpt_value *state,
                                          struct tensor_description *m)
{
    for (unsigned half = 0; half < 2; half++) {
        uint32_t n;
        const ckpt_value *d = state->type == CKPT_V_TUPLE ? value_item(state, half) : half ? NULL : state;
        const value_pair *pairs = value_pairs(d, &n);
        for (uint32_t i = 0; i < n && m->ncomponents < MAX_COMPONENTS; i++) {
            ckpt_str key;
            const ckpt_value *klass = value_class(pairs[i].val);
            if (!klass || !find_rebuild(g, klass) || !value_text(pairs[i].key, &key))
                continue;
            key = arena_str(g->f->a, key);
            if (!key.ptr)
                return fail_memory(g->err);
            m->components[m->ncomponents++] = (struct component){key.ptr, pairs[i].val};
        }
    }
    return CKPT_OK;
}

static ckpt_status add_subclass_components(struct graph *g, const ckpt_value *klass, const ckpt_value *state,
                                           struct tensor_description *m)
{
    ckpt_str name = value_name(klass);
    if (str_is(name, "DTensor") && object_attr(state, "_local_tensor"))
        return describe_dtensor(g, state, m);
    if (str_is(name, "ShardedTensor") && state->type == CKPT_V_TUPLE)
        return describe_sharded(g, state, m);
    return add_wrapper_components(g, state, m);
}

static bool is_builtin_class(const ckpt_value *klass)
{
    return value_is_global(klass, "torch", "Tensor") ||
           value_is_global(klass, "torch.nn.parameter", "Parameter") ||
           value_is_global(klass, "torch.nn.parameter", "Buffer");
}

static ckpt_status read_from_type(struct graph *g, const ckpt_value *call, struct tensor_description *m)
{
    const ckpt_value *func = value_arg(call, 0), *klass = value_arg(call, 1), *args = value_arg(call, 2);
    /* The file has the function and arguments of the inner call, but no node for the call itself. */
    ckpt_value *inner = func->type == CKPT_V_GLOBAL
                            ? value_call(g->f->a, CALL_REDUCE, (ckpt_value *)(uintptr_t)func,
                                         (ckpt_value *)(uintptr_t)args, value_offset(call))
                            : NULL;
    if (!inner)
        return func->type == CKPT_V_GLOBAL
                   ? fail_memory(g->err)
                   : graph_fail_expected(g, call, "the function of _rebuild_from_type_v2 must be", "a name",
                                         func);
    CKPT_TRY(graph_describe(g, inner, m));
    if (!m->is_tensor)
        return CKPT_OK;
    if (value_is_global(klass, "torch.nn.parameter", "Parameter"))
        m->row.t.parameter = true;
    if (!is_builtin_class(klass) && klass->type == CKPT_V_GLOBAL)
        m->row.t.klass = ARENA_CONCAT(g->f->a, value_module(klass), STR_LIT("."), value_name(klass));
    /* In old versions of torch, ShardedTensor is not a wrapper subclass. */
    if (m->row.t.kind == CKPT_WRAPPER || str_is(value_name(klass), "ShardedTensor"))
        return add_subclass_components(g, klass, value_arg(call, 3), m);
    return CKPT_OK;
}

static const struct rebuild rebuilds[] = {
#define REBUILD(module, name, min_args, function) {module, name, min_args, function},
#include "format/graph/rebuild.def"
#undef REBUILD
};

/* find_rebuild - returns the line of rebuild.def for GLOBAL, or NULL. Caches the last result, because all
 * tensors of a state dict share one memoized global. */
static const struct rebuild *find_rebuild(struct graph *g, const ckpt_value *global)
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
    const ckpt_value *klass = value_class(v), *tensor;
    const struct rebuild *r = klass ? find_rebuild(g, klass) : NULL;
    *state = r ? value_state(v) : NULL;
    if (r && r->read == read_parameter) {
        *state = value_arg(v, 3); /* of _rebuild_parameter_with_state */
        return value_arg(v, 0);
    }
    if (!r || r->read != read_from_type) {
        if (*state && (*state)->type != CKPT_V_DICT) /* a tuple, see read_setstate_tensor */
            *state = NULL;
        return NULL;
    }
    *state = value_arg(v, 3);
    tensor = find_rebuild(g, value_arg(v, 0)) ? value_item(value_arg(v, 2), 0) : NULL;
    return tensor && tensor->type == CKPT_V_CALL ? tensor : NULL;
}

/* read_setstate_tensor - reads a tensor of torch 0.1-0.3 from the argument of Tensor.__setstate__:
 * (storage, offset, size, stride). */
static ckpt_status read_setstate_tensor(struct graph *g, const ckpt_value *v, const ckpt_value *klass,
                                        struct tensor_description *m)
{
    const ckpt_value *state = value_state(v);
    if (!str_starts(value_module(klass), STR_LIT("torch")) ||
        !str_ends(value_name(klass), STR_LIT("Tensor")) || !state || state->type != CKPT_V_TUPLE ||
        value_count(state) != 4 || !graph_is_storage(value_item(state, 0)))
        return CKPT_OK;
    ckpt_value *inner = value_call(g->f->a, CALL_REDUCE, (ckpt_value *)(uintptr_t)klass,
                                   (ckpt_value *)(uintptr_t)state, value_offset(v));
    return inner ? read_strided(g, inner, CKPT_DT_NONE, m) : fail_memory(g->err);
}

static ckpt_status describe_storage(struct graph *g, const ckpt_value *v, struct tensor_description *m)
{
    ckpt_tensor *t = &m->row.t;
    ckpt_dtype dtype;
    uint64_t *shape = arena_array(g->f->a, 1, sizeof *shape);
    if (!shape)
        return fail_memory(g->err);
    CKPT_TRY(graph_get_storage(g, v, &t->storage, &dtype, &shape[0], &t->storage_offset));
    const struct storage *s = &g->f->table.storages[t->storage];
    if (dtype_info(dtype)->block_elems > 1)
        dtype = CKPT_DT_U8; /* storages of packed quantized elements count bytes */
    t->dtype = (uint16_t)dtype;
    t->kind = CKPT_STORAGE;
    t->ndim = 1;
    t->shape = shape;
    t->has_shape = true;
    t->has_data = s->src != NULL;
    t->location = storage_location(s);
    m->is_tensor = true;
    return CKPT_OK;
}

static ckpt_status describe_call(struct graph *g, const ckpt_value *v, struct tensor_description *m)
{
    const ckpt_value *klass = value_class(v);
    const struct rebuild *r = find_rebuild(g, klass);
    if (!r && graph_is_storage(v))
        return describe_storage(g, v, m);
    if (r && value_nargs(v) < r->min_args)
        return graph_fail(g, v, "%s.%s is given {%u arguments}, it takes {=at least %u}", r->module, r->name,
                          value_nargs(v), r->min_args);
    if (r)
        CKPT_TRY(r->read(g, v, m));
    else
        CKPT_TRY(read_setstate_tensor(g, v, klass, m));
    return m->is_tensor ? CKPT_OK : graph_describe_numpy(g, v, m);
}

/* Constructors nest a few levels deep in real files (a Parameter of a subclass of a view). The limit keeps
 * hostile files from exhausting the stack. */
#define MAX_CONSTRUCTOR_DEPTH 16

ckpt_status graph_describe(struct graph *g, const ckpt_value *v, struct tensor_description *m)
{
    *m = (struct tensor_description){0};
    m->row.t.storage = CKPT_NO_STORAGE;
    m->row.t.part_of = CKPT_NO_TENSOR;
    m->row.t.value = v;
    if (g->constructor_depth >= MAX_CONSTRUCTOR_DEPTH)
        return graph_fail(g, v, "tensor constructors are nested {deeper} than {=%u}", g->constructor_depth);
    if (v->type == CKPT_V_TENSOR && g->input->describe_tensor)
        return g->input->describe_tensor(g->input->user, g, v, m);
    if (v->type == CKPT_V_TENSOR) {
        m->is_tensor = g->input->describe_node && g->input->describe_node(g->input->user, v, &m->row);
        return CKPT_OK;
    }
    if (v->type == CKPT_V_PERSID) {
        if (g->input->describe_node && g->input->describe_node(g->input->user, v->u.pid, &m->row)) {
            m->is_tensor = true;
            return CKPT_OK;
        }
        return graph_is_storage(v) ? describe_storage(g, v, m) : CKPT_OK;
    }
    if (v->type != CKPT_V_CALL)
        return CKPT_OK;
    g->constructor_depth++;
    ckpt_status st = describe_call(g, v, m);
    g->constructor_depth--;
    m->row.t.value = v;
    return st;
}
