/* dcp_flatten.c - flattens a state dict into leaves, as torch.distributed.checkpoint does before it saves:
 *
 *    dict {key: value}    a leaf "outer.key" for each key, path ("outer", "key"); a number key becomes text
 *    list [a, b]          a leaf "outer.0" for each item, path ("outer", 0), if the list has a mapping or a
 *                         tensor in it at any depth; otherwise the list is one leaf
 *    anything else        one leaf, even a tuple with tensors or an empty mapping
 *
 * Source: torch/distributed/checkpoint/_traverse.py, traverse_state_dict. torch loses an empty mapping; here
 * it is a leaf, which both dcp.load and dcp_to_torch_save read. */
#include "format/distributed/dcp_write.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/checked.h"
#include "base/text.h"
#include "base/utf8.h"
#include "core/dtype.h"
#include "core/graph_visit.h"
#include "core/view.h"

/* A container that is being flattened. */
struct flatten_frame {
    const ckpt_value *node;
    const struct edit *edit; /* of the plan, for NODE; or NULL */
    uint32_t next, kept;     /* how many children were visited, and how many of these are written */
};

struct flattener {
    struct dcp_leaves *leaves;
    struct flatten_frame *frame;       /* from the root to the container that is visited */
    ckpt_path_elem *path, *input_path; /* of the current child, as in dcp_leaf */
    uint32_t depth, max_depth;         /* frames in use, and how many there may be */
    uint32_t from_root;                /* length of the path from the root of the input to that of the plan */
    map *names;                        /* of the leaves */
    ckpt_error *err;
};

/* A child of a container, with the edits of the plan. */
struct flatten_child {
    const ckpt_value *key, *val; /* KEY is NULL for an item of a list */
    ckpt_str renamed;            /* the new key; .ptr NULL: not renamed */
    bool dropped;
};

/* ------------------------------------------------------------------------- graph */

/* get_replacement - returns the node to write instead of V, which may be of a file that F was put together
 * from. */
static const ckpt_value *get_replacement(const ckpt_file *f, const ckpt_value *v)
{
    const ckpt_value *by = file_replaced_value(f, v);
    for (size_t i = 0; by == v && i < f->nparts; i++)
        by = file_replaced_value(f->parts[i], v);
    return by;
}

static bool is_mapping(const ckpt_value *v)
{
    uint32_t n;
    return v->row == CKPT_NO_TENSOR && (v->type == CKPT_V_DICT || (value_pairs(v, &n) && n) ||
                                        value_calls(v, "collections", "OrderedDict", 0));
}

static bool is_tensor(const ckpt_value *v) { return v->row != CKPT_NO_TENSOR || v->type == CKPT_V_TENSOR; }

static void apply_edit(const struct edit *e, uint32_t i, struct flatten_child *c)
{
    if (!e || i >= e->n)
        return;
    c->renamed = e->names[i];
    c->dropped = c->dropped || e->dropped[i];
}

/* get_child - sets *C to child I of the container V, whose edit is E (or NULL). False: there are fewer. */
static bool get_child(const ckpt_plan *p, const ckpt_value *v, const struct edit *e, uint32_t i,
                      struct flatten_child *c)
{
    uint32_t n;
    const value_pair *pairs = value_pairs(v, &n);
    const ckpt_value *given = n ? NULL : view_pairs_given(v);
    *c = (struct flatten_child){0};
    if (i < n) {
        c->key = pairs[i].key;
        c->val = pairs[i].val;
    } else if (given && i < value_count(given)) { /* both the list of pairs and each pair may have edits */
        const ckpt_value *pair = value_item(given, i);
        c->key = value_item(pair, 0);
        c->val = value_item(pair, 1);
        apply_edit(plan_find_edit(p, given), i, c);
        apply_edit(plan_find_edit(p, pair), 0, c);
        return c->key && c->val;
    } else {
        c->val = v->type == CKPT_V_LIST ? value_item(v, i) : NULL;
    }
    apply_edit(e, i, c);
    return c->val != NULL;
}

