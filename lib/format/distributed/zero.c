/* zero.c - assembles parameters and optimizer states from the partitions of DeepSpeed's ZeRO.
 *
 *   *_model_states.pt   param_shapes: for each group of the optimizer the names and shapes of its parameters
 *   *_optim_states.pt   optimizer_state_dict, of one rank:
 *     partition_count                  the number of ranks, or a list with one for each group
 *     single_partition_of_fp32_groups  ZeRO 1 and 2: a flat tensor for each group
 *     base_optimizer_state             ZeRO 1 and 2: {state: {group: {exp_avg: flat, …}}, param_groups}, or
 *                                      a list of {exp_avg: flat, …}, one for each group
 *     fp32_flat_groups                 ZeRO 3: a flat tensor for each group
 *     optimizer_state_dict             ZeRO 3: the same as base_optimizer_state
 *
 * ZeRO 1 and 2: the partitions of a group, joined in the order of the ranks, are its parameters in the order
 * of param_shapes, then padding. ZeRO 3: each rank has ceil(N / ranks) elements of every parameter of N
 * elements, one parameter after the other over all groups; the last rank's share is padded. Each rank's model
 * file has a share of every frozen parameter in frozen_param_fragments.
 *
 * Source: deepspeed/utils/zero_to_fp32.py, runtime/zero/stage_1_and_2.py, stage3.py, bf16_optimizer.py.
 *
 * Refused: too few or too many ranks, partitions that do not have the length of the parameters, ranks that do
 * not agree. A group that is cut over fewer ranks (experts) is left out, because its ranks have different
 * parameters under the same names. */
#include <inttypes.h>
#include <stdio.h>

#include "core/check.h"
#include "format/distributed/deepspeed.h"

#define MAX_RANKS 65536u

/* The files of one data-parallel rank. */
struct zero_rank {
    ckpt_file *model, *optim;  /* NULL: missing, or unreadable and reported */
    bool has_model, has_optim; /* the file exists, readable or not */
    const ckpt_value *state;   /* optimizer_state_dict in OPTIM */
};

/* A parameter of the groups that are being read. */
struct zero_param {
    struct joined_tensor tensor;
    uint64_t nelements, first_element; /* how many elements, and the first of them in the flat tensor */
    bool is_tied;                      /* an earlier stage of the pipeline has it, too */
    ckpt_value *states;                /* a dict, such as {exp_avg: tensor} */
};

/* The files of one model-parallel rank, while they are read. */
struct zero {
    struct deepspeed *ds;
    uint64_t mp_rank;
    struct zero_rank *ranks;
    size_t nranks;
    size_t first_present_rank; /* the first rank whose optimizer file could be read */
    const ckpt_value *shapes;  /* param_shapes */
    uint32_t ngroups;
    const char *flat_key; /* of the partitions in optimizer_state_dict */
    struct zero_param *params;
    size_t nparams;
    struct ds_flat *flats;        /* of the parameters or state being read: one; in ZeRO 3 one per rank */
    struct ds_flat *weight_flats; /* of the parameters */
    size_t nflats;
    bool has_omitted_state; /* a state was left out because it is not partitioned like its parameter */
};

/* ------------------------------------------------------------------------- ranks */

static ckpt_status fail_no_partitions(struct zero *zero, const ckpt_file *part, const char *keys)
{
    ckpt_status st = fail(zero->ds->err, CKPT_EFORMAT, 0, "{no} {=%s} of partitions", keys);
    error_add_where(zero->ds->err, "optimizer_state_dict");
    return name_file_if_failed(st, part->path, zero->ds->err);
}

/* count_ranks - returns the greatest partition_count in STATE, the state of an optimizer file, or 0. */
static uint64_t count_ranks(const ckpt_value *state)
{
    int64_t n;
    uint64_t max = 0;
    const ckpt_value *count = ds_get(state, "partition_count");
    if (value_integer(count, &n))
        return n > 0 ? (uint64_t)n : 0;
    for (uint32_t i = 0; i < value_count(count); i++)
        if (value_integer(value_item(count, i), &n) && n > 0 && (uint64_t)n > max)
            max = (uint64_t)n;
    return max;
}

/* count_files - counts the files of KIND of this model-parallel rank. Sets *END to 1 + the greatest
 * data-parallel rank. */
