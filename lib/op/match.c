/* match.c - see match.h: collects the tensors of both sides, groups them, and compares the groups. */
#include "op/match.h"

#include <stdlib.h>

#include "base/checked.h"
#include "base/sized.h"
#include "base/utf8.h"
#include "op/root.h"

/* -------------------------------------------------------------------------- collecting */

/* can_move - returns true if `ckpt edit` changes the elements of such tensors. */
static bool can_move(const ckpt_tensor *tensor)
{
    return tensor->kind == CKPT_DENSE && tensor->has_shape && ckpt_dtype_bits((ckpt_dtype)tensor->dtype) >= 8;
}

static ckpt_status add_tensor(ckpt_match *match, struct match_side *side, const ckpt_tensor *tensor,
                              ckpt_str name, uint32_t row, ckpt_error *err)
{
    struct match_tensor added = {.name = name,
                                 .ndim = tensor->ndim,
                                 .has_shape = tensor->has_shape,
                                 .can_move = can_move(tensor),
                                 .row = row};
    uint64_t *shape = arena_array(match->a, tensor->ndim, sizeof *shape);
    CKPT_TRY_ALLOC(shape, err);
    if (tensor->ndim)
        memcpy(shape, tensor->shape, tensor->ndim * sizeof *shape); /* rules change those of the file */
    added.shape = shape;
    return ARENA_PUSH(match->a, side, tensors, &added) ? CKPT_OK : fail_memory(err);
}

/* is_weight - returns true if ROW of F may be a parameter or buffer of a network. */
static bool is_weight(const ckpt_file *f, uint32_t row, const ckpt_tensor *tensor)
{
    return table_part_of(&f->table, row) == CKPT_NO_TENSOR && ckpt_tensor_state(tensor) == CKPT_STATE_NONE;
}

static ckpt_status collect_have(ckpt_match *match, ckpt_error *err)
{
    const ckpt_file *f = match->p->file;
    CKPT_TRY(plan_update_entries(match->p, err));
    for (size_t i = 0; i < match->p->nentries; i++) {
        const struct plan_entry *e = &match->p->entries[i];
        const ckpt_tensor t = table_tensor(&f->table, e->row);
        if (is_weight(f, e->row, &t) && root_contains(&match->root, t.name, t.path, t.npath))
            CKPT_TRY(add_tensor(match, &match->have, &t, e->name, e->row, err));
    }
    return CKPT_OK;
}

/* collect_others - adds the tensors of the checkpoint that WANTED, an error of load_state_dict, does not
 * name: the model has them. */
static ckpt_status collect_others(ckpt_match *match, const ckpt_file *wanted, map *named, ckpt_error *err)
{
    for (uint32_t i = 0; i < wanted->table.nrows; i++)
        CKPT_TRY_ALLOC(map_put(named, table_name(&wanted->table, i), i, NULL), err);
    for (size_t i = 0; i < match->have.ntensors; i++) {
        struct match_tensor other = match->have.tensors[i];
        if (map_get(named, other.name) != MAP_NONE)
            continue;
        other.row = MATCH_NONE;
        CKPT_TRY_ALLOC(ARENA_PUSH(match->a, &match->wanted, tensors, &other), err);
    }
    return CKPT_OK;
}

static ckpt_status collect_wanted(ckpt_match *match, ckpt_file *wanted, const char *wanted_root,
                                  ckpt_error *err)
{
    struct root root;
    CKPT_TRY(root_find(wanted,
                       wanted->name_list.is_one && !wanted_root ? NULL
                       : wanted_root                            ? wanted_root
                                                                : "auto",
                       &root, err));
    if (wanted_root && *wanted_root && strcmp(wanted_root, "auto") != 0 && !root.name.len)
        return name_file_if_failed(
            fail(err, CKPT_ENOTFOUND, CKPT_NO_OFFSET, "nothing is below \"%s\"", wanted_root), wanted->path,
            err);
    size_t cut = root.name.len ? root.name.len + 1 : 0;
    for (uint32_t i = 0; i < wanted->table.nrows; i++) {
        const ckpt_tensor t = table_tensor(&wanted->table, i);
        if (wanted->name_list.is_load_error && i >= wanted->name_list.first_absent)
            break;
        if (is_weight(wanted, i, &t) && root_contains(&root, t.name, t.path, t.npath))
            CKPT_TRY(add_tensor(match, &match->wanted, &t, str_skip(t.name, cut), i, err));
    }
    if (!wanted->name_list.is_load_error)
        return CKPT_OK;
    map *named = map_new(wanted->table.nrows);
    ckpt_status st = named ? collect_others(match, wanted, named, err) : fail_memory(err);
    map_free(named);
    return st;
}

