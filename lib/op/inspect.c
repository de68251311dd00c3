/* inspect.c - finds what `ckpt info` shows: wrappers, weights, optimizer, unreferenced bytes. */
#include <stdlib.h>

#include "base/sized.h"
#include "op/adapters.h"
#include "op/quantized.h"
#include "op/prefix.h"
#include "op/weights.h"
#include "op/weights_only.h"

/* ---- wrappers */

/* How many keys of tensors in one mapping have a prefix. */
struct prefix_counts {
    uint64_t at_start;   /* keys that begin with the prefix */
    uint64_t containing; /* keys with it at the start of any component */
    uint64_t total;      /* all keys except n_averaged */
    bool inner;          /* a key has it after the start */
};

/* count_prefix - counts KEY in COUNTS, those of PREFIX. False: no memory. */
static bool count_prefix(arena *a, ckpt_str key, ckpt_str prefix, struct prefix_counts *counts)
{
    ckpt_str bare = str_is(prefix, "module.") ? prefix_strip_certain(a, key) : key;
    if (!bare.ptr)
        return false;
    bool at_start = str_starts(bare, prefix);
    while (str_starts(bare, prefix)) /* wrapped twice */
        bare = str_skip(bare, prefix.len);
    bool inner = contains_prefix(bare, prefix);
    counts->at_start += at_start;
    counts->inner |= inner;
    counts->containing += at_start || inner;
    counts->total += !str_is(bare, "n_averaged"); /* AveragedModel's own counter */
    return true;
}

/* count_prefixes - counts the keys of CONTAINER in COUNTS, an item for each of wrapper_names. Most keys have
 * none. */
static ckpt_status count_prefixes(const struct containers *tree, const struct container *container,
                                  struct prefix_counts *counts, ckpt_error *err)
{
    struct entry e;
    ckpt_str key;
    uint64_t without = 0;
    bool ok = true;
    const struct entries all = mapping_entries(container->node);
    for (uint32_t i = 0; ok && i < all.n; i++) {
        if (!entries_get(&all, i, &e) || !is_tensor_node(tree, e.val) || !value_text(e.key, &key))
            continue;
        if (!contains_wrapper(key, false)) {
            without += !str_is(key, "n_averaged");
            continue;
        }
        for (size_t w = 0; ok && w < WRAPPER_NAMES; w++)
            ok = count_prefix(tree->a, key, wrapper_names[w].prefix, &counts[w]);
    }
    for (size_t w = 0; w < WRAPPER_NAMES; w++)
        counts[w].total += without;
    return ok ? CKPT_OK : fail_memory(err);
}

static ckpt_status add_wrappers(const struct containers *tree, uint32_t at, ckpt_info *out,
                                ckpt_wrapper **list, size_t *cap, ckpt_error *err)
{
    struct prefix_counts all[WRAPPER_NAMES] = {0};
    CKPT_TRY(count_prefixes(tree, &tree->list[at], all, err));
    for (size_t i = 0; i < WRAPPER_NAMES; i++) {
        const struct prefix_counts counts = all[i];
        ckpt_str prefix = wrapper_names[i].prefix;
        if (!counts.containing)
            continue;
        bool all_begin = counts.at_start == counts.total && !counts.inner && str_is(prefix, "module.");
        const ckpt_wrapper found = {.prefix = prefix,
                                    .where = container_name(tree, at),
                                    .tensors = counts.containing,
                                    .of = counts.total > counts.containing ? counts.total : counts.containing,
                                    .anywhere = counts.inner,
                                    .certain = wrapper_names[i].certain || all_begin};
        if (!found.where.ptr || !arena_push(tree->a, list, &out->nwrappers, cap, &found, sizeof found))
            return fail_memory(err);
    }
    return CKPT_OK;
}

static ckpt_status find_wrappers(const struct containers *tree, const struct weights *weights,
                                 ckpt_file *file, ckpt_info *out, ckpt_error *err)
{
    ckpt_wrapper *list = NULL;
    size_t cap = 0;
    for (uint32_t i = 0; i < tree->n; i++)
        if (weights->role[i])
            CKPT_TRY(add_wrappers(tree, i, out, &list, &cap, err));
    file->inspected.wrappers = list;
    file->inspected.nwrappers = out->nwrappers;
    return CKPT_OK;
}

