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

#include "base/text.h"
#include "base/utf8.h"
#include "core/graph_visit.h"
#include "core/view.h"

/* A container that is being flattened. */
struct flatten_frame {
    const ckpt_value *node;
    const struct edit *edit;     /* of the plan, for NODE; or NULL */
    uint32_t nvisited, nwritten; /* how many children were visited, and how many of these are written */
};

struct flattener {
    struct dcp_leaves *leaves;
    struct flatten_frame *frames;      /* from the root to the container that is visited */
    ckpt_path_elem *path, *input_path; /* of the current child, as in dcp_leaf */
    uint32_t depth, max_depth;         /* frames in use, and how many there may be */
    uint32_t root_depth;               /* length of the path from the input's root to the plan's root */
    map *names;                        /* of the leaves */
    ckpt_error *err;
};

/* A child of a container, with the edits of the plan. */
struct flatten_child {
    const ckpt_value *key, *val; /* KEY is NULL for an item of a list */
    const ckpt_value *node;      /* has it as item or pair INDEX */
    uint32_t index, row;         /* ROW: CKPT_NO_TENSOR if VAL is no tensor */
    ckpt_str renamed;            /* the new key; .ptr NULL: not renamed */
    bool dropped;
};

/* ------------------------------------------------------------------------- graph */

static bool is_mapping(const ckpt_value *value)
{
    uint32_t n;
    return value_row(value) == CKPT_NO_TENSOR &&
           (value->type == CKPT_V_DICT || (value_pairs(value, &n) && n) ||
            value_calls(value, "collections", "OrderedDict", 0));
}

static bool is_tensor(const ckpt_value *value)
{
    return value_row(value) != CKPT_NO_TENSOR || value->type == CKPT_V_TENSOR;
}

static void apply_edit(const struct edit *edit, uint32_t index, struct flatten_child *child)
{
    if (!edit || index >= edit->n)
        return;
    child->renamed = edit->names[index];
    child->dropped = child->dropped || edit->dropped[index];
}

/* get_child - sets *CHILD to child INDEX of VALUE, a container with the edit EDIT or NULL. False: there is
 * none. */
static bool get_child(const ckpt_plan *p, const ckpt_value *value, const struct edit *edit, uint32_t index,
                      struct flatten_child *child)
{
    uint32_t n;
    const value_pair *pairs = value_pairs(value, &n);
    const ckpt_value *pair_list = n ? NULL : view_ordered_dict_argument(value);
    *child = (struct flatten_child){.node = value, .index = index};
    if (index < n) {
        child->key = pairs[index].key;
        child->val = pairs[index].val;
    } else if (pair_list && index < value_count(pair_list)) { /* it and each pair may have edits */
        const ckpt_value *pair = value_item(pair_list, index);
        child->node = pair_list;
        child->key = value_item(pair, 0);
        child->val = value_item(pair, 1);
        apply_edit(plan_find_edit(p, pair_list), index, child);
        apply_edit(plan_find_edit(p, pair), 0, child);
        return child->key && child->val;
    } else {
        child->val = value->type == CKPT_V_LIST ? value_item(value, index) : NULL;
    }
    apply_edit(edit, index, child);
    return child->val != NULL;
}

/* queue_lists - adds the lists that are items of LIST to VISIT. Sets *FOUND if an item is a mapping or a
 * tensor. False: no memory. */
static bool queue_lists(struct graph_visit *visit, const ckpt_file *f, const ckpt_value *list, bool *found)
{
    for (uint32_t i = 0; i < value_count(list) && !*found; i++) {
        const ckpt_value *v = file_replacement_of(f, value_item(list, i));
        *found = is_mapping(v) || is_tensor(v);
        if (v->type == CKPT_V_LIST && !graph_visit_add(visit, v))
            return false;
    }
    return true;
}

/* is_flattened - returns true if torch flattens LIST, because it has a mapping or a tensor at any depth. *OK
 * false: no memory. */
