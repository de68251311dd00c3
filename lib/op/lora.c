/* lora.c - see lora.h. The tensors of an adapter are sorted by the modules that they are for, then each
 * module is matched with a weight and checked. After that, each weight gets a source of what the adapters
 * make of it. */
#include "op/lora.h"

#include <math.h>

#include "core/computed_source.h"
#include "core/row_source.h"
#include "op/containers.h"
#include "op/lora_config.h"
#include "op/lora_match.h"
#include "op/lora_source.h"
#include "op/root.h"
#include "op/row_change.h"

#define MAX_NEAREST   20u                     /* tensors for which the nearest name is searched */
#define DIFFUSERS_KEY "lora_adapter_metadata" /* the metadata in which diffusers keeps configs */

/* The tensors of an adapter that are for one module. */
struct module {
    struct lora_name name;
    uint32_t row[LORA_ROLES]; /* by role; CKPT_NO_TENSOR: none */
};

/* The prefixes by which the names of a component of an adapter differ from those of the plan. */
struct prefix {
    ckpt_str component, strip, add;
};

/* The config of a component; that of peft is of all components. */
struct config {
    ckpt_str component;
    bool is_of_all;
    struct lora_config c;
};

struct meeting;

struct adapter {
    const ckpt_lora_adapter *given;
    uint32_t number;
    ckpt_file *file;
    struct config *configs;
    size_t nconfigs, cap_configs;
    ckpt_str metadata; /* the configs of all components, as diffusers writes them; .ptr NULL: none */
    map *module_of;    /* name of a module -> its index */
    struct module *modules;
    size_t nmodules, cap_modules;
    struct prefix *prefixes;
    size_t nprefixes, cap_prefixes;
    bool has_other_order;     /* a weight is not stored in the order that the config gives */
    struct meeting *meetings; /* of the modules */
};

/* What becomes of a tensor of the plan. */
struct target {
    uint32_t entry;          /* of the plan */
    struct lora_tensor base; /* what replaces it; file NULL: nothing */
    uint32_t base_adapter;   /* the adapter that has it */
    struct lora_term *terms;
    size_t nterms, cap_terms;
    uint64_t rows, cols; /* set with the first term */
};

struct merger {
    ckpt_plan *p;
    arena *a; /* of the plan */
    const ckpt_lora_options *opts;
    const struct lora_files *files;
    struct lora_index index;
    map *target_of; /* entry -> its index */
    struct target *targets;
    size_t ntargets, cap_targets;
    map *addition_of; /* name -> its index */
    struct addition *additions;
    size_t nadditions, cap_additions;
    size_t nproblems, nnearest;
};

/* A tensor of modules_to_save that the plan lacks, and gets. */
struct addition {
    ckpt_str name, key; /* below the root of the plan, and in its mapping */
    uint32_t like;      /* a row of the mapping */
    struct lora_tensor from;
};

/* ----------------------------------------------------------------------------- reports */

static const char *const role_names[LORA_ROLES] = {
    [LORA_DOWN] = "down",         [LORA_UP] = "up",
    [LORA_BIAS] = "bias",         [LORA_EMBEDDING_DOWN] = "down",
    [LORA_EMBEDDING_UP] = "up",   [LORA_MAGNITUDE] = "magnitude",
    [LORA_ALPHA] = "alpha",       [LORA_BASE] = "replacement",
    [LORA_OTHER] = "replacement",
};

/* note - adds what became of tensor ROW of ADAPTER, whose role is ROLE, to the report; NOTE has the rest. */
static ckpt_status note(struct merger *merger, const struct adapter *adapter, uint32_t row,
                        enum lora_role role, const ckpt_lora_match *from, ckpt_error *err)
{
    ckpt_lora_match match = *from;
    match.adapter = adapter->number;
    match.tensor = table_name(&adapter->file->table, row);
    match.role = from->role ? from->role : role_names[role];
    merger->nproblems += match.problem.len != 0;
    return ARENA_PUSH(merger->a, &merger->p->report, lora, &match) ? CKPT_OK : fail_memory(err);
}

/* find_nearest - returns a name in the plan that is similar to NAME, or an empty text: only the first names
 * that meet nothing are compared with all. */
static ckpt_str find_nearest(struct merger *merger, ckpt_str name)
{
    return merger->nnearest++ < MAX_NEAREST ? plan_find_nearest(merger->p, name) : str_of("", 0);
}

/* shape_text - returns the shape of TENSOR as "[4, 16]"; .ptr NULL: no memory. */
static ckpt_str shape_text(arena *a, const ckpt_tensor *tensor)
{
    ckpt_str text = STR_LIT("[");
    for (uint32_t k = 0; k < tensor->ndim && text.ptr; k++) {
        char number[STR_NUMBER_MAX];
        text = ARENA_CONCAT(a, text, k ? STR_LIT(", ") : STR_LIT(""),
                            format_number(tensor->shape[k], number));
    }
    return text.ptr ? ARENA_CONCAT(a, text, STR_LIT("]")) : text;
}

/* ----------------------------------------------------------------------------- reading */

/* add_to_module - adds tensor ROW, which has NAME, to its module. */
static ckpt_status add_to_module(struct merger *merger, struct adapter *adapter, const struct lora_name *name,
                                 uint32_t row, ckpt_error *err)
{
    uint32_t index = (uint32_t)adapter->nmodules, old;
    CKPT_TRY_ALLOC(map_put(adapter->module_of, name->module, index, &old), err);
    if (old == MAP_NONE) {
        struct module *module = arena_append(merger->a, &adapter->modules, &adapter->nmodules,
                                             &adapter->cap_modules, sizeof *module);
        CKPT_TRY_ALLOC(module, err);
        module->name = *name;
        for (int role = 0; role < LORA_ROLES; role++)
            module->row[role] = CKPT_NO_TENSOR;
    } else {
        index = old;
    }
    uint32_t *slot = &adapter->modules[index].row[name->role];
    if (*slot != CKPT_NO_TENSOR)
        return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET, "\"%.*s\" and \"%.*s\" are the same matrix",
                    STR_ARG(table_name(&adapter->file->table, *slot)),
                    STR_ARG(table_name(&adapter->file->table, row)));
    *slot = row;
    return CKPT_OK;
}