static size_t count_files(const struct zero *zero, enum ds_kind kind, uint64_t *end)
{
    size_t n = 0;
    *end = 0;
    for (const struct ds_file *file = NULL;
         (file = ds_next_file(&zero->ds->save, kind, zero->mp_rank, file));) {
        n++;
        *end = file->dp_rank >= *end && file->dp_rank < UINT64_MAX ? file->dp_rank + 1 : *end;
    }
    return n;
}

static ckpt_status fail_rank_count(struct zero *zero, uint64_t found, uint64_t want, const char *kind)
{
    (void)fail(zero->ds->err, CKPT_EFORMAT, CKPT_NO_OFFSET,
               "partitions of {=%" PRIu64 " rank%s}, and %s of {%" PRIu64 "}", want, want == 1 ? "" : "s",
               kind, found);
    error_add_hint(zero->ds->err, found > want
                                      ? "an earlier save by more ranks left some: move those away"
                                      : "put the files of all ranks into the folder; `ckpt salvage` writes "
                                        "what the others hold");
    error_add_file(zero->ds->err, zero->ds->f->path);
    return file_report_fault(zero->ds->f, CKPT_EFORMAT, zero->ds->err);
}

/* open_files_of_kind - sets the model or optim of each of zero->ranks to its file of KIND. */
static ckpt_status open_files_of_kind(struct zero *zero, enum ds_kind kind)
{
    struct deepspeed *ds = zero->ds;
    for (const struct ds_file *file = NULL; (file = ds_next_file(&ds->save, kind, zero->mp_rank, file));) {
        if (file->dp_rank >= zero->nranks)
            continue;
        struct zero_rank *rank = &zero->ranks[file->dp_rank];
        ckpt_file **to = kind == DS_MODEL ? &rank->model : &rank->optim;
        *(kind == DS_MODEL ? &rank->has_model : &rank->has_optim) = true;
        if (!*to) /* read_stage_and_ranks has opened one of them */
            CKPT_TRY(ds_open_file(ds, file->name, to));
    }
    return CKPT_OK;
}

/* find_state - sets rank->state. If it has no partitions, fails or, in `verify`, treats the optimizer file as
 * missing. */
static ckpt_status find_state(struct zero *zero, struct zero_rank *rank)
{
    rank->state = ds_get(rank->optim->root, "optimizer_state_dict");
    if (rank->state && ds_get(rank->state, zero->flat_key))
        return CKPT_OK;
    CKPT_TRY(
        file_report_fault(zero->ds->f, fail_no_partitions(zero, rank->optim, zero->flat_key), zero->ds->err));
    rank->optim = NULL;
    return CKPT_OK;
}

/* check_ranks - checks that both files of each rank exist; sets rank->state and zero->first_present_rank. */
static ckpt_status check_ranks(struct zero *zero)
{
    char what[96];
    for (size_t i = 0; i < zero->nranks; i++) {
        struct zero_rank *rank = &zero->ranks[i];
        if (rank->optim)
            CKPT_TRY(find_state(zero, rank));
        bool has_model = rank->has_model ||
                         (i > 0 && zero->ds->zero_stage < 3); /* before ZeRO 3, only rank 0 has one */
        if (rank->has_optim && has_model)
            continue;
        (void)snprintf(what, sizeof what, "the %s file of rank %zu of %zu",
                       rank->has_optim ? "model" : "optimizer", i, zero->nranks);
        CKPT_TRY(ds_fail_missing(zero->ds, what));
    }
    zero->first_present_rank = 0;
    while (zero->first_present_rank < zero->nranks && !zero->ranks[zero->first_present_rank].optim)
        zero->first_present_rank++;
    return zero->first_present_rank < zero->nranks ? CKPT_OK
                                                   : fail(zero->ds->err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                                                          "{no} file of {=an optimizer} can be read");
}

/* read_stage_and_ranks - sets ds->zero_stage and allocates zero->ranks, by the first readable optimizer
 * file. */