/* ---- weights */

/* add_row_size - adds elements and bytes of row INDEX, unless it has no bytes or those of an earlier row. */
static void add_row_size(const struct table *table, size_t index, uint64_t *elements, uint64_t *bytes)
{
    if (!table_has_data(table, index) || table_alias_of(table, index) != CKPT_NO_TENSOR)
        return;
    *elements = size_add(*elements, table_elements_of(table, index));
    *bytes = size_add(*bytes, table_nbytes_of(table, index));
}

/* count_rows - adds each row of FILE to the item of LIST for its container. CONTAINER[i] is the container of
 * row i, or NO_CONTAINER; WEIGHTS_INDEX[c] is the index in LIST of container c. */
static void count_rows(const ckpt_file *file, const uint32_t *container, const uint32_t *weights_index,
                       ckpt_weights *list)
{
    const struct table *t = &file->table;
    for (size_t i = 0; i < t->nrows; i++) {
        if (container[i] == NO_CONTAINER || name_state(table_name(t, i)) != CKPT_STATE_NONE)
            continue;
        ckpt_weights *weights = &list[weights_index[container[i]]];
        weights->tensors += table_part_of(t, i) == CKPT_NO_TENSOR;
        add_row_size(t, i, &weights->elements, &weights->bytes);
    }
}

/* First components of the keys of one mapping, with their dots. */
struct first_component_votes {
    ckpt_str majority; /* the one that more than half of the keys begin with, if any */
    ckpt_str averaged; /* the one that is a name of averaged copies; of several, the first found */
    uint64_t votes, with_majority, with_averaged;
    uint64_t nested; /* keys with MAJORITY and more than one component after it */
};

static ckpt_str last_key(const struct table *table, size_t index)
{
    uint32_t n = table_npath_of(table, index);
    const ckpt_path_elem *last = n ? &table_path_of(table, index)[n - 1] : NULL;
    return last && !last->is_int ? last->str : str_of("", 0);
}

/* first_component - returns the first component of KEY, with its dot; empty: KEY has no dot. */
static ckpt_str first_component(ckpt_str key)
{
    const char *dot = key.len ? memchr(key.ptr, '.', key.len) : NULL;
    return str_of(key.ptr, dot ? (size_t)(dot - key.ptr) + 1 : 0);
}

/* vote_for_component - votes for the first component of KEY; the winner is the only one that more than half
 * of the keys can have (Boyer and Moore 1981). */
static void vote_for_component(struct first_component_votes *counts, ckpt_str key)
{
    ckpt_str first = first_component(key);
    const ckpt_path_elem name = {.str = str_of(first.ptr, first.len ? first.len - 1 : 0)};
    bool is_majority = str_eq(counts->majority, first);
    if (!is_majority && !counts->averaged.len && is_averaged_name(&name)) /* it was checked before */
        counts->averaged = first;
    if (!counts->votes)
        counts->majority = first;
    counts->votes = !counts->votes || is_majority ? counts->votes + 1 : counts->votes - 1;
}

static void count_component(struct first_component_votes *counts, ckpt_str key)
{
    ckpt_str first = first_component(key);
    bool has_majority = first.len && str_eq(counts->majority, first);
    counts->with_averaged += first.len && str_eq(counts->averaged, first);
    counts->with_majority += has_majority;
    counts->nested += has_majority && first_component(str_skip(key, first.len)).len;
}

/* set_prefix - sets the prefix to the majority if 3/4 of the keys have it, more than half of these with two
 * components after it (a network, not a layer); else to that of averaged copies if 1/4 of keys have it. */
static void set_prefix(ckpt_weights *weights, const struct first_component_votes *counts)
{
    if (counts->with_majority > 1 && counts->with_majority >= weights->tensors - weights->tensors / 4 &&
        counts->nested > counts->with_majority / 2) {
        weights->prefix = counts->majority;
        weights->prefixed = counts->with_majority;
    } else if (counts->with_averaged > 1 && counts->with_averaged >= weights->tensors / 4) {
        weights->prefix = counts->averaged;
        weights->prefixed = counts->with_averaged;
    }
    if (find_wrapper(weights->prefix)) { /* reported as a wrapper */
        weights->prefix = str_of(NULL, 0);
        weights->prefixed = 0;
    }
}