static ckpt_status add_tensor(struct merger *merger, struct adapter *adapter, uint32_t row, ckpt_error *err)
{
    struct lora_name parsed;
    const struct wanted_names wanted = {merger->opts->only, merger->opts->nonly, false};
    const ckpt_str name = table_name(&adapter->file->table, row);
    if (table_part_of(&adapter->file->table, row) != CKPT_NO_TENSOR || !is_wanted(&wanted, name))
        return CKPT_OK;
    const char *kind = lora_other_kind(name);
    if (kind)
        return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
                    "the adapter is {%s} and cannot be merged, as \"%.*s\" shows", kind, STR_ARG(name));
    CKPT_TRY(row_source_check(adapter->file, row, err));
    if (!dtype_is_number((ckpt_dtype)table_dtype_of(&adapter->file->table, row)) ||
        dtype_info((ckpt_dtype)table_dtype_of(&adapter->file->table, row))->klass == 'c')
        return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET, "\"%.*s\" is {%s}, not {=real numbers}",
                    STR_ARG(name), ckpt_dtype_name((ckpt_dtype)table_dtype_of(&adapter->file->table, row)));
    CKPT_TRY_ALLOC(lora_parse_name(name, merger->a, &parsed), err);
    return add_to_module(merger, adapter, &parsed, row, err);
}

static bool has_peft_name(const struct adapter *adapter)
{
    for (size_t i = 0; i < adapter->nmodules; i++)
        if (str_starts(adapter->modules[i].name.module, STR_LIT("base_model.model.")))
            return true;
    return str_starts(str_after_last(str_c(adapter->file->path), '/'), STR_LIT("adapter_model."));
}

/* add_config - reads TEXT, in which the keys of the config for COMPONENT begin with PREFIX. WHERE: what
 * has it. */
static ckpt_status add_config(struct merger *merger, struct adapter *adapter, ckpt_str text, ckpt_str prefix,
                              const char *where, ckpt_error *err)
{
    struct config *config = arena_append(merger->a, &adapter->configs, &adapter->nconfigs,
                                         &adapter->cap_configs, sizeof *config);
    CKPT_TRY_ALLOC(config, err);
    *config = (struct config){.component = prefix, .is_of_all = !prefix.len};
    ckpt_status st = lora_config_read(text, prefix, merger->a, &config->c, err);
    if (st != CKPT_OK)
        error_add_where(err, "%s", where);
    for (size_t i = 0; st == CKPT_OK && i < config->c.nunknown; i++)
        plan_notice(merger->p, "%s: the key \"%.*s\" of %s is not known and was ignored",
                    adapter->given->path, STR_ARG(config->c.unknown[i]), where);
    return st;
}

/* read_config - reads peft's adapter_config.json, or finds what diffusers puts into the metadata. */
static ckpt_status read_config(struct merger *merger, struct adapter *adapter, ckpt_error *err)
{
    static const char name[] = "adapter_config.json";
    ckpt_str text = str_of(NULL, 0);
    if (has_peft_name(adapter))
        CKPT_TRY(merger->files->read_beside(adapter->file, name, LORA_CONFIG_MAX, &text, err));
    if (text.ptr)
        return add_config(merger, adapter, text, str_of("", 0), name, err);
    const ckpt_value *metadata = adapter->file->metadata;
    if (!metadata || !value_text(value_get(metadata, DIFFUSERS_KEY), &adapter->metadata))
        adapter->metadata = text;
    return CKPT_OK;
}

/* find_config - sets *OUT to the config of COMPONENT of ADAPTER, or NULL. */
static ckpt_status find_config(struct merger *merger, struct adapter *adapter, ckpt_str component,
                               const struct lora_config **out, ckpt_error *err)
{
    *out = NULL;
    for (size_t i = 0; i < adapter->nconfigs; i++)
        if (adapter->configs[i].is_of_all || str_eq(adapter->configs[i].component, component)) {
            *out = &adapter->configs[i].c;
            return CKPT_OK;
        }
    if (!adapter->metadata.ptr)
        return CKPT_OK;
    if (!component.len)
        return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
                    "the scales are in the metadata %s, but the names of tensors have no component",
                    DIFFUSERS_KEY);
    CKPT_TRY(add_config(merger, adapter, adapter->metadata, component, DIFFUSERS_KEY, err));
    *out = &adapter->configs[adapter->nconfigs - 1].c;
    return CKPT_OK;
}

/* is_adapter - returns true if ADAPTER has a config, or a name that only tensors of adapters have. */
static bool is_adapter(const struct adapter *adapter)
{
    bool is_one = adapter->nconfigs || adapter->metadata.ptr;
    for (size_t i = 0; i < adapter->nmodules && !is_one; i++)
        for (int role = 0; role < LORA_ROLES; role++)
            is_one |= role != LORA_OTHER && adapter->modules[i].row[role] != CKPT_NO_TENSOR;
    return is_one;
}

static ckpt_status read_adapter(struct merger *merger, struct adapter *adapter, ckpt_error *err)
{
    CKPT_TRY(merger->files->open(merger->p, adapter->given->path, &adapter->file, err));
    adapter->module_of = map_new(64);
    CKPT_TRY_ALLOC(adapter->module_of, err);
    const size_t count = adapter->file->table.nrows;
    for (uint32_t row = 0; row < count; row++)
        CKPT_TRY(add_tensor(merger, adapter, row, err));
    if (!adapter->nmodules)
        return fail(err, CKPT_ENOTFOUND, CKPT_NO_OFFSET, "no tensor of the adapter is left to merge");
    CKPT_TRY(read_config(merger, adapter, err));
    return is_adapter(adapter)
               ? CKPT_OK
               : fail(err, CKPT_ENOTFOUND, CKPT_NO_OFFSET,
                      "it is no adapter: none of its %zu tensors has a name like {=\"….lora_A.weight\"}",
                      adapter->nmodules);
}

/* ---------------------------------------------------------------------------- matching */

