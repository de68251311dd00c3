/*
 * script.c - reads TorchScript: the archives of torch.jit.save, and those for mobile (Lite Interpreter).
 *
 *   <top>/data.pkl              the module: objects of classes that the archive
 *                               itself defines, NEWOBJ () BUILD {attribute: value}
 *   <top>/data/<key>            storages
 *   <top>/code/__torch__/….py   the classes; deflated when longer than 200 bytes
 *   <top>/constants.pkl         tuple of what the code calls CONSTANTS.c0 …
 *   <top>/constants/<n>         their storages
 *   <top>/bytecode.pkl          mobile only
 *
 * Class __torch__.a.b.C is in code/__torch__/a/b.py as "class C(Module):", which also lists which
 * attributes are parameters and buffers:
 *   __parameters__ = ["weight", "bias", ]
 *   __buffers__ = ["running_mean", ]          from 1.6 on
 * Of the code only these lines are read. It is never run.
 *
 * state_dict() has, for each module, its parameters, its buffers, then its submodules, each in the order of
 * the attributes. In a class without __buffers__ every tensor that is no parameter counts as a buffer here,
 * so that the BatchNorm statistics in files of 1.4 are listed. torch.jit.load leaves them out. Source:
 * torch/csrc/jit/serialization/export_module.cpp, import.cpp, python_print.cpp.
 *
 * torch::save of a C++ program writes the same archive; each of its classes is called Module and has no
 * methods (torch/csrc/api/src/serialize/output-archive.cpp). There, attributes are data that the program
 * saved: of an optimizer (api/include/torch/optim/serialize.h) the states are attributes state.N.exp_avg …,
 * and the names and options of its parameters are in param_groups. All of these are listed.
 */
#include "base/checked.h"
#include "core/check.h"
#include "format/torch/archive.h"

#define MAX_CODE_BYTES (16u << 20)

enum role { ROLE_PARAMETER, ROLE_BUFFER };

struct script_class {
    bool has_code;    /* the archive defines it */
    bool is_module;   /* derived from Module, or has no code */
    bool is_libtorch; /* made by torch::save of a C++ program */
    bool has_buffers; /* false: all that is not a parameter is a buffer */
    map *role_of;     /* name of an attribute -> enum role */
};

struct script {
    struct torch_archive *ta;
    ckpt_file *f;
    map *class_of; /* "module.name" -> index into classes */
    struct script_class *classes;
    size_t nclasses, cap_classes;
    map *detached_of; /* tensor node -> index into detached: its copy without requires_grad */
    ckpt_value **detached;
    size_t ndetached, cap_detached;
    ckpt_value *state_dict;
    bool is_libtorch;     /* the class of the root is */
    uint32_t nattributes; /* tensors that are neither parameters nor buffers, and are not listed */
    ckpt_error *err;
};

static bool has_entry(const zip *archive, ckpt_str top, const char *name)
{
    for (size_t i = 0; i < archive->n; i++)
        if (str_starts(archive->entries[i].name, top) &&
            str_is(str_skip(archive->entries[i].name, top.len), name))
            return true;
    return false;
}

/* probe_script - returns true if PROBE is TorchScript. An archive of torch.save may hold a record called
 * constants.pkl, too, but no folder code/. In code/__torch__ only TorchScript has its text, even if its
 * constants.pkl is lost. */
static bool probe_script(const struct probe *probe)
{
    ckpt_str top;
    bool ambiguous;
    if (!probe->zip)
        return false;
    if (script_json_find_top(probe->zip, &top))
        return true;
    return torch_archive_find_top(probe->zip, &top, &ambiguous) && !ambiguous &&
           torch_has_folder(probe->zip, top, "code/") &&
           (has_entry(probe->zip, top, "constants.pkl") ||
            torch_has_folder(probe->zip, top, "code/__torch__"));
}

/* ------------------------------------------------------------------- classes */

/* load_code - loads the Python source of MODULE; OUT->ptr is NULL if the archive has none. */
static ckpt_status load_code(struct script *script, ckpt_str module, ckpt_str *out)
{
    buf name;
    buf_init(&name, 1u << 16);
    buf_put_cstr(&name, "code/");
    for (size_t i = 0; i < module.len; i++)
        buf_byte(&name, module.ptr[i] == '.' ? '/' : (unsigned char)module.ptr[i]);
    buf_put_cstr(&name, ".py");
    buf_byte(&name, 0);
    ckpt_status st = CKPT_OK;
    *out = str_of(NULL, 0);
    bool has_nul = buf_ok(&name) && strlen((const char *)name.data) + 1 < name.len;
    if (buf_ok(&name) && !has_nul)
        st = torch_archive_read_text(script->ta, (const char *)name.data, MAX_CODE_BYTES, out, script->err);
    buf_free(&name);
    return st;
}

