/* quantized.c - see quantized.h. The names that end in the first word of a scheme's scales are few, so they
 * are collected first; the other tensors of a weight are then looked up by name.
 *
 * A tensor of fp8, or of integers under a name of weights, next to scales of an unknown layout is of
 * QUANTIZED_UNKNOWN: better left alone than read as plain numbers. So is fp8 in a shard that was opened
 * alone. */
#include "op/quantized.h"

#include <stdlib.h>

#include "base/buf.h"

#define MAX_SIBLINGS ((uint64_t)1 << 30) /* bytes of the indexes next to the file, and of their names */

struct scheme {
    const char *title, *weight, *dtypes, *scales, *optional, *recipe;
};

static const struct scheme schemes[] = {
#define SCHEME(id, title, weight, result, dtypes, scales, optional, recipe)                                  \
    {title, weight, dtypes, scales, optional, #recipe},
#include "op/quantized.def"
#undef SCHEME
};

enum { NSCHEMES = sizeof schemes / sizeof *schemes };

static const char *const unrelated_scales[] = {
#define SCHEME(id, title, weight, result, dtypes, scales, optional, recipe)
#define UNRELATED_SCALE(name) name,
#include "op/quantized.def"
#undef SCHEME
#undef UNRELATED_SCALE
};

const char *quantized_title(enum quantized_scheme_id scheme)
{
    return scheme < QUANTIZED_UNKNOWN    ? schemes[scheme].title
           : scheme == QUANTIZED_UNKNOWN ? "an unknown scheme"
                                         : "a scheme across shards";
}

bool quantized_has_recipe(const char *title)
{
    for (size_t i = 0; i < NSCHEMES; i++)
        if (str_is(str_c(schemes[i].title), title))
            return !str_is(str_c(schemes[i].recipe), "unsupported");
    return false;
}

/* A row that may be the first scale of a scheme, by its name. */
struct candidate {
    uint32_t row;
    uint64_t schemes; /* bit I: of scheme I */
};

_Static_assert(NSCHEMES <= 64, "a candidate has a bit for each scheme");

struct finder {
    ckpt_file *file;
    arena *a;
    struct quantized_weights *out;
    struct candidate *candidates;
    size_t ncandidates, cap_candidates;
    uint64_t candidate_schemes; /* of all candidates */
    bool has_unique_names;
    bool no_memory;                 /* for an index of names that was not needed before */
    uint32_t near;                  /* the row next to which others are looked for first */
    ckpt_str first_scale[NSCHEMES]; /* the first word of its scales, or empty */
    uint64_t schemes_by_end[256];   /* by the last byte of that word: few names end in any of them */
    map *siblings;                  /* names of tensors in the other shards of the set; NULL: unknown */
    buf name;
};

static ckpt_tensor get_tensor(const struct finder *finder, uint32_t row)
{
    return table_tensor(&finder->file->table, row);
}

static bool belongs(const struct finder *finder, uint32_t row)
{
    return finder->out->of_row[row] != QUANTIZED_BY_NONE;
}

/* dtype_class - returns the word for DT in the column `dtypes`; "": a type that no scheme stores weights in
 * unless it stores them in any. */
static const char *dtype_class(ckpt_dtype dt)
{
    switch (dt) {
    case CKPT_DT_F8_E4M3:
    case CKPT_DT_F8_E5M2:
    case CKPT_DT_F8_E4M3FNUZ:
    case CKPT_DT_F8_E5M2FNUZ: return "f8";
    case CKPT_DT_F4: return "f4";
    case CKPT_DT_I8: return "i8";
    case CKPT_DT_U8: return "u8";
    case CKPT_DT_I32: return "i32";
    case CKPT_DT_U32: return "u32";
    default: return "";
    }
}

static bool has_word(const char *words, const char *word)
{
    ckpt_str list = str_c(words), next;
    while ((next = str_take_until(&list, ' ')).len)
        if (str_is(next, word))
            return true;
    return false;
}

static bool is_quantized_dtype(const struct scheme *scheme, ckpt_dtype dt)
{
    return str_is(str_c(scheme->dtypes), "any") || has_word(scheme->dtypes, dtype_class(dt));
}

/* is_stem - returns true if STEM may come before WORD: a word that is a component begins after a dot. */
static bool is_stem(ckpt_str stem, ckpt_str word)
{
    bool continues_name = word.len && (word.ptr[0] == '_' || word.ptr[0] == '.');
    return continues_name ? stem.len > 0 : !stem.len || stem.ptr[stem.len - 1] == '.';
}

/* find_near - returns the row named STEM + WORD if it is next to row finder->near, or CKPT_NO_TENSOR. */
static uint32_t find_near(const struct finder *finder, ckpt_str stem, ckpt_str word)
{
    const struct table *t = &finder->file->table;
    for (uint32_t row = finder->near - (finder->near > 0); row <= finder->near + 1 && row < t->nrows; row++) {
        ckpt_str name = table_name(t, row);
        if (name.len == stem.len + word.len && str_starts(name, stem) && str_ends(name, word))
            return row;
    }
    return CKPT_NO_TENSOR;
}

/* find_name - returns the row with the name in finder->name, or CKPT_NO_TENSOR. */
static uint32_t find_name(struct finder *finder)
{
    bool ok = buf_ok(&finder->name) && file_index_names(finder->file);
    finder->no_memory |= !ok;
    return ok ? file_find_tensor(finder->file, buf_view(&finder->name)) : CKPT_NO_TENSOR;
}

/* find_row - returns the row named STEM + WORD that is no component of a composite, or CKPT_NO_TENSOR. */
static uint32_t find_row(struct finder *finder, ckpt_str stem, ckpt_str word)
{
    uint32_t row = finder->has_unique_names ? find_near(finder, stem, word) : CKPT_NO_TENSOR;
    if (row == CKPT_NO_TENSOR) {
        finder->name.len = 0;
        buf_put_str(&finder->name, stem);
        buf_put_str(&finder->name, word);
        row = find_name(finder);
    }
    bool is_whole = row != CKPT_NO_TENSOR && table_part_of(&finder->file->table, row) == CKPT_NO_TENSOR;
    return is_whole ? row : CKPT_NO_TENSOR;
}

/* The parts of a weight, as they are found. */
struct part_list {
    uint32_t row[QUANTIZED_PARTS_MAX];
    uint32_t n;
};

/* find_parts - looks for STEM + each word of WORDS, and adds their rows to PARTS. Returns true if all
 * exist. */
static bool find_parts(struct finder *finder, ckpt_str stem, const char *words, struct part_list *parts)
{
    ckpt_str list = str_c(words), word;
    bool found_all = true;
    while ((word = str_take_until(&list, ' ')).len && parts->n < QUANTIZED_PARTS_MAX) {
        uint32_t row = find_row(finder, stem, word);
        found_all &= row != CKPT_NO_TENSOR;
        parts->row[parts->n++] = row;
    }
    return found_all;
}

/* add_weight - adds WEIGHT with the first of PARTS: a model has 50,000, which mostly have one. */
static ckpt_status add_weight(struct finder *finder, struct quantized_weight weight,
                              const struct part_list *parts, ckpt_error *err)
{
    struct quantized_weights *out = finder->out;
    out->of_row[weight.weight] = (uint32_t)out->n;
    for (uint32_t i = 0; i < parts->n; i++)
        if (parts->row[i] != CKPT_NO_TENSOR) {
            out->of_row[parts->row[i]] = (uint32_t)out->n;
            weight.nparts = i + 1;
        }
    uint32_t *part = arena_alloc_words(finder->a, weight.nparts * sizeof *part);
    CKPT_TRY_ALLOC(part, err);
    memcpy(part, parts->row, weight.nparts * sizeof *part);
    weight.part = part;
    return arena_push(finder->a, &out->list, &out->n, &out->cap, &weight, sizeof weight) ? CKPT_OK
                                                                                         : fail_memory(err);
}

/* try_scheme - adds the weight of scheme ID whose first scale is row SCALE, by its name, if there is one. */
static ckpt_status try_scheme(struct finder *finder, enum quantized_scheme_id id, uint32_t scale,
                              ckpt_error *err)
{
    const struct scheme *s = &schemes[id];
    struct quantized_weight w = {.scheme = id};
    ckpt_str first = finder->first_scale[id], name = table_name(&finder->file->table, scale);
    struct part_list parts = {.n = 0};
    w.stem = str_of(name.ptr, name.len - first.len);
    finder->near = scale;
    if (!is_stem(w.stem, first) || (w.weight = find_row(finder, w.stem, str_c(s->weight))) == CKPT_NO_TENSOR)
        return CKPT_OK;
    if (belongs(finder, w.weight) || !is_quantized_dtype(s, table_dtype_of(&finder->file->table, w.weight)))
        return CKPT_OK;
    if (!find_parts(finder, w.stem, s->scales, &parts))
        return CKPT_OK;
    (void)find_parts(finder, w.stem, s->optional, &parts);
    return add_weight(finder, w, &parts, err);
}

/* A kind of tensor that is quantized, and the names of its components that a recipe reads. The more specific
 * ones are first. */
struct quantized_kind {
    ckpt_kind kind;
    const char *package, *klass; /* of its class; "": any */
    enum quantized_scheme_id scheme;
    const char *components;
};

static const struct quantized_kind quantized_kinds[] = {
    {CKPT_QUANTIZED, "", "", QUANTIZED_TORCH, ".scales .zero_points"},
    {CKPT_WRAPPER, "torchao.", "AffineQuantizedTensor", QUANTIZED_TORCHAO_AFFINE,
     ".tensor_impl .tensor_impl.int_data .tensor_impl.float8_data .tensor_impl.scale "
     ".tensor_impl.zero_point"},
    {CKPT_WRAPPER, "torchao.", "LinearActivationQuantizedTensor", QUANTIZED_TORCHAO_AFFINE,
     ".original_weight_tensor.tensor_impl .original_weight_tensor.tensor_impl.int_data "
     ".original_weight_tensor.tensor_impl.float8_data .original_weight_tensor.tensor_impl.scale "
     ".original_weight_tensor.tensor_impl.zero_point .original_weight_tensor"},
    {CKPT_WRAPPER, "torchao.", "", QUANTIZED_TORCHAO_TENSOR, ".qdata .scale .zero_point"},
};

/* is_below - returns true if ROW is a component of row COMPOSITE or of one of its components: they follow
 * it. ROW is not before it. */
static bool is_below(const struct finder *finder, uint32_t row, uint32_t composite)
{
    uint32_t of = table_part_of(&finder->file->table, row);
    return of != CKPT_NO_TENSOR && of >= composite && row > composite;
}

/* find_component - returns the row below row COMPOSITE that is named like it and WORD, or CKPT_NO_TENSOR. */
static uint32_t find_component(struct finder *finder, uint32_t composite, ckpt_str word)
{
    finder->name.len = 0;
    buf_put_str(&finder->name, table_name(&finder->file->table, composite));
    buf_put_str(&finder->name, word);
    uint32_t row = find_name(finder);
    return row != CKPT_NO_TENSOR && is_below(finder, row, composite) ? row : CKPT_NO_TENSOR;
}

static bool is_part(const struct part_list *parts, uint32_t row)
{
    for (uint32_t i = 0; i < parts->n; i++)
        if (parts->row[i] == row)
            return true;
    return false;
}

/* add_composite - adds row COMPOSITE, a tensor of KIND, with all its components. */
static ckpt_status add_composite(struct finder *finder, const struct quantized_kind *kind, uint32_t composite,
                                 ckpt_error *err)
{
    const struct quantized_weight w = {
        .scheme = kind->scheme, .stem = table_name(&finder->file->table, composite), .weight = composite};
    struct part_list parts = {.n = 0};
    ckpt_str list = str_c(kind->components), word;
    while ((word = str_take_until(&list, ' ')).len)
        parts.row[parts.n++] = find_component(finder, composite, word);
    for (uint32_t i = composite + 1; i < finder->file->table.nrows && parts.n < QUANTIZED_PARTS_MAX; i++) {
        if (!is_below(finder, i, composite))
            break;
        if (!is_part(&parts, i))
            parts.row[parts.n++] = i;
    }
    return add_weight(finder, w, &parts, err);
}

/* find_kind - returns the kind of the quantized tensor ROW; NULL: it is not quantized by its kind. */
static const struct quantized_kind *find_kind(const struct table *table, uint32_t row)
{
    ckpt_kind of_row = table_kind_of(table, row);
    if (of_row != CKPT_QUANTIZED && of_row != CKPT_WRAPPER)
        return NULL;
    ckpt_str klass = table_tensor(table, row).klass;
    for (size_t k = 0; k < sizeof quantized_kinds / sizeof *quantized_kinds; k++) {
        const struct quantized_kind *kind = &quantized_kinds[k];
        if (of_row == kind->kind && str_starts(klass, str_c(kind->package)) &&
            (!*kind->klass || str_is(str_after_last(klass, '.'), kind->klass)))
            return kind;
    }
    return NULL;
}

/* find_composites - adds the tensors that are quantized by their kind; scales and zeros are components, and
 * tensors that are quantized may be, too. */
static ckpt_status find_composites(struct finder *finder, ckpt_error *err)
{
    for (uint32_t i = 0; i < finder->file->table.nrows; i++) {
        const struct quantized_kind *kind = find_kind(&finder->file->table, i);
        if (kind && table_alias_of(&finder->file->table, i) == CKPT_NO_TENSOR && !belongs(finder, i))
            CKPT_TRY(add_composite(finder, kind, i, err));
    }
    return CKPT_OK;
}

/* find_candidates - collects the rows whose names end as the first scale of any scheme. */
static ckpt_status find_candidates(struct finder *finder, ckpt_error *err)
{
    for (uint32_t row = 0; row < finder->file->table.nrows; row++) {
        ckpt_str name = table_name(&finder->file->table, row);
        struct candidate c = {.row = row};
        uint64_t left = name.len ? finder->schemes_by_end[(unsigned char)name.ptr[name.len - 1]] : 0;
        for (; left; left &= left - 1) {
            int id = __builtin_ctzll(left);
            if (str_ends(name, finder->first_scale[id]))
                c.schemes |= (uint64_t)1 << id;
        }
        finder->candidate_schemes |= c.schemes;
        if (c.schemes && !arena_push(NULL, &finder->candidates, &finder->ncandidates, &finder->cap_candidates,
                                     &c, sizeof c))
            return fail_memory(err);
    }
    return CKPT_OK;
}

/* ---- unknown layouts */

/* get_module - returns NAME up to its last dot, with the dot. */
static ckpt_str get_module(ckpt_str name)
{
    ckpt_str last = str_after_last(name, '.');
    return str_of(name.ptr, name.len - last.len);
}

static bool contains(ckpt_str text, const char *word) { return str_find(text, str_c(word), 0) != SIZE_MAX; }

static bool names_scale(ckpt_str last) { return contains(last, "scale") || contains(last, "absmax"); }

static bool names_weight(ckpt_str last) { return contains(last, "weight") || contains(last, "kernel"); }

static bool is_unknown_weight(const struct finder *finder, uint32_t row)
{
    const struct table *t = &finder->file->table;
    const char *klass = dtype_class(table_dtype_of(t, row));
    ckpt_str last = str_after_last(table_name(t, row), '.');
    uint32_t ndim = table_ndim_of(t, row);
    if (!*klass || belongs(finder, row) || table_part_of(t, row) != CKPT_NO_TENSOR || !ndim ||
        names_scale(last))
        return false;
    return str_is(str_c(klass), "f8") || (ndim > 1 && names_weight(last));
}

/* index_scales - maps to its row, by module, each tensor that is named like a scale and not known yet. NULL:
 * no memory. */
static map *index_scales(const struct finder *finder)
{
    map *scale_of = map_new(0);
    bool ok = scale_of != NULL;
    for (uint32_t i = 0; ok && i < finder->file->table.nrows; i++) {
        ckpt_str name = table_name(&finder->file->table, i);
        if (!belongs(finder, i) && table_part_of(&finder->file->table, i) == CKPT_NO_TENSOR &&
            names_scale(str_after_last(name, '.')))
            ok = map_put(scale_of, get_module(name), i, NULL);
    }
    if (ok)
        return scale_of;
    map_free(scale_of);
    return NULL;
}

/* find_unknown - adds the weights of unknown layouts. Each gets the first scale of its module. */
static ckpt_status find_unknown(struct finder *finder, ckpt_error *err)
{
    map *scale_of = index_scales(finder);
    ckpt_status st = scale_of ? CKPT_OK : fail_memory(err);
    size_t nknown = finder->out->n;
    for (uint32_t i = 0; st == CKPT_OK && map_count(scale_of) && i < finder->file->table.nrows; i++) {
        if (!is_unknown_weight(finder, i))
            continue;
        const struct quantized_weight w = {.scheme = QUANTIZED_UNKNOWN,
                                           .weight = i,
                                           .stem = get_module(table_name(&finder->file->table, i))};
        const struct part_list scale = {.row = {map_get(scale_of, w.stem)}, .n = 1};
        if (scale.row[0] != MAP_NONE)
            st = add_weight(finder, w, &scale, err);
    }
    for (uint32_t i = 0; st == CKPT_OK && finder->out->n > nknown && i < finder->file->table.nrows; i++) {
        ckpt_str name = table_name(&finder->file->table, i);
        uint32_t first = map_get(scale_of, get_module(name)); /* another scale of the same module */
        if (first != MAP_NONE && !belongs(finder, i) && names_scale(str_after_last(name, '.')))
            finder->out->of_row[i] = finder->out->of_row[first];
    }
    map_free(scale_of);
    return st;
}

/* ---- one shard of a set */

/* may_be_torn - returns true if TENSOR, of a set without an index, may be half of a quantized weight. */
static bool may_be_torn(const ckpt_tensor *tensor)
{
    ckpt_str last = str_after_last(tensor->name, '.');
    return str_is(str_c(dtype_class((ckpt_dtype)tensor->dtype)), "f8") ||
           (names_scale(last) && names_weight(last)) || str_is(last, "absmax");
}

/* has_sibling - returns true if NAME ends in WORD, and another shard has the tensor of the same stem that
 * ends in OTHER. */
static bool has_sibling(struct finder *finder, ckpt_str name, ckpt_str word, ckpt_str other)
{
    ckpt_str stem = str_of(name.ptr, name.len - (str_ends(name, word) ? word.len : 0));
    if (!str_ends(name, word) || !is_stem(stem, word.len ? word : other))
        return false;
    finder->name.len = 0;
    buf_put_str(&finder->name, stem);
    buf_put_str(&finder->name, other);
    return buf_ok(&finder->name) && map_get(finder->siblings, buf_view(&finder->name)) != MAP_NONE;
}

/* is_torn - returns true if row ROW is a weight whose scale is in another shard, or the other way round. */
static bool is_torn(struct finder *finder, uint32_t row)
{
    const ckpt_tensor t = get_tensor(finder, row);
    for (size_t i = 0; i < NSCHEMES; i++) {
        const struct scheme *s = &schemes[i];
        const char *const lists[] = {s->scales, s->optional};
        ckpt_str weight = str_c(s->weight), word;
        if (!finder->first_scale[i].len)
            continue;
        if (is_quantized_dtype(s, (ckpt_dtype)t.dtype) &&
            has_sibling(finder, t.name, weight, finder->first_scale[i]))
            return true;
        for (unsigned k = 0; k < 2; k++)
            for (ckpt_str list = str_c(lists[k]); (word = str_take_until(&list, ' ')).len;)
                if (has_sibling(finder, t.name, word, weight))
                    return true;
    }
    return false;
}

static ckpt_status add_torn(struct finder *finder, ckpt_error *err)
{
    for (uint32_t i = 0; i < finder->file->table.nrows; i++) {
        const ckpt_tensor t = get_tensor(finder, i);
        const struct quantized_weight w = {.scheme = QUANTIZED_IN_SHARDS, .weight = i, .stem = t.name};
        if (belongs(finder, i) || t.part_of != CKPT_NO_TENSOR)
            continue;
        if (finder->siblings ? is_torn(finder, i) : may_be_torn(&t))
            CKPT_TRY(add_weight(finder, w, &(const struct part_list){.n = 0}, err));
    }
    return CKPT_OK;
}

/* find_torn - adds the tensors of a shard that was opened alone whose weight or scales are in another. */
static ckpt_status find_torn(struct finder *finder, ckpt_error *err)
{
    arena *a = arena_new(MAX_SIBLINGS);
    ckpt_status st = a ? CKPT_OK : fail_memory(err);
    if (st == CKPT_OK && finder->file->list_siblings)
        st = finder->file->list_siblings(finder->file, a, &finder->siblings, err);
    if (st == CKPT_OK && (finder->siblings || finder->file->files_in_set > 1))
        st = add_torn(finder, err);
    map_free(finder->siblings);
    arena_free(a);
    return st;
}

static void mark_unrelated_scales(struct finder *finder)
{
    for (uint32_t i = 0; i < finder->file->table.nrows; i++)
        for (size_t k = 0; !belongs(finder, i) && k < sizeof unrelated_scales / sizeof *unrelated_scales; k++)
            if (str_is(str_after_last(table_name(&finder->file->table, i), '.'), unrelated_scales[k]))
                finder->out->of_row[i] = QUANTIZED_BY_ALL;
}

/* mark_ties - marks other names of quantized weights, which have no scales of their own. */
static void mark_ties(struct finder *finder)
{
    for (uint32_t i = 0; i < finder->file->table.nrows; i++) {
        uint32_t first = table_alias_of(&finder->file->table, i);
        if (first != CKPT_NO_TENSOR && !belongs(finder, i))
            finder->out->of_row[i] = finder->out->of_row[first];
    }
}

static ckpt_status find_all(struct finder *finder, ckpt_error *err)
{
    CKPT_TRY(find_candidates(finder, err));
    CKPT_TRY(find_composites(finder, err));
    for (unsigned id = 0; id < NSCHEMES; id++)
        for (size_t i = 0; finder->candidate_schemes >> id & 1 && i < finder->ncandidates; i++)
            if (finder->candidates[i].schemes >> id & 1)
                CKPT_TRY(try_scheme(finder, (enum quantized_scheme_id)id, finder->candidates[i].row, err));
    CKPT_TRY(find_unknown(finder, err));
    CKPT_TRY(find_torn(finder, err));
    if (finder->out->n) {
        mark_unrelated_scales(finder);
        mark_ties(finder);
    }
    return finder->no_memory ? fail_memory(err) : CKPT_OK;
}

ckpt_status quantized_find(ckpt_file *file, arena *a, struct quantized_weights *out, ckpt_error *err)
{
    struct finder f = {.file = file, .a = a, .out = out};
    for (size_t i = 0; i < NSCHEMES; i++) {
        ckpt_str words = str_c(schemes[i].scales);
        ckpt_str first = f.first_scale[i] = str_take_until(&words, ' ');
        if (first.len)
            f.schemes_by_end[(unsigned char)first.ptr[first.len - 1]] |= (uint64_t)1 << i;
    }
    *out = (struct quantized_weights){.of_row = arena_array(a, file->table.nrows, sizeof *out->of_row)};
    buf_init(&f.name, SIZE_MAX / 2);
    bool ok = out->of_row && (file->has_unique_names || file_index_names(file));
    for (size_t i = 0; ok && i < file->table.nrows; i++)
        out->of_row[i] = QUANTIZED_BY_NONE;
    f.has_unique_names = ok && (file->has_unique_names || map_count(file->names) == file->table.nrows);
    ckpt_status st = ok ? find_all(&f, err) : fail_memory(err);
    buf_free(&f.name);
    free(f.candidates);
    return st;
}

ckpt_status plan_find_quantized(ckpt_plan *p, ckpt_error *err)
{
    if (p->quantized)
        return CKPT_OK;
    struct quantized_weights *found = arena_alloc(p->a, sizeof *found);
    ckpt_status st = found ? quantized_find(p->file, p->a, found, err) : fail_memory(err);
    if (st == CKPT_OK)
        p->quantized = found;
    return st;
}