static ckpt_status read_stage_and_ranks(struct zero *zero)
{
    struct deepspeed *ds = zero->ds;
    ckpt_file *part = NULL;
    uint64_t dp = 0;
    for (const struct ds_file *file = NULL;
         !part && (file = ds_next_file(&ds->save, DS_OPTIM, zero->mp_rank, file));) {
        CKPT_TRY(ds_open_file(ds, file->name, &part));
        dp = file->dp_rank;
    }
    if (!part)
        return fail(ds->err, CKPT_EFORMAT, CKPT_NO_OFFSET, "{no} file of {=an optimizer} can be read");
    const ckpt_value *state = ds_get(part->root, "optimizer_state_dict");
    const ckpt_value *stage = ds_get(state, "zero_stage"); /* an integer or a call of the enum */
    if (!value_integer(stage && stage->type == CKPT_V_CALL ? value_arg(stage, 0) : stage, &ds->stored_stage))
        ds->stored_stage = 0;
    ds->zero_stage = ds_get(state, "fp32_flat_groups") ? 3 : 2;
    zero->flat_key = ds->zero_stage == 3 ? "fp32_flat_groups" : "single_partition_of_fp32_groups";
    if (!ds_get(state, zero->flat_key))
        return fail_no_partitions(zero, part, "fp32_flat_groups or single_partition_of_fp32_groups");
    if (ds_get(state, "ds_zero_partition_groups")) {
        (void)fail(ds->err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
                   "partitions {by experts} cannot be put together\n"
                   "make a universal checkpoint of it: python -m deepspeed.checkpoint.ds_to_universal");
        return name_file_if_failed(CKPT_EUNSUPPORTED, part->path, ds->err);
    }
    uint64_t end, files = count_files(zero, DS_OPTIM, &end), n = count_ranks(state);
    if (n > MAX_RANKS || end > MAX_RANKS)
        return fail_rank_count(zero, files, n, "files");
    zero->nranks = (size_t)(n ? n : end);
    zero->ranks = arena_array(ds->f->a, zero->nranks, sizeof *zero->ranks);
    if (zero->ranks && dp < zero->nranks)
        zero->ranks[dp].optim = part;
    return zero->ranks ? CKPT_OK : fail_memory(ds->err);
}

static ckpt_status open_ranks(struct zero *zero)
{
    uint64_t end, files;
    CKPT_TRY(read_stage_and_ranks(zero));
    if (!zero->ranks) /* fail_rank_count reported it to `verify` */
        return CKPT_EFORMAT;
    CKPT_TRY(open_files_of_kind(zero, DS_OPTIM));
    files = count_files(zero, DS_OPTIM, &end);
    if (files > zero->nranks || end > zero->nranks)
        CKPT_TRY(fail_rank_count(zero, files > end ? files : end, zero->nranks, "optimizer files"));
    CKPT_TRY(open_files_of_kind(zero, DS_MODEL));
    CKPT_TRY(check_ranks(zero));
    zero->ds->dp_ranks = zero->nranks > zero->ds->dp_ranks ? zero->nranks : zero->ds->dp_ranks;
    return CKPT_OK;
}

/* -------------------------------------------------------------------- parameters */

static ckpt_status add_param(struct zero *zero, const value_pair *pair)
{
    struct zero_param *param = &zero->params[zero->nparams];
    struct deepspeed *ds = zero->ds;
    if (!value_text(pair->key, &param->tensor.name) ||
        !ds_read_shape(ds, pair->val, &param->tensor, &param->nelements))
        return fail(ds->err, CKPT_EFORMAT, value_offset(pair->val),
                    "param_shapes has {no} {=name with a shape}");
    param->is_tied = ds->pipeline_stages > 1 && map_get(ds->weights, param->tensor.name) != MAP_NONE;
    param->states = value_new(ds->f->a, CKPT_V_DICT, 0);
    zero->nparams++;
    return param->states ? CKPT_OK : fail_memory(ds->err);
}

/* get_shape_pairs - returns the *COUNT names and shapes of group GROUP. A mapping in place of a list is group
 * 0. */
static const value_pair *get_shape_pairs(const struct zero *zero, uint32_t group, uint32_t *count)
{
    const ckpt_value *shapes = value_is_sequence(zero->shapes) ? value_item(zero->shapes, group)
                               : group == 0                    ? zero->shapes
                                                               : NULL;
    *count = 0;
    return shapes ? value_pairs(shapes, count) : NULL;
}

static ckpt_status list_params(struct zero *zero, uint32_t from, uint32_t end)
{
    size_t count = 0;
    uint32_t n;
    for (uint32_t g = from; g < end; g++) {
        (void)get_shape_pairs(zero, g, &n);
        count += n;
    }
    zero->nparams = 0;
    zero->params = arena_array(zero->ds->f->a, count, sizeof *zero->params);
    CKPT_TRY_ALLOC(zero->params, zero->ds->err);
    for (uint32_t g = from; g < end; g++) {
        const value_pair *pairs = get_shape_pairs(zero, g, &n);
        for (uint32_t i = 0; i < n; i++)
            CKPT_TRY(add_param(zero, &pairs[i]));
    }
    return CKPT_OK;
}

