/* edit.c - see edit.h: which tensors a rule is about, and what the results are called. */
#include "op/edit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/row_source.h"
#include "op/root.h"

/* ------------------------------------------------------------------------------ errors */

ckpt_str edit_name(const struct editor *editor, uint32_t row)
{
    const bool has_name = row < editor->nnames && editor->name_of[row].ptr;
    return has_name ? editor->name_of[row] : table_name(&editor->p->file->table, row);
}

ckpt_status edit_fail(const struct editor *editor, uint32_t row, ckpt_error *err, const char *fmt, ...)
{
    char name[256], what[512], shape[128];
    const ckpt_tensor t = table_tensor(&editor->p->file->table, row);
    va_list args;
    va_start(args, fmt);
    ckpt_status st = fail_v(err, CKPT_EUSAGE, CKPT_NO_OFFSET, fmt, args);
    va_end(args);
    shape[0] = '\0';
    for (uint32_t k = 0, at = 0; k < t.ndim && at < sizeof shape - 24; k++)
        at += (uint32_t)snprintf(shape + at, sizeof shape - at, "%s%" PRIu64, k ? ", " : "", t.shape[k]);
    (void)ckpt_text_escape(str_first(edit_name(editor, row), 100), name, sizeof name);
    (void)snprintf(what, sizeof what, "\"%s\" [%s]", name, shape);
    error_add_prefix(err, what);
    return place_if_failed(st, editor->rule->place, err);
}

/* ------------------------------------------------------------------------------- names */

ckpt_status edit_index_names(struct editor *editor, ckpt_error *err)
{
    ckpt_plan *p = editor->p;
    uint32_t old;
    map_free(editor->row_of);
    editor->row_of = NULL;
    CKPT_TRY(plan_update_entries(p, err));
    editor->row_of = map_new(p->nentries);
    CKPT_TRY_ALLOC(editor->row_of, err);
    ckpt_str *names = realloc(editor->name_of, (p->cap_rows + 1) * sizeof *names);
    CKPT_TRY_ALLOC(names, err);
    editor->name_of = names;
    editor->nnames = p->cap_rows + 1;
    memset(names, 0, editor->nnames * sizeof *names);
    for (size_t i = 0; i < p->nentries; i++) {
        editor->name_of[p->entries[i].row] = p->entries[i].name;
        CKPT_TRY_ALLOC(map_put(editor->row_of, p->entries[i].name, p->entries[i].row, &old), err);
        if (old != MAP_NONE)
            return fail(err, CKPT_EEXIST, CKPT_NO_OFFSET, "two tensors are called \"%.*s\"",
                        STR_ARG(p->entries[i].name));
    }
    return CKPT_OK;
}

void edit_forget_operands(struct editor *editor)
{
    if (editor->made.list != editor->operands.list)
        free(editor->made.list);
    free(editor->operands.list);
    editor->operands = editor->made = (struct edit_operands){.nlist = 0};
    arena_free(editor->matches);
    editor->matches = NULL;
}

ckpt_status edit_make_key(struct editor *editor, const struct edit_operand *operand, ckpt_str name,
                          ckpt_str *out, ckpt_error *err)
{
    if (operand->mapping_len == UINT32_MAX)
        return edit_fail(editor, operand->row, err, "is in no mapping, so that it cannot get a name");
    ckpt_str mapping = str_first(operand->name, operand->mapping_len);
    if (!str_starts(name, mapping))
        return edit_fail(editor, operand->row, err,
                         "would leave its mapping: \"%.*s\" does not begin with \"%.*s\"", STR_ARG(name),
                         STR_ARG(mapping));
    if (!editor->taken)
        CKPT_TRY(edit_index_taken(editor, err));
    if (map_get(editor->taken, name) != MAP_NONE)
        return rule_fail(editor->rule->place, err, "\"%.*s\" exists, and is no tensor", STR_ARG(name));
    *out = arena_str(editor->a, str_skip(name, mapping.len));
    CKPT_TRY_ALLOC(out->ptr, err);
    return out->len ? CKPT_OK : edit_fail(editor, operand->row, err, "would get an empty name");
}

static uint32_t count_entries(const ckpt_value *node)
{
    uint32_t count = 0;
    (void)value_pairs(node, &count);
    return count ? count : value_count(node);
}

/* set_key - makes KEY the last key of ROW's path. */
static ckpt_status set_key(ckpt_plan *p, uint32_t row, ckpt_str key, ckpt_error *err)
{
    const struct row r = table_row(&p->file->table, row);
    const struct step *step = &r.steps[r.t.npath - 1]; /* row_find_key has checked that it has one */
    struct edit *e = plan_find_or_add_edit(p, step->node, count_entries(step->node));
    CKPT_TRY_ALLOC(e, err);
    e->names[step->index] = key;
    return CKPT_OK;
}

static ckpt_status fill_target(struct editor *editor, const struct edit_step *step, size_t index,
                               ckpt_str extra, ckpt_str *out, ckpt_error *err)
{
    *out = name_template_fill(&editor->targets[index], &step->first->match, extra, editor->a);
    return out->ptr ? CKPT_OK : fail_memory(err);
}

