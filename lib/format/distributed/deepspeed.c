/* deepspeed.c - reads a save of DeepSpeed, with the files of all ranks, as one checkpoint.
 *
 *   latest                  name of the folder of the last save (deepspeed_files.c), with these files:
 *   …_model_states.pt       {module: the state dict, param_shapes, shared_params, buffer_names, values of
 *                           the program}; ZeRO 3 has one for each rank, whose module has no parameters
 *   …_optim_states.pt       the partitions of each rank (zero.c)
 *   zero/NAME/fp32.pt …     instead of partitions, in a universal checkpoint (deepspeed_universal.c)
 *   layer_NN-…              the state dict of one layer of a pipeline, whose keys get "NN." in front
 *   …expert_E_mp_rank_…     the state dict of one expert
 *
 * The graph is a dict of parameters by name, with the values that zero_to_fp32 gives: in float32 if the
 * optimizer has them, buffers as float32, frozen parameters as they are. It also has the other values of the
 * first model file, and `optimizer`: {state: {name: {exp_avg: tensor}}, param_groups}, as torch has it, but
 * with names instead of numbers.
 *
 * Refused: tensor parallelism, because the files do not have the dimension along which a tensor is cut;
 * missing ranks. */
#include <stdio.h>
#include <stdlib.h>

#include "base/checked.h"
#include "core/check.h"
#include "format/distributed/deepspeed.h"
#include "format/distributed/part_files.h"
#include "format/torch/graph.h"

/* -------------------------------------------------------------------------- root */

/* put_entry - adds V to the root under KEY, unless that key exists. Sets *ADDED (may be NULL). */
static ckpt_status put_entry(struct deepspeed *x, ckpt_str key, ckpt_value *v, bool *added)
{
    uint32_t before;
    ckpt_value *k = value_str(x->f->a, key);
    if (!k || !map_put(x->root_keys, key, 0, &before))
        return fail_memory(x->err);
    if (added)
        *added = before == MAP_NONE;
    if (before != MAP_NONE)
        return CKPT_OK;
    return value_put(x->f->a, x->root, k, v) ? CKPT_OK : fail_memory(x->err);
}

/* find_parameter - returns the assembled tensor of the parameter NAME, or NULL. */
static const struct joined_tensor *find_parameter(const struct deepspeed *x, ckpt_str name)
{
    uint32_t i = map_get(x->weights, name);
    return i == MAP_NONE ? NULL : &x->tensor[i];
}

/* resolve_shared_name - returns the name of the parameter to which shared_params ties NAME, or NAME. */
static ckpt_str resolve_shared_name(const struct deepspeed *x, ckpt_str name)
{
    ckpt_str kept;
    const ckpt_value *shared = x->model ? ds_get(x->model->root, "shared_params") : NULL;
    if (!shared || name.len != strlen(name.ptr) || !value_text(ds_get(shared, name.ptr), &kept))
        return name;
    return kept;
}

static ckpt_status fail_shape(struct deepspeed *x, const ckpt_file *part, const ckpt_tensor *t)
{
    (void)fail(x->err, CKPT_EFORMAT, t->file_offset,
               "{another shape} in the model's state than {=in param_shapes}\n"
               "the files are of different saves");
    fail_where(x->err, "%.*s", STR_ARG(t->name));
    fail_file(x->err, part->path);
    return file_report_fault(x->f, CKPT_EFORMAT, x->err);
}

/* index_buffers - fills x->buffers from buffer_names. */
static ckpt_status index_buffers(struct deepspeed *x)
{
    ckpt_str name;
    const ckpt_value *names = ds_get(x->model->root, "buffer_names");
    for (uint32_t i = 0; i < value_count(names); i++)
        if (value_text(value_item(names, i), &name) && !map_put(x->buffers, name, 0, NULL))
            return fail_memory(x->err);
    return CKPT_OK;
}

/* fail_not_in_partitions - fails because the parameter NAME, T in PART, is in no partition although it has no
 * elements, as ZeRO 3 leaves it in the model file. */
static ckpt_status fail_not_in_partitions(struct deepspeed *x, const ckpt_file *part, const ckpt_tensor *t,
                                          ckpt_str name)
{
    (void)fail(x->err, CKPT_EFORMAT, t->file_offset,
               "a parameter of {no element} that is not in {=a partition} either");
    fail_where(x->err, "%.*s", STR_ARG(name));
    fail_file(x->err, part->path);
    return file_report_fault(x->f, CKPT_EFORMAT, x->err);
}