static bool is_flattened(const ckpt_file *f, const ckpt_value *list, bool *ok)
{
    struct graph_visit visit = {.seen = map_new(16)};
    bool found = false;
    *ok = visit.seen && queue_lists(&visit, f, list, &found);
    while (*ok && !found && visit.n)
        *ok = queue_lists(&visit, f, visit.waiting[--visit.n], &found);
    graph_visit_free(&visit);
    return found;
}

/* is_not_tensor - for graph_visit_children, which stops at the first VALUE that is a tensor or a storage. */
static bool is_not_tensor(void *user, const ckpt_value *value)
{
    (void)user;
    return !value || (!is_tensor(value) && value->type != CKPT_V_PERSID);
}

/* holds_tensors - returns true if VALUE has a tensor or a storage in it. *OK false: no memory. */
static bool holds_tensors(const ckpt_value *value, bool *ok)
{
    struct graph_visit visit = {.seen = map_new(16)};
    bool found = !is_not_tensor(NULL, value);
    *ok = visit.seen && graph_visit_add(&visit, value);
    while (*ok && !found && (value = graph_visit_next(&visit, ok)))
        found = !graph_visit_children(value, is_not_tensor, NULL) || !is_not_tensor(NULL, value);
    graph_visit_free(&visit);
    return found;
}

/* ------------------------------------------------------------------------ leaves */

static ckpt_status fail_leaf(const struct dcp_leaf *leaf, const ckpt_tensor *tensor, const char *why,
                             ckpt_error *err)
{
    char word[SHELL_WORD_MAX];
    return fail(err, CKPT_ELOSSY, CKPT_NO_OFFSET,
                "tensor \"%.*s\" (%s, %s) %s; a distributed checkpoint cannot hold it\n"
                "--drop %s leaves it out",
                STR_ARG(leaf->name), ckpt_kind_name((ckpt_kind)tensor->kind), ckpt_tensor_dtype_name(tensor),
                why, shell_glob(leaf->name, word));
}

/* check_tensor - refuses a tensor that cannot be an item. Makes LEAF a value if torch saves the tensor as an
 * object, such as a quantized tensor. */
static ckpt_status check_tensor(const struct flattener *flattener, struct dcp_leaf *leaf)
{
    const ckpt_tensor t = table_tensor(&flattener->leaves->plan->file->table, leaf->row);
    if (t.kind == CKPT_DTENSOR || t.kind == CKPT_SHARDED)
        return fail_leaf(leaf, &t, "is only one rank's shard; open the files of all ranks together",
                         flattener->err);
    if (t.kind != CKPT_DENSE && (t.kind != CKPT_NDARRAY || leaf->node->type != CKPT_V_TENSOR)) {
        leaf->row = CKPT_NO_TENSOR;
        leaf->holds_tensors = true;
        return CKPT_OK;
    }
    if (!t.has_data || !t.has_shape)
        return fail_leaf(leaf, &t, "has no bytes", flattener->err);
    if (dtype_info((ckpt_dtype)t.dtype)->block_elems != 1 || t.dtype == CKPT_DT_NAMED ||
        t.dtype == CKPT_DT_F6_E2M3 || t.dtype == CKPT_DT_F6_E3M2)
        return fail_leaf(leaf, &t, "has a type that torch does not save in chunks", flattener->err);
    return CKPT_OK;
}