ckpt_status edit_note_made(struct editor *editor, const struct edit_step *step, uint32_t row, ckpt_str name,
                           ckpt_error *err)
{
    struct edit_operand made = *step->first;
    made.row = row;
    made.name = name;
    return ARENA_PUSH(NULL, &editor->made, list, &made) ? CKPT_OK : fail_memory(err);
}

ckpt_status edit_finish(struct editor *editor, const struct edit_step *step, size_t index, ckpt_str extra,
                        uint32_t row, ckpt_error *err)
{
    ckpt_str name = step->first->name, key;
    if (index < editor->rule->ntargets) {
        CKPT_TRY(fill_target(editor, step, index, extra, &name, err));
        CKPT_TRY(edit_make_key(editor, step->first, name, &key, err));
        CKPT_TRY(set_key(editor->p, row, key, err));
    }
    return edit_note_made(editor, step, row, name, err);
}

ckpt_status edit_add(struct editor *editor, const struct edit_step *step, size_t index, ckpt_str extra,
                     uint32_t *row, ckpt_error *err)
{
    ckpt_str name, key;
    CKPT_TRY(fill_target(editor, step, index, extra, &name, err));
    CKPT_TRY(edit_make_key(editor, step->first, name, &key, err));
    CKPT_TRY(place_if_failed(row_add(editor->p, step->rows[0], key, row, err), editor->rule->place, err));
    return edit_note_made(editor, step, *row, name, err);
}

/* --------------------------------------------------------------------------- selection */

/* changes_tensors - returns true if the rule changes tensors, and does not only choose them. */
static bool changes_tensors(const struct rule *rule)
{
    return rule->verb != RULE_DROP && rule->verb != RULE_KEEP && rule->verb != RULE_CAST;
}

/* keep_match - sets *OUT to a match of NAME, of whose COUNT variables BOUND is what they matched. */
static ckpt_status keep_match(struct editor *editor, ckpt_str name, const struct name_span *bound,
                              size_t count, struct name_match *out, ckpt_error *err)
{
    editor->matches = editor->matches ? editor->matches : arena_new(UINT64_MAX);
    struct name_span *kept = editor->matches ? arena_alloc_words(editor->matches, count * sizeof *kept)
                                             : NULL;
    CKPT_TRY_ALLOC(kept, err);
    memcpy(kept, bound, count * sizeof *kept);
    *out = (struct name_match){name.ptr, kept};
    return CKPT_OK;
}

/* add_operand - adds ENTRY, in whose name the COUNT variables of a pattern matched BOUND, to the operands. */
static ckpt_status add_operand(struct editor *editor, const struct plan_entry *entry,
                               const struct name_span *bound, size_t count, ckpt_error *err)
{
    ckpt_str key = row_find_key(editor->p, entry->row);
    struct edit_operand operand = {.name = entry->name,
                                   .row = entry->row,
                                   .mapping_len = key.ptr ? (uint32_t)(entry->name.len - key.len)
                                                          : UINT32_MAX};
    if (changes_tensors(editor->rule))
        CKPT_TRY(place_if_failed(row_check_place(editor->p, entry->row, err), editor->rule->place, err));
    CKPT_TRY(keep_match(editor, entry->name, bound, count, &operand.match, err));
    return ARENA_PUSH(NULL, &editor->operands, list, &operand) ? CKPT_OK : fail_memory(err);
}

/* fail_no_match - fails because NAME, of the rule, matches no tensor; unless the rule is optional. */
static ckpt_status fail_no_match(const struct editor *editor, const struct rule_name *name, ckpt_error *err)
{
    const ckpt_plan *p = editor->p;
    if (editor->rule->is_optional || p->allow_none)
        return CKPT_OK;
    const ckpt_str nearest = plan_find_nearest(p, name->text);
    const char *verb = rule_verb_name(editor->rule->verb);
    ckpt_status st = fail(err, CKPT_ENOTFOUND, CKPT_NO_OFFSET, "\"%.*s\" matches none of the %zu names",
                          STR_ARG(name->text), p->nentries);
    if (nearest.len)
        error_add_hint(err, "the nearest is \"%.*s\"; `%s?` is no error if nothing matches", STR_ARG(nearest),
                       verb);
    return place_if_failed(st, name->place, err);
}

/* select_by - adds the tensors that PATTERN matches to the operands. */
static ckpt_status select_by(struct editor *editor, const struct name_pattern *pattern, ckpt_error *err)
{
    struct name_span bound[NAME_VARIABLES];
    bool matches;
    for (size_t i = 0; i < editor->p->nentries; i++) {
        const struct plan_entry *entry = &editor->p->entries[i];
        CKPT_TRY(name_pattern_match(pattern, entry->name, bound, &matches, err));
        if (matches)
            CKPT_TRY(add_operand(editor, entry, bound, pattern->nvariables, err));
    }
    return CKPT_OK;
}