/* A module and the weight that it met. */
struct meeting {
    struct adapter *adapter;
    const struct module *module;
    const struct lora_config *config; /* or NULL */
    struct lora_found found;
    uint32_t target; /* index */
    struct lora_term term;
    bool is_square;         /* the weight could be stored in either order */
    struct lora_found bias; /* of the module; only if the pair has one */
    uint32_t biased;        /* index of its target */
    bool has_bias;
    bool is_new; /* the plan has no such tensor, but gets one */
    struct addition addition;
    ckpt_str problem; /* .ptr NULL: none so far */
    ckpt_str nearest;
};

/* set_problem - makes TEXT, whose .ptr is NULL if there was no memory for it, the problem of MEETING. */
static ckpt_status set_problem(struct meeting *meeting, ckpt_str text, ckpt_error *err)
{
    meeting->problem = text;
    return text.ptr ? CKPT_OK : fail_memory(err);
}

static bool has(const struct module *module, enum lora_role role)
{
    return module->row[role] != CKPT_NO_TENSOR;
}

static ckpt_tensor tensor_of(const struct meeting *meeting, enum lora_role role)
{
    return table_tensor(&meeting->adapter->file->table, meeting->module->row[role]);
}

static bool is_embedding(const struct module *module) { return has(module, LORA_EMBEDDING_UP); }

/* check_pair - sets the problem if MODULE has no pair of matrices, but needs one, or two. */
static ckpt_status check_pair(struct merger *merger, struct meeting *meeting, ckpt_error *err)
{
    const struct module *m = meeting->module;
    bool has_linear = has(m, LORA_DOWN) && has(m, LORA_UP);
    bool has_embedding = has(m, LORA_EMBEDDING_DOWN) && has(m, LORA_EMBEDDING_UP);
    bool has_half = has(m, LORA_DOWN) != has(m, LORA_UP) ||
                    has(m, LORA_EMBEDDING_DOWN) != has(m, LORA_EMBEDDING_UP);
    bool needs_pair = has(m, LORA_BIAS) || has(m, LORA_MAGNITUDE) || has(m, LORA_ALPHA);
    const char *why = has_half                      ? "the other matrix of the pair is missing"
                      : has_linear && has_embedding ? "there are two pairs of matrices"
                      : needs_pair && !has_linear && !has_embedding ? "there is no pair of matrices"
                                                                    : NULL;
    return why ? set_problem(meeting, ARENA_CONCAT(merger->a, str_c(why)), err) : CKPT_OK;
}

/* find_several - sets the problem to two of the tensors that the name of the module could mean. */
static ckpt_status find_several(struct merger *merger, struct meeting *meeting, ckpt_error *err)
{
    return set_problem(
        meeting,
        ARENA_CONCAT(merger->a,
                     STR_LIT("several weights end in this name: --root chooses a part of the model")),
        err);
}

/* check_prefix - sets the problem if the name differs from that of the weight in another way than the
 * names before, of the same component, do. */
static ckpt_status check_prefix(struct merger *merger, struct meeting *meeting, ckpt_error *err)
{
    struct adapter *adapter = meeting->adapter;
    const struct lora_found *found = &meeting->found;
    const struct prefix new = {meeting->module->name.component, found->strip, found->add};
    for (size_t i = 0; i < adapter->nprefixes; i++) {
        const struct prefix *old = &adapter->prefixes[i];
        if (!str_eq(old->component, new.component))
            continue;
        if (str_eq(old->strip, new.strip) && str_eq(old->add, new.add))
            return CKPT_OK;
        return set_problem(meeting,
                           ARENA_CONCAT(merger->a, STR_LIT("fits \""), merger->p->entries[found->entry].name,
                                        STR_LIT("\" with \""), new.strip, STR_LIT("\" replaced by \""),
                                        new.add, STR_LIT("\", but tensors before with \""), old->strip,
                                        STR_LIT("\" replaced by \""), old->add, STR_LIT("\"")),
                           err);
    }
    return ARENA_PUSH(merger->a, adapter, prefixes, &new) ? CKPT_OK : fail_memory(err);
}

/* find_target - sets *OUT to the index of the target for ENTRY. */
static ckpt_status find_target(struct merger *merger, uint32_t entry, uint32_t *out, ckpt_error *err)
{
    uint32_t old;
    CKPT_TRY_ALLOC(map_put_num(merger->target_of, entry, (uint32_t)merger->ntargets, &old), err);
    const struct target new = {.entry = entry};
    if (old == MAP_NONE)
        CKPT_TRY_ALLOC(ARENA_PUSH(merger->a, merger, targets, &new), err);
    *out = old == MAP_NONE ? (uint32_t)merger->ntargets - 1 : old;
    return CKPT_OK;
}

/* check_weight - fails unless the tensor of ENTRY can be changed, or replaced by one of the dtype REPLACED.
 * */
static ckpt_status check_weight(const struct merger *merger, uint32_t entry, ckpt_dtype replaced,
                                ckpt_error *err)
{
    ckpt_plan *p = merger->p;
    const ckpt_str name = p->entries[entry].name;
    const uint32_t row = p->entries[entry].row;
    const ckpt_dtype dtype = (ckpt_dtype)table_dtype_of(&p->file->table, row);
    ckpt_status st = row_source_check(p->file, row, err);
    if (st != CKPT_OK)
        error_add_hint(err, "`ckpt convert --dequantize` makes quantized weights dense");
    CKPT_TRY(st);
    CKPT_TRY(row_check_place(p, row, err));
    if (dtype == replaced || (dtype_is_float(dtype) && computed_has_dtype(dtype)))
        return CKPT_OK;
    if (replaced != CKPT_DT_NONE)
        return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET, "\"%.*s\" is {=%s}, which {%s} cannot replace",
                    STR_ARG(name), ckpt_dtype_name(dtype), ckpt_dtype_name(replaced));
    return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET, "\"%.*s\" is {%s}, to which nothing can be added",
                STR_ARG(name), ckpt_dtype_name(dtype));
}

/* is_saved - returns true if a tensor called NAME may replace one, or be new: peft keeps modules_to_save, and
 * embeddings that have a new size or are adapted. */