/* choose_entry - sets *OUT to the value that NAME gets, which is V in the state dict of PART: the parameter
 * that was assembled, a buffer as float32, or V itself. NULL: NAME is left out. */
static ckpt_status choose_entry(struct deepspeed *x, const ckpt_file *part, ckpt_str name, ckpt_value *v,
                                ckpt_value **out)
{
    const ckpt_tensor *t = ds_find_row(part, v);
    const struct joined_tensor *w = find_parameter(x, name);
    *out = v;
    w = w ? w : find_parameter(x, resolve_shared_name(x, name));
    if (w) {
        *out = w->node;
        /* Universal checkpoints have joined the tensor-parallel ranks, model files have not. */
        bool must_match = x->stage < 3 && !x->save.universal;
        bool same = t && t->has_shape && t->ndim == w->ndim && same_sizes(t->shape, w->shape, w->ndim);
        return must_match && t && !same ? fail_shape(x, part, t) : CKPT_OK;
    }
    if (!t || !x->stage)
        return CKPT_OK;
    bool buffer = map_get(x->buffers, name) != MAP_NONE;
    if (buffer)
        CKPT_TRY(ds_add_as_float32(x, part, v, name, out));
    *out = *out ? *out : v;
    if (!buffer && x->stage == 3 && t->elements == 0) {
        *out = NULL;
        return fail_not_in_partitions(x, part, t, name);
    }
    return CKPT_OK;
}

/* put_module - adds the entries of the state dict MODULE of PART, with PREFIX in front of their keys. */
static ckpt_status put_module(struct deepspeed *x, const ckpt_file *part, const ckpt_value *module,
                              const char *prefix)
{
    uint32_t n = 0;
    ckpt_str name;
    ckpt_value *v;
    const value_pair *pairs = module ? value_pairs(module, &n) : NULL;
    for (uint32_t i = 0; i < n; i++) {
        if (!value_text(pairs[i].key, &name)) {
            file_notice(x->f, "a key of the state dict that is not text is left out");
            continue;
        }
        ckpt_str key = *prefix ? arena_printf(x->f->a, "%s%.*s", prefix, (int)name.len, name.ptr) : name;
        if (!key.ptr)
            return fail_memory(x->err);
        CKPT_TRY(choose_entry(x, part, key, pairs[i].val, &v));
        if (v)
            CKPT_TRY(put_entry(x, key, v, NULL));
    }
    return CKPT_OK;
}

/* put_remaining_parameters - adds the parameters that are in no module, and the names tied to them. */
static ckpt_status put_remaining_parameters(struct deepspeed *x)
{
    uint32_t n = 0;
    ckpt_str alias, kept;
    const ckpt_value *shared = ds_get(x->model->root, "shared_params");
    for (size_t i = 0; i < x->ntensors; i++)
        if (find_parameter(x, x->tensor[i].name) == &x->tensor[i])
            CKPT_TRY(put_entry(x, x->tensor[i].name, x->tensor[i].node, NULL));
    const value_pair *pairs = shared ? value_pairs(shared, &n) : NULL;
    for (uint32_t i = 0; i < n; i++) {
        const struct joined_tensor *w = value_text(pairs[i].key, &alias) && value_text(pairs[i].val, &kept)
                                            ? find_parameter(x, kept)
                                            : NULL;
        if (w)
            CKPT_TRY(put_entry(x, alias, w->node, NULL));
    }
    return CKPT_OK;
}