/* ------------------------------------------------------------------------------ groups */

/* is_number - returns true if COMPONENT is an index: digits, without a 0 before others. */
static bool is_number(ckpt_str component, uint64_t *number)
{
    return component.len && component.len < 19 && !(component.len > 1 && component.ptr[0] == '0') &&
           str_uint(component, number);
}

/* set_text - sets *TEXT to that of the group of TENSOR, in BUFFER, and *NINDEX and the indexes. */
static void set_text(struct match_tensor *tensor, char *buffer, ckpt_str *text, uint32_t *nindex)
{
    size_t n = 0;
    *nindex = 0;
    for (ckpt_str rest = tensor->name; rest.ptr < tensor->name.ptr + tensor->name.len;) {
        ckpt_str component = str_before(rest, '.');
        uint64_t number;
        if (*nindex < MATCH_INDEXES && is_number(component, &number)) {
            tensor->index[(*nindex)++] = number;
            buffer[n++] = '0';
        } else {
            memcpy(buffer + n, component.ptr, component.len);
            n += component.len;
        }
        if (component.len == rest.len)
            break;
        buffer[n++] = '.';
        rest = str_of(rest.ptr + component.len + 1, rest.len - component.len - 1);
    }
    *text = str_of(buffer, n);
}

static int compare_tensors(const void *left, const void *right)
{
    const struct match_tensor *a = left, *b = right;
    if (a->group != b->group)
        return a->group < b->group ? -1 : 1;
    for (size_t i = 0; i < MATCH_INDEXES; i++)
        if (a->index[i] != b->index[i])
            return a->index[i] < b->index[i] ? -1 : 1;
    return (a->row > b->row) - (a->row < b->row);
}

MODULO static uint64_t mix(uint64_t digest, uint64_t number)
{
    digest = (digest ^ number) * UINT64_C(0x9e3779b97f4a7c15);
    return digest ^ digest >> 29;
}

/* add_digests - adds the shape of TENSOR, and its place after the first one of the group, to the digests. */
MODULO static void add_digests(struct match_group *group, const struct match_tensor *tensor,
                               const uint64_t *lowest)
{
    uint64_t sum = 0, product = 1;
    for (uint32_t i = 0; i < group->nindex; i++)
        group->places = mix(group->places, tensor->index[i] - lowest[i]);
    group->shapes = mix(group->shapes, tensor->ndim);
    for (uint32_t i = 0; i < tensor->ndim; i++) {
        group->shapes = mix(group->shapes, tensor->shape[i]);
        sum += mix(1, tensor->shape[i]);
        product *= tensor->shape[i];
    }
    group->sizes = mix(mix(group->sizes, sum), product + tensor->ndim);
    group->has_shapes = group->has_shapes && tensor->has_shape;
}

static void finish_group(struct match_group *group)
{
    uint64_t lowest[MATCH_INDEXES] = {0};
    for (uint32_t i = 0; i < group->nindex; i++) {
        lowest[i] = group->tensors[0].index[i];
        for (size_t k = 1; k < group->ntensors; k++)
            lowest[i] = group->tensors[k].index[i] < lowest[i] ? group->tensors[k].index[i] : lowest[i];
    }
    group->places = group->shapes = group->sizes = 1;
    group->has_shapes = true;
    for (size_t k = 0; k < group->ntensors; k++)
        add_digests(group, &group->tensors[k], lowest);
}