static bool is_saved(const struct meeting *meeting, ckpt_str name)
{
    static const char *const embeddings[] = {"embed_tokens", "lm_head"}; /* EMBEDDING_LAYER_NAMES of peft */
    ckpt_str module = str_first(name, name.len - str_after_last(name, '.').len);
    module.len -= module.len != 0;
    for (size_t i = 0; i < sizeof embeddings / sizeof *embeddings; i++)
        if (str_is(str_after_last(module, '.'), embeddings[i]))
            return true;
    return meeting->config && lora_config_saves(meeting->config, module);
}

/* match - finds the tensor of the plan that is called as the module is, with SUFFIX, or sets the problem. */
static ckpt_status match(struct merger *merger, struct meeting *meeting, const char *suffix, ckpt_error *err)
{
    const struct lora_name *name = &meeting->module->name;
    struct lora_found *found = &meeting->found;
    CKPT_TRY(lora_find(&merger->index, name, suffix, found, err));
    if (found->entry == LORA_SEVERAL)
        return find_several(merger, meeting, err);
    if (found->entry == MAP_NONE && has(meeting->module, LORA_OTHER) && is_saved(meeting, name->module)) {
        meeting->is_new = true;
        return CKPT_OK;
    }
    if (found->entry == MAP_NONE) {
        meeting->nearest = find_nearest(merger, name->module);
        return set_problem(meeting, ARENA_CONCAT(merger->a, STR_LIT("meets no tensor of the base model")),
                           err);
    }
    CKPT_TRY(check_prefix(merger, meeting, err));
    if (meeting->problem.ptr)
        return CKPT_OK;
    const bool is_replaced = has(meeting->module, LORA_OTHER);
    const ckpt_dtype replaced = is_replaced ? (ckpt_dtype)tensor_of(meeting, LORA_OTHER).dtype : CKPT_DT_NONE;
    CKPT_TRY(check_weight(merger, found->entry, replaced, err));
    return find_target(merger, found->entry, &meeting->target, err);
}

/* ------------------------------------------------------------------------------ shapes */

/* count_rest - returns the product of the dimensions of TENSOR but the first. Its elements are counted,
 * so that it does not overflow; if it has none, it is 0. */
static uint64_t count_rest(const ckpt_tensor *tensor)
{
    return tensor->ndim && tensor->shape[0] ? tensor->elements / tensor->shape[0] : 0;
}

static bool is_matrix(const ckpt_tensor *tensor) { return tensor->ndim == 2; }

/* same_rest - returns true if LEFT and RIGHT have the same dimensions after the first, but for those of
 * size 1 at the end: the weight of a convolution of 1 x 1 is a matrix, too. */
static bool same_rest(const ckpt_tensor *left, const ckpt_tensor *right)
{
    const uint32_t n = left->ndim > right->ndim ? left->ndim : right->ndim;
    for (uint32_t k = 1; k < n; k++)
        if ((k < left->ndim ? left->shape[k] : 1) != (k < right->ndim ? right->shape[k] : 1))
            return false;
    return true;
}

/* set_shapes - sets the problem unless the product of the pair has the shape of the weight; else sets the
 * rank and the order of the term. */
static ckpt_status set_shapes(struct merger *merger, struct meeting *meeting, ckpt_error *err)
{
    const struct module *m = meeting->module;
    const bool embedding = is_embedding(m);
    const ckpt_tensor down = tensor_of(meeting, embedding ? LORA_EMBEDDING_DOWN : LORA_DOWN);
    const ckpt_tensor up = tensor_of(meeting, embedding ? LORA_EMBEDDING_UP : LORA_UP);
    const ckpt_tensor w = table_tensor(&merger->p->file->table, merger->p->entries[meeting->found.entry].row);
    const bool are_matrices = is_matrix(&down) && is_matrix(&up) && is_matrix(&w);
    const bool has_rank = down.ndim >= 2 && up.ndim >= 2 && w.ndim >= 2 && down.shape[0] &&
                          down.shape[0] == count_rest(&up);
    const bool straight = has_rank && !embedding && w.shape[0] == up.shape[0] && same_rest(&w, &down);
    const bool transposed = has_rank && are_matrices && w.shape[0] == down.shape[1] &&
                            w.shape[1] == up.shape[0] && (embedding || meeting->config);
    if (!straight && !transposed)
        return set_problem(meeting,
                           ARENA_CONCAT(merger->a, shape_text(merger->a, &up), STR_LIT(" times "),
                                        shape_text(merger->a, &down), STR_LIT(" does not fit \""),
                                        merger->p->entries[meeting->found.entry].name, STR_LIT("\" "),
                                        shape_text(merger->a, &w)),
                           err);
    const bool config_transposes = meeting->config && meeting->config->fan_in_fan_out;
    meeting->term.rank = down.shape[0];
    meeting->term.is_transposed = straight && transposed && !embedding ? config_transposes : !straight;
    if (are_matrices && !embedding && straight != transposed && meeting->config &&
        transposed != config_transposes)
        meeting->adapter->has_other_order = true;
    meeting->is_square = straight && transposed && !embedding;
    return CKPT_OK;
}

/* ------------------------------------------------------------------------------ scales */

static ckpt_status read_alpha(const struct meeting *meeting, double *out, ckpt_error *err)
{
    ckpt_file *f = meeting->adapter->file;
    const uint32_t row = meeting->module->row[LORA_ALPHA];
    source *src = row_source(f, row);
    CKPT_TRY_ALLOC(src, err);
    ckpt_status st = read_numbers(src, (ckpt_dtype)table_dtype_of(&f->table, row), 0, 1, out, err);
    source_unref(src);
    return st;
}

