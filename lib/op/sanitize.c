/*
 * sanitize.c - makes a second graph out of the plan's, of tensors and plain data:
 *
 *   constant, list, tuple, dict, set     itself; OrderedDict keeps _metadata
 *   tensor described by torch's words    itself; any other with its bytes in
 *                                        the table: described anew
 *   tensor made of tensors               dict of its parts, by the names that ls shows
 *   nn.Module, ScriptModule              its state dict
 *   numpy array, scalar                  tensor; number
 *   text of Python 2                     text, or bytes where it is no text
 *   dict, list, set by another class     dict, list, set
 *   pathlib path                         text
 *   object with tensors in it, Namespace dict of its attributes
 *   anything else                        left out; None in a list or tuple, whose
 *                                        other items keep their places
 *
 * The walk keeps its own stack; a container is known before its entries are, so
 * that it may contain itself. Everything left out or changed is noted with its
 * place.
 */
#include "op/sanitize.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/utf8.h"
#include "core/numpy.h"
#include "core/view.h"
#include "op/plain.h"
#include "core/graph_visit.h"
#include "op/weights_only.h"

struct frame {
    const ckpt_value *v; /* what is read: by its view, or the parts of row PARTS */
    struct view view;
    size_t at;
    uint32_t parts;
    const ckpt_value *state; /* attributes of an OrderedDict, still to do */
    ckpt_value *out;         /* where its entries go */
    ckpt_path_elem elem;     /* where it stands */
    bool placed;             /* elem counts */
};

struct sanitize {
    ckpt_plan *p;
    struct plain plain;
    map *row_of;  /* node -> its row */
    map *holding; /* nodes on the way to a tensor */
    map *done;    /* node -> index into made */
    ckpt_value **made;
    size_t nmade, cap_made;
    struct frame *frames;
    size_t nframes, cap_frames;
    const ckpt_value *blame; /* what keeps the value at hand from being plain, or NULL */
    ckpt_value *none;
    ckpt_error *err;
};

/* One value on its way: where it stands, and what it becomes. */
struct child {
    const ckpt_value *v;
    const ckpt_path_elem *elem; /* NULL: where its frame stands */
    ckpt_value *made;           /* NULL: left out */
};

/* ------------------------------------------------------------------- notes */

/* locate - V with its path: that of the frames, and LAST (may be NULL). name.ptr NULL: no memory. */
static ckpt_leaf locate(struct sanitize *s, const ckpt_path_elem *last, const ckpt_value *v)
{
    size_t room = s->p->root_depth + s->nframes + 1, n = 0;
    ckpt_path_elem *path = room <= UINT32_MAX ? arena_array(s->p->a, room, sizeof *path) : NULL;
    if (!path)
        return (ckpt_leaf){.value = v};
    for (; n < s->p->root_depth; n++)
        path[n] = s->p->root_path[n];
    for (size_t i = 0; i < s->nframes; i++)
        if (s->frames[i].placed)
            path[n++] = s->frames[i].elem;
    if (last)
        path[n++] = *last;
    return (ckpt_leaf){
        .name = path_join(s->p->a, path, (uint32_t)n), .path = path, .npath = (uint32_t)n, .value = v};
}

static ckpt_str callable_of(arena *a, const ckpt_value *v)
{
    char text[256];
    const ckpt_value *k = v->type == CKPT_V_CALL ? view_class(v) : v;
    if (k->type == CKPT_V_GLOBAL)
        return arena_printf(a, "%.*s.%.*s", STR_ARG(value_module(k)), STR_ARG(value_name(k)));
    if (v->type != CKPT_V_CALL)
        return STR_LIT("");
    return arena_str(a, str_c(ckpt_value_type_name(k, text, sizeof text)));
}