ckpt_status edit_select(struct editor *editor, ckpt_error *err)
{
    return select_by(editor, editor->pattern, err);
}

/* select_some - does what select_by does for the name NAME of the rule, and fails if there is none. */
static ckpt_status select_some(struct editor *editor, const struct rule_name *name,
                               const struct name_pattern *pattern, ckpt_error *err)
{
    size_t before = editor->operands.nlist;
    CKPT_TRY(select_by(editor, pattern, err));
    return editor->operands.nlist > before ? CKPT_OK : fail_no_match(editor, name, err);
}

static ckpt_status compile_pattern(const struct rule_name *name, struct name_pattern *pattern,
                                   ckpt_error *err)
{
    return place_if_failed(name_pattern_compile(pattern, name->text, err), name->place, err);
}

ckpt_status edit_compile_templates(struct editor *editor, const struct rule_name *names, size_t count,
                                   struct name_template **out, ckpt_error *err)
{
    *out = arena_array(editor->scratch, count, sizeof **out);
    CKPT_TRY_ALLOC(*out, err);
    for (size_t i = 0; i < count; i++)
        CKPT_TRY(place_if_failed(
            name_template_compile(&(*out)[i], names[i].text, editor->pattern, editor->scratch, err),
            names[i].place, err));
    return CKPT_OK;
}

/* fail_variable - fails because NAME has the variable EXTRA, which the pattern of the rule lacks. */
static ckpt_status fail_variable(const struct editor *editor, const struct rule_name *name, ckpt_str extra,
                                 ckpt_error *err)
{
    return rule_fail(name->place, err, "the variable %.*s is not in \"%.*s\"", STR_ARG(extra),
                     STR_ARG(editor->pattern->text));
}

/* check_extras - fails if a target of the rule has a variable that its pattern lacks, which only that of
 * `unstack` has. */
static ckpt_status check_extras(const struct editor *editor, ckpt_error *err)
{
    const struct rule *rule = editor->rule;
    for (size_t i = 0; i < rule->ntargets; i++) {
        ckpt_str extra = editor->targets[i].extra;
        if (rule->verb == RULE_UNSTACK && !extra.len)
            return rule_fail(rule->targets[i].place, err, "\"%.*s\" needs a variable in braces for the index",
                             STR_ARG(rule->targets[i].text));
        if (rule->verb != RULE_UNSTACK && extra.len)
            return fail_variable(editor, &rule->targets[i], extra, err);
    }
    return CKPT_OK;
}

/* finds_names - returns true if RULE looks for tensors by names that it makes or has. */
static bool finds_names(const struct rule *rule)
{
    return rule->verb == RULE_CONCAT || rule->verb == RULE_TIE || rule->verb == RULE_SET;
}

static void forget_rows_of_names(struct editor *editor)
{
    map_free(editor->row_of);
    editor->row_of = NULL;
}

/* begin_rule - finds the operands of the rule, and makes its targets. */
static ckpt_status begin_rule(struct editor *editor, ckpt_error *err)
{
    const struct rule *rule = editor->rule;
    CKPT_TRY(place_if_failed(edit_index_names(editor, err), rule->place, err));
    if (!finds_names(rule)) /* 3 MiB for 100,000 tensors */
        forget_rows_of_names(editor);
    if (rule->continues) {
        if (editor->operands.list != editor->made.list)
            free(editor->operands.list);
        editor->operands = editor->made;
        editor->made = (struct edit_operands){.nlist = 0};
        if (!editor->operands.nlist && !editor->made_nothing)
            return rule_fail(rule->place, err,
                             "the rule before it made no tensor; name those that this is about");
    } else {
        edit_forget_operands(editor);
        name_pattern_free(editor->pattern);
        CKPT_TRY(compile_pattern(&rule->names[0], editor->pattern, err));
        if (rule->verb != RULE_SET)
            CKPT_TRY(select_some(editor, &rule->names[0], editor->pattern, err));
    }
    editor->napplied = editor->nvalues = 0;
    CKPT_TRY(edit_compile_templates(editor, rule->targets, rule->ntargets, &editor->targets, err));
    return check_extras(editor, err);
}

/* ------------------------------------------------------------------------- application */

/* note_tensor - adds ROW, called NAME, to the report. */
static ckpt_status note_tensor(struct editor *editor, uint32_t row, ckpt_str name, bool is_made,
                               ckpt_error *err)
{
    struct plan_report *report = &editor->p->report;
    const ckpt_tensor t = table_tensor(&editor->p->file->table, row);
    const ckpt_edited note = {.step = (uint32_t)report->nedit_steps - 1,
                              .application = editor->napplied,
                              .is_made = is_made,
                              .dtype = (uint32_t)plan_dtype(editor->p, row),
                              .ndim = t.ndim,
                              .name = name,
                              .shape = t.shape};
    return ARENA_PUSH(editor->p->a, report, edited, &note) ? CKPT_OK : fail_memory(err);
}

