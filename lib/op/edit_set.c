/* edit_set.c - the verbs of `ckpt edit` that bring a tensor to another name: `tie` one of the same file,
 * `set` one of another file. `set` also fills tensors with a number. */
#include <stdlib.h>
#include <sys/stat.h>

#include "core/row_source.h"
#include "op/edit.h"

/* --------------------------------------------------------------------------------- tie */

static bool has_same_form(const struct table *table, uint32_t left, uint32_t right)
{
    const ckpt_tensor a = table_tensor(table, left), b = table_tensor(table, right);
    bool is_same = tensor_same_dtype(&a, &b) && a.has_shape && b.has_shape && a.ndim == b.ndim;
    for (uint32_t k = 0; is_same && k < a.ndim; k++)
        is_same = a.shape[k] == b.shape[k];
    return is_same;
}

/* tie_name - makes the name EDITOR->job, a ckpt_str, another name of the first tensor of STEP. If there is a
 * second one, it has that name now. */
static ckpt_status tie_name(struct editor *editor, const struct edit_step *step, ckpt_error *err)
{
    ckpt_str key;
    const ckpt_str *name = editor->job;
    uint32_t row = step->rows[step->nrows - 1], of = step->rows[0];
    if (step->nrows == 1) {
        CKPT_TRY(edit_make_key(editor, step->first, *name, &key, err));
        CKPT_TRY(place_if_failed(row_add(editor->p, of, key, &row, err), editor->rule->place, err));
    } else if (!has_same_form(&editor->p->file->table, of, row)) {
        return edit_fail(editor, row, err, "does not have the dtype and shape of \"%.*s\"",
                         STR_ARG(step->first->name));
    } else {
        CKPT_TRY(row_share(editor->p->file, row, of, err));
        if (editor->p->casts.to)
            editor->p->casts.to[row] = editor->p->casts.to[of];
    }
    return edit_note_made(editor, step, row, *name, err);
}

/* tie_operand - makes the name that TEMPLATE makes another name of OPERAND. NAMES has those of the rule so
 * far. */
static ckpt_status tie_operand(struct editor *editor, const struct edit_operand *operand,
                               const struct name_template *template, map *names, ckpt_error *err)
{
    uint32_t old;
    ckpt_str name = name_template_fill(template, &operand->match, str_of("", 0), editor->a);
    CKPT_TRY_ALLOC(name.ptr && map_put(names, name, 0, &old), err);
    if (str_eq(name, operand->name))
        return rule_fail(editor->rule->place, err, "\"%.*s\" would be tied to itself", STR_ARG(name));
    if (old != MAP_NONE)
        return rule_fail(editor->rule->place, err, "several tensors would be tied to \"%.*s\"",
                         STR_ARG(name));
    CKPT_TRY(place_if_failed(row_source_check(editor->p->file, operand->row, err), editor->rule->place, err));
    const uint32_t rows[2] = {operand->row, map_get(editor->row_of, name)};
    const struct edit_step step = {operand, rows, rows[1] == MAP_NONE ? 1 : 2};
    editor->job = &name;
    ckpt_status st = edit_apply(editor, tie_name, &step, err);
    editor->job = NULL;
    return st;
}

ckpt_status edit_tie(struct editor *editor, ckpt_error *err)
{
    struct name_template *template;
    CKPT_TRY(edit_compile_templates(editor, &editor->rule->word, 1, &template, err));
    if (template->extra.len)
        return rule_fail(editor->rule->word.place, err, "the variable %.*s is not in \"%.*s\"",
                         STR_ARG(template->extra), STR_ARG(editor->pattern->text));
    map *names = map_new(editor->operands.nlist);
    ckpt_status st = names ? CKPT_OK : fail_memory(err);
    for (size_t i = 0; st == CKPT_OK && i < editor->operands.nlist; i++)
        st = tie_operand(editor, &editor->operands.list[i], template, names, err);
    map_free(names);
    return st;
}

/* --------------------------------------------------------------------------------- set */

/* find_mapping - sets *OUT to a tensor of the mapping that NAME is to be added to. */
static ckpt_status find_mapping(const struct editor *editor, ckpt_str name, struct edit_operand *out,
                                ckpt_error *err)
{
    size_t mapping_len = 0;
    *out = (struct edit_operand){.name = name};
    bool found = row_find_mapping(editor->p, name, &out->row, &mapping_len);
    out->mapping_len = (uint32_t)mapping_len; /* of the name of a tensor, as those of all operands */
    return found ? CKPT_OK
                 : rule_fail(editor->rule->place, err, "there is no mapping that \"%.*s\" could be added to",
                             STR_ARG(name));
}

