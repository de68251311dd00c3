/* megatron.c - reads checkpoints of Megatron-LM: each tensor- and pipeline-parallel rank has a folder.
 *
 *   latest_checkpointed_iteration.txt        the last save: an iteration such as 100, or "release"
 *   iter_0000100/mp_rank_TT/                 tensor-parallel rank TT
 *   iter_0000100/mp_rank_TT_PPP/             tensor-parallel rank TT of pipeline stage PPP
 *     model_optim_rng.pt, model_rng.pt       torch.save of {"model", "args", "iteration"};
 *                                            "model0", "model1" … if stages are interleaved: each stage
 *                                            has several chunks of the model
 *   iter_0000100/.metadata, metadata.json    in place of the ranks: format torch_dist, read by dcp.c
 *
 * The result is the complete model, with the names below "model". The rules in megatron_rules.def, or those
 * of the user, state which part of a tensor each rank has. Every stage numbers its layers from 0, so they
 * are renumbered. Left out: the copy of a tied embedding in the last stage, optimizers, random states.
 *
 * Refused: a missing rank, expert parallelism, a tensor without a rule. The rows of the embedding on all
 * tensor-parallel ranks must add up to padded_vocab_size in `args`, the layers of all stages to num_layers.
 * tensor_model_parallel_size is not reliable, because a conversion may not have updated it.
 *
 * Sources: megatron/training/checkpointing.py, core/transformer/transformer_block.py. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/check.h"
#include "format/distributed/megatron_rules.h"
#include "format/files/folder.h"
#include "format/graph/walk.h"
#include "format/nested.h"
#include "format/parts/part_files.h"
#include "format/parts/part_graph.h"
#include "format/parts/sharded_tensors.h"
#include "format/registry.h"

#define TRACKER   "latest_checkpointed_iteration.txt"
#define METADATA  ".metadata" /* of a Distributed Checkpoint */
#define MAX_RANKS 100000u
#define MAX_TEXT  250u /* bytes of the error that lists tensors without a rule */
#define ALL_RANKS_HINT                                                                                       \
    "put the folders of all ranks next to each other; `ckpt ls` shows the file of one alone"

struct megatron_rank {
    uint64_t tensor_rank, stage; /* in the name of the folder */
    ckpt_file *part;             /* NULL: unreadable and reported */
    bool is_graph_taken;         /* part_graph_take was called */
};

/* The layers with the same prefix, such as "decoder.layers.". */
struct layer_stack {
    uint64_t first_layer; /* the number that layer 0 of the current stage gets */
    uint64_t end_layer;   /* 1 + the greatest number so far */
};

struct megatron {
    ckpt_file *f;
    ckpt_error *err;
    struct sharded_tensors sharded;
    struct nested tree;
    struct megatron_rules rules;
    struct megatron_rank *ranks; /* by stage, then by tensor-parallel rank */
    size_t nranks;
    uint64_t tensor_ranks;     /* how many tensor-parallel ranks */
    uint64_t stages;           /* how many pipeline stages */
    uint64_t chunks;           /* how many chunks of the model each stage has */
    const ckpt_value *args;    /* state of the Namespace `args` of the first rank, or NULL */
    double checkpoint_version; /* 0: the file has none */
    map *stack_of;             /* prefix -> index into stacks */
    struct layer_stack *stacks;
    size_t nstacks, cap_stacks;
    map *virtual_stage_of;        /* tensor name -> chunk * stages + stage of the ranks that have it */
    ckpt_str unmatched_text;      /* tensors without a rule, as text for the error */
    uint64_t nunmatched, nlisted; /* how many they are, and how many are in the text */
    bool has_stages;              /* the names of the folders have the number of a stage */
};

/* ------------------------------------------------------------------------ folders */

/* parse_rank - reads the numbers of NAME, mp_rank_TT[_PPP[_EEE]]. Returns how many there are; 0: NAME has a
 * different form. */
static unsigned parse_rank(ckpt_str name, uint64_t number[3])
{
    unsigned n = 0;
    bool good = true;
    for (; good && name.len && n < 3; n++)
        good = part_name_skip(&name, n ? "_" : "mp_rank_", &number[n]) && number[n] < MAX_RANKS;
    return good && !name.len ? n : 0;
}

static bool is_rank_folder(ckpt_str name)
{
    uint64_t number[3];
    return parse_rank(name, number) > 0;
}

static bool is_iteration_folder(ckpt_str name)
{
    uint64_t n;
    return str_is(name, "release") || (part_name_skip(&name, "iter_", &n) && !name.len);
}
static bool is_verl_step(ckpt_str name) { return str_starts(name, STR_LIT("global_step_")); }

static bool probe(const struct probe *this_probe)
{
    return probe_matches(this_probe, is_rank_folder) ||
           (probe_has(this_probe, TRACKER) && !probe_matches(this_probe, is_verl_step)) ||
           (probe_has(this_probe, METADATA) && probe_has(this_probe, "metadata.json"));
}

