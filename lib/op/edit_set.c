/* edit_set.c - the verbs of `ckpt edit` that bring a tensor to another name: `tie` one of the same file,
 * `set` one of another file. */
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

/* find_mapping - sets *OUT to the tensor whose mapping NAME is to be added to: that with the longest name
 * that NAME begins with. */
static ckpt_status find_mapping(const struct editor *editor, ckpt_str name, struct edit_operand *out,
                                ckpt_error *err)
{
    const ckpt_plan *p = editor->p;
    bool found = false;
    *out = (struct edit_operand){.name = name};
    for (size_t i = 0; i < p->nentries; i++) {
        ckpt_str key = edit_find_key(p, p->entries[i].row), own = p->entries[i].name;
        bool fits = key.ptr && str_starts(name, str_first(own, own.len - key.len));
        if (!fits || (found && own.len - key.len <= out->mapping_len))
            continue;
        found = true;
        out->row = p->entries[i].row;
        out->mapping_len = own.len - key.len;
    }
    return found ? CKPT_OK
                 : rule_fail(editor->rule->place, err, "there is no mapping that \"%.*s\" could be added to",
                             STR_ARG(name));
}

/* put_tensor - makes ROW tensor FROM_ROW of FROM. */
static ckpt_status put_tensor(struct editor *editor, uint32_t row, ckpt_file *from, uint32_t from_row,
                              ckpt_error *err)
{
    CKPT_TRY(row_source_check(from, from_row, err));
    const ckpt_tensor t = table_tensor(&from->table, from_row);
    const struct new_tensor new = {.dtype = (ckpt_dtype)t.dtype,
                                   .ndim = t.ndim,
                                   .shape = t.shape,
                                   .elements = t.elements,
                                   .nbytes = t.nbytes,
                                   .src = row_source(from, from_row)};
    CKPT_TRY_ALLOC(new.src, err);
    if (editor->p->casts.to)
        editor->p->casts.to[row] = 0; /* one before was of what it replaces */
    return row_replace(editor->p->file, row, &new, err);
}

/* find_colon - returns where the name of the tensor begins in TEXT, after a colon that is not of "https://";
 * TEXT.len: there is none. */
static size_t find_colon(ckpt_str text)
{
    ckpt_str name = str_after_last(text, ':');
    bool has_name = name.len < text.len && !str_starts(name, STR_LIT("//"));
    return has_name ? text.len - name.len : text.len;
}

/* find_source - opens the file that the rule names, "FILE:TENSOR" or a FILE with one tensor, and finds the
 * tensor. */
static ckpt_status find_source(struct editor *editor, ckpt_file **from, uint32_t *row, ckpt_error *err)
{
    struct stat st;
    const struct rule_name *word = &editor->rule->word;
    ckpt_str all = arena_str(editor->scratch, word->text);
    CKPT_TRY_ALLOC(all.ptr, err);
    size_t colon = stat(all.ptr, &st) == 0 ? all.len : find_colon(all);
    ckpt_str name = str_skip(all, colon);
    ckpt_str path = arena_str(editor->a, colon < all.len ? str_first(all, colon - 1) : all);
    CKPT_TRY_ALLOC(path.ptr, err);
    if (!path.len || (colon == all.len && str_ends(all, STR_LIT(":"))))
        return rule_fail(word->place, err, "{\"%.*s\"} is not {=FILE or FILE:NAME}", STR_ARG(word->text));
    CKPT_TRY(editor->open(editor->p, path.ptr, from, err));
    *row = name.len ? file_find_tensor(*from, name) : 0;
    if (name.len && *row == CKPT_NO_TENSOR)
        return rule_fail(word->place, err, "%s has no tensor \"%.*s\"", path.ptr, STR_ARG(name));
    if (!name.len && (*from)->table.nrows != 1)
        return rule_fail(word->place, err, "%s has {%zu tensors}, not {=one}\nFILE:NAME names one", path.ptr,
                         (*from)->table.nrows);
    return CKPT_OK;
}

ckpt_status edit_set(struct editor *editor, ckpt_error *err)
{
    const struct rule_name *name = &editor->rule->names[0];
    struct edit_operand operand;
    ckpt_file *from;
    ckpt_str key;
    uint32_t from_row = 0, row;
    if (strpbrk(arena_str(editor->scratch, name->text).ptr, "*?[]{}\\"))
        return rule_fail(name->place, err, "`set` takes the name of one tensor, not a pattern");
    CKPT_TRY(edit_index_names(editor, err));
    CKPT_TRY(find_source(editor, &from, &from_row, err));
    row = map_get(editor->row_of, name->text);
    operand = (struct edit_operand){.row = row, .name = name->text};
    if (row == MAP_NONE) {
        CKPT_TRY(find_mapping(editor, name->text, &operand, err));
        CKPT_TRY(edit_make_key(editor, &operand, name->text, &key, err));
        CKPT_TRY(place_if_failed(row_add(editor->p, operand.row, key, &row, err), name->place, err));
    }
    CKPT_TRY(place_if_failed(put_tensor(editor, row, from, from_row, err), name->place, err));
    const struct edit_step step = {&operand, &row, 1};
    editor->operands = editor->made = (struct edit_operands){.nlist = 0};
    return edit_finish(editor, &step, SIZE_MAX, str_of("", 0), row, err);
}