/* queue_lists - adds the lists that are items of LIST to R. Sets *FOUND if an item is a mapping or a tensor.
 * False: no memory. */
static bool queue_lists(struct graph_visit *r, const ckpt_file *f, const ckpt_value *list, bool *found)
{
    for (uint32_t i = 0; i < value_count(list) && !*found; i++) {
        const ckpt_value *v = get_replacement(f, value_item(list, i));
        *found = is_mapping(v) || is_tensor(v);
        if (v->type == CKPT_V_LIST && !graph_visit_add(r, v))
            return false;
    }
    return true;
}

/* is_flattened - returns true if torch flattens LIST, because it has a mapping or a tensor at any depth. *OK
 * false: no memory. */
static bool is_flattened(const ckpt_file *f, const ckpt_value *list, bool *ok)
{
    struct graph_visit r = {.seen = map_new(16)};
    bool found = false;
    *ok = r.seen && queue_lists(&r, f, list, &found);
    while (*ok && !found && r.n)
        *ok = queue_lists(&r, f, r.waiting[--r.n], &found);
    graph_visit_free(&r);
    return found;
}

/* has_no_tensor - for graph_visit_children, which stops at the first node for which this is false. */
static bool has_no_tensor(void *user, const ckpt_value *v)
{
    (void)user;
    return !v || (!is_tensor(v) && v->type != CKPT_V_PERSID);
}

/* holds_tensors - returns true if V has a tensor or a storage in it. *OK false: no memory. */
static bool holds_tensors(const ckpt_value *v, bool *ok)
{
    struct graph_visit r = {.seen = map_new(16)};
    bool found = !has_no_tensor(NULL, v);
    *ok = r.seen && graph_visit_add(&r, v);
    while (*ok && !found && (v = graph_visit_next(&r, ok)))
        found = !graph_visit_children(v, has_no_tensor, NULL) || !has_no_tensor(NULL, v);
    graph_visit_free(&r);
    return found;
}

/* ------------------------------------------------------------------------ leaves */

static ckpt_status fail_leaf(const struct dcp_leaf *l, const ckpt_tensor *t, const char *why, ckpt_error *err)
{
    char word[SHELL_WORD_MAX];
    return fail(err, CKPT_ELOSSY, CKPT_NO_OFFSET,
                "tensor \"%.*s\" (%s, %s) %s; a distributed checkpoint cannot hold it\n"
                "--drop %s leaves it out",
                STR_ARG(l->name), ckpt_kind_name((ckpt_kind)t->kind), ckpt_tensor_dtype_name(t), why,
                shell_glob(l->name, word));
}

/* check_tensor - refuses a tensor that cannot be an item. Makes L a value if torch saves the tensor as an
 * object, such as a quantized tensor. */
static ckpt_status check_tensor(const struct flattener *w, struct dcp_leaf *l)
{
    const ckpt_tensor *t = &w->leaves->p->file->table.rows[l->row].t;
    if (t->kind == CKPT_DTENSOR || t->kind == CKPT_SHARDED)
        return fail_leaf(l, t, "is one rank's shard of it; open the files of all ranks together", w->err);
    if (t->kind != CKPT_DENSE && (t->kind != CKPT_NDARRAY || l->node->type != CKPT_V_TENSOR)) {
        l->row = CKPT_NO_TENSOR;
        l->holds_tensors = true;
        return CKPT_OK;
    }
    if (!t->has_data || !t->has_shape)
        return fail_leaf(l, t, "has no bytes", w->err);
    if (dtype_info((ckpt_dtype)t->dtype)->block_elems != 1 || t->dtype == CKPT_DT_NP ||
        t->dtype == CKPT_DT_F6_E2M3 || t->dtype == CKPT_DT_F6_E3M2)
        return fail_leaf(l, t, "has a type that torch does not save in chunks", w->err);
    return CKPT_OK;
}