/* count_share - returns how many of the COUNT elements of a parameter each rank has in ZeRO 3. */
static uint64_t count_share(const struct zero *zero, uint64_t count)
{
    return count / zero->nranks + (count % zero->nranks != 0);
}

/* set_first_elements - sets first_element of each parameter, and *END to the end of the last parameter. */
static ckpt_status set_first_elements(struct zero *zero, uint64_t *end)
{
    *end = 0;
    for (size_t i = 0; i < zero->nparams; i++) {
        struct zero_param *param = &zero->params[i];
        param->first_element = *end;
        if (!checked_add(*end,
                         zero->ds->zero_stage == 3 ? count_share(zero, param->nelements) : param->nelements,
                         end))
            return fail(zero->ds->err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                        "parameters of {more} than {=2^64 elements}");
    }
    return CKPT_OK;
}

/* ------------------------------------------------------------------ flat tensors */

/* get_base_state - returns the state of the optimizer that DeepSpeed wraps, as rank RANK has saved it. */
static const ckpt_value *get_base_state(const struct zero *zero, const struct zero_rank *rank)
{
    return ds_get(rank->state, zero->ds->zero_stage == 3 ? "optimizer_state_dict" : "base_optimizer_state");
}

/* get_partition - returns the partition that rank RANK has of group GROUP: of its state KEY or, if KEY is
 * NULL, of its parameters. */
static const ckpt_value *get_partition(const struct zero *zero, const struct zero_rank *rank, uint32_t group,
                                       const char *key)
{
    if (!key)
        return ds_get_numbered(ds_get(rank->state, zero->flat_key), group);
    const ckpt_value *base = get_base_state(zero, rank);
    return ds_get(ds_get_numbered(value_is_sequence(base) ? base : ds_get(base, "state"), group), key);
}

/* guess_length - returns how many elements the partition of a missing rank had: as many as those of other
 * ranks, except the last, which may have fewer. If no rank shows that, returns more than any partition has,
 * so that no element of a later rank gets a wrong offset. */
static uint64_t guess_length(const struct zero *zero, uint32_t group, const char *key)
{
    for (size_t i = 0; i < zero->nranks; i++) {
        const struct zero_rank *rank = &zero->ranks[i];
        ckpt_tensor room;
        const ckpt_tensor *t = rank->optim
                                   ? ds_find_row(rank->optim, get_partition(zero, rank, group, key), &room)
                                   : NULL;
        if (t && (i + 1 < zero->nranks || zero->ds->zero_stage == 3))
            return t->elements;
    }
    return (uint64_t)1 << 40;
}

/* fill_flats - sets zero->flats to the state KEY of COUNT groups from FROM on, or to their parameters if KEY
 * is NULL. */
static ckpt_status fill_flats(struct zero *zero, uint32_t from, uint32_t count, const char *key)
{
    zero->nflats = zero->ds->zero_stage == 3 ? zero->nranks : 1;
    zero->flats = arena_array(zero->ds->f->a, zero->nflats, sizeof *zero->flats);
    CKPT_TRY_ALLOC(zero->flats, zero->ds->err);
    for (uint32_t g = from; g < from + count; g++)
        for (size_t i = 0; i < zero->nranks; i++) {
            const struct zero_rank *rank = &zero->ranks[i];
            CKPT_TRY(ds_flat_add(zero->ds, &zero->flats[zero->nflats > 1 ? i : 0], rank->optim,
                                 rank->optim ? get_partition(zero, rank, g, key) : NULL,
                                 rank->optim ? 0 : guess_length(zero, g, key)));
        }
    for (size_t i = 1; i < zero->nflats; i++)
        if (zero->flats[i].nelements != zero->flats[0].nelements)
            return fail(zero->ds->err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                        "rank %zu has partitions of {%" PRIu64 " elements}, rank 0 of {=%" PRIu64 "}", i,
                        zero->flats[i].nelements, zero->flats[0].nelements);
    return CKPT_OK;
}

/* check_partition_starts - checks that each rank has the same elements of zero->flats as of
 * zero->weight_flats. */
static ckpt_status check_partition_starts(struct zero *zero)
{
    bool same = true;
    for (size_t i = 0; same && i < zero->nflats; i++) {
        const struct ds_flat *a = &zero->weight_flats[i], *b = &zero->flats[i];
        same = a->npartitions == b->npartitions;
        for (size_t k = 0; same && k < a->npartitions; k++)
            same = a->partitions[k].start == b->partitions[k].start;
    }
    return same ? CKPT_OK
                : fail(zero->ds->err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                       "{other lengths} of partitions than {=those of the parameters}");
}