static bool is_tracker_content(ckpt_str word)
{
    uint64_t number;
    return str_is(word, "release") || str_uint(word, &number);
}

static ckpt_status enter_last_iteration(struct megatron *megatron)
{
    uint64_t number;
    ckpt_str name;
    const struct tracker_file tracker = {TRACKER, "number or \"release\"", is_tracker_content,
                                         is_iteration_folder};
    if (!probe_has(megatron->f->opening->probe, TRACKER))
        return CKPT_OK;
    CKPT_TRY(tracker_file_read(megatron->f, &tracker, &name, megatron->err));
    if (str_uint(name, &number))
        name = arena_printf(megatron->f->a, "iter_%07" PRIu64, number);
    return name.ptr ? tracker_file_enter(megatron->f, &tracker, name, megatron->err)
                    : fail_memory(megatron->err);
}

/* ------------------------------------------------------------------------- values */

static bool find_positive_arg(const struct megatron *megatron, const char *name, uint64_t *out)
{
    int64_t n;
    if (!value_integer(value_get(megatron->args, name), &n) || n <= 0)
        return false;
    *out = (uint64_t)n;
    return true;
}

static bool is_arg_true(const struct megatron *megatron, const char *name)
{
    const ckpt_value *v = value_get(megatron->args, name);
    return v && v->type == CKPT_V_BOOL && v->u.b;
}

static void read_arguments(struct megatron *megatron, const ckpt_file *part)
{
    int64_t n;
    const ckpt_value *version = value_get(part->root, "checkpoint_version");
    megatron->args = value_get(part->root, "args");
    megatron->args = megatron->args ? value_state(megatron->args) : NULL;
    if (version && version->type == CKPT_V_FLOAT)
        megatron->checkpoint_version = version->u.f;
    else if (value_integer(version, &n))
        megatron->checkpoint_version = (double)n;
    if (value_integer(value_get(part->root, "iteration"), &n) && n >= 0) {
        megatron->f->ranks.has_step = true;
        megatron->f->ranks.step = (uint64_t)n;
    }
}

/* -------------------------------------------------------------------------- names */

/* parse_chunk - sets *CHUNK to the model chunk that PATH is in: 1 for ("model1", …). False: PATH is not in
 * the model. */
static bool parse_chunk(const ckpt_path_elem *path, uint32_t count, uint64_t *chunk)
{
    *chunk = 0;
    if (count < 2 || path[0].is_int || !str_starts(path[0].str, STR_LIT("model")))
        return false;
    ckpt_str digits = str_skip(path[0].str, strlen("model"));
    return !digits.len || (str_uint(digits, chunk) && *chunk < MAX_RANKS);
}

/* find_layer - finds the layer number in NAME, such as 3 in "decoder.layers.3.mlp": bytes *FROM to *TO. */
static bool find_layer(ckpt_str name, size_t *from, size_t *to)
{
    size_t at = 0;
    while ((at = str_find(name, STR_LIT("layers."), at)) != SIZE_MAX) {
        *from = *to = at + strlen("layers.");
        while (*to < name.len && name.ptr[*to] >= '0' && name.ptr[*to] <= '9')
            ++*to;
        if ((at == 0 || name.ptr[at - 1] == '.') && *to > *from && *to < name.len && name.ptr[*to] == '.')
            return true;
        at = *to;
    }
    return false;
}

static ckpt_status find_stack(struct megatron *megatron, ckpt_str prefix, struct layer_stack **out)
{
    uint32_t i;
    ckpt_str key = arena_str(megatron->f->a, prefix);
    CKPT_TRY_ALLOC(key.ptr && map_put(megatron->stack_of, key, (uint32_t)megatron->nstacks, &i),
                   megatron->err);
    if (i == MAP_NONE) {
        const struct layer_stack empty = {0, 0};
        i = (uint32_t)megatron->nstacks;
        CKPT_TRY_ALLOC(ARENA_PUSH(megatron->f->a, megatron, stacks, &empty), megatron->err);
    }
    *out = &megatron->stacks[i];
    return CKPT_OK;
}

/* renumber_layer - replaces the layer number in ELEM, if there is one, by that in the complete model. */
static ckpt_status renumber_layer(struct megatron *megatron, ckpt_path_elem *elem)
{
    size_t from, to;
    uint64_t n;
    struct layer_stack *s = NULL;
    if (elem->is_int || !find_layer(elem->str, &from, &to))
        return CKPT_OK;
    if (!str_uint(str_of(elem->str.ptr + from, to - from), &n) || n > UINT32_MAX)
        return fail(megatron->err, CKPT_EFORMAT, CKPT_NO_OFFSET, "{more} than {=2^32 layers}");
    CKPT_TRY(find_stack(megatron, str_of(elem->str.ptr, from), &s));
    if (!checked_add(n, s->first_layer, &n) || n == UINT64_MAX)
        return fail(megatron->err, CKPT_EFORMAT, CKPT_NO_OFFSET, "{more} than {=2^32 layers}");
    s->end_layer = n + 1 > s->end_layer ? n + 1 : s->end_layer;
    if (!s->first_layer)
        return CKPT_OK;
    char number[STR_NUMBER_MAX];
    elem->str = ARENA_CONCAT(megatron->f->a, str_of(elem->str.ptr, from), format_number(n, number),
                             str_skip(elem->str, to));
    return elem->str.ptr ? CKPT_OK : fail_memory(megatron->err);
}

