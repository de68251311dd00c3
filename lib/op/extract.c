/* extract.c - see extract.h. The tensors of both models are paired by their names and compared. What
 * differs and is no matrix is an error, left out, or saved with its module; which modules are saved is
 * known before the first pair is computed, because that takes much longer than to read the models. */
#include "op/extract.h"

#include <stdlib.h>

#include "core/computed_source.h"
#include "core/glob.h"
#include "core/row_source.h"
#include "core/svd.h"
#include "op/root.h"

#define MAX_DIMS 5u /* of a convolution in three dimensions */
#define PREFIX   "base_model.model."

/* The tensors of peft's classes; a pair of an embedding is transposed. */
static const char weight_end[] = ".weight", bias_end[] = ".bias";

static const char *const embedding_names[] = {
#define EMBEDDING(component) component,
#include "op/extract_embeddings.def"
#undef EMBEDDING
};

/* -------------------------------------------------------------------------------- names */

static bool is_embedding_name(const struct ckpt_extraction *extraction, ckpt_str name, ckpt_str module)
{
    const ckpt_str last = str_after_last(module, '.');
    for (size_t i = 0; i < sizeof embedding_names / sizeof *embedding_names; i++)
        if (str_is(last, embedding_names[i]))
            return true;
    for (size_t i = 0; i < extraction->opts->nembeddings; i++)
        if (glob_selects(extraction->opts->embeddings[i], name))
            return true;
    return false;
}

static struct extract_item *find_item(const struct ckpt_extraction *extraction, ckpt_str name)
{
    const uint32_t index = map_get(extraction->item_of, name);
    return index == MAP_NONE ? NULL : &extraction->items[index];
}

/* -------------------------------------------------------------------------------- pairs */

static bool is_float(const ckpt_tensor *tensor)
{
    return dtype_is_number((ckpt_dtype)tensor->dtype) && dtype_info((ckpt_dtype)tensor->dtype)->klass == 'f';
}

static bool has_same_shape(const ckpt_tensor *left, const ckpt_tensor *right)
{
    bool is_same = left->ndim == right->ndim;
    for (uint32_t k = 0; is_same && k < left->ndim; k++)
        is_same = left->shape[k] == right->shape[k];
    return is_same;
}

/* describe_matrix - sets what ITEM is as a matrix, or why it is none. LEFT and RIGHT are its tensors. */
static void describe_matrix(const struct ckpt_extraction *extraction, struct extract_item *item,
                            const ckpt_tensor *left, const ckpt_tensor *right)
{
    const bool is_weight = str_ends(item->report.name, str_c(weight_end));
    item->is_in_both = has_same_shape(left, right);
    item->report.why = !item->is_in_both                     ? "has another shape in the base model"
                       : !is_float(left) || !is_float(right) ? "is not of floats"
                       : right->ndim < 2                     ? "is no matrix"
                       : right->ndim > MAX_DIMS              ? "has more dimensions than a convolution"
                       : !is_weight || !item->module.ptr     ? "is not the weight of a module"
                       : right->shape[0] > INT32_MAX / 2 ||
                               right->elements / (right->shape[0] + !right->shape[0]) > INT32_MAX / 2
                           ? "is too large for LAPACK"
                           : NULL;
    item->is_matrix = !item->report.why;
    if (!item->is_matrix || !right->elements)
        return;
    item->pair.rows = (size_t)right->shape[0];
    item->pair.cols = (size_t)(right->elements / right->shape[0]);
    if (right->ndim == 2)
        item->report.is_embedding = is_embedding_name(extraction, item->report.name, item->module);
    item->is_transposed = item->report.is_embedding || (right->ndim == 2 && extraction->opts->fan_in_fan_out);
}

/* check_row - fails unless ROW of F can be read. */
static ckpt_status check_row(const ckpt_file *f, uint32_t row, ckpt_error *err)
{
    ckpt_status st = row_source_check(f, row, err);
    if (st != CKPT_OK)
        error_add_hint(err, "`ckpt convert --dequantize` makes quantized weights dense");
    return name_file_if_failed(st, f->path, err);
}