/* set_scale_by_config - sets the scale of the term as the config gives it, or the problem. */
static ckpt_status set_scale_by_config(struct merger *merger, struct meeting *meeting, ckpt_error *err)
{
    struct lora_setting setting;
    const struct module *m = meeting->module;
    char found[STR_NUMBER_MAX], given[STR_NUMBER_MAX];
    if (has(m, LORA_ALPHA))
        return set_problem(
            meeting, ARENA_CONCAT(merger->a, STR_LIT("both the config and an alpha give a scale")), err);
    CKPT_TRY(
        lora_config_find(meeting->config, str_skip(m->name.module, m->name.component.len), &setting, err));
    if (setting.rank != meeting->term.rank)
        return set_problem(meeting,
                           ARENA_CONCAT(merger->a, STR_LIT("has rank "),
                                        format_number(meeting->term.rank, found),
                                        STR_LIT(", the config gives "), format_number(setting.rank, given)),
                           err);
    meeting->term.scale = setting.scale;
    return CKPT_OK;
}

/* set_scale - sets the scale of the term, or the problem. Without a config, it is alpha / rank, and 1
 * without an alpha, as in kohya-ss and diffusers. */
static ckpt_status set_scale(struct merger *merger, struct meeting *meeting, ckpt_error *err)
{
    const struct module *m = meeting->module;
    double alpha = (double)meeting->term.rank;
    if (meeting->config)
        return set_scale_by_config(merger, meeting, err);
    if (str_is(m->name.component, "base_model.model."))
        return set_problem(
            meeting,
            ARENA_CONCAT(
                merger->a,
                STR_LIT("adapter_config.json, which has its scale, is not in the folder of the adapter")),
            err);
    if (has(m, LORA_ALPHA) && tensor_of(meeting, LORA_ALPHA).elements != 1)
        return set_problem(meeting, ARENA_CONCAT(merger->a, STR_LIT("the alpha is not one number")), err);
    if (has(m, LORA_ALPHA))
        CKPT_TRY(read_alpha(meeting, &alpha, err));
    if (!isfinite(alpha))
        return set_problem(meeting, ARENA_CONCAT(merger->a, STR_LIT("the alpha is not finite")), err);
    meeting->term.scale = alpha / (double)meeting->term.rank;
    return CKPT_OK;
}

/* check_magnitude - sets the problem unless the module has a magnitude that fits, if it is DoRA. */
static ckpt_status check_magnitude(struct merger *merger, struct meeting *meeting, ckpt_error *err)
{
    const struct module *m = meeting->module;
    const bool is_dora = meeting->config && meeting->config->use_dora;
    if (!has(m, LORA_MAGNITUDE))
        return is_dora ? set_problem(
                             meeting,
                             ARENA_CONCAT(
                                 merger->a,
                                 STR_LIT("the config has use_dora, but there is no lora_magnitude_vector")),
                             err)
                       : CKPT_OK;
    if (!is_dora)
        return set_problem(
            meeting,
            ARENA_CONCAT(merger->a, STR_LIT("there is a lora_magnitude_vector, but no config with use_dora")),
            err);
    const ckpt_tensor w = table_tensor(&merger->p->file->table, merger->p->entries[meeting->found.entry].row);
    const ckpt_tensor magnitude = tensor_of(meeting, LORA_MAGNITUDE);
    if (magnitude.elements != w.shape[meeting->term.is_transposed])
        return set_problem(meeting,
                           ARENA_CONCAT(merger->a, STR_LIT("the lora_magnitude_vector "),
                                        shape_text(merger->a, &magnitude),
                                        STR_LIT(" does not fit the weight "), shape_text(merger->a, &w)),
                           err);
    meeting->term.magnitude = (struct lora_tensor){meeting->adapter->file, m->row[LORA_MAGNITUDE]};
    return CKPT_OK;
}

/* match_bias - finds the bias of the module, to which that of the pair is added, or sets the problem. */
static ckpt_status match_bias(struct merger *merger, struct meeting *meeting, ckpt_error *err)
{
    const struct lora_found weight = meeting->found;
    const uint32_t of_weight = meeting->target;
    if (!has(meeting->module, LORA_BIAS))
        return CKPT_OK;
    if (!meeting->config || !meeting->config->lora_bias)
        return set_problem(
            meeting, ARENA_CONCAT(merger->a, STR_LIT("there is a bias, but no config with lora_bias")), err);
    CKPT_TRY(match(merger, meeting, ".bias", err));
    meeting->bias = meeting->found;
    meeting->biased = meeting->target;
    meeting->found = weight;
    meeting->target = of_weight;
    meeting->has_bias = true;
    if (meeting->problem.ptr)
        return set_problem(meeting, ARENA_CONCAT(merger->a, STR_LIT("the bias "), meeting->problem), err);
    const ckpt_tensor bias = tensor_of(meeting, LORA_BIAS);
    const ckpt_tensor base = table_tensor(&merger->p->file->table,
                                          merger->p->entries[meeting->bias.entry].row);
    if (bias.ndim != 1 || base.ndim != 1 || bias.shape[0] != base.shape[0])
        return set_problem(meeting,
                           ARENA_CONCAT(merger->a, STR_LIT("the bias "), shape_text(merger->a, &bias),
                                        STR_LIT(" does not fit that of the base model "),
                                        shape_text(merger->a, &base)),
                           err);
    return CKPT_OK;
}

/* match_term - sets the term of the pair of the module, or the problem. */
static ckpt_status match_term(struct merger *merger, struct meeting *meeting, ckpt_error *err)
{
    const struct module *m = meeting->module;
    const bool embedding = is_embedding(m);
    ckpt_file *f = meeting->adapter->file;
    CKPT_TRY(set_shapes(merger, meeting, err));
    meeting->term.down = (struct lora_tensor){f, m->row[embedding ? LORA_EMBEDDING_DOWN : LORA_DOWN]};
    meeting->term.up = (struct lora_tensor){f, m->row[embedding ? LORA_EMBEDDING_UP : LORA_UP]};
    if (!meeting->problem.ptr)
        CKPT_TRY(set_scale(merger, meeting, err));
    if (!meeting->problem.ptr)
        CKPT_TRY(check_magnitude(merger, meeting, err));
    if (!meeting->problem.ptr)
        CKPT_TRY(match_bias(merger, meeting, err));
    meeting->term.scale *= meeting->adapter->given->scale;
    if (meeting->problem.ptr)
        return CKPT_OK;
    if (!isfinite(meeting->term.scale))
        return set_problem(meeting, ARENA_CONCAT(merger->a, STR_LIT("the scale is not finite")), err);
    const ckpt_tensor w = table_tensor(&merger->p->file->table, merger->p->entries[meeting->found.entry].row);
    struct target *target = &merger->targets[meeting->target];
    target->rows = w.shape[0];
    target->cols = count_rest(&w);
    if (lora_term_bytes(&meeting->term, target->rows, target->cols) > LORA_TERM_MAX)
        return set_problem(
            meeting, ARENA_CONCAT(merger->a, STR_LIT("its matrices take more than 1 GiB in memory")), err);
    return CKPT_OK;
}

