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

const ckpt_value *value_class(const ckpt_value *value)
{
    return value->type == CKPT_V_CALL ? value->u.call.callable : NULL;
}

const ckpt_value *object_attr(const ckpt_value *value, const char *name)
{
    const ckpt_value *state = value && value->type == CKPT_V_CALL ? value_state(value) : value;
    const ckpt_value *found = value_get(state, name);
    for (uint32_t i = 0; !found && state && state->type == CKPT_V_TUPLE && i < 2; i++)
        found = value_get(value_item(state, i), name);
    return found;
}

ckpt_value *torch_parameter_data(ckpt_value *value)
{
    for (int i = 0; i < MAX_WRAPPERS; i++) {
        if (!value_calls(value, "torch._utils", "_rebuild_parameter", 1) &&
            !value_calls(value, "torch._utils", "_rebuild_parameter_with_state", 1))
            break;
        value = value_arg(value, 0);
    }
    return value;
}

static const char *show_value(const ckpt_value *value, char *out, size_t cap)
{
    value_text_or_type(value, 4, out, cap);
    return out;
}

static ckpt_status read_shape(struct graph *graph, const ckpt_value *value, ckpt_tensor *tensor)
{
    tensor->has_shape = true;
    return graph_read_sizes(graph, value, "size", &tensor->ndim, &tensor->shape);
}

/* read_shape_and_stride - sets shape and strides of TENSOR from arguments FIRST and FIRST + 1 of CALL. */
static ckpt_status read_shape_and_stride(struct graph *graph, const ckpt_value *call, uint32_t first,
                                         ckpt_tensor *tensor)
{
    uint32_t nstride;
    CKPT_TRY(read_shape(graph, value_arg(call, first), tensor));
    CKPT_TRY(graph_read_sizes(graph, value_arg(call, first + 1), "stride", &nstride, &tensor->stride));
    return nstride == tensor->ndim
               ? CKPT_OK
               : graph_fail(graph, call, "{=%u sizes} but {%u strides}", tensor->ndim, nstride);
}

static bool is_true(const ckpt_value *value) { return value && value->type == CKPT_V_BOOL && value->u.b; }

static void read_metadata(const ckpt_value *meta, ckpt_tensor *tensor)
{
    if (!meta) /* the usual case */
        return;
    tensor->conj = is_true(value_get(meta, "conj"));
    tensor->neg = is_true(value_get(meta, "neg"));
}

/* set_untyped_swap - in a big-endian archive, gives the untyped storage STORAGE the swap width of DTYPE, the
 * dtype of its first tensor. torch never swaps the bytes of untyped storages, so it misreads them. */
static ckpt_status set_untyped_swap(struct graph *graph, const ckpt_value *call, struct storage *storage,
                                    ckpt_dtype dtype)
{
    uint8_t width = dtype_info(dtype)->swap_bytes;
    if (!graph->input->big_endian || storage->dtype != CKPT_DT_U8 || width <= 1 ||
        storage->swap_width == width)
        return CKPT_OK;
    if (storage->swap_width)
        return graph_fail(
            graph, call,
            "big-endian storage \"%.*s\" is viewed in elements of {two widths}, {=one} is possible",
            STR_ARG(storage->key));
    storage->swap_width = width;
    file_notice(
        graph->f,
        "big-endian untyped storage \"%.*s\" is swapped by its tensor's dtype; torch.load does not swap it",
        STR_ARG(storage->key));
    return CKPT_OK;
}

/* read_strided - fills *DESCRIPTION from arguments 0..3 of CALL: storage, offset, size, stride. The dtype is
 * DTYPE or, if that is CKPT_DT_NONE, that of the storage class. */