/* check_padding - checks that the flat tensors have only padding after END, where the parameters end. */
static ckpt_status check_padding(struct zero *zero, uint64_t end)
{
    uint64_t total = zero->flats[0].nelements,
             unit = 2 * (uint64_t)zero->nranks; /* of padding, in zero_to_fp32.py */
    bool fits = zero->ds->zero_stage == 3 ? total == end : end <= total && (end == 0) == (total == 0);
    if (fits && end) /* both round up to the same multiple of UNIT */
        fits = (end - 1) / unit == (total - 1) / unit;
    for (size_t i = 0; i < zero->nranks; i++)
        if (!zero->ranks[i].optim)
            return CKPT_OK; /* guess_length invented the length of this rank's partition */
    return fits ? CKPT_OK
                : fail(zero->ds->err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                       "the partitions have {%" PRIu64 " elements}, the parameters take {=%" PRIu64 "}",
                       total, end);
}

/* add_param_slices - adds the elements that each rank has of PARAM to the tensor that is being assembled. */
static ckpt_status add_param_slices(struct zero *zero, const struct zero_param *param)
{
    struct deepspeed *ds = zero->ds;
    uint64_t share = count_share(zero, param->nelements);
    if (ds->zero_stage < 3)
        return ds_add_slice(ds, zero->flats, param->first_element, param->nelements, 0);
    for (size_t i = 0; i < zero->nranks && share; i++) {
        uint64_t from = i * share;
        if (from >= param->nelements)
            break;
        CKPT_TRY(ds_add_slice(ds, &zero->flats[i], param->first_element,
                              param->nelements - from < share ? param->nelements - from : share, from));
    }
    return CKPT_OK;
}

static ckpt_status assemble_param(struct zero *zero, struct zero_param *param)
{
    param->tensor.dtype = zero->flats[0].dtype;
    for (size_t i = 1; i < zero->nflats && !param->tensor.dtype; i++)
        param->tensor.dtype = zero->flats[i].dtype;
    ckpt_status st = add_param_slices(zero, param);
    return prefix_where_if_failed(st, param->tensor.name, zero->ds->err);
}

/* ------------------------------------------------------------------------ groups */

static ckpt_status put_weights(struct zero *zero)
{
    for (size_t i = 0; i < zero->nparams; i++) {
        if (zero->params[i].is_tied)
            continue;
        CKPT_TRY(assemble_param(zero, &zero->params[i]));
        CKPT_TRY(ds_end_parameter(zero->ds, &zero->params[i].tensor));
    }
    return CKPT_OK;
}

static ckpt_status put_state(struct zero *zero, struct zero_param *param, ckpt_str key, ckpt_value *node)
{
    ckpt_value *k = value_str(zero->ds->f->a, key);
    return k && value_put(zero->ds->f->a, param->states, k, node) ? CKPT_OK : fail_memory(zero->ds->err);
}

ckpt_str ds_state_name(struct deepspeed *ds, ckpt_str name, ckpt_str key)
{
    return ARENA_CONCAT(ds->f->a, STR_LIT("optimizer.state."), name, STR_LIT("."), key);
}

/* put_flat_state - adds the state KEY, partitioned like the parameters, of COUNT groups from FROM on. */
static ckpt_status put_flat_state(struct zero *zero, uint32_t from, uint32_t count, ckpt_str key)
{
    ckpt_value *node;
    ckpt_status st = fill_flats(zero, from, count, key.ptr);
    CKPT_THEN(st, check_partition_starts(zero));
    CKPT_TRY(prefix_where_if_failed(st, key, zero->ds->err));
    for (size_t i = 0; i < zero->nparams; i++) {
        struct zero_param *param = &zero->params[i];
        CKPT_TRY(assemble_param(zero, param));
        struct joined_tensor t = param->tensor;
        t.name = ds_state_name(zero->ds, param->tensor.name, key);
        CKPT_TRY(t.name.ptr ? ds_end_tensor(zero->ds, &t, &node) : fail_memory(zero->ds->err));
        CKPT_TRY(put_state(zero, param, key, node));
    }
    return CKPT_OK;
}