/* end_stage - makes the layer numbers of the next stage begin after the greatest ones so far. */
static void end_stage(struct megatron *megatron)
{
    for (size_t i = 0; i < megatron->nstacks; i++)
        megatron->stacks[i].first_layer = megatron->stacks[i].end_layer;
}

/* The name and path of a tensor or value in the complete model. */
struct model_name {
    ckpt_path_elem *path;
    uint32_t npath;
    ckpt_str joined;
};

/* make_name - sets *OUT to PATH without "model" and with the layer renumbered. */
static ckpt_status make_name(struct megatron *megatron, const ckpt_path_elem *path, uint32_t count,
                             struct model_name *out)
{
    out->path = path_copy(megatron->f->a, path + 1, count - 1);
    out->npath = count - 1;
    CKPT_TRY_ALLOC(out->path, megatron->err);
    for (uint32_t i = 0; i < out->npath; i++)
        CKPT_TRY(renumber_layer(megatron, &out->path[i]));
    out->joined = path_join(megatron->f->a, out->path, out->npath);
    return out->joined.ptr ? CKPT_OK : fail_memory(megatron->err);
}

/* ------------------------------------------------------------------------ tensors */

/* name_next_layer - returns the name of the weight of the second layer of an MLP if NAME is the weight or
 * bias of the first layer; else empty text. */
static ckpt_str name_next_layer(arena *a, ckpt_str name)
{
    static const char *const layers[][2] = {{"linear_fc1.", "linear_fc2."},
                                            {"dense_h_to_4h.", "dense_4h_to_h."}};
    for (size_t i = 0; i < 2; i++) {
        ckpt_str first = str_c(layers[i][0]), tail;
        size_t at = str_find(name, first, 0);
        if (at == SIZE_MAX)
            continue;
        tail = str_skip(name, at + first.len);
        tail = str_skip(tail, strlen(str_starts(tail, STR_LIT("bias")) ? "bias" : "weight"));
        return ARENA_CONCAT(a, str_of(name.ptr, at), str_c(layers[i][1]), STR_LIT("weight"), tail);
    }
    return str_of("", 0);
}

/* count_gated_parts - sets *PARTS to 2 if TENSOR, the first layer of an MLP, is gated (SwiGLU), else to 1. */
static ckpt_status count_gated_parts(struct megatron *megatron, const ckpt_file *part,
                                     const ckpt_tensor *tensor, uint32_t *parts)
{
    ckpt_str name = name_next_layer(megatron->f->a, tensor->name);
    uint32_t row = name.len ? file_find_tensor((ckpt_file *)(uintptr_t)part, name) : CKPT_NO_TENSOR;
    const ckpt_tensor next = row == CKPT_NO_TENSOR ? (ckpt_tensor){0} : table_tensor(&part->table, row);
    uint64_t columns = next.ndim == 2 ? next.shape[1] : 0;
    if (columns && tensor->ndim && tensor->shape[0] == columns)
        *parts = 1;
    else if (columns && tensor->ndim && tensor->shape[0] / 2 == columns && tensor->shape[0] % 2 == 0)
        *parts = 2;
    else
        return fail(megatron->err, CKPT_EUNSUPPORTED, tensor->file_offset,
                    "it is not clear whether it is gated: it has {%" PRIu64 " rows}, and the next layer "
                    "takes {=%" PRIu64 "}",
                    tensor->ndim ? tensor->shape[0] : 0, columns);
    return CKPT_OK;
}

static ckpt_status list_unmatched_tensor(struct megatron *megatron, ckpt_str name, const ckpt_tensor *tensor)
{
    char shape[128] = "";
    size_t n = 0;
    for (uint32_t k = 0; k < tensor->ndim && n + 24 < sizeof shape; k++)
        n += (size_t)snprintf(shape + n, sizeof shape - n, k ? ", %" PRIu64 : "%" PRIu64, tensor->shape[k]);
    if (megatron->nunmatched++ && megatron->unmatched_text.len + name.len + n > MAX_TEXT)
        return CKPT_OK;
    megatron->nlisted++;
    megatron->unmatched_text = ARENA_CONCAT(megatron->f->a, megatron->unmatched_text,
                                            str_c(megatron->unmatched_text.len ? ", " : ""), name,
                                            STR_LIT(" ["), str_c(shape), STR_LIT("]"));
    return megatron->unmatched_text.ptr ? CKPT_OK : fail_memory(megatron->err);
}