static ckpt_status add_leaf(struct flattener *w, const ckpt_value *v)
{
    struct dcp_leaves *leaves = w->leaves;
    bool ok = true;
    uint32_t old, ninput_path = w->from_root + w->depth; /* bounded: by the limit of depth */
    struct dcp_leaf l = {.path = path_copy(leaves->p->a, w->path, w->depth),
                         .npath = w->depth,
                         .input_path = path_copy(leaves->p->a, w->input_path, ninput_path),
                         .ninput_path = ninput_path,
                         .node = v,
                         .row = v->row};
    if (!l.path || !l.input_path || !(l.name = path_join(leaves->p->a, l.path, l.npath)).ptr)
        return fail_memory(w->err);
    if (l.row != CKPT_NO_TENSOR && !leaves->p->keep[l.row])
        return CKPT_OK;
    if (l.row != CKPT_NO_TENSOR)
        CKPT_TRY(check_tensor(w, &l));
    else
        l.holds_tensors = holds_tensors(v, &ok);
    if (!ok || !arena_push(leaves->p->a, &leaves->leaf, &leaves->n, &leaves->cap, &l, sizeof l) ||
        !map_put(w->names, l.name, 0, &old))
        return fail_memory(w->err);
    if (old == MAP_NONE)
        return CKPT_OK;
    return fail(w->err, CKPT_EEXIST, CKPT_NO_OFFSET, "two values would both be called \"%.*s\"",
                STR_ARG(l.name));
}

/* ---------------------------------------------------------------------- flattening */

/* set_key - sets the last element of w->path and w->input_path to the key of C. */
static ckpt_status set_key(struct flattener *w, const struct flatten_child *c)
{
    ckpt_path_elem *output = &w->path[w->depth - 1], *input = &w->input_path[w->from_root + w->depth - 1];
    int64_t number = 0;
    ckpt_str text;
    arena *a = w->leaves->p->a;
    bool is_text = value_text(c->key, &text);
    if ((!is_text && !value_integer(c->key, &number)) || (is_text && !utf8_check(text, true, NULL)))
        return fail(
            w->err, CKPT_ELOSSY, CKPT_NO_OFFSET,
            "a mapping has a key that is {no} {=text or number}; a distributed checkpoint has no others");
    CKPT_TRY(path_elem_from_key(a, c->key, input, w->err));
    if (c->key->type == CKPT_V_BOOL)
        text = number ? STR_LIT("True") : STR_LIT("False");
    else if (!is_text)
        text = arena_printf(a, "%" PRId64, number);
    w->leaves->int_keys = w->leaves->int_keys || !is_text;
    *output = (ckpt_path_elem){.str = c->renamed.ptr ? c->renamed : text};
    return output->str.ptr ? CKPT_OK : fail_memory(w->err);
}

static ckpt_status push_container(struct flattener *w, const ckpt_value *v)
{
    if (w->depth == w->max_depth)
        return fail(w->err, CKPT_ELIMIT, CKPT_NO_OFFSET, "containers nest {deeper} than {=%u}", w->max_depth);
    const struct edit *e = plan_find_edit(w->leaves->p, v);
    const ckpt_value *class = view_class(v);
    if (class && !str_is(value_module(class), "collections"))
        plan_notice(w->leaves->p, "a mapping of class %.*s.%.*s is a dict in a distributed checkpoint",
                    STR_ARG(value_module(class)), STR_ARG(value_name(class)));
    w->leaves->nedited += e != NULL;
    w->frame[w->depth++] = (struct flatten_frame){.node = v, .edit = e};
    return CKPT_OK;
}