/* find_prefixes - sets the prefix of each of the COUNT items of LIST. For the other arrays, see
 * count_rows. */
static ckpt_status find_prefixes(const struct containers *tree, const uint32_t *container,
                                 const uint32_t *weights_index, ckpt_weights *list, size_t count,
                                 ckpt_error *err)
{
    const struct table *t = &tree->file->table;
    struct first_component_votes *votes = calloc(count + 1, sizeof *votes);
    CKPT_TRY_ALLOC(votes, err);
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < t->nrows; i++)
            if (container[i] != NO_CONTAINER && table_part_of(t, i) == CKPT_NO_TENSOR)
                (pass ? count_component : vote_for_component)(&votes[weights_index[container[i]]],
                                                              last_key(t, i));
    for (size_t i = 0; i < count; i++)
        set_prefix(&list[i], &votes[i]);
    free(votes);
    return CKPT_OK;
}

static ckpt_status list_weights(const struct containers *tree, const struct weights *weights, ckpt_file *file,
                                ckpt_info *out, ckpt_error *err)
{
    ckpt_weights *list = NULL;
    size_t cap = 0;
    uint32_t *container, *weights_index = arena_array(tree->a, tree->n, sizeof *weights_index);
    CKPT_TRY_ALLOC(weights_index, err);
    for (uint32_t i = 0; i < tree->n; i++) {
        if (!weights->role[i])
            continue;
        weights_index[i] = (uint32_t)out->nweights;
        const ckpt_weights found = {.name = container_name(tree, i),
                                    .averaged = weights->role[i] == WEIGHTS_AVERAGED};
        if (!found.name.ptr || !arena_push(tree->a, &list, &out->nweights, &cap, &found, sizeof found))
            return fail_memory(err);
    }
    file->inspected.weights = list;
    file->inspected.nweights = out->nweights;
    CKPT_TRY(weights_rows(tree, weights, STR_LIT(""), &container, err));
    count_rows(tree->file, container, weights_index, list);
    return find_prefixes(tree, container, weights_index, list, out->nweights, err);
}

/* ---- optimizer */

/* An optimizer is recognized by the keys of its state for each parameter: the first row of this table whose
 * keys all occur names it. From torch/optim, and the Adafactor of fairseq and transformers. */
static const struct {
    const char *name, *keys[2];
} optimizers[] = {
    {"Adafactor", {"RMS", "exp_avg_sq"}}, /* of a vector; transformers adds exp_avg if beta1 is given */
    {"Adafactor", {"exp_avg_sq_row", NULL}},
    {"Adafactor", {"row_var", "col_var"}},
    {"Adafactor", {"variance", "step"}},
    {"Adam-like", {"exp_avg", "exp_avg_sq"}},
    {"Adamax", {"exp_avg", "exp_inf"}},
    {"Lion-like", {"exp_avg", NULL}},
    {"Adadelta", {"square_avg", "acc_delta"}},
    {"RMSprop", {"square_avg", NULL}},
    {"Rprop", {"prev", "step_size"}},
    {"ASGD", {"ax", "eta"}},
    {"SGD with momentum", {"momentum_buffer", NULL}},
    {"Adagrad", {"sum", "step"}},
};

static const char *optimizer_name(const ckpt_value *parameter_state, const ckpt_value *group)
{
    /* Muon's state is that of SGD; its options are those of torch.optim.Muon, or mark it beside an Adam. */
    if (mapping_get(group, "ns_steps") || mapping_get(group, "use_muon"))
        return "Muon";
    if (!parameter_state && mapping_get(group, "momentum"))
        return "SGD";
    if (!parameter_state && mapping_get(group, "betas"))
        return "Adam-like";
    for (size_t i = 0; parameter_state && i < sizeof optimizers / sizeof *optimizers; i++)
        if (mapping_get(parameter_state, optimizers[i].keys[0]) &&
            (!optimizers[i].keys[1] || mapping_get(parameter_state, optimizers[i].keys[1])))
            return optimizers[i].name;
    return "an optimizer";
}

