/* deepspeed_universal.c - reads universal checkpoints, which ds_to_universal makes from all partitions.
 *
 *   zero/NAME/fp32.pt       {param: tensor, …}, or the tensor itself. After ZeRO 3 the tensor is flat, and
 *                           param_shapes of the model file has its shape
 *   zero/NAME/exp_avg.pt …  a state of the optimizer in the same form; step.pt is a 0-d tensor
 *   zero/optimizer_state.pt {param_groups, …}
 *   …_model_states.pt       as in the original save: buffers, frozen and tied parameters, param_shapes
 *
 * Frozen parameters without a folder, and tied ones, are read from the model files. Refused: other
 * parameters without a folder, a tensor of the wrong size. */
#include <stdlib.h>

#include "core/check.h"
#include "format/distributed/deepspeed.h"
#include "format/files/folder.h"
#include "format/files/path.h"

#define SUFFIX ".pt"

/* A universal checkpoint, while it is read. */
struct universal {
    struct deepspeed *ds;
    const value_pair **entries; /* in param_shapes: each a name and its shape */
    map *entry_of;              /* name -> index into ENTRIES */
    size_t nentries, nfrozen;   /* the last NFROZEN entries are those of frozen_param_shapes */
};

static bool is_not_hidden(ckpt_str name) { return name.ptr[0] != '.'; }

static bool is_pt_file(ckpt_str name) { return str_ends(name, STR_LIT(SUFFIX)); }

static ckpt_status list_folder_of_save(struct universal *universal, ckpt_str path, bool (*match)(ckpt_str),
                                       ckpt_str **out, size_t *count)
{
    struct deepspeed *ds = universal->ds;
    char *joined = path_make(str_c(ds->f->path), path);
    ckpt_status st = joined ? folder_list(ds->f, joined, match, out, count, ds->err) : fail_memory(ds->err);
    free(joined);
    return st;
}

/* join_path - returns PATH/NAME, or NAME if PATH is empty. */
static ckpt_str join_path(struct universal *universal, ckpt_str path, ckpt_str name)
{
    return ARENA_CONCAT(universal->ds->f->a, path, str_c(path.len ? "/" : ""), name);
}

static ckpt_status add_shapes(struct universal *universal, const ckpt_value *group)
{
    uint32_t n = 0;
    ckpt_str name;
    const value_pair *pairs = group ? value_pairs(group, &n) : NULL;
    for (uint32_t i = 0; i < n; i++) {
        if (!value_text(pairs[i].key, &name))
            continue;
        if (!map_put(universal->entry_of, name, (uint32_t)universal->nentries, NULL))
            return fail_memory(universal->ds->err);
        universal->entries[universal->nentries++] = &pairs[i];
    }
    return CKPT_OK;
}

static ckpt_status index_shapes(struct universal *universal, const ckpt_value *shapes,
                                const ckpt_value *frozen)
{
    uint32_t n = 0, groups = value_is_sequence(shapes) ? value_count(shapes) : 0;
    size_t count = frozen ? value_count(frozen) : 0;
    for (uint32_t g = 0; g < groups; g++) {
        (void)value_pairs(value_item(shapes, g), &n);
        count += n;
    }
    universal->entries = arena_array(universal->ds->f->a, count, sizeof *universal->entries);
    universal->entry_of = map_new(count);
    CKPT_TRY_ALLOC(universal->entries && universal->entry_of, universal->ds->err);
    for (uint32_t g = 0; g < groups; g++)
        CKPT_TRY(add_shapes(universal, value_item(shapes, g)));
    size_t nparams = universal->nentries;
    CKPT_TRY(add_shapes(universal, frozen));
    universal->nfrozen = universal->nentries - nparams;
    return CKPT_OK;
}

/* set_shape - sets the shape of the tensor that was added last, if it is flat, to that of the parameter NAME
 * in param_shapes. */
