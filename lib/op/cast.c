/* cast.c - `--cast`: selects the tensors of a plan whose dtype changes. The numbers of quantized weights mean
 * nothing without their scales, so a cast leaves both as they are. */
#include <stdio.h>

#include "base/text.h"
#include "core/convert.h"
#include "op/cast.h"
#include "op/quantized.h"
#include "op/root.h"
#include "op/weights.h"

/* has_no_wildcard - returns true if GLOB has none of `*?[\`: it can only match the tensor of that name. */
static bool has_no_wildcard(const char *glob) { return strpbrk(glob, "*?[\\") == NULL; }

/* why_not_castable - returns why TENSOR cannot become DTYPE, the words after "it" in a message, or NULL. */
static const char *why_not_castable(const ckpt_tensor *tensor, ckpt_dtype dtype)
{
    struct conversion c;
    if ((tensor->kind != CKPT_DENSE && tensor->kind != CKPT_NDARRAY) || tensor->part_of != CKPT_NO_TENSOR)
        return "is not a dense tensor";
    if (!tensor->has_data)
        return "has no bytes";
    if (!conversion_init_float_or_q8_0(&c, (ckpt_dtype)tensor->dtype, dtype))
        return "does not hold numbers";
    uint16_t block = dtype_info(dtype)->block_elems; /* the last dimension is divided into blocks */
    return block == 1 || (tensor->has_shape && tensor->ndim && tensor->shape[tensor->ndim - 1] % block == 0)
               ? NULL
               : "has a last size that is no multiple of 32";
}

/* is_vector_for_blocks - returns true if TENSOR has at most one dimension and DTYPE has blocks. ggml computes
 * with norms and biases as floats, so a cast makes them blocks only if it gives their full names. */
static bool is_vector_for_blocks(const ckpt_tensor *tensor, ckpt_dtype dtype)
{
    return tensor->has_shape && tensor->ndim <= 1 && dtype_info(dtype)->klass == 'k';
}

static ckpt_status fail_not_castable(const struct plan_entry *entry, const ckpt_tensor *tensor,
                                     ckpt_dtype dtype, const char *why, ckpt_error *err)
{
    return fail(err, CKPT_ELOSSY, CKPT_NO_OFFSET,
                "\"%.*s\" (%s, %s) cannot become %s: it %s\n"
                "%s",
                STR_ARG(entry->name), ckpt_kind_name((ckpt_kind)tensor->kind), ckpt_tensor_dtype_name(tensor),
                ckpt_dtype_name(dtype), why,
                dtype_info(dtype)->klass == 'k'
                    ? "--cast=q8_0 takes dense tensors whose last size is a multiple of 32"
                    : "--cast takes dense tensors of floats, integers and bools");
}

static ckpt_status fail_quantized(const struct plan_entry *entry, const ckpt_tensor *tensor, ckpt_dtype dtype,
                                  const char *scheme, ckpt_error *err)
{
    return fail(err, CKPT_ELOSSY, CKPT_NO_OFFSET,
                "\"%.*s\" (%s) cannot become %s: it is of a quantized weight (%s), whose numbers mean "
                "nothing without its scales\n"
                "%s",
                STR_ARG(entry->name), ckpt_tensor_dtype_name(tensor), ckpt_dtype_name(dtype), scheme,
                quantized_has_recipe(scheme) ? "--dequantize makes such weights floats, which can be cast"
                                             : "a glob that matches other tensors leaves it as it is");
}

static ckpt_status check_target(ckpt_dtype dtype, ckpt_error *err)
{
    struct conversion c;
    if (conversion_init_float_or_q8_0(&c, CKPT_DT_F32, dtype))
        return CKPT_OK;
    return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET,
                "%s is not a type that tensors are cast to\n"
                "float64, float32, float16, bfloat16, float8_e4m3fn, float8_e5m2, "
                "float8_e4m3fnuz, float8_e5m2fnuz and q8_0 are",
                dtype ? ckpt_dtype_name(dtype) : "an unknown type");
}

bool is_step_counter(const struct plan_entry *entry, const ckpt_tensor *tensor)
{
    return tensor->has_shape && tensor->ndim == 0 && str_is(str_after_last(entry->name, '.'), "step");
}