/* find_class_body - finds "class NAME" in CODE. Sets *BODY to the text from NAME up to the next class. */
static bool find_class_body(ckpt_str code, ckpt_str name, ckpt_str *body)
{
    for (size_t at = 0; (at = str_find(code, STR_LIT("class "), at)) != SIZE_MAX; at++) {
        ckpt_str rest = str_skip(code, at + 6);
        if ((at && code.ptr[at - 1] != '\n') || !str_starts(rest, name) || rest.len == name.len ||
            (rest.ptr[name.len] != '(' && rest.ptr[name.len] != ':'))
            continue;
        size_t end = str_find(rest, STR_LIT("\nclass "), 0);
        *body = str_of(rest.ptr, end == SIZE_MAX ? rest.len : end);
        return true;
    }
    return false;
}

/* find_list - finds KEY, such as "__buffers__ = [", in BODY. Sets *OUT to the text from the end of KEY to the
 * "]" in the same line. */
static bool find_list(ckpt_str body, ckpt_str key, ckpt_str *out)
{
    size_t at = str_find(body, key, 0);
    if (at == SIZE_MAX)
        return false;
    ckpt_str rest = str_skip(body, at + key.len);
    size_t end = str_find(rest, STR_LIT("]"), 0), line_end = str_find(rest, STR_LIT("\n"), 0);
    if (end == SIZE_MAX || end > line_end)
        return false;
    *out = str_of(rest.ptr, end);
    return true;
}

/* put_names - stores ROLE under each of the quoted names in LIST, such as "a", "b", that has none. */
static bool put_names(map *role_of, ckpt_str list, enum role role)
{
    for (size_t at = 0; (at = str_find(list, STR_LIT("\""), at)) != SIZE_MAX;) {
        size_t end = str_find(list, STR_LIT("\""), at + 1);
        if (end == SIZE_MAX)
            return true;
        if (!map_put(role_of, str_of(list.ptr + at + 1, end - at - 1), role, NULL))
            return false;
        at = end + 1;
    }
    return true;
}

static ckpt_status read_class(struct script *script, const ckpt_value *klass, struct script_class *class)
{
    ckpt_str code, body, parameters = {0}, buffers = {0};
    CKPT_TRY(load_code(script, value_module(klass), &code));
    if (!code.ptr || !find_class_body(code, value_name(klass), &body))
        return CKPT_OK;
    class->has_code = true;
    class->is_module = str_starts(str_skip(body, value_name(klass).len), STR_LIT("(Module)"));
    (void)find_list(body, STR_LIT("__parameters__ = ["), &parameters);
    class->has_buffers = find_list(body, STR_LIT("__buffers__ = ["), &buffers);
    class->is_libtorch = class->is_module && str_is(value_name(klass), "Module") &&
                         str_starts(value_module(klass), STR_LIT("__torch__")) &&
                         str_find(body, STR_LIT("\n  def "), 0) == SIZE_MAX;
    if (!put_names(class->role_of, parameters, ROLE_PARAMETER) ||
        !put_names(class->role_of, buffers, ROLE_BUFFER))
        return fail_memory(script->err);
    return CKPT_OK;
}

static ckpt_status get_class(struct script *script, const ckpt_value *klass, struct script_class *out)
{
    ckpt_str module = value_module(klass), class_name = value_name(klass);
    ckpt_str name = ARENA_CONCAT(script->f->a, module, STR_LIT("."), class_name);
    CKPT_TRY_ALLOC(name.ptr, script->err);
    uint32_t at = map_get(script->class_of, name);
    if (at != MAP_NONE) {
        *out = script->classes[at];
        return CKPT_OK;
    }
    struct script_class *added = arena_append(script->f->a, &script->classes, &script->nclasses,
                                              &script->cap_classes, sizeof *added);
    CKPT_TRY_ALLOC(added, script->err);
    *added = (struct script_class){.is_module = true, .role_of = map_new(0)};
    CKPT_TRY_ALLOC(added->role_of && map_put(script->class_of, name, (uint32_t)(script->nclasses - 1), NULL),
                   script->err);
    CKPT_TRY(read_class(script, klass, added));
    *out = *added;
    if (!out->has_code &&
        script->f->salvage) /* its code may be lost, and with it what is no tensor of the state dict */
        file_note_loss(script->f,
                       "the archive does not define class %.*s; every tensor of such an object is listed",
                       STR_ARG(name));
    else if (!out->has_code)
        file_notice(script->f,
                    "the archive does not define class %.*s; every tensor of such an object is listed",
                    STR_ARG(name));
    return CKPT_OK;
}