ckpt_status match_make_groups(ckpt_match *match, struct match_side *side, ckpt_error *err)
{
    side->group_of = map_new(64);
    CKPT_TRY_ALLOC(side->group_of, err);
    for (size_t i = 0; i < side->ntensors; i++) {
        struct match_tensor *tensor = &side->tensors[i];
        struct match_group group = {.partner = MATCH_NONE};
        char *buffer = arena_alloc_text(match->a, tensor->name.len + 1);
        CKPT_TRY_ALLOC(buffer, err);
        set_text(tensor, buffer, &group.text, &group.nindex);
        tensor->group = map_get(side->group_of, group.text);
        if (tensor->group != MAP_NONE) {
            arena_shrink(match->a, buffer, 0);
            continue;
        }
        tensor->group = (uint32_t)side->ngroups;
        group.is_plain = match_can_be_word(group.text);
        CKPT_TRY_ALLOC(map_put(side->group_of, group.text, tensor->group, NULL), err);
        CKPT_TRY_ALLOC(ARENA_PUSH(match->a, side, groups, &group), err);
    }
    if (side->ntensors)
        qsort(side->tensors, side->ntensors, sizeof *side->tensors, compare_tensors);
    for (size_t i = 0; i < side->ntensors; i++) {
        struct match_group *group = &side->groups[side->tensors[i].group];
        group->tensors = group->ntensors ? group->tensors : &side->tensors[i];
        group->ntensors++;
    }
    for (size_t i = 0; i < side->ngroups; i++)
        finish_group(&side->groups[i]);
    return CKPT_OK;
}

ckpt_status match_pair_groups(ckpt_match *match, ckpt_error *err)
{
    map_free(match->have.group_of);
    match->have.group_of = map_new(match->have.ngroups);
    CKPT_TRY_ALLOC(match->have.group_of, err);
    for (size_t i = 0; i < match->wanted.ngroups; i++)
        match->wanted.groups[i].partner = MATCH_NONE;
    for (uint32_t i = 0; i < match->have.ngroups; i++) {
        struct match_group *group = &match->have.groups[i];
        CKPT_TRY_ALLOC(map_put(match->have.group_of, group->text, i, NULL), err);
        group->partner = map_get(match->wanted.group_of, group->text);
        if (group->partner != MATCH_NONE)
            match->wanted.groups[group->partner].partner = i;
    }
    return CKPT_OK;
}

/* --------------------------------------------------------------------------- comparing */

static void compare_shapes(struct match_shapes *sum, const struct match_tensor *have,
                           const struct match_tensor *wanted)
{
    uint32_t ndiffer = 0, i = 0, k = 0;
    sum->common++;
    if (!have->has_shape || !wanted->has_shape) {
        sum->unknown++;
        return;
    }
    for (uint32_t d = 0; have->ndim == wanted->ndim && d < have->ndim; d++)
        ndiffer += have->shape[d] != wanted->shape[d];
    while (i < have->ndim || k < wanted->ndim) { /* skips sizes of 1 on either side */
        if (i < have->ndim && k < wanted->ndim && have->shape[i] == wanted->shape[k])
            i++, k++;
        else if (i < have->ndim && have->shape[i] == 1)
            i++;
        else if (k < wanted->ndim && wanted->shape[k] == 1)
            k++;
        else
            break;
    }
    if (have->ndim == wanted->ndim && !ndiffer)
        sum->equal++;
    else if (have->ndim == 2 && wanted->ndim == 2 && have->shape[0] == wanted->shape[1] &&
             have->shape[1] == wanted->shape[0])
        sum->transposed++;
    else if (i == have->ndim && k == wanted->ndim)
        sum->squeezed++;
    else if (have->ndim == wanted->ndim && ndiffer == 1)
        sum->resized++;
    else
        sum->other++;
}

static int compare_indexes(const struct match_tensor *left, const struct match_tensor *right, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (left->index[i] != right->index[i])
            return left->index[i] < right->index[i] ? -1 : 1;
    return 0;
}