static ckpt_status note(struct sanitize *s, const ckpt_leaf *leaf, const ckpt_value *blame,
                        const char *instead, bool lost)
{
    char type[256];
    ckpt_sanitized one = {.name = leaf->name,
                          .path = leaf->path,
                          .npath = leaf->npath,
                          .type = str_c(ckpt_value_type_name(leaf->value, type, sizeof type)),
                          .callable = callable_of(s->p->a, blame ? blame : leaf->value),
                          .instead = str_c(instead),
                          .lost = lost};
    return plan_sanitized(s->p, one, s->err);
}

static ckpt_status changed(struct sanitize *s, const struct child *c, const char *to)
{
    const ckpt_leaf leaf = locate(s, c->elem, c->v);
    return note(s, &leaf, s->blame, to, false);
}

static ckpt_status lost(struct sanitize *s, const struct child *c, const char *instead)
{
    const ckpt_leaf leaf = locate(s, c->elem, c->v);
    return note(s, &leaf, s->blame, instead, true);
}

/* ------------------------------------------------------------------- nodes */

static ckpt_status remember(struct sanitize *s, const ckpt_value *v, ckpt_value *made)
{
    ckpt_value **grown = arena_grow(s->p->a, s->made, s->nmade, &s->cap_made, s->nmade + 1, sizeof *grown);
    if (!grown || s->nmade >= MAP_NONE || !map_set_num(s->done, map_ptr(v), (uint32_t)s->nmade))
        return fail_memory(s->err);
    s->made = grown;
    grown[s->nmade++] = made;
    return CKPT_OK;
}

static ckpt_value *node(struct sanitize *s, ckpt_value_type type, const ckpt_value *from)
{
    ckpt_value *v = value_new(s->p->a, type, from->offset);
    if (v)
        v->flags = from->flags & VALUE_SHARED;
    return v;
}

static ckpt_status frame_push(struct sanitize *s, const struct frame *f)
{
    if (s->nframes == s->cap_frames) {
        size_t cap = s->cap_frames ? s->cap_frames * 2 : 64;
        struct frame *grown = cap <= SIZE_MAX / sizeof *grown ? realloc(s->frames, cap * sizeof *grown)
                                                              : NULL;
        if (!grown)
            return fail_memory(s->err);
        s->frames = grown;
        s->cap_frames = cap;
    }
    s->frames[s->nframes++] = *f;
    return CKPT_OK;
}

/* enter - C becomes MADE, whose entries go to OUT and are still to come. */
static ckpt_status enter(struct sanitize *s, struct child *c, ckpt_value *made, ckpt_value *out,
                         struct frame f)
{
    c->made = made;
    if (!made || !out)
        return fail_memory(s->err);
    f.v = c->v;
    f.out = out;
    f.placed = c->elem != NULL;
    if (c->elem)
        f.elem = *c->elem;
    CKPT_TRY(remember(s, c->v, made));
    return frame_push(s, &f);
}

static ckpt_status enter_as(struct sanitize *s, struct child *c, ckpt_value_type type)
{
    struct frame f = {.view = view_of(c->v), .parts = CKPT_NO_TENSOR};
    ckpt_value *out = node(s, type, c->v);
    return enter(s, c, out, out, f);
}

/* ----------------------------------------------------------------- tensors */

static uint32_t row_of(const struct sanitize *s, const ckpt_value *v)
{
    uint32_t i = map_get_num(s->row_of, map_ptr(v));
    return i == MAP_NONE ? CKPT_NO_TENSOR : i;
}

static const ckpt_tensor *tensor_at(const struct sanitize *s, uint32_t row)
{
    return &s->p->file->table.rows[row].t;
}

static bool has_parts(const struct sanitize *s, uint32_t row)
{
    const struct table *t = &s->p->file->table;
    return row + 1 < t->nrows && t->rows[row + 1].t.part_of == row; /* bounded: row < nrows */
}