static ckpt_status read_strided(struct graph *graph, const ckpt_value *call, ckpt_dtype dtype,
                                struct tensor_description *description)
{
    ckpt_tensor *t = &description->row.t;
    ckpt_dtype class_dtype;
    uint64_t numel, view_offset;
    char shown[64];
    if (!value_size(value_arg(call, 1), &t->storage_offset))
        return graph_fail(graph, call, "the storage offset is {%s}, it must be {=an integer >= 0}",
                          show_value(value_arg(call, 1), shown, sizeof shown));
    CKPT_TRY(read_shape_and_stride(graph, call, 2, t));
    CKPT_TRY(graph_get_storage(graph, value_arg(call, 0), &t->storage, &class_dtype, &numel, &view_offset));
    t->dtype = (uint16_t)(dtype == CKPT_DT_NONE ? class_dtype : dtype);
    struct storage *s = &graph->f->table.storages[t->storage];
    CKPT_TRY(set_untyped_swap(graph, call, s, (ckpt_dtype)t->dtype));
    t->storage_offset += view_offset;
    t->location = storage_location(s);
    t->has_data = s->src != NULL;
    if (!s->src)
        t->kind = CKPT_META;
    if (t->conj && dtype_info((ckpt_dtype)t->dtype)->klass != 'c')
        return graph_fail(graph, call, "the conj bit is set on a tensor of {%s}, which is not {=complex}",
                          ckpt_dtype_name((ckpt_dtype)t->dtype));
    description->is_tensor = true;
    return CKPT_OK;
}

static ckpt_status read_tensor_v1(struct graph *graph, const ckpt_value *call,
                                  struct tensor_description *description)
{
    return read_strided(graph, call, CKPT_DT_NONE, description);
}

static ckpt_status read_tensor_v2(struct graph *graph, const ckpt_value *call,
                                  struct tensor_description *description)
{
    description->row.t.requires_grad = is_true(value_arg(call, 4));
    read_metadata(value_arg(call, 6), &description->row.t);
    return read_strided(graph, call, CKPT_DT_NONE, description);
}

static ckpt_dtype get_dtype_value(const ckpt_value *value)
{
    return str_is(value_module(value), "torch") ? dtype_by_name(value_name(value)) : CKPT_DT_NONE;
}

static ckpt_status read_tensor_v3(struct graph *graph, const ckpt_value *call,
                                  struct tensor_description *description)
{
    char shown[80];
    ckpt_dtype dtype = get_dtype_value(value_arg(call, 6));
    if (dtype == CKPT_DT_NONE)
        return graph_fail(graph, call, "the dtype is {%s}, it must be {=one of torch's}",
                          show_value(value_arg(call, 6), shown, sizeof shown));
    description->row.t.requires_grad = is_true(value_arg(call, 4));
    read_metadata(value_arg(call, 7), &description->row.t);
    return read_strided(graph, call, dtype, description);
}

static ckpt_status read_parameter(struct graph *graph, const ckpt_value *call,
                                  struct tensor_description *description)
{
    char type[64];
    CKPT_TRY(graph_describe(graph, value_arg(call, 0), description));
    if (!description->is_tensor)
        return graph_fail(graph, call, "a Parameter holds {a %s}, it must hold {=a tensor}",
                          ckpt_value_type_name(value_arg(call, 0), type, sizeof type));
    description->row.t.parameter = true;
    description->row.t.requires_grad = is_true(value_arg(call, 1));
    return CKPT_OK;
}

/* read_old_parameter - reads a Parameter or Variable of torch 0.1-0.3: its arguments are (data,), or its
 * state is a tuple that begins with the data. */
static ckpt_status read_old_parameter(struct graph *graph, const ckpt_value *call,
                                      struct tensor_description *description)
{
    const ckpt_value *data = value_arg(call, 0);
    if (!data)
        data = value_item(value_state(call), 0);
    if (!data)
        return CKPT_OK;
    CKPT_TRY(graph_describe(graph, data, description));
    description->row.t.parameter = description->is_tensor &&
                                   !str_is(value_name(value_class(call)), "Variable");
    return CKPT_OK;
}