static ckpt_status find_optimizer(const struct containers *tree, ckpt_info *out, ckpt_error *err)
{
    uint32_t first = NO_CONTAINER, count = 0;
    for (uint32_t i = 0; i < tree->n; i++)
        if (tree->list[i].is_optimizer && !count++)
            first = i;
    if (!count)
        return CKPT_OK;
    struct entry e = {0};
    const ckpt_value *state = mapping_get(tree->list[first].node, "state");
    uint32_t n = mapping_count(state);
    bool any = mapping_entry(state, 0, &e);
    const ckpt_value *group = value_item(mapping_get(tree->list[first].node, "param_groups"), 0);
    out->optimizer = arena_printf(tree->a, "%s, %u state%s", optimizer_name(any ? e.val : NULL, group), n,
                                  n == 1 ? "" : "s");
    char number[STR_NUMBER_MAX];
    if (out->optimizer.ptr && count > 1)
        out->optimizer = ARENA_CONCAT(tree->a, out->optimizer, STR_LIT("; "),
                                      format_number(count - 1, number), STR_LIT(" more"));
    out->optimizer_path = container_name(tree, first);
    return out->optimizer.ptr && out->optimizer_path.ptr ? CKPT_OK : fail_memory(err);
}

/* ---- quantized weights */

static ckpt_status list_schemes(ckpt_file *file, ckpt_info *out, ckpt_error *err)
{
    arena *a = arena_new(UINT64_MAX);
    struct quantized_weights found = {.n = 0};
    size_t n[QUANTIZED_SCHEMES] = {0};
    ckpt_quantized *list = arena_array(file->inspected.a, QUANTIZED_SCHEMES, sizeof *list);
    ckpt_status st = a && list ? quantized_find(file, a, &found, err) : fail_memory(err);
    for (size_t i = 0; i < found.n; i++)
        n[found.list[i].scheme]++;
    for (unsigned i = 0; i < QUANTIZED_SCHEMES; i++)
        if (n[i])
            list[out->nquantized++] = (ckpt_quantized){str_c(quantized_title((enum quantized_scheme_id)i)),
                                                       n[i]};
    file->inspected.quantized = list;
    file->inspected.nquantized = out->nquantized;
    arena_free(a);
    return st;
}

/* ---- bytes */

/* The bytes of a storage that one row covers. */
struct covered_range {
    uint32_t storage;
    uint64_t from, to;
};

static uint64_t size_of_blocks(ckpt_dtype dt, uint64_t elems, bool round_up)
{
    const struct dtype_info *d = dtype_info(dt);
    uint64_t blocks = d->block_elems ? elems / d->block_elems + (round_up && elems % d->block_elems) : 0;
    return size_mul(blocks, d->block_bytes);
}

static bool find_covered_range(const ckpt_tensor *tensor, uint64_t size, struct covered_range *range)
{
    uint64_t end;
    if (!tensor->has_data || tensor->storage == CKPT_NO_STORAGE || !tensor_view_end(tensor, &end) || end == 0)
        return false;
    *range = (struct covered_range){.storage = tensor->storage, .to = size};
    if (dtype_info((ckpt_dtype)tensor->dtype)->block_bytes) {
        range->from = size_of_blocks((ckpt_dtype)tensor->dtype, tensor->storage_offset, false);
        range->to = size_of_blocks((ckpt_dtype)tensor->dtype, end, true);
    }
    if (range->to > size)
        range->to = size;
    return range->from < range->to;
}

static int compare_ranges(const void *left, const void *right)
{
    const struct covered_range *a = left, *b = right;
    if (a->storage != b->storage)
        return a->storage < b->storage ? -1 : 1;
    return (a->from > b->from) - (a->from < b->from);
}

/* count_unreferenced - sets *OUT to the bytes of storages that no row covers, plus f->unaccounted. Bytes
 * between the elements of a strided row count as covered. */
