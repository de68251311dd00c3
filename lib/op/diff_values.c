/* diff_values.c - `ckpt diff` of values other than tensors: pairs them by name, compares as Python does. */
#include <stdlib.h>

#include "base/sized.h"
#include "core/view.h"
#include "op/diff_names.h"
#include "op/value_equal.h"

struct value_side {
    ckpt_file *f;
    struct root root;
    struct diff_names leaves, rows; /* rows: listed when they are first needed */
};

struct value_diff {
    struct value_side a, b;
    const ckpt_diff_options *o;
    int (*event)(void *user, const ckpt_diff_value *);
    void *user;
    ckpt_diff_value_totals *totals;
    struct value_equal equal;
    map *containers; /* the names of the containers that were compared */
};

/* has_attributes_after - returns true if the leaf after leaf INDEX of F is an attribute of leaf INDEX. */
static bool has_attributes_after(const ckpt_file *f, uint32_t index)
{
    if (index + 1 >= f->nleaves || f->leaves[index + 1].npath <= f->leaves[index].npath)
        return false;
    ckpt_str name = f->leaves[index].name, next = f->leaves[index + 1].name;
    return !name.len || (str_starts(next, name) && next.len > name.len && next.ptr[name.len] == '.');
}

static ckpt_status send_value_event(const struct value_diff *diff, const ckpt_diff_value *value,
                                    ckpt_error *err)
{
    if (diff->event && diff->event(diff->user, value) != 0)
        return fail(err, CKPT_ECANCELLED, CKPT_NO_OFFSET, "stopped on request");
    return CKPT_OK;
}

/* One of the containers on the path of a leaf, DEPTH elements from the root. */
struct leaf_container {
    const ckpt_leaf *leaf;
    uint32_t depth;
    size_t name_len; /* of its joined name */
};

/* next_container - moves CONTAINER one path element towards its leaf; false: the next element is the leaf. */
static bool next_container(struct leaf_container *container)
{
    if (container->depth + 1 >= container->leaf->npath)
        return false;
    container->name_len += path_elem_len(&container->leaf->path[container->depth]) + (container->depth != 0);
    container->depth++;
    return true;
}

static const ckpt_value *container_node(const struct leaf_container *container)
{
    return container->leaf->containers[container->depth];
}

/* make_container_leaf - returns the container as a leaf, which its file F owns; NULL: out of memory. */
static const ckpt_leaf *make_container_leaf(ckpt_file *f, const struct leaf_container *container)
{
    ckpt_leaf *leaf = ARENA_NEW(f->a, ckpt_leaf);
    if (leaf)
        *leaf = (ckpt_leaf){.name = str_of(container->leaf->name.ptr, container->name_len),
                            .path = container->leaf->path,
                            .npath = container->depth,
                            .value = container_node(container),
                            .containers = container->leaf->containers};
    return leaf;
}

/* have_same_class - returns false if LEFT and RIGHT are lists or mappings of different classes. */
static bool have_same_class(const ckpt_value *left, const ckpt_value *right)
{
    char type_a[256], type_b[256];
    enum view_kind in_a = view_of(left).kind, in_b = view_of(right).kind;
    if ((in_a != VIEW_ITEMS && in_a != VIEW_PAIRS) || (in_b != VIEW_ITEMS && in_b != VIEW_PAIRS))
        return true;
    return strcmp(ckpt_value_type_name(left, type_a, sizeof type_a),
                  ckpt_value_type_name(right, type_b, sizeof type_b)) == 0;
}

/* get_setting - returns the argument of a mapping's or sequence's constructor that is no content of it: the
 * default_factory of a defaultdict, the maxlen of a deque. NULL: it has none. */
static const ckpt_value *get_setting(const ckpt_value *value)
{
    const ckpt_value *class_node = view_class(value), *key, *setting;
    bool is_deque = value_is_global(class_node, "collections", "deque");
    if (!is_deque && !value_is_global(class_node, "collections", "defaultdict"))
        return NULL;
    struct view arguments = view_arguments(value);
    bool is_set = view_item(&arguments, is_deque, &key, &setting) && setting->type != CKPT_V_NONE;
    return is_set ? setting : NULL;
}

