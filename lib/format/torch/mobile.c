/* mobile.c - TorchScript for mobile devices as a FlatBuffer (.ptl): the tensors of the module, by the names
 * that they have in its state_dict.
 *
 *   4  4  "PTMF"; all else is tables, see codec/flatbuffer.c. Their fields, by number:
 *   Module          3 state_obj (an index into ivalues), 4 ivalues, 6 storage_data, 7 object_types
 *   IValue          0 type, 1 value
 *   List, Tuple     0 items
 *   Dict            0 keys, 1 values
 *   Object          0 type_index, 1 state, 2 attrs
 *   ObjectType      2 attr_names
 *   TensorMetadata  0 storage, 1 scalar type, 2 storage_offset, 3 sizes, 4 strides, 5 requires_grad,
 *                   6 quantized_schema
 *
 * Source: torch/csrc/jit/serialization/mobile_bytecode.fbs, flatbuffer_serializer.cpp. Which attributes are
 * parameters or buffers is in no table, so every tensor of an object, list, tuple or dict is listed. Refused:
 * quantized tensors, objects that contain themselves, what codec/flatbuffer refuses. Code is not read. */
#include "base/checked.h"
#include "codec/flatbuffer.h"
#include "format/kit.h"
#include "format/recognize.h"

enum module_field { MODULE_STATE = 3, MODULE_IVALUES = 4, MODULE_STORAGES = 6, MODULE_TYPES = 7 };
enum ivalue {
    IVALUE_INT = 1,
    IVALUE_TENSOR = 5,
    IVALUE_STRING,
    IVALUE_LIST,
    IVALUE_TUPLE,
    IVALUE_DICT,
    IVALUE_OBJECT,
    IVALUE_LAST = 16 /* a function */
};
enum ivalue_field { IVALUE_TYPE, IVALUE_VALUE };
enum list_field { LIST_ITEMS };
enum dict_field { DICT_KEYS, DICT_VALUES };
enum tensor_field {
    TENSOR_STORAGE,
    TENSOR_TYPE,
    TENSOR_OFFSET,
    TENSOR_SIZES,
    TENSOR_STRIDES,
    TENSOR_GRAD,
    TENSOR_QUANTIZED_SCHEMA
};
enum object_type_field { OBJECT_TYPE_ATTR_NAMES = 2 };
enum object_field { OBJECT_TYPE, OBJECT_STATE, OBJECT_ATTRS };

struct pending_value {
    uint32_t index, depth; /* INDEX: of the value in m->values */
    ckpt_str name;
};

struct mobile {
    struct flatbuffer b;
    struct kit *k;
    struct flatbuffer_vector values, storages, types;
    struct pending_value *stack;
    size_t nstack, cap_stack;
    uint64_t visits;
};

static bool probe(const struct probe *this_probe) { return recognize_as(this_probe, SIGN_MOBILE); }

/* get_dtype - returns the dtype of NUMBER, a ScalarType of c10/core/ScalarType.h. */
static ckpt_dtype get_dtype(uint64_t number)
{
    static const uint8_t dtypes[] = {
        CKPT_DT_U8,          CKPT_DT_I8,          CKPT_DT_I16,  CKPT_DT_I32,     CKPT_DT_I64,
        CKPT_DT_F16,         CKPT_DT_F32,         CKPT_DT_F64,  CKPT_DT_C32,     CKPT_DT_C64,
        CKPT_DT_C128,        CKPT_DT_BOOL,        CKPT_DT_NONE, CKPT_DT_NONE,    CKPT_DT_NONE,
        CKPT_DT_BF16,        CKPT_DT_NONE,        CKPT_DT_NONE, CKPT_DT_NONE,    CKPT_DT_NONE,
        CKPT_DT_NONE,        CKPT_DT_NONE,        CKPT_DT_NONE, CKPT_DT_F8_E5M2, CKPT_DT_F8_E4M3,
        CKPT_DT_F8_E5M2FNUZ, CKPT_DT_F8_E4M3FNUZ, CKPT_DT_U16,  CKPT_DT_U32,     CKPT_DT_U64};
    return number < sizeof dtypes ? (ckpt_dtype)dtypes[number] : CKPT_DT_NONE;
}

