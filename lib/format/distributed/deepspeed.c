/* deepspeed.c - reads a save of DeepSpeed, with the files of all ranks, as one checkpoint.
 *
 *   latest                  the name of the folder of the last save (deepspeed_files.c), with these files:
 *   …_model_states.pt       {module: the state dict, param_shapes, shared_params, buffer_names, values of
 *                           the program}; ZeRO 3 has one for each rank, whose module has no parameters
 *   …_optim_states.pt       the partitions of each rank (zero.c)
 *   zero/NAME/fp32.pt …     instead of partitions, in a universal checkpoint (deepspeed_universal.c)
 *   layer_NN-…              the state dict of one layer of a pipeline, whose keys get "NN." in front
 *   …expert_E_mp_rank_…     the state dict of one expert
 *
 * The graph is a dict of parameters by name, with the values that zero_to_fp32 gives: parameters of the
 * optimizer and buffers in float32, frozen parameters as they are. The dict also has the other values
 * of the first model file, and `optimizer`: {state: {name: {exp_avg: tensor}}, param_groups}, as torch has
 * it, but with names instead of numbers.
 *
 * Refused: missing ranks; tensor parallelism, because the files do not record the dimension along which a
 * tensor is cut. */
#include <stdio.h>
#include <stdlib.h>

#include "core/check.h"
#include "format/distributed/deepspeed.h"
#include "format/graph/walk.h"
#include "format/parts/part_graph.h"

/* -------------------------------------------------------------------------- root */

/* put_entry - adds VALUE to the root under KEY, unless that key exists. Sets *ADDED (may be NULL) to true if
 * VALUE was added. */
static ckpt_status put_entry(struct deepspeed *ds, ckpt_str key, ckpt_value *value, bool *added)
{
    uint32_t before;
    ckpt_value *k = value_str(ds->f->a, key);
    CKPT_TRY_ALLOC(k && map_put(ds->root_keys, key, 0, &before), ds->err);
    if (added)
        *added = before == MAP_NONE;
    if (before != MAP_NONE)
        return CKPT_OK;
    return value_put(ds->f->a, ds->root, k, value) ? CKPT_OK : fail_memory(ds->err);
}

static const struct joined_tensor *find_assembled_tensor(const struct deepspeed *ds, ckpt_str name)
{
    uint32_t i = map_get(ds->weights, name);
    return i == MAP_NONE ? NULL : &ds->tensors[i];
}

/* resolve_shared_name - returns the name of the parameter to which shared_params ties NAME, or NAME. */
static ckpt_str resolve_shared_name(const struct deepspeed *ds, ckpt_str name)
{
    ckpt_str kept;
    const ckpt_value *shared = ds->model ? ds_get(ds->model->root, "shared_params") : NULL;
    if (!shared || name.len != strlen(name.ptr) || !value_text(ds_get(shared, name.ptr), &kept))
        return name;
    return kept;
}

static ckpt_status fail_shape(struct deepspeed *ds, const ckpt_file *part, const ckpt_tensor *tensor)
{
    (void)fail(ds->err, CKPT_EFORMAT, tensor->file_offset,
               "{another shape} in the model's state than {=in param_shapes}\n"
               "the files are of different saves");
    error_add_where(ds->err, "%.*s", STR_ARG(tensor->name));
    error_add_file(ds->err, part->path);
    return file_report_fault(ds->f, CKPT_EFORMAT, ds->err);
}

static ckpt_status index_buffer_names(struct deepspeed *ds)
{
    ckpt_str name;
    const ckpt_value *names = ds_get(ds->model->root, "buffer_names");
    for (uint32_t i = 0; i < value_count(names); i++)
        if (value_text(value_item(names, i), &name) && !map_put(ds->buffers, name, 0, NULL))
            return fail_memory(ds->err);
    return CKPT_OK;
}

/* fail_not_in_partitions - fails because no file has the elements of the parameter NAME: no partition has
 * them, and ZeRO 3 leaves none of them in the model file PART, where the parameter is TENSOR. */
static ckpt_status fail_not_in_partitions(struct deepspeed *ds, const ckpt_file *part,
                                          const ckpt_tensor *tensor, ckpt_str name)
{
    (void)fail(ds->err, CKPT_EFORMAT, tensor->file_offset,
               "a parameter that has {no elements} here and is not in {=a partition}");
    error_add_where(ds->err, "%.*s", STR_ARG(name));
    error_add_file(ds->err, part->path);
    return file_report_fault(ds->f, CKPT_EFORMAT, ds->err);
}

/* choose_entry - sets *OUT to what is written under NAME, the name of VALUE in the state dict of PART: the
 * assembled parameter, a buffer as float32, or VALUE itself. NULL: NAME is left out. */