/* add_leaf - adds VALUE, which is ROW or no tensor, at the current path. */
static ckpt_status add_leaf(struct flattener *flattener, const ckpt_value *value, uint32_t row)
{
    struct dcp_leaves *leaves = flattener->leaves;
    bool ok = true;
    uint32_t old, ninput_path = flattener->root_depth + flattener->depth;
    struct dcp_leaf leaf = {.path = path_copy(leaves->plan->a, flattener->path, flattener->depth),
                            .npath = flattener->depth,
                            .input_path = path_copy(leaves->plan->a, flattener->input_path, ninput_path),
                            .ninput_path = ninput_path,
                            .node = value,
                            .row = row};
    CKPT_TRY_ALLOC(leaf.path && leaf.input_path &&
                       (leaf.name = path_join(leaves->plan->a, leaf.path, leaf.npath)).ptr,
                   flattener->err);
    if (leaf.row != CKPT_NO_TENSOR && !leaves->plan->keep[leaf.row])
        return CKPT_OK;
    if (leaf.row != CKPT_NO_TENSOR)
        CKPT_TRY(check_tensor(flattener, &leaf));
    else
        leaf.holds_tensors = holds_tensors(value, &ok);
    if (!ok ||
        !arena_push(leaves->plan->a, &leaves->leaves, &leaves->nleaves, &leaves->cap, &leaf, sizeof leaf) ||
        !map_put(flattener->names, leaf.name, 0, &old))
        return fail_memory(flattener->err);
    if (old == MAP_NONE)
        return CKPT_OK;
    return fail(flattener->err, CKPT_EEXIST, CKPT_NO_OFFSET, "two values would both be called \"%.*s\"",
                STR_ARG(leaf.name));
}

/* ---------------------------------------------------------------------- flattening */

static ckpt_status set_key(struct flattener *flattener, const struct flatten_child *child)
{
    ckpt_path_elem *output = &flattener->path[flattener->depth - 1],
                   *input = &flattener->input_path[flattener->root_depth + flattener->depth - 1];
    int64_t number = 0;
    ckpt_str text;
    arena *a = flattener->leaves->plan->a;
    bool is_text = value_text(child->key, &text);
    if ((!is_text && !value_integer(child->key, &number)) || (is_text && !utf8_check(text, true, NULL)))
        return fail(
            flattener->err, CKPT_ELOSSY, CKPT_NO_OFFSET,
            "a mapping has a key that is {no} {=text or number}; a distributed checkpoint has no others");
    CKPT_TRY(path_elem_from_key(a, child->key, input, flattener->err));
    if (child->key->type == CKPT_V_BOOL)
        text = number ? STR_LIT("True") : STR_LIT("False");
    else if (!is_text)
        text = arena_printf(a, "%" PRId64, number);
    flattener->leaves->has_int_keys = flattener->leaves->has_int_keys || !is_text;
    *output = (ckpt_path_elem){.str = child->renamed.ptr ? child->renamed : text};
    return output->str.ptr ? CKPT_OK : fail_memory(flattener->err);
}

static ckpt_status push_container(struct flattener *flattener, const ckpt_value *value)
{
    if (flattener->depth == flattener->max_depth)
        return fail(flattener->err, CKPT_ELIMIT, CKPT_NO_OFFSET, "containers nest {deeper} than {=%u}",
                    flattener->max_depth);
    const struct edit *edit = plan_find_edit(flattener->leaves->plan, value);
    const ckpt_value *class = view_class(value);
    if (class && !str_is(value_module(class), "collections"))
        plan_notice(flattener->leaves->plan,
                    "a mapping of class %.*s.%.*s is a dict in a distributed checkpoint",
                    STR_ARG(value_module(class)), STR_ARG(value_name(class)));
    flattener->leaves->nedited += edit != NULL;
    flattener->frames[flattener->depth++] = (struct flatten_frame){.node = value, .edit = edit};
    return CKPT_OK;
}

static ckpt_status visit_child(struct flattener *flattener, const struct flatten_child *child)
{
    struct dcp_leaves *leaves = flattener->leaves;
    bool ok = true;
    const ckpt_value *v = file_replacement_of(leaves->plan->file, child->val);
    bool is_renamed_text = child->renamed.ptr && !child->key; /* an item of a list whose text was edited */
    if (is_renamed_text)
        CKPT_TRY_ALLOC(v = value_str(leaves->plan->a, child->renamed), flattener->err);
    bool single = leaves->is_single_value &&
                  leaves->is_single_value(leaves->user, flattener->input_path,
                                          flattener->root_depth + flattener->depth);
    struct flatten_child first;
    bool flatten = !single && !is_tensor(v) &&
                   ((is_mapping(v) && get_child(leaves->plan, v, NULL, 0, &first)) ||
                    (v->type == CKPT_V_LIST && is_flattened(leaves->plan->file, v, &ok)));
    CKPT_TRY(ok ? CKPT_OK : fail_memory(flattener->err));
    if (leaves->nleaves >= leaves->plan->file->limits.max_tensors)
        return fail(flattener->err, CKPT_ELIMIT, CKPT_NO_OFFSET, "{more} than {=%" PRIu64 " values}",
                    leaves->plan->file->limits.max_tensors);
    return flatten ? push_container(flattener, v)
                   : add_leaf(flattener, v, v == child->val ? child->row : value_row(v));
}