ckpt_status edit_apply(struct editor *editor, edit_verb *verb, const struct edit_step *step, ckpt_error *err)
{
    size_t before = editor->made.nlist;
    for (size_t i = 0; i < step->nrows; i++) {
        const ckpt_str *names = editor->name_of;
        CKPT_TRY(note_tensor(editor, step->rows[i], names[step->rows[i]], false, err));
    }
    CKPT_TRY(verb(editor, step, err));
    for (size_t i = before; i < editor->made.nlist; i++)
        CKPT_TRY(note_tensor(editor, editor->made.list[i].row, editor->made.list[i].name, true, err));
    editor->napplied++;
    edit_note_moved(editor, step);
    return CKPT_OK;
}

/* --------------------------------------------------------------- verbs of one tensor each */

/* share_with_tie - makes the tensor of STEP another name of one that it was tied to, which the rule has
 * changed. */
static ckpt_status share_with_tie(struct editor *editor, const struct edit_step *step, ckpt_error *err)
{
    CKPT_TRY(row_share(editor->p->file, step->rows[0], editor->tied_to, err));
    return edit_finish(editor, step, 0, str_of("", 0), step->rows[0], err);
}

/* apply_to - applies VERB to OPERAND or, if CHANGED has a tensor that it was tied to, keeps them tied.
 * CHANGED has the changed tensors by the first of those that are the same. */
static ckpt_status apply_to(struct editor *editor, edit_verb *verb, const struct edit_operand *operand,
                            map *changed, ckpt_error *err)
{
    const struct edit_step step = {operand, &operand->row, 1};
    uint32_t alias = table_alias_of(&editor->p->file->table, operand->row);
    uint32_t first = alias == CKPT_NO_TENSOR ? operand->row : alias;
    editor->tied_to = changed ? map_get_num(changed, first) : MAP_NONE;
    if (editor->tied_to != MAP_NONE)
        return edit_apply(editor, share_with_tie, &step, err);
    CKPT_TRY(edit_apply(editor, verb, &step, err));
    return !changed || map_put_num(changed, first, operand->row, NULL) ? CKPT_OK : fail_memory(err);
}

ckpt_status edit_each(struct editor *editor, edit_verb *verb, ckpt_error *err)
{
    bool keeps_ties = editor->rule->verb != RULE_SPLIT && editor->rule->verb != RULE_UNSTACK &&
                      editor->rule->verb != RULE_UNTIE;
    map *changed = keeps_ties ? map_new(editor->operands.nlist) : NULL;
    ckpt_status st = changed || !keeps_ties ? CKPT_OK : fail_memory(err);
    for (size_t i = 0; st == CKPT_OK && i < editor->operands.nlist; i++)
        st = apply_to(editor, verb, &editor->operands.list[i], changed, err);
    map_free(changed);
    return st;
}

/* ------------------------------------------------------------------------------ concat */

/* find_other - sets *OUT to the tensor whose name TEMPLATE makes for OPERAND. */
static ckpt_status find_other(struct editor *editor, const struct edit_operand *operand,
                              const struct name_template *template, struct rule_place place, uint32_t *out,
                              ckpt_error *err)
{
    ckpt_str name = name_template_fill(template, &operand->match, str_of("", 0), editor->a);
    CKPT_TRY_ALLOC(name.ptr, err);
    *out = map_get(editor->row_of, name);
    if (*out != MAP_NONE)
        return CKPT_OK;
    return place_if_failed(fail(err, CKPT_ENOTFOUND, CKPT_NO_OFFSET,
                                "there is no \"%.*s\", although there is \"%.*s\"", STR_ARG(name),
                                STR_ARG(operand->name)),
                           place, err);
}

/* check_others - refuses if one of the COUNT ROWS but the first is itself the first tensor of another
 * application, which changes it. FIRSTS has those. */
static ckpt_status check_others(const struct editor *editor, const map *firsts, const uint32_t *rows,
                                size_t count, ckpt_error *err)
{
    for (size_t k = 1; k < count; k++)
        if (rows[k] != rows[0] && map_get_num(firsts, rows[k]) != MAP_NONE)
            return edit_fail(editor, rows[k], err, "would be joined to another tensor, and others to it");
    return CKPT_OK;
}

static ckpt_status index_operands(const struct editor *editor, map **out, ckpt_error *err)
{
    *out = map_new(editor->operands.nlist);
    CKPT_TRY_ALLOC(*out, err);
    for (size_t i = 0; i < editor->operands.nlist; i++)
        CKPT_TRY_ALLOC(map_put_num(*out, editor->operands.list[i].row, 0, NULL), err);
    return CKPT_OK;
}

/* find_joined - sets ROWS to OPERAND and the tensors that the templates OTHERS, one for each further name of
 * the rule, make. CKPT_ENOTFOUND: one does not exist. */
static ckpt_status find_joined(struct editor *editor, const struct edit_operand *operand,
                               const struct name_template *others, uint32_t *rows, ckpt_error *err)
{
    rows[0] = operand->row;
    for (size_t k = 1; k < editor->rule->nnames; k++)
        CKPT_TRY(find_other(editor, operand, &others[k - 1], editor->rule->names[k].place, &rows[k], err));
    return CKPT_OK;
}