/* check_replacement - sets the problem unless the tensor that replaces the weight fits it, and replaces no
 * change. */
static ckpt_status check_replacement(struct merger *merger, struct meeting *meeting, enum lora_role role,
                                     ckpt_error *err)
{
    const struct module *m = meeting->module;
    const ckpt_tensor new = tensor_of(meeting, role);
    const ckpt_tensor w = table_tensor(&merger->p->file->table, merger->p->entries[meeting->found.entry].row);
    bool fits = new.ndim == w.ndim && (new.dtype == w.dtype || dtype_is_float((ckpt_dtype)new.dtype));
    for (uint32_t k = 0; fits && k < w.ndim; k++)
        fits = new.shape[k] == w.shape[k];
    if (!fits)
        return set_problem(meeting,
                           ARENA_CONCAT(merger->a, shape_text(merger->a, &new), STR_LIT(" cannot replace \""),
                                        merger->p->entries[meeting->found.entry].name, STR_LIT("\" "),
                                        shape_text(merger->a, &w)),
                           err);
    if (role == LORA_OTHER && !is_saved(meeting, m->name.module))
        return set_problem(
            meeting,
            ARENA_CONCAT(merger->a,
                         STR_LIT("is no matrix of LoRA, and the config does not list it in modules_to_save")),
            err);
    return CKPT_OK;
}

/* match_module - sets in MEETING what becomes of its module. */
static ckpt_status match_module(struct merger *merger, struct meeting *meeting, ckpt_error *err)
{
    const struct module *m = meeting->module;
    const bool has_pair = has(m, LORA_DOWN) || is_embedding(m);
    CKPT_TRY(find_config(merger, meeting->adapter, m->name.component, &meeting->config, err));
    CKPT_TRY(check_pair(merger, meeting, err));
    if (!meeting->problem.ptr)
        CKPT_TRY(match(merger, meeting, has(m, LORA_OTHER) ? "" : ".weight", err));
    if (meeting->is_new)
        return CKPT_OK;
    if (!meeting->problem.ptr && (has(m, LORA_OTHER) || has(m, LORA_BASE)))
        CKPT_TRY(check_replacement(merger, meeting, has(m, LORA_OTHER) ? LORA_OTHER : LORA_BASE, err));
    if (!meeting->problem.ptr && has_pair)
        CKPT_TRY(match_term(merger, meeting, err));
    return CKPT_OK;
}

/* ----------------------------------------------------------------------------- merging */

/* set_base - makes tensor ROW of the adapter the base of the target of MEETING, or sets the problem. */
static ckpt_status set_base(struct merger *merger, struct meeting *meeting, uint32_t row, ckpt_error *err)
{
    struct target *target = &merger->targets[meeting->target];
    if (target->base.file || target->nterms)
        return set_problem(meeting,
                           ARENA_CONCAT(merger->a, STR_LIT("would replace \""),
                                        merger->p->entries[target->entry].name,
                                        STR_LIT("\", which an adapter before it changes")),
                           err);
    target->base = (struct lora_tensor){meeting->adapter->file, row};
    return CKPT_OK;
}

static ckpt_status add_term(struct merger *merger, struct target *target, const struct lora_term *term,
                            ckpt_error *err)
{
    return ARENA_PUSH(merger->a, target, terms, term) ? CKPT_OK : fail_memory(err);
}

/* add_bias - adds the bias of the pair to that of the module. */
static ckpt_status add_bias(struct merger *merger, struct meeting *meeting, ckpt_error *err)
{
    const struct lora_term term = {.up = {meeting->adapter->file, meeting->module->row[LORA_BIAS]},
                                   .rank = 1,
                                   .scale = meeting->term.scale};
    struct target *target = &merger->targets[meeting->biased];
    target->rows = tensor_of(meeting, LORA_BIAS).elements;
    target->cols = 1;
    return add_term(merger, target, &term, err);
}

/* find_conflict - returns why ADDITION cannot be added to the mapping of its row LIKE; NULL: it can be. */
static const char *find_conflict(const struct merger *merger, const struct addition *addition)
{
    const ckpt_file *f = merger->p->file;
    const struct step *steps = table_steps_of(&f->table, addition->like);
    const uint32_t depth = table_npath_of(&f->table, addition->like);
    if (map_get(merger->addition_of, addition->name) != MAP_NONE)
        return "which an adapter before it adds";
    if (!addition->key.len || !steps || !depth || !steps[depth - 1].node)
        return "which is in no mapping";
    return mapping_get(steps[depth - 1].node, addition->key.ptr) ? "which it has, but not as a tensor" : NULL;
}

/* place_new - sets the name and the mapping of MEETING's tensor, which the plan lacks, or the problem: its
 * name differs as the other names of its component do. */