static ckpt_status fail_unmatched_tensors(struct megatron *megatron)
{
    if (!megatron->nunmatched)
        return CKPT_OK;
    (void)fail(megatron->err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
               "{%" PRIu64 " tensor%s} without {=a rule} for how %" PRIu64 " ranks divide %s: %.*s%s",
               megatron->nunmatched, megatron->nunmatched == 1 ? "" : "s", megatron->tensor_ranks,
               megatron->nunmatched == 1 ? "it" : "them", (int)megatron->unmatched_text.len,
               megatron->unmatched_text.ptr, megatron->nunmatched > megatron->nlisted ? ", …" : "");
    error_add_hint(megatron->err,
                   "--parallel FILE.json with {\"GLOB\": 0} for what is cut along dimension 0, null for "
                   "copies; `ckpt ls` of a rank's file lists its parts");
    return CKPT_EUNSUPPORTED;
}

/* How the ranks divide a tensor. */
struct division {
    bool is_cut;         /* each rank has a part; false: each rank has a copy */
    uint32_t dim, parts; /* as in megatron_rule: matrices along DIM, each of which the ranks divide */
};

/* find_division - sets *OUT to how the ranks divide TENSOR, a row of PART that is NAME in the model. Sets
 * *KNOWN to false if there is no rule for it. */
static ckpt_status find_division(struct megatron *megatron, const ckpt_file *part, ckpt_str name,
                                 const ckpt_tensor *tensor, struct division *out, bool *known)
{
    const struct megatron_rule *rule = megatron->tensor_ranks > 1
                                           ? megatron_rules_find(&megatron->rules, name)
                                           : NULL;
    *out = (struct division){.is_cut = rule && rule->how != MEGATRON_COPIED, .parts = 1};
    *known = rule || megatron->tensor_ranks == 1;
    if (!out->is_cut)
        return *known ? CKPT_OK : list_unmatched_tensor(megatron, name, tensor);
    out->dim = rule->dim;
    out->parts = rule->how == MEGATRON_FUSED && megatron->checkpoint_version >= 1 ? 1 : rule->parts;
    if (rule->how == MEGATRON_GATED)
        CKPT_TRY(count_gated_parts(megatron, part, tensor, &out->parts));
    if (out->dim < tensor->ndim && tensor->shape[out->dim] % out->parts == 0)
        return CKPT_OK;
    return fail(megatron->err, CKPT_EUNSUPPORTED, tensor->file_offset,
                "{a tensor of %u dimension%s} does not fit its rule: {=dimension %u in %u part%s}",
                tensor->ndim, tensor->ndim == 1 ? "" : "s", out->dim, out->parts, out->parts == 1 ? "" : "s");
}

/* add_shards - adds the DIVISION->parts shards of the tensor NAME that are in row ROW of RANK. */
static ckpt_status add_shards(struct megatron *megatron, const struct megatron_rank *rank, uint32_t row,
                              ckpt_str name, const struct division *division)
{
    const ckpt_tensor t = table_tensor(&rank->part->table, row);
    uint64_t *shape = arena_array(megatron->f->a, 2 * (uint64_t)t.ndim, sizeof *shape);
    CKPT_TRY_ALLOC(shape, megatron->err);
    uint64_t *size = shape + t.ndim, begin = 0;
    for (uint32_t k = 0; k < t.ndim; k++)
        shape[k] = size[k] = t.shape[k];
    if (division->is_cut && !checked_mul(shape[division->dim], megatron->tensor_ranks, &shape[division->dim]))
        return fail(megatron->err, CKPT_EFORMAT, t.file_offset, "{more} than {=2^64 elements}");
    if (division->is_cut)
        size[division->dim] /= division->parts;
    for (uint32_t i = 0; i < division->parts; i++) {
        uint64_t *offset = arena_array(megatron->f->a, 2 * (uint64_t)t.ndim, sizeof *offset);
        CKPT_TRY_ALLOC(offset, megatron->err);
        uint64_t *block_offset = offset + t.ndim;
        if (division->is_cut) {
            block_offset[division->dim] = begin;
            offset[division->dim] = begin * megatron->tensor_ranks;
            offset[division->dim] += rank->tensor_rank * size[division->dim];
            begin += size[division->dim];
        }
        const struct tensor_shard shard = {rank->part, row, offset, block_offset, size};
        CKPT_TRY(sharded_tensors_add(&megatron->sharded, name, shape, &shard));
    }
    return CKPT_OK;
}

/* is_tied_embedding - returns true if NAME of STAGE is a copy of the embedding in the first one. */
static bool is_tied_embedding(const struct megatron *megatron, ckpt_str name, uint32_t stage)
{
    if (megatron->stages == 1 || stage == 0)
        return false;
    if (str_ends(name, STR_LIT("word_embeddings.weight")))
        return map_get(megatron->sharded.index_of, name) != MAP_NONE;
    if (str_ends(name, STR_LIT("word_embeddings_for_head.weight")))
        return true;
    return str_is(name, "output_layer.weight") &&
           !is_arg_true(megatron, "untie_embeddings_and_output_weights");
}