/* anew - a tensor of the table, whatever made it. */
static ckpt_status anew(struct sanitize *s, struct child *c, uint32_t row)
{
    const ckpt_tensor *t = tensor_at(s, row);
    bool simple = (t->kind == CKPT_DENSE || t->kind == CKPT_NDARRAY || t->kind == CKPT_STORAGE) &&
                  t->has_data && t->has_shape && t->dtype != CKPT_DT_NP && t->dtype != CKPT_DT_NONE;
    if (simple) {
        if (!(c->made = node(s, CKPT_V_TENSOR, c->v)))
            return fail_memory(s->err);
        c->made->row = row;
        c->made->flags |= VALUE_ROW;
        CKPT_TRY(remember(s, c->v, c->made));
        return changed(s, c, t->parameter ? "parameter" : "tensor");
    }
    if (!has_parts(s, row))
        return remember(s, c->v, NULL);
    CKPT_TRY(changed(s, c, "dict"));
    ckpt_value *out = node(s, CKPT_V_DICT, c->v);
    return enter(s, c, out, out, (struct frame){.parts = row, .at = (size_t)row + 1});
}

static ckpt_status tensor(struct sanitize *s, struct child *c, uint32_t row)
{
    ckpt_value *number;
    if (!plain_number(s->p->a, c->v, &number))
        return fail_memory(s->err);
    if (number) {
        char type[32];
        c->made = number;
        CKPT_TRY(remember(s, c->v, number));
        (void)ckpt_value_type_name(number, type, sizeof type);
        ckpt_str to = arena_str(s->p->a, str_c(type));
        return to.ptr ? changed(s, c, to.ptr) : fail_memory(s->err);
    }
    if (tensor_at(s, row)->kind == CKPT_NDARRAY)
        return anew(s, c, row);
    CKPT_TRY(plain_all(&s->plain, c->v, &s->blame, s->err));
    if (s->blame)
        return anew(s, c, row);
    c->made = (ckpt_value *)(uintptr_t)c->v;
    return remember(s, c->v, c->made);
}

/* ------------------------------------------------------------------ objects */

/* no_attributes - what a list or dict of its own class bears besides its entries. */
static ckpt_status no_attributes(struct sanitize *s, const struct child *c)
{
    const ckpt_value *state = value_state(c->v);
    if (!state)
        return CKPT_OK;
    const ckpt_path_elem attributes = {.str = STR_LIT("__dict__")};
    ckpt_leaf leaf = locate(s, c->elem, state);
    ckpt_path_elem *path = arena_array(s->p->a, (uint64_t)leaf.npath + 1, sizeof *path); /* bounded */
    if (!leaf.name.ptr || !path)
        return fail_memory(s->err);
    for (uint32_t i = 0; i < leaf.npath; i++)
        path[i] = leaf.path[i];
    path[leaf.npath++] = attributes;
    leaf.path = path;
    leaf.name = path_join(s->p->a, path, leaf.npath);
    return note(s, &leaf, NULL, "", true);
}

/* mapping - an OrderedDict or Counter stays one, any other mapping becomes a dict. */
static ckpt_status mapping(struct sanitize *s, struct child *c)
{
    arena *a = s->p->a;
    const ckpt_value *klass = view_class(c->v), *state = value_state(c->v);
    struct frame f = {.view = view_of(c->v), .parts = CKPT_NO_TENSOR};
    ckpt_value *out = node(s, CKPT_V_DICT, c->v), *made = out;
    if (value_is_global(klass, "collections", "OrderedDict")) {
        made = out = value_ordered_dict(a);
        f.state = state;
    } else if (value_is_global(klass, "collections", "Counter") && out) {
        ckpt_value *name = value_global(a, STR_LIT("collections"), STR_LIT("Counter"), 0);
        ckpt_value *args = value_tuple(a, 1, &out);
        out->flags = 0;
        made = name && args ? value_call(a, CALL_REDUCE, name, args, c->v->offset) : NULL;
    } else {
        CKPT_TRY(changed(s, c, "dict"));
        CKPT_TRY(no_attributes(s, c));
    }
    if (made)
        made->flags = c->v->flags & VALUE_SHARED;
    return enter(s, c, made, out, f);
}