static ckpt_status place_new(struct merger *merger, struct meeting *meeting, ckpt_error *err)
{
    const struct adapter *adapter = meeting->adapter;
    const struct lora_name *name = &meeting->module->name;
    struct addition *new = &meeting->addition;
    const struct prefix *prefix = NULL;
    size_t mapping_len = 0;
    for (size_t i = 0; i < adapter->nprefixes && !prefix; i++)
        if (str_eq(adapter->prefixes[i].component, name->component))
            prefix = &adapter->prefixes[i];
    if (!prefix || !str_starts(name->module, prefix->strip))
        return set_problem(
            meeting,
            ARENA_CONCAT(merger->a, STR_LIT("the base model lacks it, and "),
                         prefix ? STR_LIT("the prefix that other names lose is \"") : STR_LIT("no other "),
                         prefix ? prefix->strip : STR_LIT("tensor shows by which prefix names differ"),
                         prefix ? STR_LIT("\"") : STR_LIT("")),
            err);
    meeting->found = (struct lora_found){.entry = MAP_NONE, .strip = prefix->strip, .add = prefix->add};
    new->name = ARENA_CONCAT(merger->p->file->a, prefix->add, str_skip(name->module, prefix->strip.len));
    CKPT_TRY_ALLOC(new->name.ptr, err);
    new->from = (struct lora_tensor){adapter->file, meeting->module->row[LORA_OTHER]};
    bool has_mapping = row_find_mapping(merger->p, new->name, &new->like, &mapping_len);
    new->key = has_mapping ? arena_str(merger->p->file->a, str_skip(new->name, mapping_len)) : new->name;
    CKPT_TRY_ALLOC(new->key.ptr, err);
    const char *conflict = has_mapping ? find_conflict(merger, new) : "which is in no mapping";
    if (conflict)
        return set_problem(meeting,
                           ARENA_CONCAT(merger->a, STR_LIT("the base model lacks it; it would be \""),
                                        new->name, STR_LIT("\", "), str_c(conflict)),
                           err);
    CKPT_TRY(row_check_place(merger->p, new->like, err));
    bool ok = map_put(merger->addition_of, new->name, (uint32_t)merger->nadditions, NULL) &&
              ARENA_PUSH(merger->a, merger, additions, new);
    return ok ? CKPT_OK : fail_memory(err);
}

/* apply - adds what MEETING found to its targets, or sets the problem. */
static ckpt_status apply(struct merger *merger, struct meeting *meeting, ckpt_error *err)
{
    const struct module *m = meeting->module;
    if (meeting->is_new)
        return place_new(merger, meeting, err);
    if (meeting->is_square && meeting->adapter->has_other_order)
        return set_problem(
            meeting,
            ARENA_CONCAT(
                merger->a,
                STR_LIT("the weight is square, and fan_in_fan_out of the config is not that of others: "
                        "correct it in adapter_config.json")),
            err);
    for (int role = LORA_BASE; role <= LORA_OTHER; role++)
        if (has(m, (enum lora_role)role))
            CKPT_TRY(set_base(merger, meeting, m->row[role], err));
    if (meeting->term.up.file && !meeting->problem.ptr)
        CKPT_TRY(add_term(merger, &merger->targets[meeting->target], &meeting->term, err));
    if (meeting->has_bias && !meeting->problem.ptr)
        CKPT_TRY(add_bias(merger, meeting, err));
    return CKPT_OK;
}

/* note_meeting - notes what became of the tensors of the module. */
static ckpt_status note_meeting(struct merger *merger, const struct meeting *meeting, ckpt_error *err)
{
    const struct module *m = meeting->module;
    for (int role = 0; role < LORA_ROLES; role++) {
        if (!has(m, (enum lora_role)role))
            continue;
        const struct lora_found *found = role == LORA_BIAS ? &meeting->bias : &meeting->found;
        const bool is_of_pair = role != LORA_BASE && role != LORA_OTHER;
        ckpt_lora_match match = {.problem = meeting->problem.ptr ? meeting->problem : str_of("", 0),
                                 .nearest = meeting->nearest};
        if (!meeting->problem.ptr) {
            match.weight = meeting->is_new ? meeting->addition.name : merger->p->entries[found->entry].name;
            match.role = meeting->is_new ? "addition" : NULL;
            match.stripped = found->strip;
            match.added = found->add;
            match.rank = is_of_pair ? meeting->term.rank : 0;
            match.scale = is_of_pair ? meeting->term.scale : 1;
        }
        CKPT_TRY(note(merger, meeting->adapter, m->row[role], (enum lora_role)role, &match, err));
    }
    return CKPT_OK;
}

static ckpt_status merge_adapter(struct merger *merger, struct adapter *adapter, ckpt_error *err)
{
    adapter->meetings = arena_array(merger->a, adapter->nmodules, sizeof *adapter->meetings);
    CKPT_TRY_ALLOC(adapter->meetings, err);
    for (size_t i = 0; i < adapter->nmodules; i++) {
        struct meeting *meeting = &adapter->meetings[i];
        *meeting = (struct meeting){.adapter = adapter, .module = &adapter->modules[i]};
        CKPT_TRY(match_module(merger, meeting, err));
    }
    for (size_t i = 0; i < adapter->nmodules; i++) {
        if (!adapter->meetings[i].problem.ptr)
            CKPT_TRY(apply(merger, &adapter->meetings[i], err));
        CKPT_TRY(note_meeting(merger, &adapter->meetings[i], err));
    }
    return CKPT_OK;
}

/* -------------------------------------------------------------------------------- plan */

/* make_source - returns a source of what becomes of TARGET; NULL: no memory. */
static source *make_source(const struct merger *merger, const struct target *target,
                           struct lora_memory *memory)
{
    ckpt_file *f = merger->p->file;
    const uint32_t row = merger->p->entries[target->entry].row;
    const struct lora_tensor own = {f, row}, *base = target->base.file ? &target->base : &own;
    if (!target->nterms && table_dtype_of(&base->file->table, base->row) == table_dtype_of(&f->table, row))
        return row_source(base->file, base->row);
    struct plan_computed *note = plan_add_computed(merger->p, merger->p->entries[target->entry].name,
                                                   (ckpt_dtype)table_dtype_of(&f->table, row));
    if (!note)
        return NULL;
    const struct lora_weight weight = {.base = *base,
                                       .dtype = (ckpt_dtype)table_dtype_of(&f->table, row),
                                       .rows = target->nterms ? target->rows : 1,
                                       .cols = target->nterms ? target->cols
                                                              : table_elements_of(&f->table, row),
                                       .terms = target->terms,
                                       .nterms = target->nterms};
    return lora_source(&weight, memory, &note->is_overflow);
}