static ckpt_status push_value(struct mobile *mobile, uint32_t index, const struct pending_value *parent,
                              ckpt_str key)
{
    arena *a = mobile->b.a;
    ckpt_str name = ARENA_CONCAT(a, parent->name, str_c(parent->name.len ? "." : ""),
                                 key); /* a key has at most 2^20 bytes */
    const struct pending_value p = {index, parent->depth + 1, name};
    return name.ptr && ARENA_PUSH(a, mobile, stack, &p) ? CKPT_OK : fail_memory(mobile->b.err);
}

/* read_sizes - sets *OUT to the numbers >= 0 in VECTOR, a vector of i32. */
static ckpt_status read_sizes(struct mobile *mobile, const struct flatbuffer_vector *vector, uint64_t **out)
{
    *out = arena_array(mobile->b.a, vector->count, sizeof **out);
    if (!*out)
        return fail_memory(mobile->b.err);
    for (uint32_t i = 0; i < vector->count; i++) {
        uint32_t n = 0;
        CKPT_TRY(flatbuffer_read_item(&mobile->b, vector, i, &n));
        if (n > INT32_MAX)
            return fail(mobile->b.err, CKPT_EFORMAT, vector->at,
                        "a size or stride is {%d}, it must be {=0 or more}", (int32_t)n);
        (*out)[i] = n;
    }
    return CKPT_OK;
}

static ckpt_status find_storage(struct mobile *mobile, uint64_t index, struct kit_tensor *tensor)
{
    struct flatbuffer_table table;
    struct flatbuffer_vector bytes;
    CKPT_TRY(flatbuffer_open_item(&mobile->b, &mobile->storages, index, &table));
    CKPT_TRY(flatbuffer_get_vector(&mobile->b, &table, 0, 1, &bytes));
    tensor->src = mobile->b.src;
    tensor->src_offset = bytes.at;
    tensor->nbytes = bytes.count;
    tensor->key = arena_printf(mobile->b.a, "%llu", (unsigned long long)index);
    return tensor->key.ptr ? CKPT_OK : fail_memory(mobile->b.err);
}

static ckpt_status add_tensor(struct mobile *mobile, uint64_t at, ckpt_str name)
{
    struct flatbuffer *b = &mobile->b;
    struct flatbuffer_table table;
    struct flatbuffer_vector sizes, strides;
    uint64_t storage, type, offset, grad, quantized, *shape, *stride;
    struct kit_tensor t = {.name = name, .described_at = source_pos(b->src, at)};
    CKPT_TRY(flatbuffer_open_table(b, at, &table));
    CKPT_TRY(flatbuffer_read_number(b, &table, TENSOR_STORAGE, 4, &storage));
    CKPT_TRY(flatbuffer_read_number(b, &table, TENSOR_TYPE, 1, &type));
    CKPT_TRY(flatbuffer_read_number(b, &table, TENSOR_OFFSET, 4, &offset));
    CKPT_TRY(flatbuffer_read_number(b, &table, TENSOR_GRAD, 1, &grad));
    CKPT_TRY(flatbuffer_get_vector(b, &table, TENSOR_SIZES, 4, &sizes));
    CKPT_TRY(flatbuffer_get_vector(b, &table, TENSOR_STRIDES, 4, &strides));
    CKPT_TRY(flatbuffer_find_child(b, &table, TENSOR_QUANTIZED_SCHEMA, &quantized));
    if (quantized || !get_dtype(type))
        return fail(b->err, CKPT_EUNSUPPORTED, at,
                    "{%s} of scalar type %llu cannot be read from a mobile model",
                    quantized ? "a quantized tensor" : "a tensor", (unsigned long long)type);
    if (strides.count != sizes.count || offset > INT32_MAX)
        return fail(b->err, CKPT_EFORMAT, at,
                    "a tensor at element %d of its storage has {%u strides} for {=%u sizes}", (int32_t)offset,
                    strides.count, sizes.count);
    CKPT_TRY(read_sizes(mobile, &sizes, &shape));
    CKPT_TRY(read_sizes(mobile, &strides, &stride));
    CKPT_TRY(find_storage(mobile, storage, &t));
    t.t.dtype = (uint16_t)get_dtype(type);
    t.t.ndim = sizes.count;
    t.t.shape = shape;
    t.t.stride = stride;
    t.t.storage_offset = offset;
    t.t.requires_grad = t.t.parameter = grad != 0;
    return kit_add_tensor(mobile->k, &t);
}