struct match_shapes match_compare_shapes(const struct match_group *have, const struct match_group *wanted)
{
    struct match_shapes sum = {0};
    const struct match_tensor *a = have->tensors, *b = wanted->tensors;
    const struct match_tensor *end_a = a + have->ntensors, *end_b = b + wanted->ntensors;
    bool is_same_form = have->ntensors == wanted->ntensors && have->places == wanted->places;
    sum.is_moved = is_same_form && compare_indexes(a, b, have->nindex) != 0;
    while (a < end_a && b < end_b) {
        int order = is_same_form ? 0 : compare_indexes(a, b, have->nindex);
        if (order == 0)
            compare_shapes(&sum, a, b);
        a += order <= 0;
        b += order >= 0;
    }
    return sum;
}

bool match_fits(const struct match_group *have, const struct match_group *wanted)
{
    struct match_shapes shapes = {0};
    bool is_aligned = have->places == wanted->places ||
                      compare_indexes(have->tensors, wanted->tensors, have->nindex) == 0;
    if (have->nindex == wanted->nindex && is_aligned)
        shapes = match_compare_shapes(have, wanted);
    return shapes.common && !shapes.other;
}

/* ------------------------------------------------------------------------------- words */

bool match_can_be_word(ckpt_str text)
{
    bool has_single = false, has_double = false;
    for (size_t pos = 0; pos < text.len;) {
        char first = text.ptr[pos];
        uint32_t cp = utf8_next(text, &pos, false);
        has_single |= first == '\'';
        has_double |= first == '"';
        if (cp == UTF8_BAD || utf8_unsafe(cp))
            return false;
    }
    return text.len && text.len < 512 && !(has_single && has_double) && !str_has(text, STR_LIT("=>"));
}

void match_put_word(buf *out, ckpt_str text)
{
    bool needs_quotes = strchr("[\"'#-=", text.ptr[0]) != NULL;
    for (size_t i = 0; i < text.len; i++)
        needs_quotes |= strchr(" \t,;#", text.ptr[i]) != NULL ||
                        (text.ptr[i] == '-' && i + 1 < text.len && text.ptr[i + 1] == '>');
    const char *quote = !needs_quotes ? "" : memchr(text.ptr, '"', text.len) ? "'" : "\"";
    buf_put_cstr(out, quote);
    buf_put_str(out, text);
    buf_put_cstr(out, quote);
}

bool match_spend(ckpt_match *match, uint64_t npairs)
{
    match->is_cut |= npairs > MATCH_MAX_PAIRS - match->npairs;
    match->npairs += match->is_cut ? 0 : npairs;
    return !match->is_cut;
}

ckpt_status match_add_rule(ckpt_match *match, const ckpt_match_rule *rule, ckpt_error *err)
{
    return ARENA_PUSH(match->a, match, rules, rule) ? CKPT_OK : fail_memory(err);
}

ckpt_status match_join_rules(const ckpt_match *match, ckpt_str *out, ckpt_error *err)
{
    ckpt_str *lines = arena_array(match->a, 2 * match->nrules, sizeof *lines);
    size_t n = 0;
    CKPT_TRY_ALLOC(lines, err);
    for (size_t i = 0; i < match->nrules; i++) {
        if (!match->rules[i].certain)
            continue;
        lines[n++] = match->rules[i].text;
        lines[n++] = STR_LIT("\n");
    }
    *out = arena_join(match->a, lines, n);
    return out->ptr ? CKPT_OK : fail_memory(err);
}

/* ------------------------------------------------------------------------------ results */

static ckpt_status add_item(ckpt_match *match, uint32_t what, const struct match_tensor *wanted,
                            const struct match_tensor *have, ckpt_error *err)
{
    const ckpt_match_item item = {.what = what,
                                  .wanted = wanted ? wanted->row : CKPT_NO_TENSOR,
                                  .row = have ? have->row : CKPT_NO_TENSOR,
                                  .name = wanted ? wanted->name : have->name};
    return ARENA_PUSH(match->a, match, items, &item) ? CKPT_OK : fail_memory(err);
}

static bool has_equal_shape(const struct match_tensor *wanted, const ckpt_tensor *tensor)
{
    return !wanted->has_shape || !tensor->has_shape ||
           (wanted->ndim == tensor->ndim &&
            (!wanted->ndim ||
             memcmp(wanted->shape, tensor->shape, wanted->ndim * sizeof *wanted->shape) == 0));
}