static ckpt_status set_shape(struct universal *universal, ckpt_str name)
{
    struct deepspeed *ds = universal->ds;
    struct joined_tensor *t = &ds->tensors[ds->ntensors - 1], shaped = {.ndim = 0};
    uint32_t i = map_get(universal->entry_of, name);
    uint64_t elements;
    if (i == MAP_NONE || t->ndim != 1)
        return CKPT_OK;
    if (!ds_read_shape(ds, universal->entries[i]->val, &shaped, &elements) || elements != t->shape[0]) {
        (void)fail(ds->err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                   "{%llu elements}; param_shapes has {=another number} for it",
                   (unsigned long long)t->shape[0]);
        return prefix_where_if_failed(CKPT_EFORMAT, name, ds->err);
    }
    t->ndim = shaped.ndim;
    t->shape = shaped.shape;
    return CKPT_OK;
}

static ckpt_status fail_no_tensor(struct universal *universal, const ckpt_file *part)
{
    (void)fail(universal->ds->err, CKPT_EFORMAT, 0, "{no} {=dense tensor} is in the file");
    error_add_file(universal->ds->err, part->path);
    return file_report_fault(universal->ds->f, CKPT_EFORMAT, universal->ds->err);
}

/* get_param - returns the tensor or number in the file PART: the value of "param", or the root. */
static ckpt_value *get_param(const ckpt_file *part)
{
    ckpt_value *v = ds_get(part->root, "param");
    return v ? v : part->root;
}

static ckpt_status add_weight(struct universal *universal, const ckpt_file *part, ckpt_str name)
{
    ckpt_value *node;
    uint32_t at = (uint32_t)universal->ds->ntensors;
    CKPT_TRY(ds_add_copy(universal->ds, part, get_param(part), name, &node));
    if (!node)
        return fail_no_tensor(universal, part);
    CKPT_TRY_ALLOC(map_put(universal->ds->weights, name, at, NULL), universal->ds->err);
    return set_shape(universal, name);
}

/* add_state - adds the state KEY of the parameter NAME, read from PART, to the dict STATE. */
static ckpt_status add_state(struct universal *universal, const ckpt_file *part, ckpt_str name, ckpt_str key,
                             ckpt_value *state)
{
    arena *a = universal->ds->f->a;
    ckpt_value *v = get_param(part), *node = NULL, *state_key = value_str(a, key);
    ckpt_str full_name = ds_state_name(universal->ds, name, key);
    CKPT_TRY_ALLOC(state_key && full_name.ptr, universal->ds->err);
    if (v->type == CKPT_V_INT || v->type == CKPT_V_FLOAT)
        node = v;
    else
        CKPT_TRY(ds_add_copy(universal->ds, part, v, full_name, &node));
    if (!node)
        return fail_no_tensor(universal, part);
    if (node != v)
        CKPT_TRY(set_shape(universal, name));
    return value_put(a, state, state_key, node) ? CKPT_OK : fail_memory(universal->ds->err);
}

static bool is_tied(const struct universal *universal, ckpt_str name)
{
    ckpt_str kept;
    return value_text(ds_get(ds_get(universal->ds->model->root, "shared_params"), name.ptr), &kept);
}

static ckpt_status add_param(struct universal *universal, ckpt_str path, ckpt_str name)
{
    struct deepspeed *ds = universal->ds;
    ckpt_str *files;
    size_t n;
    ckpt_file *part;
    ckpt_value *state = value_new(ds->f->a, CKPT_V_DICT, 0), *name_key = value_str(ds->f->a, name);
    CKPT_TRY(state && name_key ? list_folder_of_save(universal, path, is_pt_file, &files, &n)
                               : fail_memory(ds->err));
    for (size_t i = 0; i < n; i++) {
        ckpt_str file = join_path(universal, path, files[i]);
        ckpt_str key = arena_str(ds->f->a, str_of(files[i].ptr, files[i].len - strlen(SUFFIX)));
        CKPT_TRY(file.ptr && key.ptr ? ds_open_file(ds, file, &part) : fail_memory(ds->err));
        if (part)
            CKPT_TRY(str_is(key, "fp32") ? add_weight(universal, part, name)
                                         : add_state(universal, part, name, key, state));
    }
    if (!state->u.dict.n)
        return CKPT_OK;
    return value_put(ds->f->a, ds->state, name_key, state) ? CKPT_OK : fail_memory(ds->err);
}