/* new_item - adds the tensor NAME to the items. */
static ckpt_status new_item(struct ckpt_extraction *extraction, ckpt_str name, struct extract_item **out,
                            ckpt_error *err)
{
    const size_t dot = name.len - str_after_last(name, '.').len;
    struct extract_item *item = arena_append(extraction->a, &extraction->items, &extraction->nitems,
                                             &extraction->cap_items, sizeof *item);
    CKPT_TRY_ALLOC(item, err);
    *item = (struct extract_item){.report = {.name = name, .kind = CKPT_EXTRACTED_NONE},
                                  .pair = {.name = name, .base = CKPT_NO_TENSOR, .tuned = CKPT_NO_TENSOR},
                                  .tie_of = MAP_NONE,
                                  .bias = MAP_NONE,
                                  .weight = MAP_NONE};
    if (dot > 1)
        item->module = str_first(name, dot - 1);
    uint32_t old;
    CKPT_TRY_ALLOC(map_put(extraction->item_of, name, (uint32_t)extraction->nitems - 1, &old), err);
    if (old != MAP_NONE)
        return fail(err, CKPT_EEXIST, CKPT_NO_OFFSET, "two tensors are called \"%.*s\"", STR_ARG(name));
    *out = item;
    return CKPT_OK;
}

/* add_only - adds the tensor NAME, which only one model has: WHY. */
static ckpt_status add_only(struct ckpt_extraction *extraction, ckpt_str name, const char *why,
                            ckpt_error *err)
{
    struct extract_item *item;
    CKPT_TRY(new_item(extraction, name, &item, err));
    item->report.why = why;
    item->differs = true;
    return CKPT_OK;
}

/* add_both - adds the tensor NAME, which is row BASE of one model and row TUNED of the other. */
static ckpt_status add_both(struct ckpt_extraction *extraction, ckpt_str name, uint32_t base, uint32_t tuned,
                            ckpt_error *err)
{
    const ckpt_file *base_file = extraction->base->file, *tuned_file = extraction->tuned->file;
    struct extract_item *item;
    CKPT_TRY(check_row(base_file, base, err));
    CKPT_TRY(check_row(tuned_file, tuned, err));
    CKPT_TRY(new_item(extraction, name, &item, err));
    const ckpt_tensor left = table_tensor(&base_file->table, base),
                      right = table_tensor(&tuned_file->table, tuned);
    item->pair.base = base;
    item->pair.tuned = tuned;
    describe_matrix(extraction, item, &left, &right);
    item->differs = !item->is_in_both;
    return CKPT_OK;
}

static bool is_component(const ckpt_file *f, uint32_t row)
{
    return table_part_of(&f->table, row) != CKPT_NO_TENSOR;
}

/* is_selected - returns true if ENTRY of P is compared. */
static bool is_selected(const struct ckpt_extraction *extraction, const ckpt_plan *p,
                        const struct plan_entry *entry)
{
    const struct wanted_names wanted = {extraction->opts->only, extraction->opts->nonly, false};
    return !is_component(p->file, entry->row) && is_wanted(&wanted, entry->name);
}

/* pair_entries - adds the tensors of both models. ROW_OF has the rows of the base model by name. */
static ckpt_status pair_entries(struct ckpt_extraction *extraction, const map *row_of, ckpt_error *err)
{
    const ckpt_plan *base = extraction->base, *tuned = extraction->tuned;
    for (size_t i = 0; i < tuned->nentries; i++) {
        const struct plan_entry *entry = &tuned->entries[i];
        if (!is_selected(extraction, tuned, entry))
            continue;
        const uint32_t row = map_get(row_of, entry->name);
        CKPT_TRY(row == MAP_NONE ? add_only(extraction, entry->name, "is only in the tuned model", err)
                                 : add_both(extraction, entry->name, row, entry->row, err));
    }
    for (size_t i = 0; i < base->nentries; i++)
        if (is_selected(extraction, base, &base->entries[i]) && !find_item(extraction, base->entries[i].name))
            CKPT_TRY(add_only(extraction, base->entries[i].name, "is only in the base model", err));
    return CKPT_OK;
}

