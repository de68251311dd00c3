/* average.c - see average.h: which tensors are averaged, and which are taken from one file as they are. */
#include "op/average.h"

#include <inttypes.h>
#include <stdio.h>

#include "core/numpy.h"
#include "core/row_source.h"
#include "op/cast.h"
#include "op/quantized.h"

/* ---------------------------------------------------------------- which are averaged */

/* is_taken - returns true if ENTRY is taken from the plan's file: integers, bools, texts, packed bits,
 * counters, and scalars of numpy, which are values like an int or a float of Python. */
static bool is_taken(const struct plan_entry *entry, const ckpt_tensor *tensor)
{
    struct numpy_dtype ignored;
    char klass = dtype_info((ckpt_dtype)tensor->dtype)->klass;
    return !strchr("fck", klass) || is_step_counter(entry, tensor) ||
           (tensor->value && numpy_scalar_of(tensor->value, &ignored));
}

/* find_refusal - returns why METHOD has no average of TENSOR, whose quantized weight is number QUANTIZED, the
 * words after its name; NULL: it has one, or the tensor is taken as it is. */
static const char *find_refusal(const struct plan_entry *entry, const ckpt_tensor *tensor, uint32_t quantized,
                                uint32_t method)
{
    if (tensor->kind != CKPT_DENSE && tensor->kind != CKPT_NDARRAY)
        return "is made of several tensors";
    if (quantized != QUANTIZED_BY_NONE)
        return "belongs to a quantized weight, whose numbers mean nothing without its scales";
    if (dtype_info((ckpt_dtype)tensor->dtype)->klass == 'k')
        return "has blocks of ggml";
    if (is_taken(entry, tensor))
        return NULL;
    if (!mean_has_dtype(method, (ckpt_dtype)tensor->dtype))
        return "has a dtype that has no such average";
    return tensor->has_data && tensor->has_shape ? NULL : "has no bytes";
}

static ckpt_status fail_refused(const struct plan_entry *first, const ckpt_tensor *tensor, const char *why,
                                size_t count, ckpt_error *err)
{
    char others[64] = "";
    if (count > 1)
        (void)snprintf(others, sizeof others, "; %zu more cannot be averaged, either", count - 1);
    return fail(
        err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
        "\"%.*s\" (%s, %s) %s%s\n"
        "`ckpt convert --dequantize` makes quantized weights floats; --root PATH takes a part of a file",
        STR_ARG(first->name), ckpt_kind_name((ckpt_kind)tensor->kind), ckpt_tensor_dtype_name(tensor), why,
        others);
}

/* choose_averaged - sets *OUT, by entry, to true for the tensors that are averaged; fails if one cannot be.
 * */
static ckpt_status choose_averaged(ckpt_plan *p, uint32_t method, bool **out, ckpt_error *err)
{
    const struct plan_entry *refused = NULL;
    const char *why = NULL;
    size_t nrefused = 0;
    *out = arena_array(p->a, p->nentries, sizeof **out);
    CKPT_TRY_ALLOC(*out, err);
    CKPT_TRY(plan_find_quantized(p, err));
    for (size_t i = 0; i < p->nentries; i++) {
        const struct plan_entry *entry = &p->entries[i];
        const ckpt_tensor t = table_tensor(&p->file->table, entry->row);
        if (t.part_of != CKPT_NO_TENSOR)
            continue;
        const char *refusal = find_refusal(entry, &t, p->quantized->of_row[entry->row], method);
        if (refusal && nrefused++ == 0) {
            refused = entry;
            why = refusal;
        }
        (*out)[i] = !is_taken(entry, &t);
    }
    if (!refused)
        return CKPT_OK;
    const ckpt_tensor t = table_tensor(&p->file->table, refused->row);
    return fail_refused(refused, &t, why, nrefused, err);
}

/* -------------------------------------------------------------------------------- ties */

/* get_first - returns the first row of F that is the same tensor as ROW. */
static uint32_t get_first(const ckpt_file *f, uint32_t row)
{
    uint32_t alias = table_alias_of(&f->table, row);
    return alias == CKPT_NO_TENSOR ? row : alias;
}