/* find_child_row - returns the row of CHILD; CKPT_NO_TENSOR: it is no tensor. A tensor that is in several
 * places has a row for each; its node has the number of the first. */
static uint32_t find_child_row(const struct flattener *flattener, const struct flatten_child *child)
{
    if (value_row(child->val) == CKPT_NO_TENSOR)
        return CKPT_NO_TENSOR;
    uint32_t row = plan_find_entry_row(flattener->leaves->plan, child->node, child->index,
                                       flattener->input_path, flattener->root_depth + flattener->depth - 1);
    return row == CKPT_NO_TENSOR ? value_row(child->val) : row;
}

static ckpt_status visit_next(struct flattener *flattener)
{
    struct flatten_frame *frame = &flattener->frames[flattener->depth - 1];
    struct flatten_child child;
    if (!get_child(flattener->leaves->plan, frame->node, frame->edit, frame->nvisited, &child)) {
        flattener->depth--;
        return CKPT_OK;
    }
    uint32_t i = frame->nvisited++;
    child.row = find_child_row(flattener, &child);
    if (child.dropped || (child.row != CKPT_NO_TENSOR && !flattener->leaves->plan->keep[child.row]))
        return CKPT_OK;
    if (child.key) {
        CKPT_TRY(set_key(flattener, &child));
    } else { /* the items that are written are numbered without gaps, as in other formats */
        flattener->path[flattener->depth - 1] = (ckpt_path_elem){.is_int = true, .num = frame->nwritten};
        flattener->input_path[flattener->root_depth + flattener->depth - 1] = (ckpt_path_elem){.is_int = true,
                                                                                               .num = i};
    }
    frame->nwritten++;
    return visit_child(flattener, &child);
}

static ckpt_status flatten_root(struct flattener *flattener)
{
    const ckpt_plan *p = flattener->leaves->plan;
    const ckpt_value *root = p->root ? file_replacement_of(p->file, p->root) : NULL;
    if (!root || !is_mapping(root))
        return fail(flattener->err, CKPT_ELOSSY, CKPT_NO_OFFSET,
                    "what is to be written is {no} {=mapping}, and a distributed checkpoint is one\n"
                    "--root PATH picks a mapping; `ckpt info` shows where the weights are");
    CKPT_TRY(plan_index_entry_rows(flattener->leaves->plan, flattener->err));
    CKPT_TRY(push_container(flattener, root));
    while (flattener->depth)
        CKPT_TRY(visit_next(flattener));
    return CKPT_OK;
}

ckpt_status dcp_flatten(struct dcp_leaves *leaves, ckpt_error *err)
{
    const ckpt_plan *p = leaves->plan;
    struct flattener w = {
        .leaves = leaves, .max_depth = p->file->limits.max_depth, .root_depth = p->root_depth, .err = err};
    size_t room;
    CKPT_TRY_ALLOC(checked_size((uint64_t)w.max_depth + 1 + p->root_depth, &room), err);
    w.frames = calloc(room, sizeof *w.frames);
    w.path = calloc(room, sizeof *w.path);
    w.input_path = calloc(room, sizeof *w.input_path);
    w.names = map_new(p->file->table.nrows);
    bool ok = w.frames && w.path && w.input_path && w.names;
    if (ok && p->root_depth)
        memcpy(w.input_path, p->root_path, p->root_depth * sizeof *w.input_path);
    ckpt_status st = ok ? flatten_root(&w) : fail_memory(err);
    free(w.frames);
    free(w.path);
    free(w.input_path);
    map_free(w.names);
    return st;
}