static ckpt_status count_unreferenced(const ckpt_file *f, uint64_t *out, ckpt_error *err)
{
    const struct table *t = &f->table;
    struct covered_range *ranges = calloc(t->nrows + 1, sizeof *ranges);
    size_t n = 0;
    uint64_t total = 0, covered = 0, end = 0;
    bool in_order = true;
    CKPT_TRY_ALLOC(ranges, err);
    for (size_t i = 0; i < t->nrows; i++) {
        ckpt_tensor row;
        table_read_tensor(t, i, &row);
        if (row.storage >= t->nstorages ||
            !find_covered_range(&row, t->storages[row.storage].nbytes, &ranges[n]))
            continue;
        in_order &= !n || compare_ranges(&ranges[n - 1], &ranges[n]) <= 0;
        n++;
    }
    for (size_t i = 0; i < t->nstorages; i++)
        total = size_add(total, t->storages[i].src ? t->storages[i].nbytes : 0);
    if (!in_order)
        qsort(ranges, n, sizeof *ranges, compare_ranges);
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || ranges[i].storage != ranges[i - 1].storage)
            end = 0;
        uint64_t from = ranges[i].from > end ? ranges[i].from : end;
        if (ranges[i].to > from)
            covered += ranges[i].to - from;
        if (ranges[i].to > end)
            end = ranges[i].to;
    }
    free(ranges);
    *out = size_add(total > covered ? total - covered : 0, f->unaccounted);
    return CKPT_OK;
}

static void sum_rows(const ckpt_file *f, ckpt_info *out)
{
    for (size_t i = 0; i < f->table.nrows; i++) {
        out->aliases += table_alias_of(&f->table, i) != CKPT_NO_TENSOR;
        add_row_size(&f->table, i, &out->elements, &out->nbytes);
    }
}

static ckpt_status inspect_graph(const struct containers *tree, ckpt_file *file, ckpt_info *out,
                                 ckpt_error *err)
{
    struct weights weights;
    CKPT_TRY(weights_find(tree, &weights, err));
    out->weights_why = str_c(weights.why);
    if (weights.container != NO_CONTAINER) {
        out->has_weights = true;
        out->weights_root = container_name(tree, weights.container);
        CKPT_TRY_ALLOC(out->weights_root.ptr, err);
    }
    CKPT_TRY(list_weights(tree, &weights, file, out, err));
    CKPT_TRY(find_wrappers(tree, &weights, file, out, err));
    return find_optimizer(tree, out, err);
}

const ckpt_weights *ckpt_weights_at(const ckpt_file *file, size_t index)
{
    return index < file_or_empty(file)->inspected.nweights ? &file->inspected.weights[index] : NULL;
}

const ckpt_quantized *ckpt_quantized_at(const ckpt_file *file, size_t index)
{
    return index < file_or_empty(file)->inspected.nquantized ? &file->inspected.quantized[index] : NULL;
}

const ckpt_wrapper *ckpt_wrapper_at(const ckpt_file *file, size_t index)
{
    return index < file_or_empty(file)->inspected.nwrappers ? &file->inspected.wrappers[index] : NULL;
}

/* clear_inspected - frees the result of an earlier call. */
static ckpt_status clear_inspected(ckpt_file *f, ckpt_error *err)
{
    arena_free(f->inspected.a);
    f->inspected = (struct inspection){.a = arena_new(UINT64_MAX)};
    return f->inspected.a ? CKPT_OK : fail_memory(err);
}

ckpt_status ckpt_inspect(ckpt_file *file, ckpt_info *out, ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    struct containers tree;
    CKPT_TRY(sized_struct_clear(out, err));
    CKPT_REQUIRE(err, file);
    ckpt_info info = {.producer = file->producer,
                      .executes_code = file->executes_code,
                      .ranks = file->ranks.ranks || file->ranks.has_step ? &file->ranks : NULL};
    CKPT_TRY(clear_inspected(file, err));
    ckpt_status st = containers_find(&tree, file, file->root, file->inspected.a, err);
    CKPT_THEN(st, inspect_graph(&tree, file, &info, err));
    containers_free(&tree);
    CKPT_THEN(st, list_schemes(file, &info, err));
    CKPT_THEN(st, adapters_find(file, &file->inspected.adapter, err));
    info.adapter = file->inspected.adapter.modules ? &file->inspected.adapter : NULL;
    CKPT_THEN(st, count_unreferenced(file, &info.unreferenced, err));
    struct weights_only loading;
    CKPT_THEN(st, weights_only_check(file, file->inspected.a, &loading, err));
    if (st == CKPT_OK) {
        info.weights_only = loading.verdict;
        info.weights_only_why = loading.why;
        sum_rows(file, &info);
        sized_struct_copy_out(out, &info, sizeof info);
    }
    return name_file_if_failed(st, file->path, err);
}