/* are_tied_everywhere - returns true if entries LEFT and RIGHT are the same tensor in every file. */
static bool are_tied_everywhere(const struct average *average, size_t left, size_t right)
{
    for (size_t k = 0; k < average->nfiles; k++) {
        const struct average_file *file = &average->files[k];
        if (get_first(file->f, file->rows[left]) != get_first(file->f, file->rows[right]))
            return false;
    }
    return true;
}

/* find_ties - sets *OUT, by entry, to the first entry to which it is tied in every file, or to itself. */
static ckpt_status find_ties(struct average *average, const bool *is_averaged, size_t **out, ckpt_error *err)
{
    ckpt_plan *p = average->p;
    map *entry_of = map_new(p->nentries); /* first row of each tensor -> entry */
    size_t nuntied = 0, untied = 0;
    bool ok = entry_of && (*out = arena_array(p->a, p->nentries, sizeof **out));
    for (size_t i = 0; ok && i < p->nentries; i++) {
        uint32_t first = MAP_NONE;
        (*out)[i] = i;
        if (!is_averaged[i])
            continue;
        ok = map_put_num(entry_of, get_first(p->file, p->entries[i].row), (uint32_t)i, &first);
        if (first == MAP_NONE)
            continue;
        if (are_tied_everywhere(average, first, i))
            (*out)[i] = first;
        else if (nuntied++ == 0)
            untied = i;
    }
    map_free(entry_of);
    CKPT_TRY_ALLOC(ok, err);
    if (nuntied)
        plan_notice(p, "\"%.*s\"%s tied to another tensor, but not in every file; each is written by itself",
                    STR_ARG(p->entries[untied].name), nuntied > 1 ? " and others are" : " is");
    return CKPT_OK;
}

/* ------------------------------------------------------------------------------- plans */

static void close_inputs(source *const *inputs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        source_unref(inputs[i]);
}

/* open_inputs - sets INPUTS to the sources of entry INDEX in all files. On failure, none is open. */
static ckpt_status open_inputs(const struct average *average, size_t index, source **inputs, ckpt_error *err)
{
    for (size_t n = 0; n < average->nfiles; n++) {
        const struct average_file *file = &average->files[n];
        ckpt_status st = name_file_if_failed(row_source_check(file->f, file->rows[index], err), file->f->path,
                                             err);
        inputs[n] = st == CKPT_OK ? row_source(file->f, file->rows[index]) : NULL;
        if (inputs[n])
            continue;
        close_inputs(inputs, n);
        return st == CKPT_OK ? fail_memory(err) : st;
    }
    return CKPT_OK;
}

/* open_mean - sets *OUT to the source of MEAN of entry INDEX, whose tensor is TENSOR. INPUTS has room for a
 * source of each file. */
static ckpt_status open_mean(const struct average *average, size_t index, const ckpt_tensor *tensor,
                             const struct mean *mean, source **inputs, source **out, ckpt_error *err)
{
    const struct plan_entry *entry = &average->p->entries[index];
    struct computed how;
    struct plan_computed *note = plan_add_computed(average->p, entry->name, (ckpt_dtype)tensor->dtype);
    CKPT_TRY_ALLOC(note, err);
    CKPT_TRY(open_inputs(average, index, inputs, err));
    ckpt_status st = mean_describe(mean, (ckpt_dtype)tensor->dtype, tensor->elements, &how, err);
    if (st != CKPT_OK) {
        close_inputs(inputs, average->nfiles);
        return prefix_where_if_failed(st, entry->name, err);
    }
    how.inputs = inputs;
    how.ninputs = average->nfiles;
    how.is_overflow = &note->is_overflow;
    *out = computed_source(&how);
    return *out ? CKPT_OK : fail_memory(err);
}

/* replace_entry - makes entry INDEX the mean MEAN. INPUTS has room for a source of each file. */
static ckpt_status replace_entry(const struct average *average, size_t index, const struct mean *mean,
                                 source **inputs, ckpt_error *err)
{
    ckpt_plan *p = average->p;
    uint32_t row = p->entries[index].row;
    const ckpt_tensor t = table_tensor(&p->file->table, row);
    struct new_tensor new = {.dtype = (ckpt_dtype)t.dtype,
                             .ndim = t.ndim,
                             .shape = t.shape,
                             .elements = t.elements,
                             .nbytes = t.nbytes};
    CKPT_TRY(row_check_place(p, row, err));
    CKPT_TRY(open_mean(average, index, &t, mean, inputs, &new.src, err));
    return row_replace(p->file, row, &new, err);
}