static bool is_scalar(const ckpt_value *value)
{
    return value->type == CKPT_V_INT || value->type == CKPT_V_BIGINT || value->type == CKPT_V_FLOAT ||
           value->type == CKPT_V_BOOL || value->type == CKPT_V_STR || value->type == CKPT_V_NONE;
}

/* put_common_state - adds the state KEY, such as `step`, which all parameters of the groups share. */
static ckpt_status put_common_state(struct zero *zero, ckpt_str key, ckpt_value *value)
{
    for (size_t i = 0; i < zero->nparams; i++) {
        struct zero_param *param = &zero->params[i];
        ckpt_value *node = is_scalar(value) ? value : NULL;
        ckpt_str name = ds_state_name(zero->ds, param->tensor.name, key);
        if (!node && name.ptr)
            CKPT_TRY(ds_add_copy(zero->ds, zero->ranks[zero->first_present_rank].optim, value, name, &node));
        if (node)
            CKPT_TRY(put_state(zero, param, key, node));
        zero->has_omitted_state |= !node;
    }
    return CKPT_OK;
}

/* is_partitioned - returns true if the state VALUE, called KEY, is partitioned like the parameters of group
 * GROUP. */
static bool is_partitioned(const struct zero *zero, ckpt_str key, const ckpt_value *value, uint32_t group)
{
    const struct zero_rank *rank = &zero->ranks[zero->first_present_rank];
    ckpt_tensor room, weights_room;
    const ckpt_tensor *t = ds_find_row(rank->optim, value, &room),
                      *weights = ds_find_row(rank->optim, get_partition(zero, rank, group, NULL),
                                             &weights_room);
    return t && weights && t->ndim == 1 && t->has_shape && !str_is(key, "step") &&
           (t->elements == weights->elements ||
            (zero->ds->zero_stage < 3 && t->elements > weights->elements));
}

static ckpt_status put_states(struct zero *zero, uint32_t from, uint32_t count)
{
    uint32_t npairs = 0;
    ckpt_str key;
    const struct zero_rank *rank = &zero->ranks[zero->first_present_rank];
    const ckpt_value *base = get_base_state(zero, rank);
    const ckpt_value *first = ds_get_numbered(value_is_sequence(base) ? base : ds_get(base, "state"), from);
    const value_pair *pairs = first ? value_pairs(first, &npairs) : NULL;
    for (uint32_t i = 0; pairs && i < npairs; i++) {
        ckpt_value *v = pairs[i].val;
        ckpt_tensor room;
        const ckpt_tensor *t = ds_find_row(rank->optim, v, &room);
        if (!value_text(pairs[i].key, &key))
            continue;
        if (is_partitioned(zero, key, v, from))
            CKPT_TRY(put_flat_state(zero, from, count, key));
        else if (!t || t->ndim == 0 || t->elements <= 1)
            CKPT_TRY(put_common_state(zero, key, v));
        else
            zero->has_omitted_state = true;
    }
    for (size_t i = 0; i < zero->nparams; i++) {
        if (zero->params[i].is_tied || !zero->params[i].states->u.dict.n)
            continue;
        ckpt_value *name = value_str(zero->ds->f->a, zero->params[i].tensor.name);
        CKPT_TRY_ALLOC(name && value_put(zero->ds->f->a, zero->ds->state, name, zero->params[i].states),
                       zero->ds->err);
    }
    return CKPT_OK;
}

/* read_groups - reads the COUNT groups from FROM on, with their optimizer states. */
static ckpt_status read_groups(struct zero *zero, uint32_t from, uint32_t count)
{
    uint64_t end;
    CKPT_TRY(zero->ds->zero_stage == 3 ? list_params(zero, 0, zero->ngroups)
                                       : list_params(zero, from, from + count));
    CKPT_TRY(set_first_elements(zero, &end));
    CKPT_TRY(fill_flats(zero, from, count, NULL));
    CKPT_TRY(check_padding(zero, end));
    zero->weight_flats = zero->flats;
    CKPT_TRY(put_weights(zero));
    return put_states(zero, from, count);
}

/* is_cut_over_all_ranks - returns true if group GROUP is cut over all ranks. Groups of experts are cut over
 * the ranks that have the same experts. */
static bool is_cut_over_all_ranks(const struct zero *zero, uint32_t group)
{
    int64_t n;
    const ckpt_value *count = ds_get(zero->ranks[zero->first_present_rank].state, "partition_count");
    const ckpt_value *of_group = value_is_sequence(count) ? value_item(count, group) : NULL;
    return !of_group || !value_integer(of_group, &n) || n <= 0 || (uint64_t)n == zero->nranks;
}