/* find_ties - sets item->tie_of of the tensors that share their elements in both models in the same way. */
static ckpt_status find_ties(struct ckpt_extraction *extraction, ckpt_error *err)
{
    map *of_row = map_new(extraction->nitems);
    bool ok = of_row != NULL;
    for (size_t i = 0; ok && i < extraction->nitems; i++) {
        struct extract_item *item = &extraction->items[i];
        if (!item->is_in_both)
            continue;
        const uint32_t base = table_alias_of(&extraction->base->file->table, item->pair.base);
        const uint32_t tuned = table_alias_of(&extraction->tuned->file->table, item->pair.tuned);
        const uint32_t of = tuned == CKPT_NO_TENSOR ? MAP_NONE : map_get_num(of_row, tuned);
        if (of != MAP_NONE && base != CKPT_NO_TENSOR && extraction->items[of].pair.base == base)
            item->tie_of = of;
        ok = map_put_num(of_row, item->pair.tuned, (uint32_t)i, NULL);
    }
    map_free(of_row);
    return ok ? CKPT_OK : fail_memory(err);
}

static void set_bias(struct ckpt_extraction *extraction, struct extract_item *matrix,
                     struct extract_item *bias)
{
    matrix->bias = (uint32_t)(bias - extraction->items);
    bias->weight = (uint32_t)(matrix - extraction->items);
}

/* find_biases - sets item->bias of the matrices and item->weight of their biases. */
static ckpt_status find_biases(struct ckpt_extraction *extraction, ckpt_error *err)
{
    for (size_t i = 0; i < extraction->nitems; i++) {
        struct extract_item *item = &extraction->items[i];
        if (!item->is_matrix || !item->pair.rows || item->report.is_embedding)
            continue;
        ckpt_str name = ARENA_CONCAT(extraction->a, item->module, str_c(bias_end));
        CKPT_TRY_ALLOC(name.ptr, err);
        struct extract_item *bias = find_item(extraction, name);
        if (!bias || !bias->is_in_both)
            continue;
        const ckpt_tensor t = table_tensor(&extraction->base->file->table, bias->pair.base);
        const size_t out = item->is_transposed ? item->pair.cols : item->pair.rows;
        const size_t in = item->is_transposed ? item->pair.rows : item->pair.cols;
        const bool is_matrix = table_tensor(&extraction->base->file->table, item->pair.base).ndim == 2;
        if (t.ndim == 1 && t.elements == out && is_float(&t))
            set_bias(extraction, item, bias);
        item->has_other_order = is_matrix && t.ndim == 1 && t.elements == in && in != out;
    }
    return CKPT_OK;
}

static ckpt_status pair_models(struct ckpt_extraction *extraction, ckpt_error *err)
{
    const ckpt_plan *base = extraction->base;
    map *row_of = map_new(base->nentries);
    bool ok = row_of != NULL;
    for (size_t i = 0; ok && i < base->nentries; i++)
        ok = map_put(row_of, base->entries[i].name, base->entries[i].row, NULL);
    ckpt_status st = ok ? pair_entries(extraction, row_of, err) : fail_memory(err);
    map_free(row_of);
    CKPT_THEN(st, find_ties(extraction, err));
    CKPT_THEN(st, find_biases(extraction, err));
    return st;
}

/* ------------------------------------------------------------------------------ compare */

