/*
 * script_json.c - reads TorchScript of torch 1.0 to 1.3.
 *
 *   <top>/model.json    {"mainModule": {"submodules": [{"name", "parameters":
 *                       [{"name", "tensorId": "0", "isBuffer"}], "submodules"}]},
 *                       "tensors": [{"dims": ["4"], "strides", "offset",
 *                       "dataType": "FLOAT", "data": {"key": "tensors/0"}}]}
 *   <top>/tensors/<n>   one storage each
 *
 * The JSON is that of protobuf: 64-bit numbers are text and empty lists are left out, so a tensor without
 * "dims" is a scalar. Source: torch 1.0, torch/csrc/jit/export.cpp and caffe2/proto/torch.proto.
 */
#include "core/check.h"
#include "codec/json_scan.h"
#include "format/torch/archive.h"

struct json_parameter {
    ckpt_str name;
    uint64_t tensor;
    uint32_t next; /* index of the next parameter of the same module; MAP_NONE: none */
};

struct json_module {
    ckpt_str prefix; /* the name of the module; join_prefixes makes it "layer.fc." */
    uint32_t parent;
    uint32_t first_parameter, last_parameter; /* indexes; MAP_NONE: it has none */
};

struct json_tensor {
    ckpt_tensor t;
    uint32_t ndim, nstrides;
    ckpt_str record;
};

struct json_model {
    struct torch_archive *ta;
    struct kit k;
    size_t model_entry; /* index of model.json in the archive */
    arena *a;
    json_scan j;
    struct json_module *modules; /* each comes before its submodules */
    struct json_parameter *parameters;
    struct json_tensor *tensors;
    size_t nmodules, nparameters, ntensors, cap_modules, cap_parameters, cap_tensors;
    ckpt_error *err;
};

bool script_json_find_top(const zip *archive, ckpt_str *top)
{
    for (size_t i = 0; i < archive->n; i++) {
        ckpt_str name = archive->entries[i].name;
        const ckpt_str model = STR_LIT("/model.json");
        if (!str_ends(name, model) || str_find(name, STR_LIT("/"), 0) != name.len - model.len)
            continue;
        *top = str_of(name.ptr, name.len - model.len + 1);
        if (torch_has_folder(archive, *top, "tensors/"))
            return true;
    }
    return false;
}

/* report_fault - if ST is a fault and the file is being checked, reports it and returns CKPT_OK. Else returns
 * ST. */
static ckpt_status report_fault(struct json_model *model, ckpt_status st)
{
    if (model->ta->f->check && check_is_fault(st))
        torch_archive_add_context(model->ta, model->model_entry, model->err);
    return file_report_fault(model->ta->f, st, model->err);
}

/* read_int - sets *OUT to the integer of event EVENT: a number, or a text, as protobuf writes 64-bit
 * numbers. */
static ckpt_status read_int(json_scan *scan, enum json_event event, uint64_t *out)
{
    return (event == JSON_NUMBER || event == JSON_STRING) && json_get_uint(scan, out)
               ? CKPT_OK
               : json_unexpected(scan, event, "a tensorId, size, stride or offset", "a number >= 0");
}

static ckpt_status add_module(struct json_model *model, uint32_t parent, uint32_t *out)
{
    const struct json_module module = {
        .prefix = {"", 0}, .parent = parent, .first_parameter = MAP_NONE, .last_parameter = MAP_NONE};
    *out = (uint32_t)model->nmodules;
    return ARENA_PUSH(model->a, model, modules, &module) ? CKPT_OK : fail_memory(model->err);
}

static ckpt_status add_parameter(struct json_model *model, uint32_t module,
                                 const struct json_parameter *parameter)
{
    struct json_module *to = &model->modules[module];
    uint32_t number = (uint32_t)model->nparameters;
    CKPT_TRY_ALLOC(ARENA_PUSH(model->a, model, parameters, parameter), model->err);
    if (to->last_parameter == MAP_NONE)
        to->first_parameter = number;
    else
        model->parameters[to->last_parameter].next = number;
    to->last_parameter = number;
    return CKPT_OK;
}

static ckpt_status read_parameter(struct json_model *model, uint32_t module)
{
    enum json_event e;
    struct json_parameter p = {.name = {"", 0}, .tensor = 0, .next = MAP_NONE};
    while ((e = json_next(&model->j)) == JSON_KEY) {
        ckpt_str key = model->j.str;
        e = json_next(&model->j);
        if (str_is(key, "name") && e == JSON_STRING)
            p.name = model->j.str;
        else
            CKPT_TRY(str_is(key, "tensorId") ? read_int(&model->j, e, &p.tensor) : json_skip(&model->j, e));
    }
    CKPT_TRY(json_check_end(&model->j, e, JSON_OBJECT_END));
    return add_parameter(model, module, &p);
}