static ckpt_status read_all_groups(struct zero *zero)
{
    struct deepspeed *ds = zero->ds;
    const ckpt_value *flats = ds_get(zero->ranks[zero->first_present_rank].state, zero->flat_key);
    uint32_t n = value_count(flats);
    zero->ngroups = value_is_sequence(zero->shapes) ? value_count(zero->shapes) : 1;
    if (!value_is_sequence(flats) || !zero->shapes || (ds->zero_stage < 3 && n != zero->ngroups))
        return fail(ds->err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                    "partitions for {%u group%s}, param_shapes has {=%u}", n, n == 1 ? "" : "s",
                    zero->shapes ? zero->ngroups : 0);
    if (ds->zero_stage == 3) /* flat groups are cut by size, not between parameters */
        return read_groups(zero, 0, n);
    for (uint32_t g = 0; g < zero->ngroups; g++) {
        if (is_cut_over_all_ranks(zero, g))
            CKPT_TRY(read_groups(zero, g, 1));
        else
            file_notice(ds->f,
                        "group %u of the optimizer is cut by experts: their 32-bit weights and states "
                        "are left out, the weights of the model are taken",
                        g);
    }
    return CKPT_OK;
}

/* ------------------------------------------------------------------------ frozen */

/* get_frozen_share - returns RANK's share of the frozen parameter NAME, which usually is entry INDEX. */
static const ckpt_value *get_frozen_share(const struct zero_rank *rank, uint32_t index, ckpt_str name)
{
    uint32_t n;
    ckpt_str key;
    const ckpt_value *all = ds_get(rank->model->root, "frozen_param_fragments");
    const value_pair *pairs = all ? value_pairs(all, &n) : NULL;
    if (pairs && index < n && value_text(pairs[index].key, &key) && str_eq(key, name))
        return pairs[index].val;
    return pairs && name.len == strlen(name.ptr) /* ds_get stops at a NUL */ ? ds_get(all, name.ptr) : NULL;
}

/* read_frozen_param - assembles the frozen parameter PAIR, entry INDEX of frozen_param_shapes. */
static ckpt_status read_frozen_param(struct zero *zero, const value_pair *pair, uint32_t index)
{
    struct deepspeed *ds = zero->ds;
    struct zero_param param = {.first_element = 0};
    if (!value_text(pair->key, &param.tensor.name) ||
        !ds_read_shape(ds, pair->val, &param.tensor, &param.nelements))
        return fail(ds->err, CKPT_EFORMAT, value_offset(pair->val),
                    "frozen_param_shapes has {no} {=name with a shape}");
    for (size_t k = 0; k < zero->nranks; k++) {
        const struct zero_rank *rank = &zero->ranks[k];
        zero->flats[k] = (struct ds_flat){.npartitions = 0};
        ckpt_status st = ds_flat_add(ds, &zero->flats[k], rank->model,
                                     rank->model ? get_frozen_share(rank, index, param.tensor.name) : NULL,
                                     count_share(zero, param.nelements));
        CKPT_TRY(prefix_where_if_failed(st, param.tensor.name, ds->err));
    }
    CKPT_TRY(assemble_param(zero, &param));
    return ds_end_parameter(ds, &param.tensor);
}

static ckpt_status read_frozen_params(struct zero *zero, const ckpt_file *model)
{
    uint32_t n = 0;
    ckpt_str name;
    const ckpt_value *shapes = ds_get(model->root, "frozen_param_shapes");
    const value_pair *pairs = shapes ? value_pairs(shapes, &n) : NULL;
    zero->nflats = zero->nranks;
    zero->flats = arena_array(zero->ds->f->a, zero->nflats, sizeof *zero->flats);
    CKPT_TRY_ALLOC(zero->flats, zero->ds->err);
    for (uint32_t i = 0; i < n; i++)
        if (!value_text(pairs[i].key, &name) || map_get(zero->ds->weights, name) == MAP_NONE)
            CKPT_TRY(read_frozen_param(zero, &pairs[i], i));
    return CKPT_OK;
}

/* ------------------------------------------------------------------ param_groups */

static ckpt_status append_param_names(struct zero *zero, uint32_t group, ckpt_value *list)
{
    uint32_t n;
    ckpt_str name;
    const value_pair *pairs = get_shape_pairs(zero, group, &n);
    for (uint32_t i = 0; i < n; i++) {
        ckpt_value *v = value_text(pairs[i].key, &name) ? value_str(zero->ds->f->a, name) : NULL;
        CKPT_TRY_ALLOC(v && value_append(zero->ds->f->a, list, v), zero->ds->err);
    }
    return CKPT_OK;
}