static bool held_by_state(const struct sanitize *s, const ckpt_value *v)
{
    const ckpt_value *state = value_state(v);
    bool holds = state && map_get_num(s->holding, map_ptr(state)) != MAP_NONE;
    for (uint32_t i = 0; !holds && state && state->type == CKPT_V_TUPLE && i < value_count(state); i++)
        holds = map_get_num(s->holding, map_ptr(value_item(state, i))) != MAP_NONE;
    return holds;
}

/* sequence - the items of a class's own list; its arguments only where tensors are
 * among them, as in a named tuple. */
static ckpt_status sequence(struct sanitize *s, struct child *c, bool arguments)
{
    const ckpt_value *klass = view_class(c->v), *args = c->v->u.call.args;
    bool set = is_builtin(klass, "set") || is_builtin(klass, "frozenset");
    if (arguments && map_get_num(s->holding, map_ptr(args)) == MAP_NONE)
        return remember(s, c->v, NULL);
    bool tuple = arguments || is_builtin(klass, "tuple") ||
                 (is_reconstructor(c->v) && is_builtin(value_arg(c->v, 1), "tuple"));
    if (!is_builtin(klass, "set"))
        CKPT_TRY(changed(s, c, set ? "set" : tuple ? "tuple" : "list"));
    CKPT_TRY(no_attributes(s, c));
    return enter_as(s, c, set ? CKPT_V_SET : tuple ? CKPT_V_TUPLE : CKPT_V_LIST);
}

static bool is_namespace(const ckpt_value *v)
{
    const ckpt_value *k = view_class(v);
    return plain_named(k) == PLAIN_FIELDS;
}

/* is_no_bytes - bytes(), as Python 3 pickles b'' in protocol 2. */
static bool is_no_bytes(const ckpt_value *v)
{
    return v->u.call.args->type == CKPT_V_TUPLE && !value_nargs(v) &&
           is_builtin(v->u.call.callable, "bytes");
}

static ckpt_status datum(struct sanitize *s, struct child *c)
{
    if (is_no_bytes(c->v)) {
        if (!(c->made = node(s, CKPT_V_BYTES, c->v)))
            return fail_memory(s->err);
        return remember(s, c->v, c->made);
    }
    CKPT_TRY(plain_all(&s->plain, c->v, &s->blame, s->err));
    c->made = s->blame ? NULL : (ckpt_value *)(uintptr_t)c->v;
    return remember(s, c->v, c->made);
}

static ckpt_status object(struct sanitize *s, struct child *c)
{
    ckpt_value *path;
    struct view view = view_of(c->v);
    if (plain_datum(c->v) || is_no_bytes(c->v))
        return datum(s, c);
    if (!plain_path(s->p->a, c->v, &path))
        return fail_memory(s->err);
    if (path) {
        c->made = path;
        CKPT_TRY(remember(s, c->v, path));
        return changed(s, c, "str");
    }
    if (view.kind == VIEW_PAIRS || value_is_global(view_class(c->v), "collections", "OrderedDict"))
        return mapping(s, c);
    if (view.kind == VIEW_ITEMS || is_builtin(view_class(c->v), "set") ||
        is_builtin(view_class(c->v), "list"))
        return sequence(s, c, view.arguments);
    if (view.kind != VIEW_ATTRS || (!is_namespace(c->v) && !held_by_state(s, c->v)))
        return remember(s, c->v, NULL);
    CKPT_TRY(changed(s, c, "dict"));
    return enter_as(s, c, CKPT_V_DICT);
}

/* ------------------------------------------------------------------- values */