/* add_node_once - adds a node for the tensor NAME to the tree, unless an earlier rank of STAGE had
 * the tensor, too. Refuses a tensor that two virtual stages have. */
static ckpt_status add_node_once(struct megatron *megatron, const struct model_name *name, uint32_t stage)
{
    uint32_t before;
    CKPT_TRY_ALLOC(map_put(megatron->virtual_stage_of, name->joined, stage, &before), megatron->err);
    if (before == stage)
        return CKPT_OK;
    if (before != MAP_NONE)
        return fail(megatron->err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                    "both in {=stage %" PRIu64 "} and in {stage %" PRIu64 "}", before % megatron->stages,
                    stage % megatron->stages);
    ckpt_value *v = value_new(megatron->f->a, CKPT_V_TENSOR,
                              megatron->sharded.ntensors); /* as add_shards numbers it */
    return v ? nested_put(&megatron->tree, name->path, name->npath, v, megatron->err)
             : fail_memory(megatron->err);
}

/* is_extra_state - returns true for states of modules of Transformer Engine; each rank has its own. */
static bool is_extra_state(ckpt_str name) { return str_ends(name, STR_LIT("_extra_state")); }

static ckpt_status add_tensor(struct megatron *megatron, const struct megatron_rank *rank, uint32_t row,
                              uint64_t chunk)
{
    const ckpt_tensor t = table_tensor(&rank->part->table, row);
    uint64_t number = chunk * megatron->stages + rank->stage;
    uint32_t stage = (uint32_t)number;
    struct model_name name = {0};
    struct division division;
    bool known = false;
    if (number >= MAP_NONE)
        return fail(megatron->err, CKPT_ELIMIT, CKPT_NO_OFFSET,
                    "virtual stage {%" PRIu64 "}; {=%u} are allowed", number, MAP_NONE);
    CKPT_TRY(make_name(megatron, t.path, t.npath, &name));
    if (is_tied_embedding(megatron, name.joined, stage) || (is_extra_state(name.joined) && rank->tensor_rank))
        return CKPT_OK;
    if (t.kind != CKPT_DENSE)
        return fail(megatron->err, CKPT_EUNSUPPORTED, t.file_offset,
                    "{%s}, where {=dense tensors} can be put together", ckpt_kind_name((ckpt_kind)t.kind));
    if (is_extra_state(name.joined))
        division = (struct division){.parts = 1};
    else
        CKPT_TRY(find_division(megatron, rank->part, name.joined, &t, &division, &known));
    if (!known && !is_extra_state(name.joined))
        return CKPT_OK;
    CKPT_TRY(add_node_once(megatron, &name, stage));
    return add_shards(megatron, rank, row, name.joined, &division);
}

static ckpt_status add_tensors(struct megatron *megatron, const struct megatron_rank *rank, uint64_t chunk)
{
    for (uint32_t i = 0; i < rank->part->table.nrows; i++) {
        const ckpt_tensor t = table_tensor(&rank->part->table, i);
        uint64_t own_chunk;
        if (t.part_of != CKPT_NO_TENSOR || !parse_chunk(t.path, t.npath, &own_chunk) || own_chunk != chunk)
            continue;
        ckpt_status st = add_tensor(megatron, rank, i, chunk);
        if (st != CKPT_OK && !megatron->err->where[0])
            error_add_where(megatron->err, "%.*s", STR_ARG(t.name));
        CKPT_TRY(file_report_fault(megatron->f, name_file_if_failed(st, rank->part->path, megatron->err),
                                   megatron->err));
    }
    return CKPT_OK;
}

/* add_values - adds the leaves in the model chunk CHUNK of RANK, the first rank of its stage. */
static ckpt_status add_values(struct megatron *megatron, struct megatron_rank *rank, uint64_t chunk)
{
    for (size_t i = 0; i < rank->part->nleaves; i++) {
        const ckpt_leaf *leaf = &rank->part->leaves[i];
        ckpt_value *root;
        uint64_t own_chunk;
        struct model_name name;
        if (!parse_chunk(leaf->path, leaf->npath, &own_chunk) || own_chunk != chunk)
            continue;
        if (!rank->is_graph_taken)
            CKPT_TRY(part_graph_take(megatron->f, rank->part, &root, megatron->err));
        rank->is_graph_taken = true;
        CKPT_TRY(make_name(megatron, leaf->path, leaf->npath, &name));
        CKPT_TRY(nested_put(&megatron->tree, name.path, name.npath, (ckpt_value *)(uintptr_t)leaf->value,
                            megatron->err));
    }
    return CKPT_OK;
}

/* ---------------------------------------------------------------------- all ranks */