/* matches_nothing - returns true if the rule may match nothing, and for none of its operands all tensors that
 * OTHERS make exist. If some are complete, those that are not are an error: they were hardly meant to be
 * left apart. */
static bool matches_nothing(struct editor *editor, const struct name_template *others, uint32_t *rows)
{
    ckpt_error ignored;
    if (!editor->rule->is_optional && !editor->p->allow_none)
        return false;
    for (size_t i = 0; i < editor->operands.nlist; i++)
        if (find_joined(editor, &editor->operands.list[i], others, rows, &ignored) != CKPT_ENOTFOUND)
            return false;
    return true;
}

/* concat_with - joins OPERAND with the tensors that the templates OTHERS make. ROWS has room for them all. */
static ckpt_status concat_with(struct editor *editor, const struct edit_operand *operand,
                               const struct name_template *others, const map *firsts, uint32_t *rows,
                               ckpt_error *err)
{
    const struct edit_step step = {operand, rows, editor->rule->nnames};
    CKPT_TRY(find_joined(editor, operand, others, rows, err));
    CKPT_TRY(check_others(editor, firsts, rows, step.nrows, err));
    return edit_apply(editor, edit_concat, &step, err);
}

static ckpt_status run_concat(struct editor *editor, ckpt_error *err)
{
    const struct rule *rule = editor->rule;
    struct name_template *others;
    size_t n = rule->nnames ? rule->nnames - 1 : 0;
    if (rule->ntargets != 1 || !n)
        return rule_fail(rule->place, err,
                         "`concat` takes several names, and makes one: concat a, b dim 0 -> c");
    CKPT_TRY(edit_compile_templates(editor, rule->names + 1, n, &others, err));
    for (size_t i = 0; i < n; i++)
        if (others[i].extra.len)
            return fail_variable(editor, &rule->names[i + 1], others[i].extra, err);
    uint32_t *rows = arena_array(editor->scratch, n + 1, sizeof *rows);
    CKPT_TRY_ALLOC(rows, err);
    map *firsts = NULL;
    if (matches_nothing(editor, others, rows))
        editor->operands.nlist = 0;
    ckpt_status st = index_operands(editor, &firsts, err);
    for (size_t i = 0; st == CKPT_OK && i < editor->operands.nlist; i++)
        st = concat_with(editor, &editor->operands.list[i], others, firsts, rows, err);
    map_free(firsts);
    return st;
}

/* ------------------------------------------------------------------------------- stack */

/* One tensor of a stack; a rule may have 100,000. */
struct layer {
    uint64_t index;
    uint32_t stack;   /* its number: stacks are in the order of their first tensors */
    uint32_t operand; /* of the rule */
};

static int compare_layers(const void *left, const void *right)
{
    const struct layer *a = left, *b = right;
    int by_stack = (a->stack > b->stack) - (a->stack < b->stack);
    return by_stack ? by_stack : (a->index > b->index) - (a->index < b->index);
}

/* find_index_variable - sets *OUT to the variable of the pattern that the target of `stack` lacks. */
static ckpt_status find_index_variable(const struct editor *editor, size_t *out, ckpt_error *err)
{
    size_t found = 0;
    for (size_t i = 0; i < editor->pattern->nvariables; i++)
        if (!editor->targets[0].uses[i]) {
            *out = i;
            found++;
        }
    return found == 1 ? CKPT_OK
                      : rule_fail(editor->rule->place, err,
                                  "the name after -> must lack {=one} variable of \"%.*s\", the index of the "
                                  "stack; it lacks {%zu}",
                                  STR_ARG(editor->pattern->text), found);
}

/* The stacks of a rule. */
struct stacks {
    struct layer *layers;
    map *number_of;  /* by name */
    buf name;        /* of the stack of the layer that is set */
    size_t variable; /* of the pattern: the index */
};

/* find_stack - sets *OUT to the number of the stack that OPERAND is a layer of. */
static ckpt_status find_stack(struct editor *editor, struct stacks *stacks,
                              const struct edit_operand *operand, uint32_t *out, ckpt_error *err)
{
    uint32_t next = (uint32_t)map_count(stacks->number_of);
    stacks->name.len = 0;
    name_template_put(&editor->targets[0], &operand->match, str_of("", 0), &stacks->name);
    CKPT_TRY_ALLOC(buf_ok(&stacks->name), err);
    *out = map_get(stacks->number_of, buf_view(&stacks->name));
    if (*out != MAP_NONE)
        return CKPT_OK;
    *out = next;
    ckpt_str name = arena_str(editor->scratch, buf_view(&stacks->name));
    return name.ptr && map_put(stacks->number_of, name, next, NULL) ? CKPT_OK : fail_memory(err);
}