/* have_same_setting - sets *SAME to whether the containers LEFT and RIGHT have equal settings. */
static ckpt_status have_same_setting(struct value_diff *diff, const ckpt_value *left, const ckpt_value *right,
                                     bool *same, ckpt_error *err)
{
    const ckpt_value *in_a = get_setting(left), *in_b = get_setting(right);
    *same = in_a == in_b;
    diff->equal.no_attributes = false;
    return in_a && in_b ? value_equal(&diff->equal, in_a, in_b, same, err) : CKPT_OK;
}

static ckpt_status compare_container(struct value_diff *diff, ckpt_str name,
                                     const struct leaf_container *left, const struct leaf_container *right,
                                     ckpt_error *err)
{
    uint32_t before;
    CKPT_TRY_ALLOC(diff->containers || (diff->containers = map_new(0)), err);
    CKPT_TRY_ALLOC(map_put(diff->containers, name, 0, &before), err);
    bool same, already_compared = before != MAP_NONE;
    if (already_compared || !diff_name_matches(diff->o, name))
        return CKPT_OK;
    CKPT_TRY(have_same_setting(diff, container_node(left), container_node(right), &same, err));
    if (same && have_same_class(container_node(left), container_node(right)))
        return CKPT_OK;
    ckpt_diff_value e = {CKPT_DIFF_CHANGED, name, make_container_leaf(diff->a.f, left),
                         make_container_leaf(diff->b.f, right)};
    CKPT_TRY_ALLOC(e.a && e.b, err);
    diff->totals->changed++;
    return send_value_event(diff, &e, err);
}

/* name_length_below - returns the length of the part of the leaf's name that follows CONTAINER's name and a
 * dot. */
static size_t name_length_below(const struct leaf_container *container)
{
    return container->leaf->name.len - container->name_len - (container->depth != 0);
}

/* compare_containers - compares the containers on the paths of leaves LEFT and RIGHT, from the root on. NAME
 * is the shortened name of both leaves. Two containers are compared if the same part of NAME is below
 * them. */
static ckpt_status compare_containers(struct value_diff *diff, ckpt_str name, const ckpt_leaf *left,
                                      const ckpt_leaf *right, ckpt_error *err)
{
    struct leaf_container in_a = {.leaf = left}, in_b = {.leaf = right};
    bool more = left->containers && right->containers && left->npath && right->npath;
    while (more) {
        size_t below_a = name_length_below(&in_a), below_b = name_length_below(&in_b);
        ckpt_str container_name = str_of(name.ptr, below_a < name.len ? name.len - below_a - 1 : 0);
        if (below_a == below_b && below_a <= name.len)
            CKPT_TRY(compare_container(diff, container_name, &in_a, &in_b, err));
        more = next_container(below_a >= below_b ? &in_a : &in_b);
    }
    return CKPT_OK;
}

static struct diff_path path_of_leaf(const struct value_side *side, const ckpt_leaf *leaf)
{
    return (struct diff_path){
        .file = side->f, .path = leaf->path, .n = leaf->npath, .containers = leaf->containers};
}

static ckpt_status compare_leaves(struct value_diff *diff, uint32_t left, uint32_t right,
                                  ckpt_diff_value *value, ckpt_error *err)
{
    bool same;
    CKPT_TRY(compare_containers(diff, value->name, value->a, value->b, err));
    diff->equal.no_attributes = has_attributes_after(diff->a.f, left) ||
                                has_attributes_after(diff->b.f, right);
    ckpt_status st = value_equal(&diff->equal, value->a->value, value->b->value, &same, err);
    CKPT_TRY(prefix_where_if_failed(st, value->name, err));
    const struct diff_path path_a = path_of_leaf(&diff->a, value->a),
                           path_b = path_of_leaf(&diff->b, value->b);
    same = same && diff_have_same_key_types(&path_a, &path_b);
    bool unread = same && diff->equal.has_unread;
    diff->totals->same += same && !unread;
    diff->totals->not_compared += unread;
    diff->totals->changed += !same;
    value->what = unread ? CKPT_DIFF_NOT_COMPARED : CKPT_DIFF_CHANGED;
    return same && !unread ? CKPT_OK : send_value_event(diff, value, err);
}