static ckpt_status push_items(struct mobile *mobile, const struct flatbuffer_table *table,
                              const struct pending_value *list)
{
    struct flatbuffer_vector items;
    CKPT_TRY(flatbuffer_get_vector(&mobile->b, table, LIST_ITEMS, 4, &items));
    for (uint32_t i = items.count; COUNT_DOWN(i);) {
        uint32_t index = 0;
        ckpt_str key = arena_printf(mobile->b.a, "%u", i);
        CKPT_TRY_ALLOC(key.ptr, mobile->b.err);
        CKPT_TRY(flatbuffer_read_item(&mobile->b, &items, i, &index));
        CKPT_TRY(push_value(mobile, index, list, key));
    }
    return CKPT_OK;
}

/* read_key - sets *OUT to value INDEX if that is a text, to its digits if it is an integer, else to an empty
 * text. */
static ckpt_status read_key(struct mobile *mobile, uint32_t index, ckpt_str *out)
{
    struct flatbuffer_table t;
    uint64_t type, at;
    unsigned char bytes[8] = {0};
    *out = str_of("", 0);
    CKPT_TRY(flatbuffer_open_item(&mobile->b, &mobile->values, index, &t));
    CKPT_TRY(flatbuffer_read_number(&mobile->b, &t, IVALUE_TYPE, 1, &type));
    CKPT_TRY(flatbuffer_find_child(&mobile->b, &t, IVALUE_VALUE, &at));
    if (type == IVALUE_INT && at) {
        CKPT_TRY(source_read(mobile->b.src, at, bytes, sizeof bytes, mobile->b.err));
        *out = arena_printf(mobile->b.a, "%lld", (long long)load_u64le(bytes));
    } else if (type == IVALUE_STRING && at) {
        CKPT_TRY(flatbuffer_open_table(&mobile->b, at, &t));
        return flatbuffer_read_text(&mobile->b, &t, 0, out);
    }
    return out->ptr ? CKPT_OK : fail_memory(mobile->b.err);
}

static ckpt_status push_pairs(struct mobile *mobile, const struct flatbuffer_table *table,
                              const struct pending_value *dict)
{
    struct flatbuffer_vector keys, values;
    CKPT_TRY(flatbuffer_get_vector(&mobile->b, table, DICT_KEYS, 4, &keys));
    CKPT_TRY(flatbuffer_get_vector(&mobile->b, table, DICT_VALUES, 4, &values));
    for (uint32_t i = values.count; COUNT_DOWN(i);) {
        uint32_t key_index = 0, index = 0;
        ckpt_str key_text;
        CKPT_TRY(flatbuffer_read_item(&mobile->b, &keys, i, &key_index));
        CKPT_TRY(flatbuffer_read_item(&mobile->b, &values, i, &index));
        CKPT_TRY(read_key(mobile, key_index, &key_text));
        CKPT_TRY(push_value(mobile, index, dict, key_text));
    }
    return CKPT_OK;
}

static ckpt_status push_attributes(struct mobile *mobile, const struct flatbuffer_table *table,
                                   const struct pending_value *value)
{
    struct flatbuffer_table type;
    struct flatbuffer_vector attrs, names;
    uint64_t type_index, state;
    CKPT_TRY(flatbuffer_read_number(&mobile->b, table, OBJECT_TYPE, 4, &type_index));
    CKPT_TRY(flatbuffer_read_number(&mobile->b, table, OBJECT_STATE, 4, &state));
    CKPT_TRY(flatbuffer_get_vector(&mobile->b, table, OBJECT_ATTRS, 4, &attrs));
    CKPT_TRY(flatbuffer_open_item(&mobile->b, &mobile->types, type_index, &type));
    CKPT_TRY(flatbuffer_get_vector(&mobile->b, &type, OBJECT_TYPE_ATTR_NAMES, 4, &names));
    if (!state && attrs.count != names.count)
        return fail(mobile->b.err, CKPT_EFORMAT, table->at,
                    "an object has {%u attributes}, its class has {=%u}", attrs.count, names.count);
    if (state)
        CKPT_TRY(push_value(mobile, (uint32_t)state, value, STR_LIT("__getstate__")));
    for (uint32_t i = attrs.count; COUNT_DOWN(i);) {
        uint32_t index = 0;
        ckpt_str name;
        CKPT_TRY(flatbuffer_read_item_text(&mobile->b, &names, i, &name));
        CKPT_TRY(flatbuffer_read_item(&mobile->b, &attrs, i, &index));
        CKPT_TRY(push_value(mobile, index, value, name));
    }
    return CKPT_OK;
}