static ckpt_status set_layer(struct editor *editor, struct stacks *stacks, size_t number, ckpt_error *err)
{
    const struct edit_operand *operand = &editor->operands.list[number];
    ckpt_str text = name_match_bound(&operand->match, stacks->variable);
    struct layer *layer = &stacks->layers[number];
    layer->operand = (uint32_t)number;
    CKPT_TRY(find_stack(editor, stacks, operand, &layer->stack, err));
    if (!str_uint(text, &layer->index) || (text.len > 1 && *text.ptr == '0'))
        return rule_fail(editor->rule->place, err, "{\"%.*s\"} of \"%.*s\" is not {=a number}", STR_ARG(text),
                         STR_ARG(operand->name));
    return CKPT_OK;
}

/* set_layers - sets the COUNT layers of STACKS, one for each operand. */
static ckpt_status set_layers(struct editor *editor, struct stacks *stacks, size_t count, ckpt_error *err)
{
    ckpt_status st = CKPT_OK;
    stacks->number_of = map_new(64);
    buf_init(&stacks->name, SIZE_MAX / 2);
    if (!stacks->number_of)
        st = fail_memory(err);
    for (size_t i = 0; st == CKPT_OK && i < count; i++)
        st = set_layer(editor, stacks, i, err);
    map_free(stacks->number_of);
    buf_free(&stacks->name);
    return st;
}

/* check_numbers - fails unless the COUNT LAYERS of one stack are numbered from 0 on. */
static ckpt_status check_numbers(const struct editor *editor, const struct layer *layers, size_t count,
                                 ckpt_error *err)
{
    const struct edit_operand *operands = editor->operands.list;
    ckpt_str name = name_template_fill(&editor->targets[0], &operands[layers[0].operand].match, str_of("", 0),
                                       editor->scratch);
    CKPT_TRY_ALLOC(name.ptr, err);
    for (size_t i = 0; i < count; i++) {
        if (i && layers[i].index == layers[i - 1].index)
            return rule_fail(editor->rule->place, err,
                             "number %" PRIu64 " of \"%.*s\" is \"%.*s\" and \"%.*s\"", layers[i].index,
                             STR_ARG(name), STR_ARG(operands[layers[i - 1].operand].name),
                             STR_ARG(operands[layers[i].operand].name));
        if (layers[i].index != i)
            return rule_fail(editor->rule->place, err,
                             i ? "number {=%zu} of \"%.*s\" is missing: the next is {%" PRIu64 "}"
                               : "numbers must begin with {=%zu}: the first of \"%.*s\" is {%" PRIu64 "}",
                             i, STR_ARG(name), layers[i].index);
    }
    return CKPT_OK;
}

/* stack_layers - stacks the COUNT LAYERS of one stack. */
static ckpt_status stack_layers(struct editor *editor, const struct layer *layers, size_t count,
                                ckpt_error *err)
{
    const struct edit_operand *operands = editor->operands.list;
    CKPT_TRY(check_numbers(editor, layers, count, err));
    uint32_t *rows = calloc(count, sizeof *rows);
    CKPT_TRY_ALLOC(rows, err);
    for (size_t i = 0; i < count; i++)
        rows[i] = operands[layers[i].operand].row;
    const struct edit_step step = {&operands[layers[0].operand], rows, count};
    ckpt_status st = edit_apply(editor, edit_stack, &step, err);
    free(rows);
    return st;
}

/* stack_all - makes the stacks of the COUNT LAYERS of the rule, which it sorts. */
static ckpt_status stack_all(struct editor *editor, struct layer *layers, size_t count, ckpt_error *err)
{
    size_t end;
    if (count)
        qsort(layers, count, sizeof *layers, compare_layers);
    for (size_t begin = 0; begin < count; begin = end) {
        for (end = begin + 1; end < count && layers[end].stack == layers[begin].stack;)
            end++;
        CKPT_TRY(stack_layers(editor, layers + begin, end - begin, err));
    }
    return CKPT_OK;
}

static ckpt_status run_stack(struct editor *editor, ckpt_error *err)
{
    size_t n = editor->operands.nlist;
    struct stacks stacks = {.variable = 0};
    if (editor->rule->ntargets != 1)
        return rule_fail(editor->rule->place, err, "`stack` needs a name for what it makes, after ->");
    CKPT_TRY(find_index_variable(editor, &stacks.variable, err));
    stacks.layers = calloc(n + 1, sizeof *stacks.layers);
    CKPT_TRY_ALLOC(stacks.layers, err);
    ckpt_status st = set_layers(editor, &stacks, n, err);
    CKPT_THEN(st, stack_all(editor, stacks.layers, n, err));
    free(stacks.layers);
    return st;
}

/* ---------------------------------------------------------------- drop, keep, cast, rename */