/* compare_names - compares the wanted tensors with the names that the plan has now. FOUND gets those of them
 * that are there. */
static ckpt_status compare_names(ckpt_match *match, map *index, bool *is_wanted, ckpt_match_counts *out,
                                 ckpt_error *err)
{
    const struct match_tensor *wanted = match->wanted.tensors;
    for (size_t i = 0; i < match->wanted.ntensors; i++) {
        uint32_t at = map_get(index, wanted[i].name);
        if (at == MAP_NONE) {
            out->missing++;
            CKPT_TRY(add_item(match, CKPT_MATCH_MISSING, &wanted[i], NULL, err));
            continue;
        }
        const ckpt_tensor t = table_tensor(&match->p->file->table, match->p->entries[at].row);
        const struct match_tensor have = {.row = match->p->entries[at].row};
        is_wanted[at] = true;
        out->same += has_equal_shape(&wanted[i], &t);
        out->no_shape += !wanted[i].has_shape || !t.has_shape;
        if (has_equal_shape(&wanted[i], &t))
            continue;
        out->reshaped++;
        CKPT_TRY(add_item(match, CKPT_MATCH_RESHAPED, &wanted[i], &have, err));
    }
    return CKPT_OK;
}

/* list_unexpected - adds the tensors that are not wanted. */
static ckpt_status list_unexpected(ckpt_match *match, const bool *is_wanted, ckpt_match_counts *out,
                                   ckpt_error *err)
{
    const ckpt_file *f = match->p->file;
    for (size_t i = 0; i < match->p->nentries; i++) {
        const struct plan_entry *e = &match->p->entries[i];
        const ckpt_tensor t = table_tensor(&f->table, e->row);
        const struct match_tensor have = {.row = e->row, .name = e->name};
        if (is_wanted[i] || !is_weight(f, e->row, &t) ||
            !root_contains(&match->root, t.name, t.path, t.npath))
            continue;
        out->unexpected++;
        CKPT_TRY(add_item(match, CKPT_MATCH_UNEXPECTED, NULL, &have, err));
    }
    return CKPT_OK;
}

static ckpt_status compare(ckpt_match *match, map *index, ckpt_match_counts *out, ckpt_error *err)
{
    CKPT_TRY(plan_update_entries(match->p, err));
    bool *is_wanted = arena_array(match->a, match->p->nentries, sizeof *is_wanted);
    CKPT_TRY_ALLOC(is_wanted, err);
    for (uint32_t i = 0; i < match->p->nentries; i++)
        CKPT_TRY_ALLOC(map_put(index, match->p->entries[i].name, i, NULL), err);
    match->nitems = 0;
    CKPT_TRY(compare_names(match, index, is_wanted, out, err));
    return list_unexpected(match, is_wanted, out, err);
}

ckpt_status match_list_differences(ckpt_match *match, ckpt_match_counts *out, ckpt_error *err)
{
    map *index = map_new(match->p->nentries);
    ckpt_status st = index ? compare(match, index, out, err) : fail_memory(err);
    map_free(index);
    return st;
}

/* find_root - makes the part of FILE at ROOT, or its weights, all that is compared. */
static ckpt_status find_root(ckpt_match *match, ckpt_file *file, const char *root, ckpt_error *err)
{
    CKPT_TRY(root_find(file, root ? root : "auto", &match->root, err));
    CKPT_TRY(ckpt_plan_new(file, &match->p, err));
    bool is_named = root && *root && strcmp(root, "auto") != 0;
    if (!is_named && !match->root.name.len)
        return CKPT_OK;
    ckpt_str name = arena_str(match->a, is_named ? str_c(root) : match->root.name);
    CKPT_TRY_ALLOC(name.ptr, err);
    CKPT_TRY(ckpt_plan_root(match->p, name.ptr, err));
    match->root_name = name;
    return CKPT_OK;
}