bool cast_skips_counter(const ckpt_plan *p, uint32_t row, ckpt_str name)
{
    const struct plan_entry entry = {row, name};
    const ckpt_tensor t = table_tensor(&p->file->table, row);
    return is_step_counter(&entry, &t);
}

/* The tensors that a cast by a pattern, or of the weights, leaves unchanged. */
struct skipped {
    const struct plan_entry *first; /* the first of N tensors that cannot become the dtype */
    const char *why;                /* the reason why it cannot */
    size_t n, counters, scales, vectors;
    size_t quantized; /* tensors of quantized weights */
};

/* what_helps - returns the end of a sentence on quantized weights by SCHEME that were left as they are. */
static const char *what_helps(const char *scheme)
{
    if (str_is(str_c(scheme), quantized_title(QUANTIZED_IN_SHARDS)))
        return "; name the folder of the set, or its index";
    return quantized_has_recipe(scheme) ? "; --dequantize makes them floats" : "";
}

static void notice_skipped(ckpt_plan *p, const struct skipped *skipped)
{
    char more[64] = "";
    if (skipped->counters)
        plan_notice(p, "%zu step counter%s not cast: --cast casts a counter only by its full name",
                    skipped->counters, skipped->counters == 1 ? " was" : "s were");
    if (skipped->scales)
        plan_notice(p, "%zu tensor%s of scales (float8_e8m0fnu) stay%s", skipped->scales,
                    skipped->scales == 1 ? "" : "s", skipped->scales == 1 ? "s" : "");
    if (skipped->vectors)
        plan_notice(p, "%zu tensor%s of one dimension stay%s, as in ggml: --cast casts one only by full name",
                    skipped->vectors, skipped->vectors == 1 ? "" : "s", skipped->vectors == 1 ? "s" : "");
    if (skipped->quantized)
        plan_notice(p,
                    "left %zu tensor%s of quantized weights (%s) as %s: the numbers of such a weight mean "
                    "nothing without its scales%s",
                    skipped->quantized, skipped->quantized == 1 ? "" : "s", p->casts.left_scheme,
                    skipped->quantized == 1 ? "it is" : "they are", what_helps(p->casts.left_scheme));
    if (!skipped->n)
        return;
    const ckpt_tensor t = table_tensor(&p->file->table, skipped->first->row);
    if (skipped->n > 1)
        (void)snprintf(more, sizeof more, "; %zu more cannot be cast", skipped->n - 1);
    plan_notice(p, "\"%.*s\" (%s) stays %s: it %s%s", STR_ARG(skipped->first->name),
                ckpt_kind_name((ckpt_kind)t.kind), ckpt_tensor_dtype_name(&t), skipped->why, more);
}

/* find_scheme - returns the name of the scheme by which ENTRY is quantized, or a scale; NULL: neither. */
static const char *find_scheme(const ckpt_plan *p, const struct plan_entry *entry)
{
    uint32_t i = p->quantized->of_row[entry->row];
    if (i == QUANTIZED_BY_NONE)
        return NULL;
    return quantized_title(p->quantized->list[i == QUANTIZED_BY_ALL ? 0 : i].scheme);
}

/* cast_or_skip - casts ENTRY, unless ENTRY cannot become DTYPE or is cast only by its full name. Then counts
 * it in SKIPPED if the user needs a notice about it. */
static void cast_or_skip(ckpt_plan *p, const struct plan_entry *entry, ckpt_dtype dtype,
                         struct skipped *skipped)
{
    const ckpt_tensor t = table_tensor(&p->file->table, entry->row);
    const char *why = why_not_castable(&t, dtype), *scheme = find_scheme(p, entry);
    if (scheme) {
        skipped->quantized++;
        if (!p->casts.left_scheme || str_is(str_c(scheme), quantized_title(QUANTIZED_IN_SHARDS)))
            p->casts.left_scheme = scheme; /* no other command helps as long as shards are missing */
        return;
    }
    skipped->scales += t.dtype == CKPT_DT_F8_E8M0;
    if (!dtype_is_float((ckpt_dtype)t.dtype)) /* cast only by its full name */
        return;
    if (is_step_counter(entry, &t)) {
        skipped->counters++;
    } else if (is_vector_for_blocks(&t, dtype)) {
        skipped->vectors++;
    } else if (!why) {
        p->casts.to[entry->row] = dtype == t.dtype ? 0 : (uint16_t)dtype;
    } else if (t.part_of == CKPT_NO_TENSOR && skipped->n++ == 0) {
        skipped->first = entry;
        skipped->why = why;
    }
}