/* select_rows - sets SELECTED, by tensor, for those that a name of the rule matches. */
static ckpt_status select_rows(struct editor *editor, bool **selected, ckpt_error *err)
{
    const struct rule *rule = editor->rule;
    *selected = arena_array(editor->scratch, editor->p->cap_rows, sizeof **selected);
    CKPT_TRY_ALLOC(*selected, err);
    for (size_t i = 1; !rule->continues && i < rule->nnames; i++) {
        struct name_pattern pattern;
        ckpt_status st = compile_pattern(&rule->names[i], &pattern, err);
        CKPT_THEN(st, select_some(editor, &rule->names[i], &pattern, err));
        name_pattern_free(&pattern);
        CKPT_TRY(st);
    }
    for (size_t i = 0; i < editor->operands.nlist; i++)
        (*selected)[editor->operands.list[i].row] = true;
    return CKPT_OK;
}

/* run_drop - leaves out the tensors that the rule names or, for `keep`, all others. */
static ckpt_status run_drop(struct editor *editor, bool keeps, ckpt_error *err)
{
    bool *selected;
    ckpt_plan *p = editor->p;
    CKPT_TRY(select_rows(editor, &selected, err));
    if (keeps)
        editor->made = editor->operands;
    for (size_t i = 0; i < p->nentries; i++)
        p->keep[p->entries[i].row] = selected[p->entries[i].row] == keeps;
    p->entries_stale = true;
    return CKPT_OK;
}

bool edit_is_pattern(const struct name_pattern *pattern)
{
    bool is_pattern = pattern->is_expression || pattern->nvariables;
    for (size_t i = 0; i < pattern->text.len && !is_pattern; i++)
        is_pattern = strchr("?[]\\", pattern->text.ptr[i]) != NULL;
    return is_pattern;
}

static ckpt_status run_cast(struct editor *editor, ckpt_error *err)
{
    bool *selected;
    CKPT_TRY(select_rows(editor, &selected, err));
    return edit_cast(editor, selected, err);
}

/* note_renames - adds the tensors whose names the rule has changed to the report. */
static ckpt_status note_renames(struct editor *editor, ckpt_error *err)
{
    const ckpt_plan *p = editor->p;
    CKPT_TRY(plan_update_entries(editor->p, err));
    for (size_t i = 0; i < p->nentries; i++) {
        const struct edit_operand operand = {.row = p->entries[i].row, .name = p->entries[i].name};
        ckpt_str old = editor->name_of[operand.row];
        if (str_eq(old, operand.name))
            continue;
        CKPT_TRY(note_tensor(editor, operand.row, old, false, err));
        CKPT_TRY(note_tensor(editor, operand.row, operand.name, true, err));
        CKPT_TRY_ALLOC(ARENA_PUSH(NULL, &editor->operands, list, &operand), err);
        editor->napplied++;
    }
    return CKPT_OK;
}

static ckpt_status run_rename(struct editor *editor, ckpt_error *err)
{
    bool allowed_none = editor->p->allow_none;
    CKPT_TRY(edit_index_names(editor, err));
    edit_forget_operands(editor);
    editor->napplied = editor->nvalues = 0;
    editor->p->allow_none = allowed_none || editor->rule->is_optional;
    ckpt_status st = ckpt_plan_rename_regex(editor->p, editor->rule->replacement.ptr, err);
    editor->p->allow_none = allowed_none;
    CKPT_THEN(st, note_renames(editor, err));
    if (st != CKPT_OK)
        error_forget_file(err); /* that of the tensors: the rules are named instead */
    return place_if_failed(st, editor->rule->place, err);
}

/* ------------------------------------------------------------------------------- rules */

static ckpt_status run_verb(struct editor *editor, ckpt_error *err)
{
    switch (editor->rule->verb) {
    case RULE_DROP: return run_drop(editor, false, err);
    case RULE_KEEP: return run_drop(editor, true, err);
    case RULE_CAST: return run_cast(editor, err);
    case RULE_CONCAT: return run_concat(editor, err);
    case RULE_JOIN: return edit_each(editor, edit_join, err);
    case RULE_STACK: return run_stack(editor, err);
    case RULE_TRANSPOSE: return edit_each(editor, edit_transpose, err);
    case RULE_PERMUTE: return edit_each(editor, edit_permute, err);
    case RULE_RESHAPE: return edit_each(editor, edit_reshape, err);
    case RULE_UNFLATTEN: return edit_each(editor, edit_unflatten, err);
    case RULE_FLATTEN: return edit_each(editor, edit_flatten, err);
    case RULE_SLICE: return edit_each(editor, edit_slice, err);
    case RULE_PAD: return edit_each(editor, edit_pad, err);
    case RULE_SPLIT: return edit_each(editor, edit_split, err);
    case RULE_UNSTACK: return edit_each(editor, edit_unstack, err);
    case RULE_TIE: return edit_tie(editor, err);
    case RULE_UNTIE: return edit_each(editor, edit_untie, err);
    case RULE_SET: return edit_set(editor, err);
    default: return rule_fail(editor->rule->place, err, "not a verb");
    }
}