/* ----------------------------------------------------------------- state dict */

static bool is_tensor(const ckpt_value *value)
{
    return value_calls(value, "torch._utils", "_rebuild_tensor_v2", 4) ||
           value_calls(value, "torch._utils", "_rebuild_tensor_v3", 4) ||
           value_calls(value, "torch._utils", "_rebuild_qtensor", 4) ||
           value_calls(value, "torch._utils", "_rebuild_sparse_tensor", 2);
}

static uint64_t get_offset(const struct script *script, const ckpt_value *value)
{
    struct graph_input input = torch_archive_get_graph_input(script->ta);
    return input.pickle ? source_pos(input.pickle, value_offset(value)) : CKPT_NO_OFFSET;
}

static bool is_object(const ckpt_value *value)
{
    return value->type == CKPT_V_CALL &&
           str_starts(value_module(value->u.call.callable), STR_LIT("__torch__")) && value_state(value) &&
           value_state(value)->type == CKPT_V_DICT;
}

/* make_detached_copy - returns a copy of tensor VALUE with requires_grad False, as state_dict() holds it;
 * VALUE itself if no call of _rebuild_tensor_v2 makes it. NULL: out of memory. */
static ckpt_value *make_detached_copy(struct script *script, ckpt_value *value)
{
    ckpt_value *items[9];
    uint32_t n = value_nargs(value);
    if (!value_calls(value, "torch._utils", "_rebuild_tensor_v2", 5) || n > 9)
        return value;
    for (uint32_t i = 0; i < n; i++)
        items[i] = value_arg(value, i);
    items[4] = value_new(script->f->a, CKPT_V_BOOL, value_offset(items[4])); /* requires_grad: False */
    ckpt_value *args = items[4] ? value_tuple(script->f->a, n, items) : NULL;
    ckpt_value *copy = args ? value_call(script->f->a, CALL_REDUCE, value->u.call.callable, args,
                                         value_offset(value))
                            : NULL;
    if (copy)
        copy->flags |= VALUE_SHARED; /* several attributes may be the same tensor */
    return copy;
}

static ckpt_status get_detached_copy(struct script *script, ckpt_value *value, ckpt_value **out)
{
    uint32_t i = map_get_num(script->detached_of, ptr_key(value));
    if (i != MAP_NONE) {
        *out = script->detached[i];
        return CKPT_OK;
    }
    *out = make_detached_copy(script, value);
    bool ok = *out && map_set_num(script->detached_of, ptr_key(value), (uint32_t)script->ndetached) &&
              ARENA_PUSH(script->f->a, script, detached, out);
    return ok ? CKPT_OK : fail_memory(script->err);
}

static ckpt_status add_entry(struct script *script, ckpt_str prefix, ckpt_str name, ckpt_value *value)
{
    ckpt_value *detached;
    CKPT_TRY(get_detached_copy(script, value, &detached));
    return torch_put_entry(script->f->a, script->state_dict, prefix, name, detached)
               ? CKPT_OK
               : fail_memory(script->err);
}

/* add_module_tensors - adds the tensors of MODULE that are in state_dict(). */
static ckpt_status add_module_tensors(struct script *script, const struct torch_module *module,
                                      const struct script_class *class)
{
    uint32_t n;
    ckpt_str name;
    const value_pair *pairs = value_pairs(value_state(module->object), &n);
    for (int wants_buffers = 0; wants_buffers < 2; wants_buffers++)
        for (uint32_t i = 0; i < n; i++) {
            if (!value_text(pairs[i].key, &name) || !is_tensor(pairs[i].val))
                continue;
            uint32_t role = map_get(class->role_of, name);
            bool is_parameter = role == ROLE_PARAMETER;
            bool is_buffer = role == ROLE_BUFFER || (role == MAP_NONE && !class->has_buffers);
            script->nattributes += !wants_buffers && !is_parameter && !is_buffer;
            if (wants_buffers ? is_buffer : is_parameter)
                CKPT_TRY(add_entry(script, module->prefix, name, pairs[i].val));
        }
    return CKPT_OK;
}