static ckpt_status replace_entries(struct average *average, const bool *is_averaged, ckpt_error *err)
{
    ckpt_plan *p = average->p;
    size_t *tied_to = NULL;
    struct mean *mean = mean_new(average, p->file->a);
    source **inputs = arena_array(p->a, average->nfiles, sizeof *inputs);
    CKPT_TRY_ALLOC(mean && inputs, err);
    CKPT_TRY(find_ties(average, is_averaged, &tied_to, err));
    for (size_t i = 0; i < p->nentries; i++)
        if (is_averaged[i] && tied_to[i] == i)
            CKPT_TRY(replace_entry(average, i, mean, inputs, err));
    for (size_t i = 0; i < p->nentries; i++)
        if (is_averaged[i] && tied_to[i] != i)
            CKPT_TRY(row_share(p->file, p->entries[i].row, p->entries[tied_to[i]].row, err));
    return rows_find_ties(p->file, err);
}

/* add_numbers - adds the bits of the COUNT numbers at NUMBERS (NULL: none) to *TEXT, in A. */
static void add_numbers(arena *a, const double *numbers, size_t count, ckpt_str *text)
{
    for (size_t i = 0; numbers && text->ptr && i < count; i++) {
        uint64_t bits;
        memcpy(&bits, &numbers[i], sizeof bits);
        *text = ARENA_CONCAT(a, *text, arena_printf(a, " %" PRIx64, bits));
    }
}

/* note_options - adds OPTIONS to what identifies the output of P. */
static ckpt_status note_options(ckpt_plan *p, const ckpt_average_options *options, ckpt_error *err)
{
    const double *lists[] = {options->weights, options->densities, options->lambda, options->t};
    size_t counts[] = {options->npaths, options->npaths, 1, 1};
    ckpt_str text = arena_printf(p->a, "average %zu of %zu, method %u, normalize %u%s", options->own,
                                 options->npaths, options->method, options->normalize,
                                 options->base ? ", base" : "");
    for (size_t i = 0; text.ptr && i < sizeof lists / sizeof *lists; i++) {
        text = ARENA_CONCAT(p->a, text, str_c(lists[i] ? ";" : "; -"));
        add_numbers(p->a, lists[i], counts[i], &text);
    }
    p->rules = text.ptr ? ARENA_CONCAT(p->a, p->rules, text, STR_LIT("\n")) : text;
    return p->rules.ptr ? CKPT_OK : fail_memory(err);
}

static ckpt_status note_averaged(ckpt_plan *p, const bool *is_averaged, ckpt_error *err)
{
    ckpt_averaged *count = ARENA_NEW(p->a, ckpt_averaged);
    CKPT_TRY_ALLOC(count, err);
    for (size_t i = 0; i < p->nentries; i++) {
        if (is_averaged[i])
            count->averaged++;
        else if (table_part_of(&p->file->table, p->entries[i].row) == CKPT_NO_TENSOR)
            count->taken++;
    }
    p->report.averaged = count;
    return CKPT_OK;
}

ckpt_status plan_average(ckpt_plan *p, const ckpt_average_options *options,
                         ckpt_status (*open)(ckpt_plan *p, const char *path, ckpt_file **out,
                                             ckpt_error *err),
                         ckpt_error *err)
{
    struct average average = {.p = p, .options = options, .open = open};
    bool *is_averaged;
    CKPT_TRY(note_options(p, options, err));
    CKPT_TRY(average_open_files(&average, err));
    CKPT_TRY(average_fail_if_mismatched(&average, err));
    CKPT_TRY(choose_averaged(p, options->method, &is_averaged, err));
    if (options->others_equal)
        CKPT_TRY(average_compare_others(&average, is_averaged, err));
    CKPT_TRY(average_fail_if_mismatched(&average, err));
    CKPT_TRY(replace_entries(&average, is_averaged, err));
    return note_averaged(p, is_averaged, err);
}