/* has_moved_numbers - returns true if the numbers of some names are still to be moved by an amount. */
static bool has_moved_numbers(const ckpt_match *match)
{
    for (size_t i = 0; i < match->have.ngroups; i++) {
        const struct match_group *group = &match->have.groups[i];
        if (group->partner != MATCH_NONE && group->nindex == match->wanted.groups[group->partner].nindex &&
            match_compare_shapes(group, &match->wanted.groups[group->partner]).is_moved)
            return true;
    }
    return false;
}

/* doubt_rules - makes all rules comments if numbers differ that could not be moved: the names that the rules
 * explain may be those of other layers. */
static ckpt_status doubt_rules(ckpt_match *match, ckpt_error *err)
{
    if (!has_moved_numbers(match))
        return CKPT_OK;
    for (size_t i = 0; i < match->nrules; i++) {
        match->rules[i].certain = 0;
        match->rules[i].evidence = ARENA_CONCAT(
            match->a, match->rules[i].evidence,
            STR_LIT("; but numbers differ, and could not be moved for all names"));
        CKPT_TRY_ALLOC(match->rules[i].evidence.ptr, err);
    }
    return CKPT_OK;
}

static ckpt_status match_files(ckpt_match *match, ckpt_file *wanted, ckpt_file *file,
                               const ckpt_match_options *opts, ckpt_error *err)
{
    CKPT_TRY(find_root(match, file, opts->root, err));
    CKPT_TRY(collect_have(match, err));
    CKPT_TRY(collect_wanted(match, wanted, opts->wanted_root, err));
    match->is_incomplete = wanted->name_list.is_incomplete;
    CKPT_TRY(match_list_differences(match, &match->before, err));
    CKPT_TRY(match_make_groups(match, &match->have, err));
    CKPT_TRY(match_make_groups(match, &match->wanted, err));
    CKPT_TRY(match_find_renames(match, err));
    CKPT_TRY(match_find_layout(match, err));
    CKPT_TRY(match_find_guesses(match, err));
    CKPT_TRY(match_find_surplus_layers(match, err));
    CKPT_TRY(match_find_surplus(match, err));
    return doubt_rules(match, err);
}

ckpt_status ckpt_match_new(ckpt_file *wanted, ckpt_file *file, const ckpt_match_options *opts,
                           ckpt_match **out, ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    ckpt_match_options o;
    CKPT_REQUIRE(err, out);
    *out = NULL;
    CKPT_REQUIRE(err, wanted && file && wanted != file);
    CKPT_TRY(sized_struct_copy_in(opts, &o, sizeof o, err));
    if (file->name_list.is_one)
        return name_file_if_failed(fail(err, CKPT_EUNKNOWN, CKPT_NO_OFFSET,
                                        "list of names, not a checkpoint\nthe names come first: "
                                        "ckpt match NAMES FILE"),
                                   file->path, err);
    ckpt_match *match = calloc(1, sizeof *match);
    CKPT_TRY_ALLOC(match, err);
    match->a = arena_new(UINT64_MAX);
    ckpt_status st = match->a ? match_files(match, wanted, file, &o, err) : fail_memory(err);
    if (st == CKPT_OK)
        *out = match;
    else
        ckpt_match_free(match);
    return name_file_if_failed(st, file->path, err);
}

void ckpt_match_free(ckpt_match *match)
{
    if (!match)
        return;
    ckpt_plan_free(match->p);
    map_free(match->wanted.group_of);
    map_free(match->have.group_of);
    arena_free(match->a);
    free(match);
}

const char *ckpt_match_root(const ckpt_match *match)
{
    return match && match->root_name.ptr ? match->root_name.ptr : "";
}

bool ckpt_match_is_cut(const ckpt_match *match) { return match && match->is_cut; }

const ckpt_match_counts *ckpt_match_count(const ckpt_match *match)
{
    return match ? (match->is_applied ? &match->after : &match->before) : NULL;
}

const ckpt_match_item *ckpt_match_item_at(const ckpt_match *match, size_t index)
{
    return match && index < match->nitems ? &match->items[index] : NULL;
}

const ckpt_match_rule *ckpt_match_rule_at(const ckpt_match *match, size_t index)
{
    return match && index < match->nrules ? &match->rules[index] : NULL;
}