/* is_internal_key - returns true if the value of KEY in a model file only serves to find the parameters. */
static bool is_internal_key(ckpt_str key)
{
    static const char *const names[] = {
        "module",       "buffer_names", "param_shapes", "frozen_param_shapes", "frozen_param_fragments",
        "shared_params"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (str_is(key, names[i]))
            return true;
    return false;
}

/* put_others - adds the other values of the model file: counters, the scheduler, values of the program. */
static ckpt_status put_others(struct deepspeed *x)
{
    uint32_t n = 0;
    ckpt_str key;
    bool new;
    const value_pair *pairs = value_pairs(x->model->root, &n);
    for (uint32_t i = 0; i < n; i++) {
        if (!value_text(pairs[i].key, &key) || is_internal_key(key))
            continue;
        if (str_is(key, "optimizer") && pairs[i].val->type == CKPT_V_NONE)
            continue;
        CKPT_TRY(put_entry(x, key, pairs[i].val, &new));
        if (!new)
            file_notice(x->f, "the value \"%.*s\" is left out: a parameter or the optimizer has that name",
                        STR_ARG(key));
    }
    return CKPT_OK;
}

static ckpt_status put_optimizer(struct deepspeed *x)
{
    arena *a = x->f->a;
    ckpt_value *all = value_new(a, CKPT_V_DICT, 0), *state = value_str(a, STR_LIT("state")),
               *groups = value_str(a, STR_LIT("param_groups"));
    if (!value_count(x->groups) && !x->state->u.dict.n)
        return CKPT_OK;
    if (!all || !state || !groups || !value_put(a, all, state, x->state) ||
        !value_put(a, all, groups, x->groups))
        return fail_memory(x->err);
    return put_entry(x, STR_LIT("optimizer"), all, NULL);
}

/* ------------------------------------------------------------------------- files */

/* take_graph - moves the graph of PART to the checkpoint; its root is not needed. */
static ckpt_status take_graph(struct deepspeed *x, ckpt_file *part)
{
    ckpt_value *root;
    return part_graph_take(x->f, part, &root, x->err);
}

/* put_files - adds the state dicts in the files of KIND, which is DS_LAYER or DS_EXPERT. */
static ckpt_status put_files(struct deepspeed *x, enum ds_kind kind)
{
    char prefix[32] = "";
    ckpt_file *part;
    for (const struct ds_file *f = NULL; (f = ds_next_file(&x->save, kind, DS_ANY_RANK, f));) {
        CKPT_TRY(ds_open_file(x, f->name, &part));
        if (!part)
            continue;
        if (kind == DS_LAYER)
            (void)snprintf(prefix, sizeof prefix, "%llu.", (unsigned long long)f->layer);
        CKPT_TRY(put_module(x, part, part->root, prefix));
        CKPT_TRY(take_graph(x, part));
    }
    return CKPT_OK;
}

/* refuse_tensor_parallel - refuses a save whose layers are cut over several files. */
static ckpt_status refuse_tensor_parallel(struct deepspeed *x)
{
    bool pipeline = ds_next_file(&x->save, DS_LAYER, DS_ANY_RANK, NULL);
    uint64_t most = 0;
    for (size_t i = 0; i < x->save.n; i++)
        if ((!pipeline || x->save.file[i].kind == DS_LAYER) && x->save.file[i].mp > most)
            most = x->save.file[i].mp;
    if (!most || x->save.universal)
        return CKPT_OK;
    (void)fail(x->err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
               "tensors cut over {%llu tensor-parallel ranks}: along which dimension is in {=no file}\n"
               "`python -m deepspeed.checkpoint.ds_to_universal` puts them together; or name one file",
               (unsigned long long)most + 1);
    return fail_name_file(CKPT_EUNSUPPORTED, x->f->path, x->err);
}

/* check_without_zero - refuses MODEL if it was saved with ZeRO, because there are no optimizer files. */
static ckpt_status check_without_zero(struct deepspeed *x, const ckpt_file *model)
{
    if (!ds_get(model->root, "param_shapes"))
        return CKPT_OK;
    CKPT_TRY(
        ds_fail_missing(x, "the *_optim_states.pt of each rank, which has the weights of ZeRO in 32 bits,"));
    if (x->f->salvage)
        file_notice(x->f,
                    "without files of the optimizer the weights are those of the model, in its precision");
    return CKPT_OK;
}

/* read_without_zero - opens the model file of rank MP of a save without ZeRO. */
static ckpt_status read_without_zero(struct deepspeed *x, uint64_t mp)
{
    for (const struct ds_file *f = NULL; !x->model && (f = ds_next_file(&x->save, DS_MODEL, mp, f));) {
        CKPT_TRY(ds_open_file(x, f->name, &x->model));
        if (x->model)
            CKPT_TRY(check_without_zero(x, x->model));
    }
    return CKPT_OK;
}

/* read_ranks - reads the files of each model-parallel rank. */
static ckpt_status read_ranks(struct deepspeed *x)
{
    const struct ds_save *s = &x->save;
    if (s->universal)
        return ds_read_universal(x);
    while (ds_next_file(s, DS_MODEL, x->stages, NULL) || ds_next_file(s, DS_OPTIM, x->stages, NULL))
        x->stages++;
    for (uint64_t mp = 0; mp < x->stages; mp++)
        CKPT_TRY(ds_next_file(s, DS_OPTIM, mp, NULL) ? ds_read_zero(x, mp) : read_without_zero(x, mp));
    if (x->model)
        return CKPT_OK;
    CKPT_TRY(ds_fail_missing(x, "the file of a model, *_model_states.pt,"));
    return fail(x->err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                "{no} file of {=a model} can be read: nothing has a name");
}

static void note_experts(struct deepspeed *x)
{
    size_t n = 0;
    for (const struct ds_file *f = NULL; (f = ds_next_file(&x->save, DS_EXPERT_OPTIM, DS_ANY_RANK, f));)
        n++;
    if (n)
        file_notice(x->f,
                    "the optimizers of %zu expert ranks are left out: their states are in other files, and "
                    "have numbers instead of names",
                    n);
}

/* -------------------------------------------------------------------------- read */

static bool describe(void *user, const ckpt_value *v, struct row *row)
{
    const struct deepspeed *x = user;
    if (v->type != CKPT_V_TENSOR || v->offset >= x->ntensors)
        return false;
    joined_tensor_describe(x->f, &x->tensor[v->offset], row);
    return true;
}

static ckpt_status set_producer(struct deepspeed *x)
{
    ckpt_str version = STR_LIT("");
    (void)value_text(ds_get(x->model->root, "ds_version"), &version);
    int64_t stage = x->stage == 3 ? 3 : x->stored_stage;
    ckpt_str named = arena_printf(x->f->a, "DeepSpeed%s%.*s", version.len ? " " : "", STR_ARG(version));
    if (named.ptr && x->save.universal)
        named = arena_printf(x->f->a, "%s, universal", named.ptr);
    else if (named.ptr && stage)
        named = arena_printf(x->f->a, "%s, ZeRO %lld", named.ptr, (long long)stage);
    x->f->producer = named;
    return x->f->producer.ptr ? CKPT_OK : fail_memory(x->err);
}

/* get_model_number - returns the integer NAME of the first model file, or 0. */
static uint64_t get_model_number(const struct deepspeed *x, const char *name)
{
    int64_t n;
    return value_integer(ds_get(x->model->root, name), &n) && n > 0 ? (uint64_t)n : 0;
}

/* count_ranks - fills f->ranks, which `ckpt info` shows. */
static void count_ranks(struct deepspeed *x)
{
    ckpt_ranks *r = &x->f->ranks;
    r->data_parallel = x->ranks ? x->ranks : get_model_number(x, "dp_world_size");
    r->pipeline_parallel = x->stages > 1 ? x->stages : 0;
    r->tensor_parallel = x->stages > 1 ? 0 : get_model_number(x, "mp_world_size");
    r->has_step = value_integer(ds_get(x->model->root, "global_steps"), &(int64_t){0});
    r->step = get_model_number(x, "global_steps");
    if (!checked_mul(r->data_parallel, x->stages > 1 ? x->stages : 1, &r->ranks))
        r->ranks = 0;
}

static ckpt_status read_all(struct deepspeed *x)
{
    struct torch_storages st = {.user = x, .find = part_graph_find_storage, .object = describe};
    CKPT_TRY(ds_find_save(x->f, &x->save, x->err));
    CKPT_TRY(refuse_tensor_parallel(x));
    CKPT_TRY(read_ranks(x));
    CKPT_TRY(set_producer(x));
    count_ranks(x);
    CKPT_TRY(index_buffers(x));
    CKPT_TRY(put_module(x, x->model, ds_get(x->model->root, "module"), ""));
    CKPT_TRY(put_files(x, DS_EXPERT));
    CKPT_TRY(put_files(x, DS_LAYER));
    CKPT_TRY(put_remaining_parameters(x));
    CKPT_TRY(put_optimizer(x));
    CKPT_TRY(put_others(x));
    CKPT_TRY(take_graph(x, x->model));
    note_experts(x);
    x->f->root = x->root;
    x->f->resolve = part_graph_add_unreferenced;
    return torch_walk_graph(x->f, x->root, &st, x->err);
}

static ckpt_status read(ckpt_file *f, ckpt_error *err)
{
    struct deepspeed x = {
        .f = f, .err = err, .weights = map_new(64), .root_keys = map_new(64), .buffers = map_new(64)};
    x.root = value_new(f->a, CKPT_V_DICT, 0);
    x.state = value_new(f->a, CKPT_V_DICT, 0);
    x.groups = value_new(f->a, CKPT_V_LIST, 0);
    bool ok = x.weights && x.root_keys && x.buffers && x.root && x.state && x.groups;
    ckpt_status st = ok ? read_all(&x) : fail_memory(err);
    map_free(x.weights);
    map_free(x.root_keys);
    map_free(x.buffers);
    free(x.piece);
    free(x.range);
    return st;
}

const struct format format_deepspeed = {
    .name = "deepspeed",
    .title = "DeepSpeed checkpoint",
    .probe = ds_is_folder,
    .read = read,
};