static ckpt_status cast_named(ckpt_plan *p, const struct plan_entry *entry, ckpt_dtype dtype, ckpt_error *err)
{
    const ckpt_tensor t = table_tensor(&p->file->table, entry->row);
    const char *why = why_not_castable(&t, dtype), *scheme = find_scheme(p, entry);
    if (scheme)
        return fail_quantized(entry, &t, dtype, scheme, err);
    if (why)
        return fail_not_castable(entry, &t, dtype, why, err);
    p->casts.to[entry->row] = dtype == t.dtype ? 0 : (uint16_t)dtype;
    return CKPT_OK;
}

/* cast_matching - casts the tensors that match GLOB. Sets *ANY to true if there are any. */
static ckpt_status cast_matching(ckpt_plan *p, const char *glob, ckpt_dtype dtype, bool *any, ckpt_error *err)
{
    struct skipped skipped = {0};
    for (size_t i = 0; i < p->nentries; i++) {
        const struct plan_entry *e = &p->entries[i];
        if (!glob_selects(glob, e->name))
            continue;
        *any = true;
        if (has_no_wildcard(glob) && str_is(e->name, glob))
            CKPT_TRY(cast_named(p, e, dtype, err));
        else
            cast_or_skip(p, e, dtype, &skipped);
    }
    notice_skipped(p, &skipped);
    return CKPT_OK;
}

/* prepare_cast - makes what a cast to DTYPE needs. */
static ckpt_status prepare_cast(ckpt_plan *plan, ckpt_dtype dtype, ckpt_error *err)
{
    CKPT_TRY(check_target(dtype, err));
    CKPT_TRY(plan_update_entries(plan, err));
    CKPT_TRY(plan_find_quantized(plan, err));
    if (!plan->casts.to)
        plan->casts.to = arena_array(plan->a, plan->cap_rows, sizeof *plan->casts.to);
    return plan->casts.to ? CKPT_OK : fail_memory(err);
}

ckpt_status plan_cast_rows(ckpt_plan *p, const bool *selected, ckpt_dtype dtype, ckpt_error *err)
{
    struct skipped skipped = {0};
    CKPT_TRY(prepare_cast(p, dtype, err));
    for (size_t i = 0; i < p->nentries; i++)
        if (selected[p->entries[i].row])
            cast_or_skip(p, &p->entries[i], dtype, &skipped);
    notice_skipped(p, &skipped);
    return CKPT_OK;
}

/* find_weight_rows - sets *ROWS to an array that is true for each row of the weights, and for each row that
 * shares bytes with one of them. */
static ckpt_status find_weight_rows(ckpt_plan *p, bool **rows, ckpt_error *err)
{
    const struct table *t = &p->file->table;
    struct containers tree;
    struct weights weights;
    uint32_t *container = NULL;
    bool *is_weight_storage = arena_array(p->a, t->nstorages, sizeof *is_weight_storage);
    *rows = arena_array(p->a, p->cap_rows, sizeof **rows);
    ckpt_status st = is_weight_storage && *rows ? CKPT_OK : fail_memory(err);
    if (st != CKPT_OK)
        return st;
    st = containers_find(&tree, p->file, p->root, p->a, err);
    bool all = st == CKPT_OK && tree.n == 0; /* the root is a tensor */
    CKPT_THEN(st, (p->has_root ? weights_below : weights_find)(&tree, &weights, err));
    CKPT_THEN(st, weights_rows(&tree, &weights, p->root_name, &container, err));
    containers_free(&tree);
    for (size_t i = 0; st == CKPT_OK && i < t->nrows; i++) {
        bool is_state = name_state(table_name(t, i)) != CKPT_STATE_NONE;
        (*rows)[i] = all || (container[i] != NO_CONTAINER && !is_state);
        if ((*rows)[i] && table_storage_of(t, i) < t->nstorages)
            is_weight_storage[table_storage_of(t, i)] = true;
    }
    for (size_t i = 0; st == CKPT_OK && i < t->nrows; i++)
        (*rows)[i] |= table_storage_of(t, i) < t->nstorages && is_weight_storage[table_storage_of(t, i)];
    return st;
}