static ckpt_status visit_value(struct mobile *mobile, const struct pending_value *value)
{
    struct flatbuffer_table t;
    uint64_t type, at;
    CKPT_TRY(flatbuffer_open_item(&mobile->b, &mobile->values, value->index, &t));
    CKPT_TRY(flatbuffer_read_number(&mobile->b, &t, IVALUE_TYPE, 1, &type));
    CKPT_TRY(flatbuffer_find_child(&mobile->b, &t, IVALUE_VALUE, &at));
    if (type > IVALUE_LAST || (type && !at))
        return fail(mobile->b.err, CKPT_EFORMAT, t.at,
                    "a value has {type %llu}, or no content; types {=0 to %u} are known",
                    (unsigned long long)type, IVALUE_LAST);
    if (value->depth == 1 && type != IVALUE_OBJECT)
        return fail(mobile->b.err, CKPT_EFORMAT, t.at,
                    "the state has {type %llu}, it must have {=type %u}, an object", (unsigned long long)type,
                    IVALUE_OBJECT);
    if (type < IVALUE_TENSOR || type > IVALUE_OBJECT || type == IVALUE_STRING)
        return CKPT_OK;
    if (type == IVALUE_TENSOR)
        return add_tensor(mobile, at, value->name);
    CKPT_TRY(flatbuffer_open_table(&mobile->b, at, &t));
    if (type == IVALUE_OBJECT)
        return push_attributes(mobile, &t, value);
    return type == IVALUE_DICT ? push_pairs(mobile, &t, value) : push_items(mobile, &t, value);
}

/* visit_values - visits value STATE and all values in it. Visits at most as many as the file has bytes,
 * because a value may contain itself, or be contained in many others. */
static ckpt_status visit_values(struct mobile *mobile, uint32_t state)
{
    const ckpt_file *f = mobile->k->f;
    CKPT_TRY(push_value(mobile, state, &(struct pending_value){.name = {"", 0}}, str_of("", 0)));
    while (mobile->nstack) {
        struct pending_value p = mobile->stack[--mobile->nstack];
        if (p.depth > f->limits.max_depth || mobile->visits++ > f->src->size)
            return fail(mobile->b.err, CKPT_ELIMIT, CKPT_NO_OFFSET,
                        "values contain each other {without end}, or are nested deeper than {=%u}",
                        f->limits.max_depth);
        ckpt_status st = visit_value(mobile, &p);
        CKPT_TRY(mobile->b.err->where[0] ? st : prefix_where_if_failed(st, p.name, mobile->b.err));
    }
    return CKPT_OK;
}

static ckpt_status read_module(struct mobile *mobile)
{
    struct flatbuffer *b = &mobile->b;
    struct flatbuffer_table module;
    uint64_t state;
    CKPT_TRY(flatbuffer_open_root(b, &module));
    CKPT_TRY(flatbuffer_read_number(b, &module, MODULE_STATE, 4, &state));
    CKPT_TRY(flatbuffer_get_vector(b, &module, MODULE_IVALUES, 4, &mobile->values));
    CKPT_TRY(flatbuffer_get_vector(b, &module, MODULE_STORAGES, 4, &mobile->storages));
    CKPT_TRY(flatbuffer_get_vector(b, &module, MODULE_TYPES, 4, &mobile->types));
    if (!state)
        return fail(b->err, CKPT_EFORMAT, module.at, "the module has {no} {=state}");
    return visit_values(mobile, (uint32_t)state);
}

static ckpt_status read(ckpt_file *f, ckpt_error *err)
{
    struct kit k;
    struct mobile m = {.b = {.src = f->src, .err = err, .a = f->a}, .k = &k};
    file_raise_budget(f, f->src->size);
    CKPT_TRY(kit_begin(&k, f, value_ordered_dict(f->a), err));
    ckpt_status st = read_module(&m);
    window_close(&m.b.window);
    f->executes_code = true;
    f->producer = STR_LIT("torch");
    st = kit_end(&k, st);
    error_add_position(st == CKPT_OK ? NULL : err, 0, STR_LIT("FlatBuffer"));
    return st;
}

const struct format format_torch_mobile = {
    .name = "torchscript-flatbuffer",
    .title = "TorchScript for mobile (FlatBuffer)",
    .flat = true,
    .probe = probe,
    .read = read,
};