/* What `set NAME = FILE` brings. */
struct brought {
    ckpt_str name; /* which it gets */
    ckpt_file *from;
    uint32_t row; /* of FROM */
};

/* bring_tensor - makes the tensor of STEP, or a new one if it has none, the tensor that EDITOR->job
 * brings. */
static ckpt_status bring_tensor(struct editor *editor, const struct edit_step *step, ckpt_error *err)
{
    const struct brought *brought = editor->job;
    ckpt_str key;
    uint32_t row = step->nrows ? step->rows[0] : MAP_NONE;
    struct rule_place place = editor->rule->names[0].place;
    CKPT_TRY(place_if_failed(row_source_check(brought->from, brought->row, err), place, err));
    const ckpt_tensor t = table_tensor(&brought->from->table, brought->row);
    if (row == MAP_NONE) {
        CKPT_TRY(edit_make_key(editor, step->first, brought->name, &key, err));
        CKPT_TRY(place_if_failed(row_add(editor->p, step->first->row, key, &row, err), place, err));
    }
    struct new_tensor new = {.dtype = (ckpt_dtype)t.dtype,
                             .ndim = t.ndim,
                             .shape = t.shape,
                             .elements = t.elements,
                             .nbytes = t.nbytes,
                             .src = row_source(brought->from, brought->row)};
    CKPT_TRY_ALLOC(new.src, err);
    if (editor->p->casts.to)
        editor->p->casts.to[row] = 0; /* one before was of what it replaces */
    CKPT_TRY(place_if_failed(row_replace(editor->p->file, row, &new, err), place, err));
    return edit_note_made(editor, step, row, brought->name, err);
}

/* find_scheme_end - returns where a colon may end the FILE of TEXT: after the host of a URL, or at its
 * start. */
static size_t find_scheme_end(ckpt_str text)
{
    size_t scheme = str_find(text, STR_LIT("://"), 0);
    size_t slash = scheme == SIZE_MAX ? 0 : str_find(text, STR_LIT("/"), scheme + 3);
    return slash == SIZE_MAX ? text.len : slash;
}

/* find_colon - returns where the colon is after which TEXT names the tensor: the first one that follows
 * the name of a file that exists, or else the first one. TEXT.len: all is a file. */
static size_t find_colon(struct editor *editor, ckpt_str text)
{
    struct stat st;
    size_t start = find_scheme_end(text), first = str_find(text, STR_LIT(":"), start), at = first;
    ckpt_str all = arena_str(editor->scratch, text);
    if (first == SIZE_MAX || !all.ptr || stat(all.ptr, &st) == 0)
        return text.len;
    for (; start == 0 && at != SIZE_MAX; at = str_find(text, STR_LIT(":"), at + 1)) {
        ckpt_str path = arena_str(editor->scratch, str_first(text, at));
        if (path.ptr && path.len && stat(path.ptr, &st) == 0)
            return at;
    }
    return first;
}

/* add_value_hint - says how values are written if WORD, which could not be opened, is hardly a path. */
static void add_value_hint(ckpt_str word, ckpt_error *err)
{
    if (str_before(word, '/').len == word.len && str_before(word, '.').len == word.len)
        error_replace_hint(err,
                           "it was read as the name of a file; a text is in quotes: set name = \"text\"");
}

/* fail_no_tensor - fails because FROM, which is called PATH, has no tensor NAME. */
static ckpt_status fail_no_tensor(const ckpt_file *from, ckpt_str path, ckpt_str name,
                                  struct rule_place place, ckpt_error *err)
{
    const ckpt_str nearest = file_find_nearest(from, name);
    ckpt_status st = rule_fail(place, err, "%s has no tensor \"%.*s\"", path.ptr, STR_ARG(name));
    if (nearest.len)
        error_add_hint(err, "the nearest is \"%.*s\"", STR_ARG(nearest));
    return st;
}