static ckpt_status choose_entry(struct deepspeed *ds, const ckpt_file *part, ckpt_str name, ckpt_value *value,
                                ckpt_value **out)
{
    ckpt_tensor room;
    const ckpt_tensor *t = ds_find_row(part, value, &room);
    const struct joined_tensor *assembled = find_assembled_tensor(ds, name);
    *out = value;
    if (!assembled)
        assembled = find_assembled_tensor(ds, resolve_shared_name(ds, name));
    if (assembled) {
        *out = assembled->node;
        /* In a universal checkpoint the tensor-parallel ranks are joined; in model files they are not. */
        bool must_match = ds->zero_stage < 3 && !ds->save.universal;
        bool same = t && t->has_shape && t->ndim == assembled->ndim &&
                    same_sizes(t->shape, assembled->shape, t->ndim);
        return must_match && t && !same ? fail_shape(ds, part, t) : CKPT_OK;
    }
    if (!t || !ds->zero_stage)
        return CKPT_OK;
    bool buffer = map_get(ds->buffers, name) != MAP_NONE;
    if (buffer)
        CKPT_TRY(ds_add_as_float32(ds, part, value, name, out));
    *out = *out ? *out : value;
    if (!buffer && ds->zero_stage == 3 && t->elements == 0) {
        *out = NULL;
        return fail_not_in_partitions(ds, part, t, name);
    }
    return CKPT_OK;
}

/* put_module - adds the entries of the state dict MODULE of PART, with PREFIX in front of their keys. */
static ckpt_status put_module(struct deepspeed *ds, const ckpt_file *part, const ckpt_value *module,
                              const char *prefix)
{
    uint32_t n = 0;
    ckpt_str name;
    ckpt_value *v;
    const value_pair *pairs = module ? value_pairs(module, &n) : NULL;
    for (uint32_t i = 0; i < n; i++) {
        if (!value_text(pairs[i].key, &name)) {
            file_notice(ds->f, "a key of the state dict that is not text is left out");
            continue;
        }
        ckpt_str key = *prefix ? ARENA_CONCAT(ds->f->a, str_c(prefix), name) : name;
        CKPT_TRY_ALLOC(key.ptr, ds->err);
        CKPT_TRY(choose_entry(ds, part, key, pairs[i].val, &v));
        if (v)
            CKPT_TRY(put_entry(ds, key, v, NULL));
    }
    return CKPT_OK;
}

/* put_remaining_parameters - adds the parameters that are in no module, and the names tied to them.
 * ds->tensors also has optimizer states and buffers, which are skipped. */