/* text8 - what Python 2 called str: text where it is UTF-8, else bytes. */
static ckpt_status text8(struct sanitize *s, struct child *c)
{
    const ckpt_value *v = c->v;
    bool text = !(v->flags & VALUE_SPAN) && utf8_check(v->u.str, false, NULL);
    if (!(c->made = node(s, text ? CKPT_V_STR : CKPT_V_BYTES, v)))
        return fail_memory(s->err);
    c->made->u = v->u;
    c->made->flags = v->flags & (VALUE_SHARED | VALUE_SPAN);
    CKPT_TRY(remember(s, v, c->made));
    return text ? CKPT_OK : changed(s, c, "bytes");
}

static const ckpt_value *state_dict_of(const ckpt_file *f, const ckpt_value *v)
{
    const ckpt_value *by = file_replacement(f, v);
    for (size_t i = 0; by == v && i < f->nparts; i++)
        by = file_replacement(f->parts[i], v);
    return by;
}

static ckpt_status compound(struct sanitize *s, struct child *c)
{
    const ckpt_value *by = state_dict_of(s->p->file, c->v);
    if (by != c->v) {
        struct child instead = {.v = by, .elem = c->elem};
        CKPT_TRY(changed(s, c, "state dict"));
        CKPT_TRY(mapping(s, &instead));
        c->made = instead.made;
        return remember(s, c->v, c->made);
    }
    uint32_t row = row_of(s, c->v);
    if (row != CKPT_NO_TENSOR)
        return tensor(s, c, row);
    return c->v->type == CKPT_V_CALL ? object(s, c) : remember(s, c->v, NULL);
}

/* convert - C->made, and a frame where entries are to come. */
static ckpt_status convert(struct sanitize *s, struct child *c)
{
    const ckpt_value *v = c->v;
    uint32_t known = v->type >= CKPT_V_STR8 ? map_get_num(s->done, map_ptr(v)) : MAP_NONE;
    c->made = (ckpt_value *)(uintptr_t)v;
    s->blame = NULL;
    if (known != MAP_NONE) {
        c->made = s->made[known];
        return CKPT_OK;
    }
    if (v->flags & VALUE_BUILT) {
        c->made = NULL;
        return CKPT_OK;
    }
    switch ((ckpt_value_type)v->type) {
    case CKPT_V_BIGINT: c->made = v->u.str.len <= 255 ? c->made : NULL; return CKPT_OK;
    case CKPT_V_STR8: return text8(s, c);
    case CKPT_V_LIST:
    case CKPT_V_TUPLE:
    case CKPT_V_DICT:
    case CKPT_V_SET: return enter_as(s, c, (ckpt_value_type)v->type);
    case CKPT_V_FROZENSET: CKPT_TRY(changed(s, c, "set")); return enter_as(s, c, CKPT_V_SET);
    case CKPT_V_GLOBAL: c->made = plain_word(v) ? c->made : NULL; return CKPT_OK;
    case CKPT_V_TENSOR: return remember(s, v, c->made);
    case CKPT_V_CALL:
    case CKPT_V_PERSID: c->made = NULL; return compound(s, c);
    default: return CKPT_OK;
    }
}

/* key - what may be the key of a dict or in a set: *OUT NULL when V may not. */
static ckpt_status key(struct sanitize *s, const ckpt_value *v, const ckpt_path_elem *elem, ckpt_value **out)
{
    struct child c = {.v = v, .elem = elem};
    *out = NULL;
    if (v->type == CKPT_V_TUPLE) {
        CKPT_TRY(plain_all(&s->plain, v, &s->blame, s->err));
        *out = s->blame ? NULL : (ckpt_value *)(uintptr_t)v;
        return CKPT_OK;
    }
    if (value_is_sequence(v) || v->type == CKPT_V_DICT ||
        (v->type == CKPT_V_CALL && !plain_datum(v) && row_of(s, v) == CKPT_NO_TENSOR))
        return CKPT_OK;
    CKPT_TRY(convert(s, &c));
    if (c.made && c.made->type != CKPT_V_TENSOR && c.made->type != CKPT_V_DICT &&
        (c.made->type != CKPT_V_CALL || plain_datum(c.made)))
        *out = c.made;
    return CKPT_OK;
}

