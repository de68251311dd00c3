/* dequantize.c - `--dequantize`: makes the tensors of quantized weights those of the weights they stand for.
 * A row of the table gets the dtype and shape of the weight, and a storage whose bytes are computed as they
 * are read (core/scaled_source); the plan renames it, and leaves out the tensors of its scales. */
#include "op/dequantize.h"

#include "core/dequantize.h"
#include "op/row_change.h"

static const char *const results[] = {
#define SCHEME(id, title, weight, result, dtypes, scales, optional, recipe) result,
#include "op/quantized.def"
#undef SCHEME
};

static const char *const suffixes[] = {
#define SCHEME(id, title, weight, result, dtypes, scales, optional, recipe) weight,
#include "op/quantized.def"
#undef SCHEME
};

static uint32_t count_edited(const ckpt_value *node)
{
    uint32_t n = 0;
    value_pairs(node, &n);
    return n ? n : value_count(node);
}

/* make_key - returns the key that KEY, of a weight by SCHEME, gets; .ptr NULL: no memory, or KEY is too
 * short. */
static ckpt_str make_key(ckpt_plan *p, enum quantized_scheme_id scheme, ckpt_str key)
{
    ckpt_str suffix = str_c(suffixes[scheme]), stem = str_of(key.ptr, key.len - suffix.len);
    if (!str_ends(key, suffix))
        return str_of(NULL, 0);
    if (scheme != QUANTIZED_TORCHAO)
        return ARENA_CONCAT(p->a, stem, str_c(results[scheme]));
    ckpt_str last = str_after_last(stem, '.'); /* "_weight" of "0._weight" */
    return ARENA_CONCAT(p->a, str_of(stem.ptr, stem.len - last.len), str_skip(last, 1));
}

/* rename_weight - gives WEIGHT the name of the weight. */
static ckpt_status rename_weight(ckpt_plan *p, const struct quantized_weight *weight, ckpt_error *err)
{
    const struct row row = table_row(&p->file->table, weight->weight);
    const ckpt_path_elem *key = row.t.npath ? &row.t.path[row.t.npath - 1] : NULL;
    const struct step *step = row.steps && row.t.npath ? &row.steps[row.t.npath - 1] : NULL;
    if (str_is(str_c(suffixes[weight->scheme]), results[weight->scheme]) &&
        weight->scheme != QUANTIZED_TORCHAO)
        return CKPT_OK;
    ckpt_str name = key && !key->is_int ? make_key(p, weight->scheme, key->str) : str_of(NULL, 0);
    if (!name.ptr || !step || !step->node)
        return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET, "its name cannot be changed");
    struct edit *edit = plan_find_or_add_edit(p, step->node, count_edited(step->node));
    CKPT_TRY_ALLOC(edit, err);
    edit->names[step->index] = name;
    return CKPT_OK;
}

/* set_row - makes ROW what DEQUANTIZED describes, with the bytes of FROM, which it takes over. */
static ckpt_status set_row(ckpt_plan *p, uint32_t row, const struct dequantized *dequantized, source *from,
                           ckpt_error *err)
{
    const struct new_tensor new = {.dtype = dequantized->recipe.dtype,
                                   .ndim = dequantized->ndim,
                                   .shape = dequantized->shape,
                                   .stride = dequantized->stride,
                                   .src = from,
                                   .elements = dequantized->recipe.rows * dequantized->recipe.cols,
                                   .nbytes = from->size};
    return row_replace(p->file, row, &new, err);
}

static ckpt_status dequantize_weight(struct dequantizer *dequantizer, const struct quantized_weight *weight,
                                     ckpt_error *err)
{
    struct dequantized out;
    source *numbers;
    const ckpt_dequantized done = {.name = table_name(&dequantizer->p->file->table, weight->weight),
                                   .scheme = str_c(quantized_title(weight->scheme))};
    CKPT_TRY(dequantize_make_recipe(dequantizer, weight, &out, err));
    CKPT_TRY(rename_weight(dequantizer->p, weight, err));
    CKPT_TRY(scaled_source(dequantizer->p->file, &out.recipe, &numbers, err));
    CKPT_TRY(set_row(dequantizer->p, weight->weight, &out, numbers, err));
    for (uint32_t i = 0; i < weight->nparts; i++)
        if (weight->part[i] != CKPT_NO_TENSOR)
            dequantizer->p->keep[weight->part[i]] = false;
    struct plan_casts *all = &dequantizer->p->casts;
    bool ok = ARENA_PUSH(dequantizer->p->a, all, dequantized, &done);
    CKPT_TRY_ALLOC(ok, err);
    all->dequantized[all->ndequantized - 1].dtype = out.recipe.dtype;
    return CKPT_OK;
}

/* drop_scale - leaves out ROW, a scale of activations, if it is of a module whose weights were dequantized,
 * or marks the file as quantized. */