/* add_attributes - adds all of MODULE that is not a module, for an archive of a C++ program. */
static ckpt_status add_attributes(struct script *script, const struct torch_module *module)
{
    uint32_t n;
    ckpt_str name;
    const value_pair *pairs = value_pairs(value_state(module->object), &n);
    for (uint32_t i = 0; i < n; i++)
        if (value_text(pairs[i].key, &name) && !is_object(pairs[i].val))
            CKPT_TRY(add_entry(script, module->prefix, name, pairs[i].val));
    return CKPT_OK;
}

/* push_submodules - appends the submodules of MODULE to LIST, last first. */
static ckpt_status push_submodules(struct script *script, const struct torch_module *module,
                                   struct torch_modules *list)
{
    uint32_t count;
    ckpt_str name;
    const value_pair *pairs = value_pairs(value_state(module->object), &count);
    if (module->depth >= script->f->limits.max_depth)
        return fail(script->err, CKPT_ELIMIT, get_offset(script, module->object),
                    "modules are nested {deeper} than {=%u}", module->depth);
    for (uint32_t i = count; COUNT_DOWN(i);) {
        if (!is_object(pairs[i].val) || !value_text(pairs[i].key, &name))
            continue;
        if (list->n >= script->f->limits.max_tensors ||
            value_count(script->state_dict) >= script->f->limits.max_tensors)
            return fail(script->err, CKPT_ELIMIT, CKPT_NO_OFFSET, "the model has {more} than {=%zu modules}",
                        list->n);
        CKPT_TRY(torch_push_submodule(script->f->a, list, module, name, pairs[i].val, script->err));
    }
    return CKPT_OK;
}

/* add_modules - adds the tensors of MODULE and its submodules to the state dict. */
static ckpt_status add_modules(struct script *script, struct torch_module module)
{
    struct torch_modules list = {.n = 0};
    for (;; module = list.modules[--list.n]) {
        struct script_class c = {.has_code = false};
        CKPT_TRY(get_class(script, module.object->u.call.callable, &c));
        if (c.is_module) {
            CKPT_TRY(script->is_libtorch ? add_attributes(script, &module)
                                         : add_module_tensors(script, &module, &c));
            CKPT_TRY(push_submodules(script, &module, &list));
        }
        if (!list.n)
            return CKPT_OK;
    }
}

/* add_optimizer - adds the values of ROOT, of an optimizer's archive; each of its submodules, state and
 * param_groups, becomes a mapping. */
static ckpt_status add_optimizer(struct script *script, const ckpt_value *root)
{
    uint32_t n;
    ckpt_str name;
    ckpt_value *outer = script->state_dict;
    const value_pair *pairs = value_pairs(value_state(root), &n);
    for (uint32_t i = 0; i < n; i++) {
        if (!value_text(pairs[i].key, &name))
            continue;
        ckpt_value *entry = pairs[i].val;
        if (is_object(entry))
            entry = value_new(script->f->a, CKPT_V_DICT, value_offset(entry));
        script->state_dict = entry;
        CKPT_TRY_ALLOC(entry && torch_put_entry(script->f->a, outer, STR_LIT(""), name, entry), script->err);
        if (entry != pairs[i].val)
            CKPT_TRY(add_modules(script, (struct torch_module){.object = pairs[i].val, .prefix = {"", 0}}));
    }
    script->state_dict = outer;
    return CKPT_OK;
}

static ckpt_status build_state_dict(struct script *script, const ckpt_value *root)
{
    struct script_class c = {.has_code = false};
    script->state_dict = value_ordered_dict(script->f->a);
    CKPT_TRY_ALLOC(script->state_dict, script->err);
    CKPT_TRY(get_class(script, root->u.call.callable, &c));
    script->is_libtorch = c.is_libtorch;
    const ckpt_value *state = value_get(value_state(root), "state"),
                     *groups = value_get(value_state(root), "param_groups");
    if (c.is_libtorch && state && is_object(state) && groups && is_object(groups))
        return add_optimizer(script, root);
    return add_modules(script, (struct torch_module){.object = root, .prefix = {"", 0}});
}

static ckpt_status add_constant_leaf(struct script *script, uint32_t index, const ckpt_value *value)
{
    ckpt_path_elem *path = arena_array(script->f->a, 2, sizeof *path);
    ckpt_str name = arena_printf(script->f->a, "c%u", index);
    CKPT_TRY_ALLOC(path && name.ptr, script->err);
    path[0].str = STR_LIT("CONSTANTS");
    path[1].str = name;
    return file_add_leaf(script->f, path, 2, value, script->err);
}