/* --------------------------------------------------------------------- walk */

static ckpt_status put_pair(struct sanitize *s, ckpt_value *out, const ckpt_value *k, const ckpt_value *v)
{
    ckpt_path_elem elem;
    ckpt_value *made;
    CKPT_TRY(path_elem(s->p->a, k, &elem, s->err));
    struct child c = {.v = v, .elem = &elem};
    CKPT_TRY(key(s, k, &elem, &made));
    if (!made)
        return lost(s, &c, "");
    CKPT_TRY(convert(s, &c));
    if (!c.made)
        return lost(s, &c, "");
    return value_put(s->p->a, out, made, c.made) ? CKPT_OK : fail_memory(s->err);
}

static ckpt_status put_item(struct sanitize *s, ckpt_value *out, size_t i, const ckpt_value *v)
{
    ckpt_path_elem elem = {.is_int = true, .num = (int64_t)i};
    struct child c = {.v = v, .elem = &elem};
    if (out->type == CKPT_V_SET)
        CKPT_TRY(key(s, v, &elem, &c.made));
    else
        CKPT_TRY(convert(s, &c));
    if (!c.made) {
        CKPT_TRY(lost(s, &c, out->type == CKPT_V_SET ? "" : "None"));
        c.made = out->type == CKPT_V_SET ? NULL : s->none;
    }
    return !c.made || value_append(s->p->a, out, c.made) ? CKPT_OK : fail_memory(s->err);
}

/* put_part - the next row that is a part of the frame's; *MORE false: there is none. */
static ckpt_status put_part(struct sanitize *s, struct frame *f, bool *more)
{
    const struct table *t = &s->p->file->table;
    const ckpt_tensor *whole = &t->rows[f->parts].t;
    while (f->at < t->nrows && t->rows[f->at].t.npath > whole->npath && t->rows[f->at].t.part_of != f->parts)
        f->at++;
    *more = f->at < t->nrows && t->rows[f->at].t.part_of == f->parts;
    if (!*more)
        return CKPT_OK;
    const ckpt_tensor *part = &t->rows[f->at++].t;
    /* bounded: a part's path is its whole's and more */
    ckpt_str own = path_join(s->p->a, part->path + whole->npath, part->npath - whole->npath);
    ckpt_path_elem elem = {.str = own};
    struct child c = {.v = part->value, .elem = &elem};
    ckpt_value *name = own.ptr ? value_str(s->p->a, own) : NULL, *out = f->out;
    if (!name)
        return fail_memory(s->err);
    if (!c.v)
        return CKPT_OK;
    CKPT_TRY(convert(s, &c));
    if (!c.made)
        return lost(s, &c, "");
    return value_put(s->p->a, out, name, c.made) ? CKPT_OK : fail_memory(s->err);
}

/* put_state - the attributes of an OrderedDict, _metadata above all. */
static ckpt_status put_state(struct sanitize *s, struct frame *f)
{
    ckpt_value *out = f->out;
    struct child c = {.v = f->state};
    f->state = NULL;
    if (c.v->type == CKPT_V_DICT)
        CKPT_TRY(convert(s, &c));
    if (!c.made)
        return lost(s, &c, "");
    return value_build(s->p->a, out, c.made) ? CKPT_OK : fail_memory(s->err);
}

/* step - the next entry of the innermost frame, which ends when there is none. */
static ckpt_status step(struct sanitize *s)
{
    struct frame *f = &s->frames[s->nframes - 1];
    const ckpt_value *k, *v;
    bool more = false;
    if (f->parts != CKPT_NO_TENSOR)
        CKPT_TRY(put_part(s, f, &more));
    else if (view_item(&f->view, f->at, &k, &v)) {
        size_t i = f->at++;
        return value_is_sequence(f->out) ? put_item(s, f->out, i, v)
               : k                       ? put_pair(s, f->out, k, v)
                                         : CKPT_OK;
    } else if (f->state)
        return put_state(s, f);
    if (!more)
        s->nframes--;
    return CKPT_OK;
}