static bool is_empty_container(const ckpt_value *value)
{
    struct view view = view_of(value);
    return view.kind != VIEW_LEAF && !view.are_arguments && view.n == 0;
}

/* has_content_below - sets *OUT to true if SIDE has a tensor or value below NAME. */
static ckpt_status has_content_below(struct value_side *side, const ckpt_diff_options *options, ckpt_str name,
                                     bool *out, ckpt_error *err)
{
    if (!side->rows.list)
        CKPT_TRY(diff_list_rows(side->f, options, &side->root, &side->rows, err));
    *out = diff_has_name_below(&side->rows, name) || diff_has_name_below(&side->leaves, name);
    return CKPT_OK;
}

static ckpt_status report_leaf(struct value_diff *diff, const struct indexed_name *left,
                               const struct indexed_name *right, ckpt_error *err)
{
    ckpt_diff_value e = {.name = left ? left->name : right->name,
                         .a = left ? &diff->a.f->leaves[left->index] : NULL,
                         .b = right ? &diff->b.f->leaves[right->index] : NULL};
    bool other_has_content = false; /* below this name */
    if (left && right)
        return compare_leaves(diff, left->index, right->index, &e, err);
    if (is_empty_container(left ? e.a->value : e.b->value))
        CKPT_TRY(has_content_below(left ? &diff->b : &diff->a, diff->o, e.name, &other_has_content, err));
    if (other_has_content) /* its values are reported by their own names, its tensors by ckpt_diff */
        return CKPT_OK;
    e.what = left ? CKPT_DIFF_ONLY_A : CKPT_DIFF_ONLY_B;
    diff->totals->only_a += left != NULL;
    diff->totals->only_b += right != NULL;
    return send_value_event(diff, &e, err);
}

static ckpt_status report_all_leaves(struct value_diff *diff, ckpt_error *err)
{
    struct diff_join join = {.a = &diff->a.leaves, .b = &diff->b.leaves};
    const struct indexed_name *in_a, *in_b;
    diff->totals->in_a = diff->a.leaves.n;
    diff->totals->in_b = diff->b.leaves.n;
    diff->totals->compared = diff->a.leaves.n && diff->b.leaves.n;
    while (diff->totals->compared && diff_next_pair(&join, &in_a, &in_b))
        CKPT_TRY(report_leaf(diff, in_a, in_b, err));
    return CKPT_OK;
}

static ckpt_status open_value_side(struct value_side *side, const char *root,
                                   const ckpt_diff_options *options, ckpt_error *err)
{
    CKPT_TRY(root_find(side->f, root ? root : options->root, &side->root, err));
    return diff_list_leaves(side->f, options, &side->root, &side->leaves, err);
}

static void close_value_side(struct value_side *side)
{
    free(side->leaves.list);
    free(side->rows.list);
}

ckpt_status ckpt_diff_values(ckpt_file *left, ckpt_file *right, const ckpt_diff_options *opts,
                             int (*event)(void *user, const ckpt_diff_value *), void *user,
                             ckpt_diff_value_totals *totals, ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    ckpt_diff_options o;
    ckpt_diff_value_totals local_totals = {0};
    struct value_diff d = {
        .a = {.f = left}, .b = {.f = right}, .o = &o, .event = event, .user = user, .totals = &local_totals};
    CKPT_TRY(totals ? sized_struct_clear(totals, err) : CKPT_OK);
    CKPT_TRY(sized_struct_copy_in(opts, &o, sizeof o, err));
    CKPT_REQUIRE(err, left && right && has_no_null(o.globs, o.nglobs));
    ckpt_status st = open_value_side(&d.a, d.o->root_a, d.o, err);
    CKPT_THEN(st, open_value_side(&d.b, d.o->root_b, d.o, err));
    CKPT_THEN(st, report_all_leaves(&d, err));
    if (totals && st == CKPT_OK)
        sized_struct_copy_out(totals, &local_totals, sizeof local_totals);
    close_value_side(&d.a);
    close_value_side(&d.b);
    value_equal_free(&d.equal);
    map_free(d.containers);
    return st;
}