static ckpt_status read_parameters(struct json_model *model, uint32_t module)
{
    enum json_event e;
    CKPT_TRY(json_expect(&model->j, JSON_ARRAY, "parameters", "an array"));
    while ((e = json_next(&model->j)) == JSON_OBJECT)
        CKPT_TRY(read_parameter(model, module));
    return e == JSON_ARRAY_END ? CKPT_OK : json_unexpected(&model->j, e, "a parameter", "an object");
}

/* read_module_key - reads one pair of a module; of "submodules" only the "[". The name of a module may follow
 * its submodules, so join_prefixes comes after all modules. */
static ckpt_status read_module_key(struct json_model *model, uint32_t module)
{
    ckpt_str key = model->j.str;
    if (str_is(key, "parameters"))
        return read_parameters(model, module);
    if (str_is(key, "submodules"))
        return json_expect(&model->j, JSON_ARRAY, "submodules", "an array");
    if (!str_is(key, "name"))
        return json_skip(&model->j, json_next(&model->j));
    CKPT_TRY(json_expect(&model->j, JSON_STRING, "the name of a module", "a text"));
    model->modules[module].prefix = model->j.str;
    return CKPT_OK;
}

/* read_modules - reads mainModule and all modules in it, without recursion: each object is a module, each
 * array is a list of submodules. */
static ckpt_status read_modules(struct json_model *model)
{
    uint32_t current;
    CKPT_TRY(json_expect(&model->j, JSON_OBJECT, "mainModule", "an object"));
    CKPT_TRY(add_module(model, MAP_NONE, &current));
    for (;;) {
        enum json_event e = json_next(&model->j);
        if (e == JSON_KEY)
            CKPT_TRY(read_module_key(model, current));
        else if (e == JSON_OBJECT)
            CKPT_TRY(add_module(model, current, &current));
        else if (e == JSON_OBJECT_END && model->modules[current].parent == MAP_NONE)
            return CKPT_OK;
        else if (e == JSON_OBJECT_END)
            current = model->modules[current].parent;
        else if (e != JSON_ARRAY_END)
            return json_unexpected(&model->j, e, "a submodule", "an object");
    }
}

static ckpt_status join_prefixes(struct json_model *model)
{
    for (size_t i = 0; i < model->nmodules; i++) {
        struct json_module *mod = &model->modules[i];
        ckpt_str parent_prefix = mod->parent == MAP_NONE ? str_of("", 0) : model->modules[mod->parent].prefix;
        mod->prefix = mod->parent == MAP_NONE
                          ? parent_prefix
                          : ARENA_CONCAT(model->a, parent_prefix, mod->prefix, STR_LIT("."));
        CKPT_TRY_ALLOC(mod->prefix.ptr, model->err);
    }
    return CKPT_OK;
}

static ckpt_dtype get_dtype_by_name(ckpt_str name)
{
    static const struct {
        const char *name;
        ckpt_dtype dtype;
    } dtypes[] = {{"FLOAT", CKPT_DT_F32}, {"DOUBLE", CKPT_DT_F64},   {"FLOAT16", CKPT_DT_F16},
                  {"INT64", CKPT_DT_I64}, {"INT32", CKPT_DT_I32},    {"INT16", CKPT_DT_I16},
                  {"INT8", CKPT_DT_I8},   {"UINT8", CKPT_DT_U8},     {"BYTE", CKPT_DT_U8},
                  {"BOOL", CKPT_DT_BOOL}, {"BFLOAT16", CKPT_DT_BF16}};
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (str_is(name, dtypes[i].name))
            return dtypes[i].dtype;
    return CKPT_DT_NONE;
}

static ckpt_status read_tensor_key(struct json_model *model, struct json_tensor *tensor)
{
    ckpt_str key = model->j.str;
    if (str_is(key, "dims"))
        return json_read_list(&model->j, "dims and strides", read_int, &tensor->ndim, &tensor->t.shape);
    if (str_is(key, "strides"))
        return json_read_list(&model->j, "dims and strides", read_int, &tensor->nstrides, &tensor->t.stride);
    if (str_is(key, "data"))
        return json_read_member(&model->j, "data", "key", &tensor->record);
    enum json_event e = json_next(&model->j);
    if (str_is(key, "offset"))
        return read_int(&model->j, e, &tensor->t.storage_offset);
    if (str_is(key, "dataType") && e == JSON_STRING)
        tensor->t.dtype = (uint16_t)get_dtype_by_name(model->j.str);
    else if (str_is(key, "device") && e == JSON_STRING)
        tensor->t.location = model->j.str;
    else
        return json_skip(&model->j, e);
    return CKPT_OK;
}