/* ------------------------------------------------------------------- begin */

static ckpt_status note_rows(struct sanitize *s)
{
    const struct table *t = &s->p->file->table;
    for (size_t i = 0; i < t->nrows; i++) {
        const struct row *r = &t->rows[i];
        if (r->t.value && !map_put_num(s->row_of, map_ptr(r->t.value), (uint32_t)i, NULL))
            return fail_memory(s->err);
        for (uint32_t k = 0; r->steps && k < r->t.npath; k++)
            if (r->steps[k].node && !map_put_num(s->holding, map_ptr(r->steps[k].node), 0, NULL))
                return fail_memory(s->err);
    }
    return CKPT_OK;
}

/* is_below - is ROW an attribute, or part of one, of the tensor OF? */
static bool is_below(const struct row *row, const struct row *of)
{
    for (uint32_t k = 0; k < of->t.npath && k < row->t.npath; k++)
        if (row->steps[k].node != of->steps[k].node || row->steps[k].index != of->steps[k].index)
            return false;
    return row->t.npath > of->t.npath;
}

/* keep_rows - those that are in the new graph as tensors; parts go with their whole, and the
 * attributes of a tensor that stays as it is with that. */
static void keep_rows(struct sanitize *s)
{
    const struct table *t = &s->p->file->table;
    const struct row *as_is = NULL; /* the last such tensor: its attributes follow it */
    for (size_t i = 0; i < t->nrows; i++) {
        const ckpt_tensor *r = &t->rows[i].t;
        uint32_t at = r->value ? map_get_num(s->done, map_ptr(r->value)) : MAP_NONE;
        const ckpt_value *made = at == MAP_NONE ? NULL : s->made[at];
        s->p->keep[i] = made ? made->type == CKPT_V_TENSOR || made == r->value
                             : at == MAP_NONE && r->part_of != CKPT_NO_TENSOR && s->p->keep[r->part_of];
        if (made && made == r->value && t->rows[i].steps)
            as_is = &t->rows[i];
        else if (at == MAP_NONE && as_is && t->rows[i].steps && is_below(&t->rows[i], as_is))
            s->p->keep[i] = true;
    }
    s->p->entries_stale = true;
}

static ckpt_status whole_root(struct sanitize *s)
{
    ckpt_plan *p = s->p;
    struct child c = {.v = p->root};
    if (!p->root_depth && p->root != p->file->root)
        CKPT_TRY(note(
            s, &(ckpt_leaf){.name = STR_LIT(""), .path = path_copy(p->a, NULL, 0), .value = p->file->root},
            NULL, "state dict", false));
    CKPT_TRY(convert(s, &c));
    if (!c.made) {
        char type[256];
        (void)fail(s->err, CKPT_ELOSSY, CKPT_NO_OFFSET, "all of it is one %s, which is not plain data",
                   ckpt_value_type_name(p->root, type, sizeof type));
        fail_hint(s->err, "`ckpt scan` lists what loading it would run");
        return CKPT_ELOSSY;
    }
    while (s->nframes)
        CKPT_TRY(step(s));
    keep_rows(s);
    p->root = c.made;
    return CKPT_OK;
}

/* ------------------------------------------------------------ unused calls */

static ckpt_status unused_of(struct sanitize *s, const struct graph_visit *r, const ckpt_file *f)
{
    for (size_t i = 0; i < f->npickles; i++)
        for (size_t k = 0; k < f->pickles[i]->ncalls; k++) {
            const ckpt_value *v = f->pickles[i]->calls[k], *fn = v->u.call.callable;
            if (map_get_num(r->seen, map_ptr(v)) == MAP_NONE &&
                (fn->type != CKPT_V_GLOBAL || !weights_only_lists(value_module(fn), value_name(fn))))
                CKPT_TRY(note(s, &(ckpt_leaf){.name = STR_LIT(""), .value = v}, NULL, "", true));
        }
    return CKPT_OK;
}