/* open_rank - opens the file of RANK in the folder NAME. Sets *TRUSTED to its path if *TRUSTED is empty. */
static ckpt_status open_rank(struct megatron *megatron, ckpt_str name, ckpt_str *trusted,
                             struct megatron_rank *rank)
{
    static const char *const files[] = {"model_optim_rng.pt", "model_rng.pt"};
    ckpt_status st = CKPT_ENOTFOUND;
    for (size_t i = 0; st == CKPT_ENOTFOUND && i < 2; i++) {
        ckpt_str path = ARENA_CONCAT(megatron->f->a, name, STR_LIT("/"), str_c(files[i]));
        CKPT_TRY_ALLOC(path.ptr, megatron->err);
        *megatron->err = (ckpt_error){.offset = CKPT_NO_OFFSET};
        st = part_file_read_pickle(megatron->f, trusted->len ? trusted->ptr : path.ptr, path, &rank->part,
                                   megatron->err);
        if (st == CKPT_OK && !trusted->len)
            *trusted = path;
    }
    ckpt_str expected = ARENA_CONCAT(megatron->f->a, name, STR_LIT("/"), str_c(files[0]));
    return expected.ptr ? part_file_explain_missing(st, expected, ALL_RANKS_HINT, megatron->err)
                        : fail_memory(megatron->err);
}

static int compare_ranks(const void *left, const void *right)
{
    const struct megatron_rank *x = left, *y = right;
    if (x->stage != y->stage)
        return x->stage < y->stage ? -1 : 1;
    return (x->tensor_rank > y->tensor_rank) - (x->tensor_rank < y->tensor_rank);
}

static ckpt_status accept_missing_rank(struct megatron *megatron)
{
    error_add_hint(megatron->err, ALL_RANKS_HINT);
    return part_file_accept_missing(megatron->f, megatron->err);
}

static ckpt_status check_no_rank_missing(struct megatron *megatron)
{
    size_t i = 0;
    for (uint64_t stage = 0; stage < megatron->stages; stage++)
        for (uint64_t rank = 0; rank < megatron->tensor_ranks; rank++) {
            if (i < megatron->nranks && megatron->ranks[i].stage == stage &&
                megatron->ranks[i].tensor_rank == rank) {
                i++;
                continue;
            }
            (void)fail(megatron->err, CKPT_ENOTFOUND, CKPT_NO_OFFSET,
                       "{=tensor-parallel rank %" PRIu64 " of stage %" PRIu64
                       "} is {missing}: there %s %zu of %" PRIu64 " folders",
                       rank, stage, megatron->nranks == 1 ? "is" : "are", megatron->nranks,
                       megatron->tensor_ranks * megatron->stages);
            return accept_missing_rank(megatron);
        }
    return i == megatron->nranks
               ? CKPT_OK
               : fail(megatron->err, CKPT_EFORMAT, CKPT_NO_OFFSET, "{two folders} of {=one rank}");
}

static uint64_t count_embedding_rows(const struct megatron_rank *rank)
{
    for (uint32_t i = 0; i < rank->part->table.nrows; i++) {
        const ckpt_tensor t = table_tensor(&rank->part->table, i);
        if (str_starts(t.name, STR_LIT("model")) && t.ndim == 2 &&
            str_ends(t.name, STR_LIT("word_embeddings.weight")))
            return t.shape[0];
    }
    return 0;
}

/* check_tensor_ranks - checks that the tensor-parallel ranks have all rows of the vocabulary or, if its size
 * is unknown, that there are as many ranks as in `args`. If ranks are missing, sets megatron->tensor_ranks to
 * the number in `args`, if that is greater. */
static ckpt_status check_tensor_ranks(struct megatron *megatron, const struct megatron_rank *first)
{
    uint64_t vocabulary, found, rows = count_embedding_rows(first), in_args = megatron->tensor_ranks;
    bool has_arg = find_positive_arg(megatron, "tensor_model_parallel_size", &in_args);
    bool by_rows = rows && find_positive_arg(megatron, "padded_vocab_size", &vocabulary);
    bool has_all_ranks = by_rows ? checked_mul(rows, megatron->tensor_ranks, &found) && found == vocabulary
                                 : in_args == megatron->tensor_ranks;
    if (has_all_ranks) {
        if (has_arg && in_args != megatron->tensor_ranks)
            file_notice(megatron->f,
                        "args has tensor_model_parallel_size %" PRIu64 ", which is left from before a "
                        "conversion: the whole vocabulary is in %" PRIu64 " rank%s",
                        in_args, megatron->tensor_ranks, megatron->tensor_ranks == 1 ? "" : "s");
        return CKPT_OK;
    }
    if (by_rows)
        (void)fail(megatron->err, CKPT_ENOTFOUND, CKPT_NO_OFFSET,
                   "{%" PRIu64 " tensor-parallel rank%s} ha%s %" PRIu64 " rows each of the embedding, which "
                   "has {=%" PRIu64 "}",
                   megatron->tensor_ranks, megatron->tensor_ranks == 1 ? "" : "s",
                   megatron->tensor_ranks == 1 ? "s" : "ve", rows, vocabulary);
    else
        (void)fail(megatron->err, CKPT_ENOTFOUND, CKPT_NO_OFFSET,
                   "folders of {%" PRIu64 " tensor-parallel rank%s}, of {=%" PRIu64 "} that args has",
                   megatron->tensor_ranks, megatron->tensor_ranks == 1 ? "" : "s", in_args);
    megatron->tensor_ranks = in_args > megatron->tensor_ranks && in_args < MAX_RANKS ? in_args
                                                                                     : megatron->tensor_ranks;
    return accept_missing_rank(megatron);
}