static ckpt_status read_qtensor(struct graph *graph, const ckpt_value *call,
                                struct tensor_description *description)
{
    const ckpt_value *quantizer = value_arg(call, 4);
    CKPT_TRY(read_strided(graph, call, CKPT_DT_NONE, description));
    description->row.t.kind = CKPT_QUANTIZED;
    description->row.t.requires_grad = is_true(value_arg(call, 5));
    if (quantizer->type != CKPT_V_TUPLE || value_count(quantizer) < 3 ||
        value_item(quantizer, 0)->type != CKPT_V_GLOBAL)
        return graph_fail_expected(graph, call, "a quantizer must be",
                                   "(scheme, scale, zero_point) or (scheme, scales, zero_points, axis)",
                                   quantizer);
    ckpt_str scheme = value_name(value_item(quantizer, 0));
    if (str_starts(scheme, STR_LIT("per_channel"))) {
        description->components[description->ncomponents++] = (struct component){"scales",
                                                                                 value_item(quantizer, 1)};
        description->components[description->ncomponents++] = (struct component){"zero_points",
                                                                                 value_item(quantizer, 2)};
    }
    char scale[32], zero[32], axis[32] = "none";
    value_text_or_type(value_item(quantizer, 1), 1, scale, sizeof scale);
    value_text_or_type(value_item(quantizer, 2), 1, zero, sizeof zero);
    if (value_item(quantizer, 3))
        value_text_or_type(value_item(quantizer, 3), 1, axis, sizeof axis);
    description->row.t.note = description->ncomponents
                                  ? ARENA_CONCAT(graph->f->a, scheme, STR_LIT(", axis "), str_c(axis))
                                  : ARENA_CONCAT(graph->f->a, scheme, STR_LIT(", scale "), str_c(scale),
                                                 STR_LIT(", zero_point "), str_c(zero));
    return description->row.t.note.ptr ? CKPT_OK : fail_memory(graph->err);
}

/* store_number - stores VALUE, a float if AS_FLOAT, else an int, little-endian. False: VALUE has another
 * type. */
static bool store_number(const ckpt_value *value, bool as_float, unsigned char out[8])
{
    uint64_t bits;
    if (value->type != (as_float ? CKPT_V_FLOAT : CKPT_V_INT))
        return false;
    memcpy(&bits, as_float ? (const void *)&value->u.f : (const void *)&value->u.i, sizeof bits);
    store_u64le(out, bits);
    return true;
}