static ckpt_status read_tensor(struct json_model *model)
{
    enum json_event e;
    static const uint64_t scalar_shape[1];
    struct json_tensor x = {.t = {.shape = scalar_shape}, .record = {NULL, 0}};
    while ((e = json_next(&model->j)) == JSON_KEY)
        CKPT_TRY(read_tensor_key(model, &x));
    CKPT_TRY(json_check_end(&model->j, e, JSON_OBJECT_END));
    if (!x.record.ptr || x.t.dtype == CKPT_DT_NONE || (x.nstrides && x.nstrides != x.ndim)) {
        CKPT_TRY(report_fault(
            model, json_fail(&model->j, "tensor %zu {lacks} {=its data, its type or some of its strides}",
                             model->ntensors)));
        (void)json_resync(&model->j); /* the JSON is well-formed, so the tensors after this one can be read */
        x.record.ptr = NULL; /* the tensor is added without data, because parameters name tensors by number */
    }
    if (!x.nstrides)
        x.t.stride = NULL;
    x.t.ndim = x.ndim;
    return ARENA_PUSH(model->a, model, tensors, &x) ? CKPT_OK : fail_memory(model->err);
}

static ckpt_status read_tensors(struct json_model *model)
{
    enum json_event e;
    CKPT_TRY(json_expect(&model->j, JSON_ARRAY, "tensors", "an array"));
    while ((e = json_next(&model->j)) == JSON_OBJECT)
        CKPT_TRY(read_tensor(model));
    return e == JSON_ARRAY_END ? CKPT_OK : json_unexpected(&model->j, e, "a tensor", "an object");
}

static ckpt_status read_model(struct json_model *model)
{
    enum json_event e;
    CKPT_TRY(json_expect(&model->j, JSON_OBJECT, "the text", "an object"));
    while ((e = json_next(&model->j)) == JSON_KEY) {
        if (str_is(model->j.str, "mainModule") && !model->nmodules)
            CKPT_TRY(read_modules(model));
        else if (str_is(model->j.str, "tensors") && !model->ntensors)
            CKPT_TRY(read_tensors(model));
        else
            CKPT_TRY(json_skip(&model->j, json_next(&model->j)));
    }
    CKPT_TRY(json_check_end(&model->j, e, JSON_OBJECT_END));
    CKPT_TRY(json_check_end(&model->j, json_next(&model->j), JSON_END));
    return join_prefixes(model);
}

static ckpt_status add_parameter_tensor(struct json_model *model, const struct json_module *mod,
                                        const struct json_parameter *parameter)
{
    ckpt_str name = ARENA_CONCAT(model->a, mod->prefix, parameter->name);
    if (parameter->tensor >= model->ntensors)
        return fail(model->err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                    "\"%.*s\" has {tensorId %llu}, it must be {=below %zu}", STR_ARG(parameter->name),
                    (unsigned long long)parameter->tensor, model->ntensors);
    const struct json_tensor *t = &model->tensors[parameter->tensor];
    if (!t->record.ptr) /* read_tensor has reported a fault */
        return CKPT_OK;
    ckpt_str record = arena_str(model->a, t->record);
    CKPT_TRY_ALLOC(name.ptr && record.ptr, model->err);
    return torch_archive_add_tensor(model->ta, &model->k, name, record.ptr, &t->t);
}

ckpt_status script_json_read(ckpt_file *f, ckpt_str top, ckpt_error *err)
{
    struct json_model m = {.a = f->a, .err = err};
    ckpt_str text;
    CKPT_TRY(torch_archive_new(f, top, &m.ta, err));
    CKPT_TRY(torch_archive_require(m.ta, "model.json", &m.model_entry, err));
    file_raise_budget(f, m.ta->z->entries[m.model_entry].usize);
    CKPT_TRY(zip_load_member(m.ta->z, m.model_entry, f->limits.max_header, &text, err));
    f->producer = STR_LIT("torch.jit.save of torch 1.0 to 1.3");
    f->loading.refusal = STR_LIT("torch no longer reads the TorchScript layout of torch 1.0 to 1.3");
    CKPT_TRY(kit_begin(&m.k, f, value_ordered_dict(f->a), err));
    json_init(&m.j, text, torch_archive_payload_offset(m.ta, m.model_entry), f->a, m.err);
    ckpt_status st = read_model(&m);
    for (size_t i = 0; st == CKPT_OK && i < m.nmodules; i++)
        for (uint32_t k = m.modules[i].first_parameter; st == CKPT_OK && k != MAP_NONE;
             k = m.parameters[k].next)
            st = report_fault(&m, add_parameter_tensor(&m, &m.modules[i], &m.parameters[k]));
    st = kit_end(&m.k, st);
    if (st != CKPT_OK)
        torch_archive_add_context(m.ta, m.model_entry, err);
    return st;
}