static ckpt_status check_layer_count(struct megatron *megatron)
{
    uint64_t expected, found = 0, stages = megatron->stages;
    for (size_t i = 0; i < megatron->nstacks; i++)
        found = megatron->stacks[i].end_layer > found ? megatron->stacks[i].end_layer : found;
    if (megatron->has_stages && find_positive_arg(megatron, "num_layers", &expected) && found != expected) {
        (void)fail(megatron->err, CKPT_ENOTFOUND, CKPT_NO_OFFSET,
                   "{%" PRIu64 " layers} in %" PRIu64 " stage%s; args has {=num_layers %" PRIu64 "}", found,
                   megatron->stages, megatron->stages == 1 ? "" : "s", expected);
        return accept_missing_rank(megatron);
    }
    if (megatron->has_stages && find_positive_arg(megatron, "pipeline_model_parallel_size", &stages) &&
        stages != megatron->stages)
        file_notice(megatron->f,
                    "args has pipeline_model_parallel_size %" PRIu64 ", and there are %" PRIu64 " stages",
                    stages, megatron->stages);
    return CKPT_OK;
}

/* count_ranks - allocates megatron->ranks for the COUNT folders in LIST and counts ranks and stages by the
 * names. */
static ckpt_status count_ranks(struct megatron *megatron, const ckpt_str *list, size_t count)
{
    megatron->ranks = arena_array(megatron->f->a, count, sizeof *megatron->ranks);
    CKPT_TRY_ALLOC(megatron->ranks, megatron->err);
    for (size_t i = 0; i < count; i++) {
        uint64_t number[3] = {0, 0, 0};
        unsigned nnumbers = parse_rank(list[i], number);
        megatron->has_stages = megatron->has_stages || nnumbers > 1;
        if (nnumbers == 3)
            return fail(
                megatron->err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
                "ranks of {expert parallelism} (%.*s); those of {=tensor and pipeline parallelism} can be "
                "put together",
                STR_ARG(list[i]));
        megatron->tensor_ranks = number[0] >= megatron->tensor_ranks ? number[0] + 1 : megatron->tensor_ranks;
        megatron->stages = number[1] >= megatron->stages ? number[1] + 1 : megatron->stages;
    }
    return megatron->tensor_ranks * megatron->stages <= MAX_RANKS
               ? CKPT_OK
               : fail(megatron->err, CKPT_ELIMIT, CKPT_NO_OFFSET, "{more} than {=%u ranks}", MAX_RANKS);
}

static ckpt_status open_ranks(struct megatron *megatron, const ckpt_str *list, size_t count)
{
    ckpt_str trusted = {"", 0};
    for (size_t i = 0; i < count; i++) {
        uint64_t number[3] = {0, 0, 0};
        struct megatron_rank *rank = &megatron->ranks[megatron->nranks];
        (void)parse_rank(list[i], number);
        *rank = (struct megatron_rank){.tensor_rank = number[0], .stage = number[1]};
        ckpt_status st = open_rank(megatron, list[i], &trusted, rank);
        CKPT_TRY(st == CKPT_ENOTFOUND ? accept_missing_rank(megatron) : st);
        megatron->nranks += rank->part != NULL;
    }
    qsort(megatron->ranks, megatron->nranks, sizeof *megatron->ranks, compare_ranks);
    return megatron->nranks
               ? CKPT_OK
               : fail(megatron->err, CKPT_EFORMAT, CKPT_NO_OFFSET, "{no} file of {=a rank} can be read");
}

static ckpt_status count_chunks(struct megatron *megatron)
{
    uint64_t chunk;
    megatron->chunks = 0;
    for (size_t i = 0; i < megatron->nranks; i++)
        for (uint32_t k = 0; k < megatron->ranks[i].part->table.nrows; k++) {
            const ckpt_tensor t = table_tensor(&megatron->ranks[i].part->table, k);
            if (parse_chunk(t.path, t.npath, &chunk) && chunk >= megatron->chunks)
                megatron->chunks = chunk + 1;
        }
    return megatron->chunks
               ? CKPT_OK
               : fail(megatron->err, CKPT_EFORMAT, CKPT_NO_OFFSET, "{no tensor} below {=\"model\"}");
}

/* check_experts - refuses a model whose experts are cut over more or fewer ranks than its other layers. */
static ckpt_status check_experts(const struct megatron *megatron)
{
    uint64_t experts, tensor;
    if (!find_positive_arg(megatron, "expert_tensor_parallel_size", &experts) ||
        !find_positive_arg(megatron, "tensor_model_parallel_size", &tensor) || experts == tensor)
        return CKPT_OK;
    return fail(
        megatron->err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
        "args has {expert_tensor_parallel_size %" PRIu64 "} and {=tensor_model_parallel_size %" PRIu64
        "}: experts are cut over a different number of ranks than other layers, which no rule describes",
        experts, tensor);
}