/* compare - sets item->differs of all items. */
static ckpt_status compare(struct ckpt_extraction *extraction, struct extract_job *job, ckpt_error *err)
{
    bool *differ = calloc(extraction->nitems + 1, sizeof *differ);
    struct extract_item **compared = calloc(extraction->nitems + 1, sizeof(struct extract_item *));
    job->pairs = calloc(extraction->nitems + 1, sizeof(struct extract_pair *));
    job->npairs = 0;
    job->differ = differ;
    ckpt_status st = differ && compared && job->pairs ? CKPT_OK : fail_memory(err);
    for (size_t i = 0; st == CKPT_OK && i < extraction->nitems; i++) {
        struct extract_item *item = &extraction->items[i];
        if (!item->is_in_both || item->tie_of != MAP_NONE)
            continue;
        compared[job->npairs] = item;
        job->pairs[job->npairs++] = &item->pair;
        job->total = size_add(job->total, size_mul(2, extract_bytes(job, &item->pair)));
    }
    CKPT_THEN(st, extract_compare(job, err));
    for (size_t i = 0; st == CKPT_OK && i < job->npairs; i++) {
        struct extract_item *item = compared[i];
        item->differs = differ[i];
        if (differ[i] && item->is_matrix && !item->pair.is_finite) {
            item->report.why = "differs by numbers that are not finite";
            item->is_matrix = false;
        }
    }
    job->before = job->total / 2;
    free(differ);
    free(compared);
    free(job->pairs);
    job->pairs = NULL;
    for (size_t i = 0; st == CKPT_OK && i < extraction->nitems; i++)
        if (extraction->items[i].tie_of != MAP_NONE)
            extraction->items[i].differs = extraction->items[extraction->items[i].tie_of].differs;
    return st;
}

/* ------------------------------------------------------------------------------- decide */

ckpt_str extract_saved_module(const struct ckpt_extraction *extraction, ckpt_str module)
{
    ckpt_str found = str_of(NULL, 0);
    for (;;) {
        if (map_get(extraction->saved, module) != MAP_NONE)
            found = module;
        const size_t last = str_after_last(module, '.').len;
        if (last == module.len)
            return found;
        module = str_first(module, module.len - last - 1);
    }
}

static bool is_saved(const struct ckpt_extraction *extraction, ckpt_str module)
{
    return extract_saved_module(extraction, module).ptr != NULL;
}

/* save_module - saves the module of ITEM. */
static ckpt_status save_module(struct ckpt_extraction *extraction, const struct extract_item *item,
                               ckpt_error *err)
{
    return map_put(extraction->saved, item->module, 0, NULL) ? CKPT_OK : fail_memory(err);
}

static bool can_be_saved(const struct extract_item *item) { return item->is_in_both && item->module.ptr; }

/* is_pair - returns true if ITEM becomes a pair, as far as it is known which modules are saved. */
static bool is_pair(const struct ckpt_extraction *extraction, const struct extract_item *item)
{
    return item->differs && item->is_matrix && item->tie_of == MAP_NONE &&
           !is_saved(extraction, item->module);
}

/* save_others - saves the modules of tensors that differ and are neither matrices nor, if WITH_BIASES,
 * biases of matrices. */
static ckpt_status save_others(struct ckpt_extraction *extraction, bool with_biases, ckpt_error *err)
{
    for (size_t i = 0; i < extraction->nitems; i++) {
        const struct extract_item *item = &extraction->items[i];
        if (!item->differs || item->is_matrix || item->tie_of != MAP_NONE || !can_be_saved(item))
            continue;
        if (with_biases && item->weight != MAP_NONE)
            continue;
        CKPT_TRY(save_module(extraction, item, err));
    }
    for (size_t i = 0; i < extraction->nitems; i++) { /* what is tied to a saved tensor is saved, too */
        const struct extract_item *item = &extraction->items[i];
        if (item->tie_of != MAP_NONE && can_be_saved(item) && item->differs &&
            is_saved(extraction, extraction->items[item->tie_of].module))
            CKPT_TRY(save_module(extraction, item, err));
    }
    return CKPT_OK;
}

/* has_changed_bias - returns true if the bias of ITEM, a matrix, differs. */
static bool has_changed_bias(const struct ckpt_extraction *extraction, const struct extract_item *item)
{
    return item->bias != MAP_NONE && extraction->items[item->bias].differs;
}

/* can_have_biases - returns true if a bias of a matrix differs and peft accepts lora_bias: all modules with a
 * pair have a bias, and none is an embedding. */