static ckpt_status add_params(struct universal *universal)
{
    ckpt_str *names, zero = join_path(universal, universal->ds->save.tag, STR_LIT("zero"));
    size_t n;
    CKPT_TRY(zero.ptr ? list_folder_of_save(universal, zero, is_not_hidden, &names, &n)
                      : fail_memory(universal->ds->err));
    for (size_t i = 0; i < n; i++) {
        ckpt_str path = join_path(universal, zero, names[i]);
        CKPT_TRY_ALLOC(path.ptr, universal->ds->err);
        if (!is_pt_file(names[i]) && !is_tied(universal, names[i]))
            CKPT_TRY(add_param(universal, path, names[i]));
    }
    return CKPT_OK;
}

static ckpt_status check_all_params_read(struct universal *universal)
{
    ckpt_str name;
    for (size_t i = 0; i < universal->nentries - universal->nfrozen; i++) {
        if (!value_text(universal->entries[i]->key, &name) ||
            map_get(universal->ds->weights, name) != MAP_NONE)
            continue;
        ckpt_str what = ARENA_CONCAT(universal->ds->f->a, STR_LIT("zero/"), name, STR_LIT("/fp32.pt"));
        CKPT_TRY(what.ptr ? ds_fail_missing(universal->ds, what.ptr) : fail_memory(universal->ds->err));
    }
    return CKPT_OK;
}

static ckpt_status add_param_groups_if_saved(struct universal *universal, const ckpt_value *shapes)
{
    struct deepspeed *ds = universal->ds;
    ckpt_file *part;
    ckpt_str *names, zero = join_path(universal, ds->save.tag, STR_LIT("zero"));
    size_t n;
    CKPT_TRY(zero.ptr ? list_folder_of_save(universal, zero, is_pt_file, &names, &n) : fail_memory(ds->err));
    for (size_t i = 0; i < n; i++) {
        if (!str_is(names[i], "optimizer_state.pt"))
            continue;
        ckpt_str path = join_path(universal, zero, names[i]);
        CKPT_TRY(path.ptr ? ds_open_file(ds, path, &part) : fail_memory(ds->err));
        return part ? ds_add_param_groups(ds, shapes, ds_get(part->root, "param_groups")) : CKPT_OK;
    }
    return CKPT_OK;
}

static ckpt_status open_first_model(struct deepspeed *ds)
{
    ds->zero_stage = 2;
    const struct ds_file *file = NULL;
    while (!ds->model && (file = ds_next_file(&ds->save, DS_MODEL, DS_ANY_RANK, file))) {
        ds->zero_stage = file->has_dp_rank ? 3 : 2;
        CKPT_TRY(ds_open_file(ds, file->name, &ds->model));
    }
    return ds->model ? CKPT_OK
                     : fail(ds->err, CKPT_ENOTFOUND, CKPT_NO_OFFSET,
                            "a universal checkpoint without {=*_model_states.pt}: {nothing} has its buffers");
}

ckpt_status ds_read_universal(struct deepspeed *ds)
{
    struct universal u = {.ds = ds};
    CKPT_TRY(open_first_model(ds));
    const ckpt_value *shapes = ds_get(ds->model->root, "param_shapes");
    ckpt_status st = index_shapes(&u, shapes, ds_get(ds->model->root, "frozen_param_shapes"));
    CKPT_THEN(st, add_params(&u));
    CKPT_THEN(st, check_all_params_read(&u));
    CKPT_THEN(st, add_param_groups_if_saved(&u, shapes));
    map_free(u.entry_of);
    return st == CKPT_OK && ds->zero_stage == 3 ? ds_read_frozen_params(ds) : st;
}