static ckpt_status replace_rows(struct merger *merger, ckpt_error *err)
{
    ckpt_plan *p = merger->p;
    struct lora_memory *memory = lora_memory_new();
    ckpt_status st = memory ? CKPT_OK : fail_memory(err);
    for (size_t i = 0; st == CKPT_OK && i < merger->ntargets; i++) {
        const uint32_t row = p->entries[merger->targets[i].entry].row;
        const ckpt_tensor t = table_tensor(&p->file->table, row);
        const struct new_tensor new = {.dtype = (ckpt_dtype)t.dtype,
                                       .ndim = t.ndim,
                                       .shape = t.shape,
                                       .elements = t.elements,
                                       .nbytes = t.nbytes,
                                       .src = make_source(merger, &merger->targets[i], memory)};
        st = new.src ? row_replace(p->file, row, &new, err) : fail_memory(err);
    }
    lora_memory_release(memory);
    return st;
}

/* add_rows - adds the tensors that the plan lacks, with the dtypes that they have in the adapter. */
static ckpt_status add_rows(struct merger *merger, ckpt_error *err)
{
    for (size_t i = 0; i < merger->nadditions; i++) {
        const struct addition *addition = &merger->additions[i];
        const ckpt_tensor t = table_tensor(&addition->from.file->table, addition->from.row);
        struct new_tensor new = {.dtype = (ckpt_dtype)t.dtype,
                                 .ndim = t.ndim,
                                 .shape = t.shape,
                                 .elements = t.elements,
                                 .nbytes = t.nbytes};
        uint32_t row;
        CKPT_TRY(row_add(merger->p, addition->like, addition->key, &row, err));
        new.src = row_source(addition->from.file, addition->from.row);
        CKPT_TRY_ALLOC(new.src, err);
        CKPT_TRY(row_replace(merger->p->file, row, &new, err));
    }
    return CKPT_OK;
}

/* note_ties - adds a notice for each tensor that shares its elements with one that changes, but does not
 * change itself. */
static ckpt_status note_ties(struct merger *merger, ckpt_error *err)
{
    ckpt_plan *p = merger->p;
    const struct table *table = &p->file->table;
    map *changes = map_new(merger->ntargets);
    CKPT_TRY_ALLOC(changes, err);
    bool ok = true;
    for (size_t i = 0; ok && i < merger->ntargets; i++)
        ok = map_put_num(changes, p->entries[merger->targets[i].entry].row, 0, NULL);
    for (size_t i = 0; ok && i < p->nentries; i++) {
        const uint32_t row = p->entries[i].row, of = table_alias_of(table, row);
        if (of == CKPT_NO_TENSOR ||
            (map_get_num(changes, row) == MAP_NONE) == (map_get_num(changes, of) == MAP_NONE))
            continue;
        const bool is_first = map_get_num(changes, of) != MAP_NONE;
        plan_notice(p, "\"%.*s\" was the same tensor as \"%.*s\", and is not changed with it",
                    STR_ARG(is_first ? p->entries[i].name : table_name(table, of)),
                    STR_ARG(is_first ? table_name(table, of) : p->entries[i].name));
    }
    map_free(changes);
    return ok ? CKPT_OK : fail_memory(err);
}

/* note_arguments - adds the adapters and options to what identifies the output of the plan. */
static ckpt_status note_arguments(const struct merger *merger, const ckpt_lora_adapter *adapters,
                                  size_t count, ckpt_error *err)
{
    ckpt_plan *p = merger->p;
    p->rules = ARENA_CONCAT(p->a, p->rules, STR_LIT("lora\n"));
    for (size_t i = 0; i < count && p->rules.ptr; i++) {
        ckpt_str scale = arena_printf(p->a, "%a ", adapters[i].scale);
        CKPT_TRY_ALLOC(scale.ptr, err);
        p->rules = ARENA_CONCAT(p->a, p->rules, scale, str_c(adapters[i].path), STR_LIT("\n"));
    }
    for (size_t i = 0; i < merger->opts->nonly && p->rules.ptr; i++)
        p->rules = ARENA_CONCAT(p->a, p->rules, STR_LIT("only "), str_c(merger->opts->only[i]),
                                STR_LIT("\n"));
    return p->rules.ptr ? CKPT_OK : fail_memory(err);
}

static ckpt_status merge_all(struct merger *merger, struct adapter *list, size_t count, ckpt_error *err)
{
    for (size_t i = 0; i < count; i++) {
        ckpt_status st = read_adapter(merger, &list[i], err);
        CKPT_THEN(st, merge_adapter(merger, &list[i], err));
        CKPT_TRY(name_file_if_failed(st, list[i].given->path, err));
    }
    if (merger->nproblems)
        return fail(err, CKPT_ENOTFOUND, CKPT_NO_OFFSET,
                    "{%zu of %zu} tensors of the adapters do not fit the base model; nothing is written",
                    merger->nproblems, merger->p->report.nlora);
    CKPT_TRY(note_ties(merger, err));
    CKPT_TRY(replace_rows(merger, err));
    CKPT_TRY(add_rows(merger, err));
    merger->p->entries_stale = true;
    return rows_find_ties(merger->p->file, err);
}

ckpt_status lora_merge(ckpt_plan *p, const ckpt_lora_adapter *adapters, size_t count,
                       const ckpt_lora_options *opts, const struct lora_files *files, ckpt_error *err)
{
    struct merger merger = {.p = p, .a = p->a, .opts = opts, .files = files};
    struct adapter *list = arena_array(p->a, count, sizeof *list);
    CKPT_TRY_ALLOC(list, err);
    for (uint32_t i = 0; i < count; i++)
        list[i] = (struct adapter){.given = &adapters[i], .number = i};
    merger.target_of = map_new(64);
    merger.addition_of = map_new(0);
    bool ok = merger.target_of && merger.addition_of;
    ckpt_status st = ok ? note_arguments(&merger, adapters, count, err) : fail_memory(err);
    CKPT_THEN(st, lora_index_init(&merger.index, p, err));
    CKPT_THEN(st, merge_all(&merger, list, count, err));
    for (size_t i = 0; i < count; i++) {
        map_free(list[i].module_of);
        for (size_t k = 0; k < list[i].nconfigs; k++)
            lora_config_free(&list[i].configs[k].c);
    }
    lora_index_free(&merger.index);
    map_free(merger.target_of);
    map_free(merger.addition_of);
    return st;
}