static void drop_scale(ckpt_plan *p, uint32_t row, const map *modules)
{
    ckpt_str name = table_name(&p->file->table, row), last = str_after_last(name, '.');
    if (str_is(last, "scaled_fp8") || map_get(modules, str_of(name.ptr, name.len - last.len)) != MAP_NONE)
        p->keep[row] = false;
}

static bool is_gap(const ckpt_plan *p, const struct quantized_weight *weight)
{
    return !p->keep[weight->weight];
}

/* finish - treats ties and scales of activations after all weights, and makes casts regard all tensors as
 * plain. */
static ckpt_status finish(ckpt_plan *p, struct quantized_weights *found, ckpt_error *err)
{
    map *modules = map_new(found->n);
    ckpt_status st = modules ? CKPT_OK : fail_memory(err);
    for (size_t i = 0; st == CKPT_OK && i < found->n; i++) {
        ckpt_str stem = found->list[i].stem, last = str_after_last(stem, '.'); /* "weight" of "0.weight" */
        if (!is_gap(p, &found->list[i]) && !map_put(modules, str_of(stem.ptr, stem.len - last.len), 0, NULL))
            st = fail_memory(err);
    }
    for (uint32_t i = 0; st == CKPT_OK && i < p->file->table.nrows; i++) {
        uint32_t of = found->of_row[i], alias = table_alias_of(&p->file->table, i);
        if (of == QUANTIZED_BY_ALL)
            drop_scale(p, i, modules);
        else if (of != QUANTIZED_BY_NONE && alias != CKPT_NO_TENSOR && alias == found->list[of].weight)
            st = row_share(p->file, i, found->list[of].weight, err);
        if (of < found->n && !is_gap(p, &found->list[of]))
            found->of_row[i] = QUANTIZED_BY_NONE;
    }
    map_free(modules);
    return st;
}

/* cast_ggml_blocks - casts the tensors of ggml's blocks, which hold their scales themselves, to float32. */
static ckpt_status cast_ggml_blocks(ckpt_plan *p, size_t *count, ckpt_error *err)
{
    const struct table *t = &p->file->table;
    for (size_t i = 0; i < t->nrows; i++) {
        if (!dequantize_supports(table_dtype_of(t, i)) || !p->keep[i])
            continue;
        CKPT_TRY_ALLOC(p->casts.to || (p->casts.to = arena_array(p->a, t->nrows, sizeof *p->casts.to)), err);
        p->casts.to[i] = CKPT_DT_F32;
        ++*count;
    }
    return CKPT_OK;
}

static ckpt_status dequantize_all(struct dequantizer *dequantizer, struct quantized_weights *found,
                                  ckpt_error *err)
{
    for (size_t i = 0; i < found->n; i++) {
        const struct quantized_weight *w = &found->list[i];
        if (is_gap(dequantizer->p, w)) /* --keep or --drop leave it out */
            continue;
        ckpt_status st = dequantize_weight(dequantizer, w, err);
        if (st == CKPT_OK)
            continue;
        error_add_where(err, "%.*s", STR_ARG(table_name(&dequantizer->p->file->table, w->weight)));
        error_add_hint(err, "without --dequantize, quantized weights stay as they are");
        return st;
    }
    dequantizer->p->entries_stale = true;
    return finish(dequantizer->p, found, err);
}

static void notice_dequantized(ckpt_plan *p, size_t nblocks)
{
    size_t n = p->casts.ndequantized;
    if (!n && !nblocks) {
        plan_notice(p, "--dequantize: no weight is quantized");
        return;
    }
    if (n)
        plan_notice(p, "%zu weight%s dequantized (%s); %s scales are left out", n, n == 1 ? " is" : "s are",
                    p->casts.dequantized[0].scheme.ptr, n == 1 ? "its" : "their");
}

ckpt_status ckpt_plan_dequantize(ckpt_plan *plan, ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    struct quantized_weights found;
    size_t nblocks = 0;
    CKPT_REQUIRE(err, plan);
    struct dequantizer d = {.p = plan};
    ckpt_status st = quantized_find(plan->file, plan->a, &found, err);
    CKPT_THEN(st, dequantize_all(&d, &found, err));
    CKPT_THEN(st, cast_ggml_blocks(plan, &nblocks, err));
    if (st != CKPT_OK)
        return name_file_if_failed(st, plan->file->path, err);
    notice_dequantized(plan, nblocks);
    struct quantized_weights *kept = arena_alloc(plan->a, sizeof *kept);
    CKPT_TRY_ALLOC(kept, err);
    *kept = found;
    plan->quantized = kept;
    return CKPT_OK;
}

const ckpt_dequantized *ckpt_plan_dequantized_at(const ckpt_plan *plan, size_t index)
{
    return plan && index < plan->casts.ndequantized ? &plan->casts.dequantized[index] : NULL;
}