static ckpt_status cast_weights(ckpt_plan *p, ckpt_dtype dtype, ckpt_error *err)
{
    struct skipped skipped = {0};
    bool *rows;
    CKPT_TRY(find_weight_rows(p, &rows, err));
    for (size_t i = 0; i < p->nentries; i++)
        if (rows[p->entries[i].row])
            cast_or_skip(p, &p->entries[i], dtype, &skipped);
    p->casts.weights_dtype = dtype;
    p->casts.is_weights = rows;
    notice_skipped(p, &skipped);
    return CKPT_OK;
}

/* The distinct first components of names. */
struct first_components {
    ckpt_str name[3];
    size_t n;
    bool has_more;
};

static void add_first_component(struct first_components *components, ckpt_str name)
{
    size_t dot = str_find(name, STR_LIT("."), 0);
    ckpt_str first = dot == SIZE_MAX ? name : str_of(name.ptr, dot);
    for (size_t i = 0; i < components->n; i++)
        if (str_eq(components->name[i], first))
            return;
    if (components->n < sizeof components->name / sizeof *components->name)
        components->name[components->n++] = first;
    else
        components->has_more = true;
}

void cast_notice_skipped(ckpt_plan *p)
{
    ckpt_error ignored;
    struct first_components components = {0};
    size_t n = 0;
    if (!p->casts.weights_dtype ||
        plan_update_entries(p, &ignored) != CKPT_OK) /* writing the plan reports the error */
        return;
    for (size_t i = 0; i < p->nentries; i++) {
        const struct plan_entry *e = &p->entries[i];
        const ckpt_tensor t = table_tensor(&p->file->table, e->row);
        bool is_quantized = p->quantized->of_row[e->row] != QUANTIZED_BY_NONE;
        bool is_handled = is_quantized || p->casts.is_weights[e->row] || p->casts.to[e->row] ||
                          t.dtype == p->casts.weights_dtype;
        if (is_handled || !dtype_is_float((ckpt_dtype)t.dtype) || t.part_of != CKPT_NO_TENSOR ||
            is_step_counter(e, &t))
            continue;
        add_first_component(&components, e->name);
        n++;
    }
    if (!n)
        return;
    ckpt_str options = STR_LIT("");
    for (size_t i = 0; options.ptr && i < components.n; i++) {
        char word[SHELL_WORD_MAX];
        options = ARENA_CONCAT(p->a, options, str_c(i ? " " : ""), STR_LIT("--cast "),
                               str_c(shell_glob(components.name[i], word)), STR_LIT("="),
                               str_c(ckpt_dtype_name((ckpt_dtype)p->casts.weights_dtype)));
    }
    const char *as = n == 1 ? "it is" : "they are", *them = n == 1 ? "it" : "those";
    plan_notice(p, "left %zu tensor%s outside the weights as %s: %.*s%s casts %s", n, n == 1 ? "" : "s", as,
                STR_ARG(options), components.has_more ? " ..." : "", them);
}

ckpt_status cast_strict(const ckpt_plan *p, ckpt_error *err)
{
    if (!p->casts.left_scheme)
        return CKPT_OK;
    return fail(err, CKPT_ELOSSY, CKPT_NO_OFFSET,
                "it has quantized weights (%s), which a cast leaves as they are\n"
                "%swithout --strict, all other tensors are cast",
                p->casts.left_scheme,
                quantized_has_recipe(p->casts.left_scheme) ? "--dequantize makes them floats; " : "");
}

ckpt_status ckpt_plan_cast(ckpt_plan *plan, const char *glob, ckpt_dtype dtype, ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    bool any = !glob; /* a cast of the weights need not find any */
    CKPT_REQUIRE(err, plan);
    CKPT_TRY(prepare_cast(plan, dtype, err));
    CKPT_TRY(glob ? cast_matching(plan, glob, dtype, &any, err) : cast_weights(plan, dtype, err));
    if (any)
        return CKPT_OK;
    return plan_no_tensor_matches(plan, glob, err);
}