ckpt_status graph_describe_numbers(struct graph *graph, const ckpt_value *value,
                                   struct tensor_description *description)
{
    uint32_t n = value_count(value);
    if (!n)
        return CKPT_OK;
    bool as_float = value_item(value, 0)->type == CKPT_V_FLOAT;
    unsigned char *bytes = arena_array(graph->f->a, n, 8);
    uint64_t *shape = arena_array(graph->f->a, 1, sizeof *shape);
    if (!bytes || !shape)
        return fail_memory(graph->err);
    for (uint32_t i = 0; i < n; i++)
        if (!store_number(value_item(value, i), as_float, bytes + 8 * (size_t)i))
            return CKPT_OK;
    ckpt_dtype dtype = as_float ? CKPT_DT_F64 : CKPT_DT_I64;
    shape[0] = n;
    *description = (struct tensor_description){.is_tensor = true};
    description->row.t = (ckpt_tensor){.dtype = (uint16_t)dtype,
                                       .ndim = 1,
                                       .shape = shape,
                                       .has_shape = true,
                                       .has_data = true,
                                       .value = value};
    return graph_add_memory_storage(graph, str_of((const char *)bytes, 8 * (size_t)n), dtype,
                                    &description->row.t.storage);
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

/* take_component_dtype - gives the composite *DESCRIPTION the dtype and location of its component VALUE. */
static ckpt_status take_component_dtype(struct graph *graph, const ckpt_value *value,
                                        struct tensor_description *description)
{
    struct tensor_description part = {0};
    CKPT_TRY(value ? graph_describe(graph, value, &part) : CKPT_OK);
    description->row.t.dtype = part.row.t.dtype;
    description->row.t.location = part.row.t.location;
    return CKPT_OK;
}

/* add_components - adds the first COUNT items of TUPLE as components NAMES[0], NAMES[1] … of
 * *DESCRIPTION. */
static void add_components(struct tensor_description *description, uint32_t count, const char *const *names,
                           const ckpt_value *tuple)
{
    for (uint32_t i = 0; i < count; i++)
        description->components[description->ncomponents++] = (struct component){names[i],
                                                                                 value_item(tuple, i)};
}

static ckpt_status read_sparse_tensor(struct graph *graph, const ckpt_value *call,
                                      struct tensor_description *description)
{
    static const char *const coo_names[] = {"indices", "values"};
    static const char *const compressed_names[] = {"compressed_indices", "plain_indices", "values"};
    const ckpt_value *data = value_arg(call, 1);
    ckpt_kind kind = get_layout_kind(value_arg(call, 0));
    char shown[80], type[64];
    if (data->type != CKPT_V_TUPLE || kind == CKPT_OPAQUE)
        return graph_fail(
            graph, call,
            "a sparse tensor has {layout %s and a %s}, it must have {=a sparse layout and a tuple}",
            show_value(value_arg(call, 0), shown, sizeof shown),
            ckpt_value_type_name(data, type, sizeof type));
    bool is_coo = kind == CKPT_SPARSE_COO;
    description->is_tensor = true;
    description->row.t.kind = (uint16_t)kind;
    add_components(description, is_coo ? 2 : 3, is_coo ? coo_names : compressed_names, data);
    if (!value_item(data, description->ncomponents))
        return is_coo ? graph_fail_expected(graph, call, "a sparse tensor must have",
                                            "(indices, values, size)", data)
                      : graph_fail_expected(graph, call, "a compressed sparse tensor must have",
                                            "(compressed, plain, values, size)", data);
    CKPT_TRY(read_shape(graph, value_item(data, description->ncomponents), &description->row.t));
    if (is_coo && is_true(value_item(data, 3)))
        description->row.t.note = STR_LIT("coalesced");
    return take_component_dtype(graph, description->components[description->ncomponents - 1].value,
                                description);
}

static ckpt_status read_nested_tensor(struct graph *graph, const ckpt_value *call,
                                      struct tensor_description *description)
{
    static const char *const names[] = {"buffer", "sizes", "strides", "offsets"};
    description->is_tensor = true;
    description->row.t.kind = CKPT_NESTED;
    add_components(description, 4, names, call->u.call.args);
    return take_component_dtype(graph, value_arg(call, 0), description);
}

static ckpt_status read_jagged_tensor(struct graph *graph, const ckpt_value *call,
                                      struct tensor_description *description)
{
    static const char *const keys[] = {"values", "offsets", "lengths"};
    const ckpt_value *d = value_arg(call, 0);
    description->is_tensor = true;
    description->row.t.kind = CKPT_NESTED_JAGGED;
    for (size_t i = 0; i < 3; i++) {
        const ckpt_value *v = value_get(d, keys[i]);
        if (v && v->type != CKPT_V_NONE)
            description->components[description->ncomponents++] = (struct component){keys[i], v};
    }
    return take_component_dtype(graph, value_get(d, "values"), description);
}

static ckpt_status read_meta_tensor(struct graph *graph, const ckpt_value *call,
                                    struct tensor_description *description)
{
    ckpt_tensor *t = &description->row.t;
    CKPT_TRY(read_shape_and_stride(graph, call, 1, t));
    description->is_tensor = true;
    t->kind = CKPT_META;
    t->dtype = (uint16_t)get_dtype_value(value_arg(call, 0));
    t->location = STR_LIT("meta");
    t->requires_grad = is_true(value_arg(call, 3));
    return CKPT_OK;
}

static ckpt_status read_uninitialized(struct graph *graph, const ckpt_value *call,
                                      struct tensor_description *description)
{
    (void)graph;
    description->is_tensor = true;
    description->row.t.kind = CKPT_UNINITIALIZED;
    description->row.t.dtype = CKPT_DT_F32; /* torch's default, because none is stored */
    description->row.t.requires_grad = is_true(value_arg(call, 0));
    return CKPT_OK;
}

/* read_from_numpy - reads a tensor of XLA or another device, for which the pickle has a numpy array. */
static ckpt_status read_from_numpy(struct graph *graph, const ckpt_value *call,
                                   struct tensor_description *description)
{
    CKPT_TRY(graph_describe_numpy(graph, value_arg(call, 0), description));
    if (!description->is_tensor)
        return graph_fail_expected(graph, call, "a device tensor must be made of", "a numpy array",
                                   value_arg(call, 0));
    description->row.t.kind = CKPT_DENSE;
    description->row.t.requires_grad = is_true(value_arg(call, 3));
    return CKPT_OK;
}

static ckpt_status read_from_cpu(struct graph *graph, const ckpt_value *call,
                                 struct tensor_description *description)
{
    CKPT_TRY(graph_describe(graph, value_arg(call, 0), description));
    description->row.t.requires_grad = is_true(value_arg(call, 3));
    return CKPT_OK;
}

/* read_wrapper - reads the dtype and shape of a wrapper subclass; read_from_type adds its components. */
static ckpt_status read_wrapper(struct graph *graph, const ckpt_value *call,
                                struct tensor_description *description)
{
    ckpt_tensor *t = &description->row.t;
    CKPT_TRY(read_shape(graph, value_arg(call, 2), t));
    description->is_tensor = true;
    t->kind = CKPT_WRAPPER;
    t->dtype = (uint16_t)get_dtype_value(value_arg(call, 1));
    t->requires_grad = is_true(value_arg(call, 7));
    return CKPT_OK;
}

/* make_shape_text - returns the shape of TENSOR as "[8, 4]"; .ptr NULL: out of memory. */
static ckpt_str make_shape_text(arena *a, const ckpt_tensor *tensor)
{
    char number[STR_NUMBER_MAX];
    ckpt_str s = STR_LIT("[");
    for (uint32_t k = 0; s.ptr && k < tensor->ndim; k++)
        s = ARENA_CONCAT(a, s, str_c(k ? ", " : ""), format_number(tensor->shape[k], number));
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

static ckpt_status describe_dtensor(struct graph *graph, const ckpt_value *state,
                                    struct tensor_description *description)
{
    ckpt_str shape = make_shape_text(graph->f->a, &description->row.t),
             placements = make_placements_text(graph->f->a, object_attr(state, "_spec"));
    description->row.t.kind = CKPT_DTENSOR;
    description->components[description->ncomponents++] = (struct component){
        "_local_tensor", object_attr(state, "_local_tensor")};
    if (shape.ptr && placements.ptr)
        description->row.t.note = ARENA_CONCAT(graph->f->a, STR_LIT("local part of "), shape, placements);
    return description->row.t.note.ptr ? CKPT_OK : fail_memory(graph->err);
}

/* describe_sharded - reads the STATE of a ShardedTensor:
 * ([Shard], ShardedTensorMetadata, ProcessGroupState, spec, …). */
static ckpt_status describe_sharded(struct graph *graph, const ckpt_value *state,
                                    struct tensor_description *description)
{
    const ckpt_value *meta = value_item(state, 1), *size = object_attr(meta, "size");
    const ckpt_value *props = object_attr(meta, "tensor_properties"), *dtype = object_attr(props, "dtype");
    description->row.t.kind = CKPT_SHARDED;
    description->components[description->ncomponents++] = (struct component){"local_shards",
                                                                             value_item(state, 0)};
    if (!dtype) /* newer versions BUILD with a tuple, which begins with the dtype */
        dtype = value_item(value_state(props), 0);
    if (get_dtype_value(dtype) != CKPT_DT_NONE)
        description->row.t.dtype = (uint16_t)get_dtype_value(dtype);
    if (size)
        CKPT_TRY(read_shape(graph, size, &description->row.t));
    ckpt_str text = make_shape_text(graph->f->a, &description->row.t);
    description->row.t.note = text.ptr ? ARENA_CONCAT(graph->f->a, STR_LIT("local part of "), text) : text;
    return description->row.t.note.ptr ? CKPT_OK : fail_memory(graph->err);
}

static const struct rebuild *find_rebuild(struct graph *graph, const ckpt_value *global);

/* add_wrapper_components - adds the tensors in the STATE of an unknown wrapper subclass as components. */
static ckpt_status add_wrapper_components(struct graph *graph, const ckpt_value *state,
                                          struct tensor_description *description)
{
    for (unsigned half = 0; half < 2; half++) {
        uint32_t n;
        const ckpt_value *d = state->type == CKPT_V_TUPLE ? value_item(state, half) : half ? NULL : state;
        const value_pair *pairs = value_pairs(d, &n);
        for (uint32_t i = 0; i < n && description->ncomponents < MAX_COMPONENTS; i++) {
            ckpt_str key;
            const ckpt_value *klass = value_class(pairs[i].val);
            if (!klass || !find_rebuild(graph, klass) || !value_text(pairs[i].key, &key))
                continue;
            key = arena_str(graph->f->a, key);
            if (!key.ptr)
                return fail_memory(graph->err);
            description->components[description->ncomponents++] = (struct component){key.ptr, pairs[i].val};
        }
    }
    return CKPT_OK;
}

static ckpt_status add_subclass_components(struct graph *graph, const ckpt_value *klass,
                                           const ckpt_value *state, struct tensor_description *description)
{
    ckpt_str name = value_name(klass);
    if (str_is(name, "DTensor") && object_attr(state, "_local_tensor"))
        return describe_dtensor(graph, state, description);
    if (str_is(name, "ShardedTensor") && state->type == CKPT_V_TUPLE)
        return describe_sharded(graph, state, description);
    return add_wrapper_components(graph, state, description);
}

static bool is_builtin_class(const ckpt_value *klass)
{
    return value_is_global(klass, "torch", "Tensor") ||
           value_is_global(klass, "torch.nn.parameter", "Parameter") ||
           value_is_global(klass, "torch.nn.parameter", "Buffer");
}

static ckpt_status read_from_type(struct graph *graph, const ckpt_value *call,
                                  struct tensor_description *description)
{
    const ckpt_value *func = value_arg(call, 0), *klass = value_arg(call, 1), *args = value_arg(call, 2);
    /* The file has the function and arguments of the inner call, but no node for the call itself. */
    ckpt_value *inner = func->type == CKPT_V_GLOBAL
                            ? value_call(graph->f->a, CALL_REDUCE, (ckpt_value *)(uintptr_t)func,
                                         (ckpt_value *)(uintptr_t)args, value_offset(call))
                            : NULL;
    if (!inner)
        return func->type == CKPT_V_GLOBAL
                   ? fail_memory(graph->err)
                   : graph_fail_expected(graph, call, "the function of _rebuild_from_type_v2 must be",
                                         "a name", func);
    CKPT_TRY(graph_describe(graph, inner, description));
    if (!description->is_tensor)
        return CKPT_OK;
    if (value_is_global(klass, "torch.nn.parameter", "Parameter"))
        description->row.t.parameter = true;
    if (!is_builtin_class(klass) && klass->type == CKPT_V_GLOBAL)
        description->row.t.klass = ARENA_CONCAT(graph->f->a, value_module(klass), STR_LIT("."),
                                                value_name(klass));
    /* In old versions of torch, ShardedTensor is not a wrapper subclass. */
    if (description->row.t.kind == CKPT_WRAPPER || str_is(value_name(klass), "ShardedTensor"))
        return add_subclass_components(graph, klass, value_arg(call, 3), description);
    return CKPT_OK;
}

static const struct rebuild rebuilds[] = {
#define REBUILD(module, name, min_args, function) {module, name, min_args, function},
#include "format/graph/rebuild.def"
#undef REBUILD
};

/* find_rebuild - returns the line of rebuild.def for GLOBAL, or NULL. Caches the last result, because all
 * tensors of a state dict share one memoized global. */
static const struct rebuild *find_rebuild(struct graph *graph, const ckpt_value *global)
{
    if (graph->last_global == global)
        return graph->last_rebuild;
    ckpt_str module = value_module(global), name = value_name(global);
    graph->last_global = global;
    graph->last_rebuild = NULL;
    for (size_t i = 0; i < sizeof rebuilds / sizeof *rebuilds; i++)
        if (str_is(name, rebuilds[i].name) && str_is(module, rebuilds[i].module))
            graph->last_rebuild = &rebuilds[i];
    return graph->last_rebuild;
}

const ckpt_value *torch_wrapped_tensor(struct graph *graph, const ckpt_value *value, const ckpt_value **state)
{
    const ckpt_value *klass = value_class(value), *tensor;
    const struct rebuild *r = klass ? find_rebuild(graph, klass) : NULL;
    *state = r ? value_state(value) : NULL;
    if (r && r->read == read_parameter) {
        *state = value_arg(value, 3); /* of _rebuild_parameter_with_state */
        return value_arg(value, 0);
    }
    if (!r || r->read != read_from_type) {
        if (*state && (*state)->type != CKPT_V_DICT) /* a tuple, see read_setstate_tensor */
            *state = NULL;
        return NULL;
    }
    *state = value_arg(value, 3);
    tensor = find_rebuild(graph, value_arg(value, 0)) ? value_item(value_arg(value, 2), 0) : NULL;
    return tensor && tensor->type == CKPT_V_CALL ? tensor : NULL;
}

/* read_setstate_tensor - reads a tensor of torch 0.1-0.3 from the argument of Tensor.__setstate__:
 * (storage, offset, size, stride). */
static ckpt_status read_setstate_tensor(struct graph *graph, const ckpt_value *value, const ckpt_value *klass,
                                        struct tensor_description *description)
{
    const ckpt_value *state = value_state(value);
    if (!str_starts(value_module(klass), STR_LIT("torch")) ||
        !str_ends(value_name(klass), STR_LIT("Tensor")) || !state || state->type != CKPT_V_TUPLE ||
        value_count(state) != 4 || !graph_is_storage(value_item(state, 0)))
        return CKPT_OK;
    ckpt_value *inner = value_call(graph->f->a, CALL_REDUCE, (ckpt_value *)(uintptr_t)klass,
                                   (ckpt_value *)(uintptr_t)state, value_offset(value));
    return inner ? read_strided(graph, inner, CKPT_DT_NONE, description) : fail_memory(graph->err);
}

static ckpt_status describe_storage(struct graph *graph, const ckpt_value *value,
                                    struct tensor_description *description)
{
    ckpt_tensor *t = &description->row.t;
    ckpt_dtype dtype;
    uint64_t *shape = arena_array(graph->f->a, 1, sizeof *shape);
    if (!shape)
        return fail_memory(graph->err);
    CKPT_TRY(graph_get_storage(graph, value, &t->storage, &dtype, &shape[0], &t->storage_offset));
    const struct storage *s = &graph->f->table.storages[t->storage];
    if (dtype_info(dtype)->block_elems > 1)
        dtype = CKPT_DT_U8; /* storages of packed quantized elements count bytes */
    t->dtype = (uint16_t)dtype;
    t->kind = CKPT_STORAGE;
    t->ndim = 1;
    t->shape = shape;
    t->has_shape = true;
    t->has_data = s->src != NULL;
    t->location = storage_location(s);
    description->is_tensor = true;
    return CKPT_OK;
}

static ckpt_status describe_call(struct graph *graph, const ckpt_value *value,
                                 struct tensor_description *description)
{
    const ckpt_value *klass = value_class(value);
    const struct rebuild *r = find_rebuild(graph, klass);
    if (!r && graph_is_storage(value))
        return describe_storage(graph, value, description);
    if (r && value_nargs(value) < r->min_args)
        return graph_fail(graph, value, "%s.%s is given {%u arguments}, it takes {=at least %u}", r->module,
                          r->name, value_nargs(value), r->min_args);
    if (r)
        CKPT_TRY(r->read(graph, value, description));
    else
        CKPT_TRY(read_setstate_tensor(graph, value, klass, description));
    return description->is_tensor ? CKPT_OK : graph_describe_numpy(graph, value, description);
}

/* Constructors nest a few levels deep in real files (a Parameter of a subclass of a view). The limit keeps
 * hostile files from exhausting the stack. */
#define MAX_CONSTRUCTOR_DEPTH 16

ckpt_status graph_describe(struct graph *graph, const ckpt_value *value,
                           struct tensor_description *description)
{
    *description = (struct tensor_description){0};
    description->row.t.storage = CKPT_NO_STORAGE;
    description->row.t.part_of = CKPT_NO_TENSOR;
    description->row.t.value = value;
    if (graph->constructor_depth >= MAX_CONSTRUCTOR_DEPTH)
        return graph_fail(graph, value, "tensor constructors are nested {deeper} than {=%u}",
                          graph->constructor_depth);
    if (value->type == CKPT_V_TENSOR && graph->input->describe_tensor)
        return graph->input->describe_tensor(graph->input->user, graph, value, description);
    if (value->type == CKPT_V_TENSOR) {
        description->is_tensor = graph->input->describe_node &&
                                 graph->input->describe_node(graph->input->user, value, &description->row);
        return CKPT_OK;
    }
    if (value->type == CKPT_V_PERSID) {
        if (graph->input->describe_node &&
            graph->input->describe_node(graph->input->user, value->u.pid, &description->row)) {
            description->is_tensor = true;
            return CKPT_OK;
        }
        return graph_is_storage(value) ? describe_storage(graph, value, description) : CKPT_OK;
    }
    if (value->type != CKPT_V_CALL)
        return CKPT_OK;
    graph->constructor_depth++;
    ckpt_status st = describe_call(graph, value, description);
    graph->constructor_depth--;
    description->row.t.value = value;
    return st;
}