static bool is_scalar_list(const ckpt_value *value)
{
    bool scalars = value_is_sequence(value);
    for (uint32_t i = 0; scalars && i < value_count(value); i++)
        scalars = is_scalar(value_item(value, i));
    return scalars;
}

/* fill_param_group - fills TO with the scalars of GROUP, param_group INDEX, and the names of its
 * parameters. */
static ckpt_status fill_param_group(struct zero *zero, const ckpt_value *group, uint32_t index,
                                    ckpt_value *to)
{
    arena *a = zero->ds->f->a;
    uint32_t n = 0;
    int64_t g;
    const value_pair *pairs = group ? value_pairs(group, &n) : NULL;
    const ckpt_value *params = ds_get(group, "params");
    ckpt_value *list = value_new(a, CKPT_V_LIST, 0), *key = value_str(a, STR_LIT("params"));
    for (uint32_t k = 0; k < n; k++) {
        if (pairs[k].val == params || !(is_scalar(pairs[k].val) || is_scalar_list(pairs[k].val)))
            continue;
        CKPT_TRY_ALLOC(value_put(a, to, pairs[k].key, pairs[k].val), zero->ds->err);
    }
    CKPT_TRY_ALLOC(list && key && value_put(a, to, key, list), zero->ds->err);
    if (!params) /* then group INDEX of the optimizer is group INDEX of param_shapes */
        return append_param_names(zero, index, list);
    for (uint32_t k = 0; k < value_count(params); k++)
        if (value_integer(value_item(params, k), &g) && g >= 0 && g < zero->ngroups)
            CKPT_TRY(append_param_names(zero, (uint32_t)g, list));
    return CKPT_OK;
}

ckpt_status ds_add_param_groups(struct deepspeed *ds, const ckpt_value *shapes, const ckpt_value *groups)
{
    struct zero z = {.ds = ds, .shapes = shapes};
    z.ngroups = value_is_sequence(shapes) ? value_count(shapes) : shapes != NULL;
    for (uint32_t i = 0, n = groups ? value_count(groups) : z.ngroups; i < n; i++) {
        ckpt_value *to = value_new(ds->f->a, CKPT_V_DICT, 0);
        CKPT_TRY_ALLOC(to && value_append(ds->f->a, ds->groups, to), ds->err);
        CKPT_TRY(fill_param_group(&z, value_item(groups, i), i, to));
    }
    return CKPT_OK;
}

/* -------------------------------------------------------------------------- read */

ckpt_status ds_read_zero(struct deepspeed *ds, uint64_t mp)
{
    struct zero z = {.ds = ds, .mp_rank = mp};
    ckpt_file *model = NULL;
    CKPT_TRY(open_ranks(&z));
    for (size_t i = 0; i < z.nranks && !model; i++)
        model = z.ranks[i].model;
    if (!model)
        return fail(ds->err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                    "{no} file of {=a model} can be read: nothing has a name");
    ds->model = ds->model ? ds->model : model;
    z.shapes = ds_get(model->root, "param_shapes");
    CKPT_TRY(read_all_groups(&z));
    if (ds->zero_stage == 3)
        CKPT_TRY(read_frozen_params(&z, model));
    if (z.has_omitted_state)
        file_notice(ds->f,
                    "some states of the optimizer do not have the shapes of its parameters, and are left "
                    "out");
    const ckpt_value *base = get_base_state(&z, &z.ranks[z.first_present_rank]);
    return ds_add_param_groups(ds, z.shapes, value_is_sequence(base) ? NULL : ds_get(base, "param_groups"));
}

ckpt_status ds_read_frozen_params(struct deepspeed *ds)
{
    struct zero z = {.ds = ds};
    uint64_t end, files = count_files(&z, DS_MODEL, &end);
    if (end > MAX_RANKS)
        return fail_rank_count(&z, end, files, "model files");
    z.nranks = (size_t)end;
    z.ranks = arena_array(ds->f->a, z.nranks, sizeof *z.ranks);
    CKPT_TRY_ALLOC(z.ranks, ds->err);
    CKPT_TRY(open_files_of_kind(&z, DS_MODEL));
    ds->dp_ranks = z.nranks;
    return read_frozen_params(&z, ds->model);
}