static bool can_have_biases(const struct ckpt_extraction *extraction)
{
    bool has_bias = false;
    for (size_t i = 0; i < extraction->nitems; i++) {
        const struct extract_item *item = &extraction->items[i];
        if (is_pair(extraction, item) && (item->report.is_embedding || item->bias == MAP_NONE))
            return false;
        has_bias = has_bias || (has_changed_bias(extraction, item) && item->is_matrix &&
                                !is_saved(extraction, item->module));
    }
    return has_bias;
}

static ckpt_status choose_saved(struct ckpt_extraction *extraction, ckpt_error *err)
{
    CKPT_TRY(save_others(extraction, true, err));
    extraction->has_biases = can_have_biases(extraction);
    return extraction->has_biases ? CKPT_OK : save_others(extraction, false, err);
}

/* check_names - sets why a pair is none if the end of its name is that of a module that is saved: peft would
 * replace its module, too, because it compares only the ends. */
static void check_names(struct ckpt_extraction *extraction)
{
    for (size_t i = 0; i < extraction->nitems; i++) {
        struct extract_item *item = &extraction->items[i];
        if (item->report.kind != CKPT_EXTRACTED_PAIR)
            continue;
        for (size_t skip = 1; skip < item->module.len; skip++)
            if (map_get(extraction->saved, str_skip(item->module, skip)) != MAP_NONE) {
                item->report.kind = CKPT_EXTRACTED_NONE;
                item->report.why = "has a name that ends in that of a module that is saved";
            }
    }
}

/* decide - sets what becomes of ITEM. */
static void decide(struct ckpt_extraction *extraction, struct extract_item *item)
{
    if (item->is_in_both && item->module.ptr && is_saved(extraction, item->module))
        item->report.kind = CKPT_EXTRACTED_SAVED;
    else if (item->differs && item->tie_of != MAP_NONE)
        item->report.kind = CKPT_EXTRACTED_TIED;
    else if (is_pair(extraction, item))
        item->report.kind = CKPT_EXTRACTED_PAIR;
    if (extraction->has_biases && item->is_matrix && has_changed_bias(extraction, item) &&
        item->report.kind == CKPT_EXTRACTED_NONE)
        item->report.kind = CKPT_EXTRACTED_PAIR; /* of rank 0, because only the bias differs */
}

/* decide_biases - sets what becomes of the biases of pairs. */
static void decide_biases(struct ckpt_extraction *extraction)
{
    for (size_t i = 0; extraction->has_biases && i < extraction->nitems; i++) {
        const struct extract_item *item = &extraction->items[i];
        if (item->report.kind == CKPT_EXTRACTED_PAIR && has_changed_bias(extraction, item))
            extraction->items[item->bias].report.kind = CKPT_EXTRACTED_BIAS;
    }
}

static ckpt_status list_differences(struct ckpt_extraction *extraction, size_t *nothing, ckpt_error *err)
{
    *nothing = 0;
    for (size_t i = 0; i < extraction->nitems; i++) {
        const struct extract_item *item = &extraction->items[i];
        if (!item->differs && item->report.kind == CKPT_EXTRACTED_NONE)
            continue;
        *nothing += item->report.kind == CKPT_EXTRACTED_NONE;
        CKPT_TRY_ALLOC(ARENA_PUSH(extraction->a, extraction, list, &item), err);
    }
    return CKPT_OK;
}

/* check_orders - refuses an order of dimensions that the length of a bias contradicts. */
static ckpt_status check_orders(const struct ckpt_extraction *extraction, ckpt_error *err)
{
    for (size_t i = 0; i < extraction->nitems; i++) {
        const struct extract_item *item = &extraction->items[i];
        if (item->is_matrix && item->differs && item->has_other_order)
            return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET,
                        "\"%.*s\" is a matrix [%zu, %zu], but the bias of its module has %zu elements\n"
                        "%s --fan-in-fan-out, which is for matrices [in, out], as those of GPT-2",
                        STR_ARG(item->report.name), item->pair.rows, item->pair.cols,
                        item->is_transposed ? item->pair.rows : item->pair.cols,
                        item->is_transposed ? "leave out" : "use");
    }
    return CKPT_OK;
}