/* add_all - adds the tensors and values of all ranks, in the order of the layers. */
static ckpt_status add_all(struct megatron *megatron)
{
    CKPT_TRY(check_experts(megatron));
    for (uint64_t chunk = 0; chunk < megatron->chunks; chunk++)
        for (size_t i = 0; i < megatron->nranks; i++) {
            struct megatron_rank *rank = &megatron->ranks[i];
            if (i && rank->stage != rank[-1].stage)
                end_stage(megatron);
            CKPT_TRY(add_tensors(megatron, rank, chunk));
            if (rank->tensor_rank == 0)
                CKPT_TRY(add_values(megatron, rank, chunk));
            if (i + 1 == megatron->nranks)
                end_stage(megatron);
        }
    CKPT_TRY(fail_unmatched_tensors(megatron));
    return check_layer_count(megatron);
}

static ckpt_status read_ranks(struct megatron *megatron)
{
    ckpt_file *f = megatron->f;
    ckpt_str *list;
    size_t n;
    struct graph_input input = {.user = &megatron->sharded,
                                .find_storage = part_graph_find_storage,
                                .describe_node = sharded_tensors_describe};
    CKPT_TRY(folder_list(f, f->folder, is_rank_folder, &list, &n, megatron->err));
    if (!n)
        return fail(megatron->err, CKPT_ENOTFOUND, CKPT_NO_OFFSET,
                    "{no} folder {=mp_rank_00} of a rank\n"
                    "the save did not finish, or was not copied completely");
    CKPT_TRY(count_ranks(megatron, list, n));
    CKPT_TRY(open_ranks(megatron, list, n));
    read_arguments(megatron, megatron->ranks[0].part);
    CKPT_TRY(check_no_rank_missing(megatron));
    CKPT_TRY(check_tensor_ranks(megatron, &megatron->ranks[0]));
    CKPT_TRY(count_chunks(megatron));
    CKPT_TRY(add_all(megatron));
    CKPT_TRY(sharded_tensors_store(&megatron->sharded));
    if (value_get(megatron->ranks[0].part->root, "optimizer"))
        file_notice(f, "the optimizer's states, which each rank has for itself, are left out");
    f->root = nested_root(&megatron->tree);
    f->add_opaque_storages = part_graph_add_unreferenced;
    f->ranks.ranks = megatron->nranks;
    f->ranks.tensor_parallel = megatron->tensor_ranks;
    f->ranks.pipeline_parallel = megatron->stages;
    (void)find_positive_arg(megatron, "data_parallel_size", &f->ranks.data_parallel);
    return graph_walk(f, f->root, &input, megatron->err);
}

static ckpt_status read_all(struct megatron *megatron)
{
    ckpt_file *f = megatron->f;
    const struct format *zarr = format_by_name("megatron-zarr");
    CKPT_TRY(enter_last_iteration(megatron));
    struct probe iteration = {.path = f->folder, .is_folder = true, .archive = f->archive};
    part_file_set_step(f, "iter_");
    CKPT_TRY(folder_list_all(f, f->folder, &iteration.names, &iteration.nnames, megatron->err));
    if (probe_has(&iteration, METADATA)) { /* the format torch_dist */
        f->format = format_by_name("torch-dcp");
        CKPT_TRY(f->format->read(f, megatron->err));
    } else if (zarr->probe(&iteration)) {
        f->format = zarr;
        CKPT_TRY(zarr->read(f, megatron->err));
    } else {
        if (f->limits.parallel && !file_note_read(f, f->limits.parallel))
            return fail_memory(megatron->err);
        if (f->limits.parallel)
            CKPT_TRY(megatron_rules_read(f->a, f->limits.parallel, &megatron->rules, megatron->err));
        CKPT_TRY(read_ranks(megatron));
    }
    f->producer = STR_LIT("Megatron-LM");
    return CKPT_OK;
}

static ckpt_status read(ckpt_file *f, ckpt_error *err)
{
    struct megatron m = {.f = f,
                         .err = err,
                         .stack_of = map_new(16),
                         .virtual_stage_of = map_new(64),
                         .unmatched_text = {"", 0}};
    ckpt_status st = sharded_tensors_begin(&m.sharded, f, err);
    bool has_maps = m.stack_of && m.virtual_stage_of;
    if (st == CKPT_OK && !(has_maps && nested_begin(&m.tree, f->a, f->limits.max_tensors)))
        st = fail_memory(err);
    CKPT_THEN(st, read_all(&m));
    sharded_tensors_end(&m.sharded);
    nested_end(&m.tree);
    map_free(m.stack_of);
    map_free(m.virtual_stage_of);
    return st;
}

const struct format format_megatron = {
    .name = "megatron", .title = "Megatron-LM checkpoint", .probe = probe, .read = read};