static ckpt_status put_remaining_parameters(struct deepspeed *ds)
{
    uint32_t n = 0;
    ckpt_str alias, kept;
    const ckpt_value *shared = ds_get(ds->model->root, "shared_params");
    for (size_t i = 0; i < ds->ntensors; i++)
        if (find_assembled_tensor(ds, ds->tensors[i].name) == &ds->tensors[i])
            CKPT_TRY(put_entry(ds, ds->tensors[i].name, ds->tensors[i].node, NULL));
    const value_pair *pairs = shared ? value_pairs(shared, &n) : NULL;
    for (uint32_t i = 0; i < n; i++) {
        const struct joined_tensor *tied = value_text(pairs[i].key, &alias) && value_text(pairs[i].val, &kept)
                                               ? find_assembled_tensor(ds, kept)
                                               : NULL;
        if (tied)
            CKPT_TRY(put_entry(ds, alias, tied->node, NULL));
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

/* put_other_values - adds the other values of the model file: counters, the scheduler, values of the
 * program. */
static ckpt_status put_other_values(struct deepspeed *ds)
{
    uint32_t n = 0;
    ckpt_str key;
    bool added;
    const value_pair *pairs = value_pairs(ds->model->root, &n);
    for (uint32_t i = 0; i < n; i++) {
        if (!value_text(pairs[i].key, &key) || is_internal_key(key))
            continue;
        if (str_is(key, "optimizer") && pairs[i].val->type == CKPT_V_NONE)
            continue;
        CKPT_TRY(put_entry(ds, key, pairs[i].val, &added));
        if (!added)
            file_notice(ds->f, "the value \"%.*s\" is left out: a parameter or the optimizer has that name",
                        STR_ARG(key));
    }
    return CKPT_OK;
}

static ckpt_status put_optimizer(struct deepspeed *ds)
{
    arena *a = ds->f->a;
    ckpt_value *optimizer = value_new(a, CKPT_V_DICT, 0), *state = value_str(a, STR_LIT("state")),
               *groups = value_str(a, STR_LIT("param_groups"));
    if (!value_count(ds->groups) && !ds->state->u.dict.n)
        return CKPT_OK;
    CKPT_TRY_ALLOC(optimizer && state && groups && value_put(a, optimizer, state, ds->state) &&
                       value_put(a, optimizer, groups, ds->groups),
                   ds->err);
    return put_entry(ds, STR_LIT("optimizer"), optimizer, NULL);
}

/* ------------------------------------------------------------------------- files */

/* take_graph - moves the graph of PART to the checkpoint; its root is not needed. */
static ckpt_status take_graph(struct deepspeed *ds, ckpt_file *part)
{
    ckpt_value *root;
    return part_graph_take(ds->f, part, &root, ds->err);
}

/* put_files - adds the state dicts in the files of KIND, which is DS_LAYER or DS_EXPERT. */
static ckpt_status put_files(struct deepspeed *ds, enum ds_kind kind)
{
    char prefix[32] = "";
    ckpt_file *part;
    for (const struct ds_file *file = NULL; (file = ds_next_file(&ds->save, kind, DS_ANY_RANK, file));) {
        CKPT_TRY(ds_open_file(ds, file->name, &part));
        if (!part)
            continue;
        if (kind == DS_LAYER)
            (void)snprintf(prefix, sizeof prefix, "%llu.", (unsigned long long)file->layer);
        CKPT_TRY(put_module(ds, part, part->root, prefix));
        CKPT_TRY(take_graph(ds, part));
    }
    return CKPT_OK;
}

/* refuse_tensor_parallel - refuses a save whose tensors are cut over several files. */
static ckpt_status refuse_tensor_parallel(struct deepspeed *ds)
{
    bool pipeline = ds_next_file(&ds->save, DS_LAYER, DS_ANY_RANK, NULL);
    uint64_t max_rank = 0;
    for (size_t i = 0; i < ds->save.nfiles; i++)
        if ((!pipeline || ds->save.files[i].kind == DS_LAYER) && ds->save.files[i].mp_rank > max_rank)
            max_rank = ds->save.files[i].mp_rank;
    if (!max_rank || ds->save.universal)
        return CKPT_OK;
    (void)fail(ds->err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
               "tensors cut over {%llu tensor-parallel ranks}; {=no file} records along which dimension\n"
               "`python -m deepspeed.checkpoint.ds_to_universal` puts them together; or name one file",
               (unsigned long long)max_rank + 1);
    return name_file_if_failed(CKPT_EUNSUPPORTED, ds->f->path, ds->err);
}

/* check_without_zero - refuses MODEL if it was saved with ZeRO: then the optimizer files are missing. */
static ckpt_status check_without_zero(struct deepspeed *ds, const ckpt_file *model)
{
    if (!ds_get(model->root, "param_shapes"))
        return CKPT_OK;
    CKPT_TRY(
        ds_fail_missing(ds, "the *_optim_states.pt of each rank, which has the weights of ZeRO in 32 bits,"));
    if (ds->f->salvage)
        file_notice(ds->f,
                    "without files of the optimizer the weights are those of the model, in its precision");
    return CKPT_OK;
}

/* read_without_zero - opens the model file of rank MP of a save without ZeRO. */
static ckpt_status read_without_zero(struct deepspeed *ds, uint64_t mp)
{
    for (const struct ds_file *file = NULL;
         !ds->model && (file = ds_next_file(&ds->save, DS_MODEL, mp, file));) {
        CKPT_TRY(ds_open_file(ds, file->name, &ds->model));
        if (ds->model)
            CKPT_TRY(check_without_zero(ds, ds->model));
    }
    return CKPT_OK;
}

static ckpt_status read_model_parallel_ranks(struct deepspeed *ds)
{
    const struct ds_save *s = &ds->save;
    if (s->universal) {
        ds->f->owns_folder = true; /* it has a folder for each parameter, with files that are not read */
        return ds_read_universal(ds);
    }
    while (ds_next_file(s, DS_MODEL, ds->pipeline_stages, NULL) ||
           ds_next_file(s, DS_OPTIM, ds->pipeline_stages, NULL))
        ds->pipeline_stages++;
    for (uint64_t mp = 0; mp < ds->pipeline_stages; mp++)
        CKPT_TRY(ds_next_file(s, DS_OPTIM, mp, NULL) ? ds_read_zero(ds, mp) : read_without_zero(ds, mp));
    if (ds->model)
        return CKPT_OK;
    CKPT_TRY(ds_fail_missing(ds, "the file of a model, *_model_states.pt,"));
    return fail(ds->err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                "{no} file of {=a model} can be read: nothing has a name");
}

static void note_experts(struct deepspeed *ds)
{
    size_t n = 0;
    for (const struct ds_file *file = NULL;
         (file = ds_next_file(&ds->save, DS_EXPERT_OPTIM, DS_ANY_RANK, file));)
        n++;
    if (n)
        file_notice(ds->f,
                    "the optimizers of %zu expert ranks are left out: their states are in other files, and "
                    "have numbers instead of names",
                    n);
}

/* -------------------------------------------------------------------------- read */

static bool describe(void *user, const ckpt_value *value, struct row *row)
{
    const struct deepspeed *ds = user;
    if (value->type != CKPT_V_TENSOR || value_offset(value) >= ds->ntensors)
        return false;
    joined_tensor_describe(ds->f, &ds->tensors[value_offset(value)], row);
    return true;
}

static ckpt_status set_producer(struct deepspeed *ds)
{
    ckpt_str version = STR_LIT("");
    (void)value_text(ds_get(ds->model->root, "ds_version"), &version);
    int64_t stage = ds->zero_stage == 3 ? 3 : ds->stored_stage;
    ckpt_str name = ARENA_CONCAT(ds->f->a, STR_LIT("DeepSpeed"), str_c(version.len ? " " : ""), version);
    if (name.ptr && ds->save.universal)
        name = arena_printf(ds->f->a, "%s, universal", name.ptr);
    else if (name.ptr && stage)
        name = arena_printf(ds->f->a, "%s, ZeRO %lld", name.ptr, (long long)stage);
    ds->f->producer = name;
    return name.ptr ? CKPT_OK : fail_memory(ds->err);
}

static uint64_t get_integer_of_model(const struct deepspeed *ds, const char *name)
{
    int64_t n;
    return value_integer(ds_get(ds->model->root, name), &n) && n > 0 ? (uint64_t)n : 0;
}

static void set_ranks(struct deepspeed *ds)
{
    ckpt_ranks *r = &ds->f->ranks;
    r->data_parallel = ds->dp_ranks ? ds->dp_ranks : get_integer_of_model(ds, "dp_world_size");
    r->pipeline_parallel = ds->pipeline_stages > 1 ? ds->pipeline_stages : 0;
    r->tensor_parallel = ds->pipeline_stages > 1 ? 0 : get_integer_of_model(ds, "mp_world_size");
    r->has_step = value_integer(ds_get(ds->model->root, "global_steps"), &(int64_t){0});
    r->step = get_integer_of_model(ds, "global_steps");
    if (!checked_mul(r->data_parallel, ds->pipeline_stages > 1 ? ds->pipeline_stages : 1, &r->ranks))
        r->ranks = 0;
}

static ckpt_status read_all(struct deepspeed *ds)
{
    struct graph_input input = {
        .user = ds, .find_storage = part_graph_find_storage, .describe_node = describe};
    CKPT_TRY(ds_find_save(ds->f, &ds->save, ds->err));
    CKPT_TRY(refuse_tensor_parallel(ds));
    CKPT_TRY(read_model_parallel_ranks(ds));
    CKPT_TRY(set_producer(ds));
    set_ranks(ds);
    CKPT_TRY(index_buffer_names(ds));
    /* in this order, because put_entry keeps the first value of a key */
    CKPT_TRY(put_module(ds, ds->model, ds_get(ds->model->root, "module"), ""));
    CKPT_TRY(put_files(ds, DS_EXPERT));
    CKPT_TRY(put_files(ds, DS_LAYER));
    CKPT_TRY(put_remaining_parameters(ds));
    CKPT_TRY(put_optimizer(ds));
    CKPT_TRY(put_other_values(ds));
    CKPT_TRY(take_graph(ds, ds->model));
    note_experts(ds);
    ds->f->root = ds->root;
    ds->f->add_opaque_storages = part_graph_add_unreferenced;
    return graph_walk(ds->f, ds->root, &input, ds->err);
}

static ckpt_status read(ckpt_file *f, ckpt_error *err)
{
    struct deepspeed ds = {
        .f = f, .err = err, .weights = map_new(64), .root_keys = map_new(64), .buffers = map_new(64)};
    ds.root = value_new(f->a, CKPT_V_DICT, 0);
    ds.state = value_new(f->a, CKPT_V_DICT, 0);
    ds.groups = value_new(f->a, CKPT_V_LIST, 0);
    bool ok = ds.weights && ds.root_keys && ds.buffers && ds.root && ds.state && ds.groups;
    ckpt_status st = ok ? read_all(&ds) : fail_memory(err);
    map_free(ds.weights);
    map_free(ds.root_keys);
    map_free(ds.buffers);
    free(ds.pieces);
    free(ds.ranges);
    return st;
}

const struct format format_deepspeed = {
    .name = "deepspeed", .title = "DeepSpeed checkpoint", .probe = ds_is_folder, .read = read};