/* fail_others - fails because NOTHING becomes of so many of the tensors that differ. */
static ckpt_status fail_others(const struct ckpt_extraction *extraction, size_t nothing, ckpt_error *err)
{
    bool can_save = extraction->opts->others != CKPT_OTHERS_SAVE;
    for (size_t i = 0; i < extraction->nlist; i++)
        can_save = can_save && (extraction->list[i]->report.kind != CKPT_EXTRACTED_NONE ||
                                can_be_saved(extraction->list[i]));
    return fail(
        err, CKPT_ELOSSY, CKPT_NO_OFFSET,
        "{%zu of %zu} tensors that differ cannot be expressed by {=pairs of matrices}; nothing is written\n"
        "%s--others drop leaves them out",
        nothing, extraction->nlist, can_save ? "--others save keeps them in the adapter, " : "");
}

/* decide_all - sets what becomes of each item. */
static ckpt_status decide_all(struct ckpt_extraction *extraction, ckpt_error *err)
{
    size_t nothing, npairs = 0;
    CKPT_TRY(check_orders(extraction, err));
    if (extraction->opts->others == CKPT_OTHERS_SAVE)
        CKPT_TRY(choose_saved(extraction, err));
    for (size_t i = 0; i < extraction->nitems; i++)
        decide(extraction, &extraction->items[i]);
    check_names(extraction);
    decide_biases(extraction);
    CKPT_TRY(list_differences(extraction, &nothing, err));
    for (size_t i = 0; i < extraction->nitems; i++)
        npairs += extraction->items[i].report.kind == CKPT_EXTRACTED_PAIR;
    if (nothing && extraction->opts->others != CKPT_OTHERS_DROP)
        return fail_others(extraction, nothing, err);
    return npairs ? CKPT_OK
                  : fail(err, CKPT_ENOTFOUND, CKPT_NO_OFFSET,
                         "no matrix differs from that of the base model; there is nothing to extract");
}

/* ------------------------------------------------------------------------------ compute */

/* add_pair - adds ITEM, and the bias that it needs, to the pairs of JOB. */
static void add_pair(const struct ckpt_extraction *extraction, struct extract_item *item,
                     struct extract_job *job)
{
    struct extract_item *bias = item->bias == MAP_NONE ? NULL : &extraction->items[item->bias];
    if (item->differs) {
        item->pair.rank = extraction->opts->rank;
        item->pair.is_transposed = item->is_transposed;
        job->pairs[job->npairs++] = &item->pair;
    }
    if (!extraction->has_biases || !bias)
        return;
    bias->pair.rows = (size_t)table_elements_of(&extraction->tuned->file->table, bias->pair.tuned);
    bias->pair.cols = 1;
    job->pairs[job->npairs++] = &bias->pair;
}

static ckpt_status compute(struct ckpt_extraction *extraction, struct extract_job *job, source **out,
                           ckpt_error *err)
{
    *out = NULL;
    job->pairs = calloc(2 * extraction->nitems + 1, sizeof(struct extract_pair *));
    CKPT_TRY_ALLOC(job->pairs, err);
    job->npairs = 0;
    for (size_t i = 0; i < extraction->nitems; i++)
        if (extraction->items[i].report.kind == CKPT_EXTRACTED_PAIR)
            add_pair(extraction, &extraction->items[i], job);
    ckpt_status st = extract_compute(job, out, err);
    free(job->pairs);
    for (size_t i = 0; st == CKPT_OK && i < extraction->nitems; i++) {
        struct extract_item *item = &extraction->items[i];
        if (item->report.kind != CKPT_EXTRACTED_PAIR)
            continue;
        item->report.rank = item->pair.rank;
        item->report.norm = item->pair.norm;
        item->report.kept = item->differs ? item->pair.kept : 1;
    }
    return st;
}

/* ------------------------------------------------------------------------------ tensors */