/* note_rule - adds the rule to the report, before it is applied. */
static ckpt_status note_rule(struct editor *editor, ckpt_error *err)
{
    const struct rule *rule = editor->rule;
    const ckpt_edit_step note = {.line = rule->place.line,
                                 .column = rule->place.column,
                                 .text = arena_str(editor->p->a, rule->text),
                                 .verb = rule_verb_name(rule->verb)};
    bool ok = note.text.ptr && ARENA_PUSH(editor->p->a, &editor->p->report, edit_steps, &note);
    return ok ? CKPT_OK : fail_memory(err);
}

/* note_counts - adds to the report what the rule was about, and what it made. */
static void note_counts(struct editor *editor)
{
    ckpt_edit_step *note = &editor->p->report.edit_steps[editor->p->report.nedit_steps - 1];
    size_t together = editor->rule->verb == RULE_CONCAT ? editor->rule->nnames : 1; /* in one application */
    note->tensors = editor->operands.nlist * together;
    note->made = editor->made.nlist;
    note->values = editor->nvalues;
}

static ckpt_status run_rule(struct editor *editor, ckpt_error *err)
{
    CKPT_TRY(note_rule(editor, err));
    switch (editor->rule->verb) {
    case RULE_RENAME: CKPT_TRY(run_rename(editor, err)); break;
    default: CKPT_TRY(begin_rule(editor, err)); CKPT_TRY(run_verb(editor, err));
    }
    editor->p->entries_stale = true;
    editor->made_nothing = !editor->operands.nlist && (editor->made_nothing || editor->rule->is_optional);
    note_counts(editor);
    return rows_find_ties(editor->p->file, err);
}

static ckpt_status run_rules(struct editor *editor, const struct rules *rules, ckpt_error *err)
{
    for (size_t i = 0; i < rules->nrules; i++) {
        editor->rule = &rules->rules[i];
        CKPT_TRY(run_rule(editor, err));
    }
    return rules->nrules ? place_if_failed(edit_index_names(editor, err), editor->rule->place, err) : CKPT_OK;
}

/* note_rules - adds TEXT and the parameters of OPTS to what identifies the output of P. */
static ckpt_status note_rules(ckpt_plan *p, ckpt_str text, const ckpt_edit_options *opts, ckpt_error *err)
{
    p->rules = ARENA_CONCAT(p->a, p->rules, text, STR_LIT("\n"));
    for (size_t i = 0; p->rules.ptr && i < opts->nparameters; i++) {
        ckpt_str value = arena_printf(p->a, "=%" PRId64 "\n", opts->parameters[i].value);
        p->rules = ARENA_CONCAT(p->a, p->rules, opts->parameters[i].name, value);
    }
    return p->rules.ptr ? CKPT_OK : fail_memory(err);
}

/* note_params - adds the parameters of PARAMS to the report of P and, as the rules, to what identifies its
 * output. */
static ckpt_status note_params(ckpt_plan *p, const struct rule_params *params, ckpt_error *err)
{
    for (size_t i = 0; i < params->nlist; i++) {
        const struct rule_param *param = &params->list[i];
        const ckpt_edit_parameter note = {.name = arena_str(p->a, param->name),
                                          .value = param->value,
                                          .key = arena_str(p->a, param->key),
                                          .is_given = param->is_given};
        ckpt_str value = arena_printf(p->a, "=%" PRId64 "\n", param->value);
        p->rules = ARENA_CONCAT(p->a, p->rules, param->name, value);
        CKPT_TRY_ALLOC(note.name.ptr && note.key.ptr && p->rules.ptr &&
                           ARENA_PUSH(p->a, &p->report, edit_parameters, &note),
                       err);
    }
    return CKPT_OK;
}

/* run_text - parses TEXT and applies its rules. */
static ckpt_status run_text(struct editor *editor, ckpt_str text, const ckpt_edit_options *opts,
                            ckpt_error *err)
{
    ckpt_plan *p = editor->p;
    struct rules rules;
    struct rule_params params = {.given = opts->parameters,
                                 .ngiven = opts->nparameters,
                                 .find_config = editor->files->find_config,
                                 .user = p};
    CKPT_TRY(rules_parse(text, &params, p->a, &rules, err));
    CKPT_TRY(note_params(p, &params, err));
    CKPT_TRY(edit_open_shards(editor, opts->shards, opts->nshards, err));
    CKPT_TRY(edit_find_scales(editor, &rules, err));
    CKPT_TRY(run_rules(editor, &rules, err));
    return edit_check_joined(editor, err);
}

ckpt_status edit_rules(ckpt_plan *p, ckpt_str text, const ckpt_edit_options *opts,
                       const struct edit_files *files, ckpt_error *err)
{
    struct name_pattern pattern = {.regex = NULL};
    struct editor editor = {.p = p, .a = p->file->a, .scratch = p->a, .pattern = &pattern, .files = files};
    CKPT_TRY(note_rules(p, text, opts, err));
    p->view_of = p->view_of ? p->view_of : map_new(0);
    ckpt_status st = p->view_of ? run_text(&editor, text, opts, err) : fail_memory(err);
    edit_forget_operands(&editor);
    name_pattern_free(&pattern);
    map_free(editor.row_of);
    map_free(editor.taken);
    free(editor.name_of);
    return st;
}