/* visit_child - flattens C, whose paths are set, or makes it a leaf. */
static ckpt_status visit_child(struct flattener *w, const struct flatten_child *c)
{
    struct dcp_leaves *leaves = w->leaves;
    bool ok = true;
    const ckpt_value *v = get_replacement(leaves->p->file, c->val);
    if (c->renamed.ptr && !c->key && !(v = value_str(leaves->p->a, c->renamed)))
        return fail_memory(w->err);
    bool single = leaves->is_single_value &&
                  leaves->is_single_value(leaves->user, w->input_path, w->from_root + w->depth);
    struct flatten_child first;
    bool flatten = !single && !is_tensor(v) &&
                   ((is_mapping(v) && get_child(leaves->p, v, NULL, 0, &first)) ||
                    (v->type == CKPT_V_LIST && is_flattened(leaves->p->file, v, &ok)));
    CKPT_TRY(ok ? CKPT_OK : fail_memory(w->err));
    if (leaves->n >= leaves->p->file->limits.max_tensors)
        return fail(w->err, CKPT_ELIMIT, CKPT_NO_OFFSET, "{more} than {=%" PRIu64 " values}",
                    leaves->p->file->limits.max_tensors);
    return flatten ? push_container(w, v) : add_leaf(w, v);
}

/* visit_next - visits the next child of the last frame, or removes the frame. */
static ckpt_status visit_next(struct flattener *w)
{
    struct flatten_frame *at = &w->frame[w->depth - 1];
    struct flatten_child c;
    if (!get_child(w->leaves->p, at->node, at->edit, at->next, &c)) {
        w->depth--;
        return CKPT_OK;
    }
    uint32_t i = at->next++;
    bool omitted = c.dropped || (c.val->row != CKPT_NO_TENSOR && !w->leaves->p->keep[c.val->row]);
    if (omitted)
        return CKPT_OK;
    if (c.key) {
        CKPT_TRY(set_key(w, &c));
    } else { /* the items that are written are numbered without gaps, as in other formats */
        w->path[w->depth - 1] = (ckpt_path_elem){.is_int = true, .num = at->kept};
        w->input_path[w->from_root + w->depth - 1] = (ckpt_path_elem){.is_int = true, .num = i};
    }
    at->kept++;
    return visit_child(w, &c);
}

static ckpt_status flatten_root(struct flattener *w)
{
    const ckpt_plan *p = w->leaves->p;
    const ckpt_value *root = p->root ? get_replacement(p->file, p->root) : NULL;
    if (!root || !is_mapping(root))
        return fail(w->err, CKPT_ELOSSY, CKPT_NO_OFFSET,
                    "what is to be written is {no} {=mapping}, and a distributed checkpoint is one\n"
                    "--root PATH picks a mapping; `ckpt info` shows where the weights are");
    CKPT_TRY(push_container(w, root));
    while (w->depth)
        CKPT_TRY(visit_next(w));
    return CKPT_OK;
}

ckpt_status dcp_flatten(struct dcp_leaves *leaves, ckpt_error *err)
{
    const ckpt_plan *p = leaves->p;
    struct flattener w = {
        .leaves = leaves, .max_depth = p->file->limits.max_depth, .from_root = p->root_depth, .err = err};
    size_t room;
    if (!checked_size((uint64_t)w.max_depth + 1 + p->root_depth, &room)) /* bounded: both have 32 bits */
        return fail_memory(err);
    w.frame = calloc(room, sizeof *w.frame);
    w.path = calloc(room, sizeof *w.path);
    w.input_path = calloc(room, sizeof *w.input_path);
    w.names = map_new(p->file->table.nrows);
    bool ok = w.frame && w.path && w.input_path && w.names;
    if (ok && p->root_depth)
        memcpy(w.input_path, p->root_path, p->root_depth * sizeof *w.input_path);
    ckpt_status st = ok ? flatten_root(&w) : fail_memory(err);
    free(w.frame);
    free(w.path);
    free(w.input_path);
    map_free(w.names);
    return st;
}