/* add_tensor - adds NEW, whose name is NAME and END after the prefix of peft; takes over its source. */
static ckpt_status add_tensor(struct ckpt_extraction *extraction, ckpt_str name, const char *end,
                              struct extract_tensor new, ckpt_error *err)
{
    new.name = ARENA_CONCAT(extraction->a, STR_LIT(PREFIX), name, str_c(end));
    if (new.name.ptr && new.src && ARENA_PUSH(extraction->a, extraction, tensors, &new))
        return CKPT_OK;
    source_unref(new.src);
    return fail_memory(err);
}

/* add_numbers - adds NEW, a tensor of the module of ITEM, whose numbers are at AT of RESULT; or all 0 if
 * RESULT is NULL. */
static ckpt_status add_numbers(struct ckpt_extraction *extraction, const struct extract_item *item,
                               const char *end, struct extract_tensor new, source *result, uint64_t at,
                               ckpt_error *err)
{
    new.dtype = (ckpt_dtype)extraction->opts->dtype;
    uint64_t nbytes = dtype_info(new.dtype)->block_bytes;
    for (uint32_t k = 0; k < new.ndim; k++)
        nbytes = size_mul(nbytes, new.shape[k]);
    if (result) {
        CKPT_TRY(source_slice(result, at, nbytes, &new.src, err));
    } else {
        void *zeros = nbytes < SIZE_MAX ? arena_alloc(extraction->a, (size_t)nbytes) : NULL;
        CKPT_TRY_ALLOC(zeros, err);
        new.src = source_mem(zeros, (size_t)nbytes, CKPT_NO_OFFSET);
    }
    return add_tensor(extraction, item->module, end, new, err);
}

/* add_matrices - adds the pair of ITEM, whose numbers are in RESULT: [rank, in] and [out, rank], of a
 * convolution [rank, in, sizes…] and [out, rank, 1…]. */
static ckpt_status add_matrices(struct ckpt_extraction *extraction, const struct extract_item *item,
                                source *result, ckpt_error *err)
{
    const ckpt_tensor t = table_tensor(&extraction->tuned->file->table, item->pair.tuned);
    const uint64_t rank = item->pair.rank ? item->pair.rank : 1;
    const bool is_embedding = item->report.is_embedding;
    struct extract_tensor down = {.ndim = t.ndim}, up = {.ndim = t.ndim};
    uint64_t *down_shape = arena_array(extraction->a, t.ndim, sizeof *down_shape);
    uint64_t *up_shape = arena_array(extraction->a, t.ndim, sizeof *up_shape);
    CKPT_TRY_ALLOC(down_shape && up_shape, err);
    for (uint32_t k = 0; k < t.ndim; k++) {
        down_shape[k] = t.shape[k];
        up_shape[k] = 1;
    }
    down_shape[0] = up_shape[1] = rank;
    up_shape[0] = t.shape[item->is_transposed];
    down_shape[1] = t.shape[!item->is_transposed];
    down.shape = down_shape;
    up.shape = up_shape;
    result = item->pair.rank ? result : NULL;
    CKPT_TRY(add_numbers(extraction, item, is_embedding ? ".lora_embedding_A" : ".lora_A.weight", down,
                         result, item->pair.down, err));
    return add_numbers(extraction, item, is_embedding ? ".lora_embedding_B" : ".lora_B.weight", up, result,
                       item->pair.up, err);
}

/* add_bias - adds the difference of the bias of ITEM. */
static ckpt_status add_bias(struct ckpt_extraction *extraction, const struct extract_item *item,
                            source *result, ckpt_error *err)
{
    const struct extract_item *bias = &extraction->items[item->bias];
    uint64_t *shape = arena_array(extraction->a, 1, sizeof *shape);
    CKPT_TRY_ALLOC(shape, err);
    *shape = bias->pair.rows;
    const struct extract_tensor new = {.ndim = 1, .shape = shape};
    return add_numbers(extraction, item, ".lora_B.bias", new, result, bias->pair.down, err);
}