/* add_constants - adds the tensor constants of the code as leaves. Freezing a module turns all its weights
 * into constants without names, which are not in state_dict(). */
static ckpt_status add_constants(struct script *script)
{
    ckpt_value *root;
    uint32_t ntensors = 0;
    size_t entry;
    ckpt_status st = torch_archive_require(script->ta, "constants.pkl", &entry, script->err);
    st = prefix_where_if_failed(st, STR_LIT("the constants"), script->err);
    if (st != CKPT_OK)
        return file_report_lost(script->f, st, STR_LIT("the constants"), script->err);
    CKPT_TRY(torch_archive_run_pickle(script->ta, entry, &root, script->err));
    for (uint32_t i = 0; i < value_count(root) && value_item(root, i); i++)
        if (is_tensor(value_item(root, i)) ||
            value_calls(value_item(root, i), "torch.jit._pickle", "build_tensor_from_id", 1)) {
            ntensors++;
            CKPT_TRY(add_constant_leaf(script, i, value_item(root, i)));
        }
    if (ntensors && value_count(script->state_dict) == 0)
        file_notice(
            script->f,
            "the module is frozen: its weights are %u nameless constants of its code, not in its state dict",
            ntensors);
    else if (ntensors)
        file_notice(script->f, "%u tensor%s in the code, outside of the state dict", ntensors,
                    ntensors == 1 ? " is a constant" : "s are constants");
    return CKPT_OK;
}

static ckpt_status fail_not_module(const struct script *script, const ckpt_value *root)
{
    char type[64];
    struct graph_input input = torch_archive_get_graph_input(script->ta);
    (void)fail(script->err, CKPT_EFORMAT, get_offset(script, root),
               "the root of a TorchScript archive must be {=a module}, found {a %s}",
               ckpt_value_type_name(root, type, sizeof type));
    error_add_position(script->err, input.pickle_offset, input.pickle_name);
    return CKPT_EFORMAT;
}

static ckpt_status read_module(struct script *script, const ckpt_value *root)
{
    ckpt_file *f = script->f;
    if (!is_object(root))
        return fail_not_module(script, root);
    CKPT_TRY(build_state_dict(script, root));
    CKPT_TRY_ALLOC(file_set_replacement(f, root, script->state_dict), script->err);
    if (script->is_libtorch)
        f->producer = STR_LIT("torch::save of a C++ program");
    struct graph_input input = torch_archive_get_graph_input(script->ta);
    CKPT_TRY(graph_walk(f, script->state_dict, &input, script->err));
    CKPT_TRY(add_constants(script));
    if (script->nattributes)
        file_notice(f, "%u tensor%s of the module, which state_dict() leaves out", script->nattributes,
                    script->nattributes == 1 ? " is a plain attribute" : "s are plain attributes");
    torch_archive_count_unused(script->ta);
    f->add_opaque_storages = NULL; /* writers only write the state dict, whose storages were all found */
    return CKPT_OK;
}

static ckpt_status read_script(ckpt_file *f, ckpt_error *err)
{
    ckpt_str top;
    bool ambiguous;
    struct script s = {.f = f, .err = err};
    f->executes_code = true;
    f->loading.by = "torch.load";
    f->loading.refusal = STR_LIT("a TorchScript archive holds code; torch.jit.load reads it");
    if (script_json_find_top(f->opening->probe->zip, &top))
        return script_json_read(f, top, err);
    (void)torch_archive_find_top(f->opening->probe->zip, &top, &ambiguous);
    CKPT_TRY(torch_archive_new(f, top, &s.ta, err));
    CKPT_TRY(torch_archive_read_byteorder(s.ta, err));
    f->producer = torch_archive_has(s.ta, "bytecode.pkl")
                      ? STR_LIT("torch.jit, for mobile (Lite Interpreter)")
                      : STR_LIT("torch.jit.save");
    size_t pickle;
    CKPT_TRY(torch_archive_require(s.ta, "data.pkl", &pickle, err));
    CKPT_TRY(torch_archive_run_pickle(s.ta, pickle, &f->root, err));
    s.class_of = map_new(16);
    s.detached_of = map_new(64);
    ckpt_status st = s.class_of && s.detached_of ? read_module(&s, f->root) : fail_memory(err);
    for (size_t i = 0; i < s.nclasses; i++)
        map_free(s.classes[i].role_of);
    map_free(s.class_of);
    map_free(s.detached_of);
    return st;
}

const struct format format_torch_script = {
    .name = "torchscript",
    .title = "TorchScript",
    .probe = probe_script,
    .read = read_script,
};