/* find_source - opens the file that the rule names, and finds the tensor. */
static ckpt_status find_source(struct editor *editor, ckpt_file **from, uint32_t *row, ckpt_error *err)
{
    const struct rule_value *value = &editor->rule->value;
    struct rule_place place = value->text.place;
    size_t colon = value->member.ptr ? value->text.text.len : find_colon(editor, value->text.text);
    ckpt_str name = value->member.ptr ? value->member : str_skip(value->text.text, colon + 1);
    ckpt_str path = arena_str(editor->a, str_first(value->text.text, colon));
    CKPT_TRY_ALLOC(path.ptr, err);
    bool names_one = colon < value->text.text.len || (value->member.ptr && name.len);
    if (!path.len || (names_one && !name.len))
        return rule_fail(place, err, "{\"%.*s\"} is not {=FILE or FILE:NAME}", STR_ARG(value->text.text));
    ckpt_status st = editor->files->open(editor->p, path.ptr, from, err);
    if (st != CKPT_OK)
        add_value_hint(value->text.text, err);
    CKPT_TRY(st);
    *row = name.len ? file_find_tensor(*from, name) : 0;
    CKPT_TRY_ALLOC(!name.len || (*from)->names, err); /* an index of them is made to find one */
    if (name.len && *row == CKPT_NO_TENSOR)
        return fail_no_tensor(*from, path, name, place, err);
    if (!name.len && (*from)->table.nrows != 1)
        return rule_fail(place, err, "%s has {%zu tensors}, not {=one}\nFILE:NAME names one", path.ptr,
                         (*from)->table.nrows);
    return CKPT_OK;
}

/* set_from_file - makes the tensor that the rule names that of a file. */
static ckpt_status set_from_file(struct editor *editor, ckpt_error *err)
{
    const struct rule_name *name = &editor->rule->names[0];
    struct brought brought = {.name = name->text};
    uint32_t row = map_get(editor->row_of, name->text);
    struct edit_operand operand = {.row = row, .name = name->text};
    if (edit_is_pattern(editor->pattern))
        return rule_fail(name->place, err, "the name of a new tensor is not a pattern");
    if (row == MAP_NONE && editor->rule->is_optional)
        return CKPT_OK;
    CKPT_TRY(find_source(editor, &brought.from, &brought.row, err));
    if (row == MAP_NONE)
        CKPT_TRY(find_mapping(editor, name->text, &operand, err));
    else
        CKPT_TRY_ALLOC(ARENA_PUSH(NULL, &editor->operands, list, &operand), err);
    CKPT_TRY(place_if_failed(row_check_place(editor->p, operand.row, err), name->place, err));
    const struct edit_step step = {&operand, &row, row != MAP_NONE};
    editor->job = &brought;
    ckpt_status st = edit_apply(editor, bring_tensor, &step, err);
    editor->job = NULL;
    return st;
}

/* check_number - refuses to set tensors, which the rule matches, to what is not a number. */
static ckpt_status check_number(const struct editor *editor, ckpt_error *err)
{
    enum rule_value_kind kind = editor->rule->value.kind;
    if (!editor->operands.nlist || (kind != RULE_VALUE_TEXT && kind != RULE_VALUE_NONE))
        return CKPT_OK;
    ckpt_status st = edit_fail(editor, editor->operands.list[0].row, err,
                               "cannot be set to {\"%.*s\"}: it holds {=numbers}",
                               STR_ARG(editor->rule->value.text.text));
    if (kind == RULE_VALUE_TEXT)
        error_add_hint(err, "a FILE in quotes is followed by a colon: set a = \"my file.pt\":NAME");
    return st;
}

/* set_values - sets the tensors and values that the rule matches. If there are none, adds a value. */
static ckpt_status set_values(struct editor *editor, ckpt_error *err)
{
    const struct rule_name *name = &editor->rule->names[0];
    CKPT_TRY(edit_select(editor, err));
    CKPT_TRY(check_number(editor, err));
    CKPT_TRY(edit_each(editor, edit_fill, err));
    CKPT_TRY(edit_replace_values(editor, err));
    if (editor->operands.nlist || editor->nvalues || editor->rule->is_optional)
        return CKPT_OK;
    if (!edit_is_pattern(editor->pattern))
        return edit_add_value(editor, err);
    if (editor->p->allow_none)
        return CKPT_OK;
    return place_if_failed(fail(err, CKPT_ENOTFOUND, CKPT_NO_OFFSET,
                                "\"%.*s\" matches no tensor and no value", STR_ARG(name->text)),
                           name->place, err);
}

ckpt_status edit_set(struct editor *editor, ckpt_error *err)
{
    return editor->rule->value.kind == RULE_VALUE_FILE ? set_from_file(editor, err) : set_values(editor, err);
}