/* add_saved - adds ITEM as it is in the tuned model. */
static ckpt_status add_saved(struct ckpt_extraction *extraction, const struct extract_item *item,
                             ckpt_error *err)
{
    ckpt_file *f = extraction->tuned->file;
    const ckpt_tensor t = table_tensor(&f->table, item->pair.tuned);
    uint64_t *shape = arena_array(extraction->a, t.ndim, sizeof *shape);
    CKPT_TRY_ALLOC(shape, err);
    for (uint32_t k = 0; k < t.ndim; k++)
        shape[k] = t.shape[k];
    const struct extract_tensor new = {
        .dtype = (ckpt_dtype)t.dtype, .ndim = t.ndim, .shape = shape, .src = row_source(f, item->pair.tuned)};
    return add_tensor(extraction, item->report.name, "", new, err);
}

static ckpt_status add_tensors(struct ckpt_extraction *extraction, source *result, ckpt_error *err)
{
    for (size_t i = 0; i < extraction->nitems; i++) {
        const struct extract_item *item = &extraction->items[i];
        if (item->report.kind == CKPT_EXTRACTED_SAVED)
            CKPT_TRY(add_saved(extraction, item, err));
        if (item->report.kind != CKPT_EXTRACTED_PAIR)
            continue;
        CKPT_TRY(add_matrices(extraction, item, result, err));
        if (extraction->has_biases)
            CKPT_TRY(add_bias(extraction, item, result, err));
    }
    return CKPT_OK;
}

/* ----------------------------------------------------------------------------------- all */

/* check_names_in_both - fails unless a tensor is in both models. */
static ckpt_status check_names_in_both(const struct ckpt_extraction *extraction, ckpt_error *err)
{
    if (!extraction->nitems)
        return fail(err, CKPT_ENOTFOUND, CKPT_NO_OFFSET, "no tensor of the models is selected");
    for (size_t i = 0; i < extraction->nitems; i++)
        if (extraction->items[i].pair.base != CKPT_NO_TENSOR)
            return CKPT_OK;
    return fail(err, CKPT_ENOTFOUND, CKPT_NO_OFFSET,
                "no name is in both models: {\"%.*s\"} is the first\n"
                "--root chooses a part of both; `ckpt strip` and `ckpt rename` change names",
                STR_ARG(extraction->items[0].report.name));
}

static ckpt_status extract(struct ckpt_extraction *extraction, ckpt_error *err)
{
    const ckpt_extract_options *opts = extraction->opts;
    source *result = NULL;
    struct extract_job job = {.base = extraction->base->file,
                              .tuned = extraction->tuned->file,
                              .dtype = (ckpt_dtype)opts->dtype,
                              .threads = opts->threads,
                              .progress = opts->progress,
                              .user = opts->user};
    CKPT_TRY(plan_update_entries(extraction->base, err));
    CKPT_TRY(plan_update_entries(extraction->tuned, err));
    CKPT_TRY(pair_models(extraction, err));
    CKPT_TRY(check_names_in_both(extraction, err));
    CKPT_TRY(compare(extraction, &job, err));
    CKPT_TRY(decide_all(extraction, err));
    ckpt_status st = compute(extraction, &job, &result, err);
    CKPT_THEN(st, add_tensors(extraction, result, err));
    CKPT_THEN(st, extract_config(extraction, err));
    source_unref(result);
    return st;
}

ckpt_status extract_lora(struct ckpt_extraction *extraction, ckpt_error *err)
{
    extraction->item_of = map_new(64);
    extraction->saved = map_new(16);
    CKPT_TRY_ALLOC(extraction->item_of && extraction->saved, err);
    CKPT_TRY(svd_load(err));
    ckpt_status st = extract(extraction, err);
    const ckpt_plan *models[] = {extraction->base, extraction->tuned};
    for (size_t i = 0; i < 2; i++) {
        ckpt_status changed = file_status_after_read(models[i]->file, st, err);
        if (changed != st)
            return name_file_if_failed(changed, models[i]->file->path, err);
    }
    return st;
}

void extract_free(struct ckpt_extraction *extraction)
{
    for (size_t i = 0; i < extraction->ntensors; i++)
        source_unref(extraction->tensors[i].src);
    map_free(extraction->item_of);
    map_free(extraction->saved);
}