/* unused_calls - what loading would run and throw away. */
static ckpt_status unused_calls(struct sanitize *s)
{
    const ckpt_file *f = s->p->file;
    struct graph_visit r = {.seen = map_new(0)};
    bool ok = r.seen && graph_visit_add(&r, f->root);
    for (size_t i = 0; ok && i < f->nparts; i++)
        ok = graph_visit_add(&r, f->parts[i]->root);
    for (const ckpt_value *v = f->root; ok && v;)
        v = graph_visit_next(&r, &ok);
    ckpt_status st = ok ? unused_of(s, &r, f) : fail_memory(s->err);
    for (size_t i = 0; st == CKPT_OK && i < f->nparts; i++)
        st = unused_of(s, &r, f->parts[i]);
    graph_visit_free(&r);
    return st;
}

/* ---------------------------------------------------------------- interface */

/* approve - the verdict on the pickle about to be written: none but ours may be bad. */
static ckpt_status approve(ckpt_file *f, ckpt_error *err)
{
    int verdict;
    ckpt_str why;
    CKPT_TRY(weights_only_verdict(f, &verdict, &why, err));
    if (verdict == 1)
        return CKPT_OK;
    (void)fail(err, CKPT_ELOSSY, CKPT_NO_OFFSET,
               "torch.load(weights_only=True) would refuse the output: %.*s", STR_ARG(why));
    fail_hint(err, "a .safetensors output holds the tensors alone");
    return CKPT_ELOSSY;
}

static void end(struct sanitize *s)
{
    plain_free(&s->plain);
    map_free(s->row_of);
    map_free(s->holding);
    map_free(s->done);
    free(s->frames);
}

ckpt_status sanitize_plan(ckpt_plan *p, bool only_tensors, ckpt_error *err)
{
    struct sanitize s = {.p = p, .err = err, .plain = {.file = p->file}};
    if (only_tensors)
        return sanitize_flat(p, err);
    p->approve = approve;
    if (!p->root) /* names and tensors, nothing else */
        return CKPT_OK;
    s.plain.known = map_new(0);
    s.row_of = map_new(p->file->table.nrows);
    s.holding = map_new(0);
    s.done = map_new(0);
    s.none = value_new(p->a, CKPT_V_NONE, 0);
    ckpt_status st = s.plain.known && s.row_of && s.holding && s.done && s.none ? note_rows(&s)
                                                                                : fail_memory(err);
    if (st == CKPT_OK)
        st = whole_root(&s);
    if (st == CKPT_OK)
        st = unused_calls(&s);
    end(&s);
    return st;
}

static ckpt_status refuse_lost(const ckpt_plan *p, const ckpt_sanitized *first, ckpt_error *err)
{
    size_t others = 0;
    char more[48] = "";
    for (size_t i = 0; i < p->nsanitized; i++)
        others += p->sanitized[i].lost && &p->sanitized[i] != first;
    if (others)
        (void)snprintf(more, sizeof more, ", and %zu more", others);
    (void)fail(err, CKPT_ELOSSY, CKPT_NO_OFFSET, "\"%.*s\" (%.*s) would be left out%s", STR_ARG(first->name),
               STR_ARG(first->type), more);
    fail_hint(err, "without --strict they are left out and listed");
    return CKPT_ELOSSY;
}

ckpt_status sanitize_strict(const ckpt_plan *p, ckpt_error *err)
{
    for (size_t i = 0; i < p->nsanitized; i++)
        if (p->sanitized[i].lost)
            return refuse_lost(p, &p->sanitized[i], err);
    return CKPT_OK;
}
