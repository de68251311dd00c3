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

/* has_attributes_after - returns true if the leaf after leaf I of F is an attribute of leaf I. */
static bool has_attributes_after(const ckpt_file *f, uint32_t i)
{
    if (i + 1 >= f->nleaves || f->leaves[i + 1].npath <= f->leaves[i].npath)
        return false;
    ckpt_str name = f->leaves[i].name, next = f->leaves[i + 1].name;
    return !name.len || (str_starts(next, name) && next.len > name.len && next.ptr[name.len] == '.');
}

static ckpt_status send_value_event(const struct value_diff *d, const ckpt_diff_value *e, ckpt_error *err)
{
    if (d->event && d->event(d->user, e) != 0)
        return fail(err, CKPT_ECANCELLED, CKPT_NO_OFFSET, "stopped on request");
    return CKPT_OK;
}

/* One of the containers on the path of a leaf, DEPTH elements from the root. */
struct leaf_container {
    const ckpt_leaf *leaf;
    uint32_t depth;
    size_t name_len; /* of its joined name */
};

/* next_container - moves C one path element towards its leaf; false: the next element is the leaf. */
static bool next_container(struct leaf_container *c)
{
    if (c->depth + 1 >= c->leaf->npath)
        return false;
    c->name_len += path_elem_len(&c->leaf->path[c->depth]) + (c->depth != 0);
    c->depth++;
    return true;
}

static const ckpt_value *container_node(const struct leaf_container *c)
{
    return c->leaf->containers[c->depth];
}

/* make_container_leaf - returns the container as a leaf, which its file F owns; NULL: out of memory. */
static const ckpt_leaf *make_container_leaf(ckpt_file *f, const struct leaf_container *c)
{
    ckpt_leaf *leaf = ARENA_NEW(f->a, ckpt_leaf);
    if (leaf)
        *leaf = (ckpt_leaf){.name = str_of(c->leaf->name.ptr, c->name_len),
                            .path = c->leaf->path,
                            .npath = c->depth,
                            .value = container_node(c),
                            .containers = c->leaf->containers};
    return leaf;
}

/* have_same_class - returns false if A and B are lists or mappings of different classes. */
static bool have_same_class(const ckpt_value *a, const ckpt_value *b)
{
    char type_a[256], type_b[256];
    enum view_kind in_a = view_of(a).kind, in_b = view_of(b).kind;
    if ((in_a != VIEW_ITEMS && in_a != VIEW_PAIRS) || (in_b != VIEW_ITEMS && in_b != VIEW_PAIRS))
        return true;
    return strcmp(ckpt_value_type_name(a, type_a, sizeof type_a),
                  ckpt_value_type_name(b, type_b, sizeof type_b)) == 0;
}

/* get_setting - returns the argument of a mapping's or sequence's constructor that is no content of it: the
 * default_factory of a defaultdict, the maxlen of a deque. NULL: it has none. */
static const ckpt_value *get_setting(const ckpt_value *v)
{
    const ckpt_value *class_node = view_class(v), *key, *setting;
    bool is_deque = value_is_global(class_node, "collections", "deque");
    if (!is_deque && !value_is_global(class_node, "collections", "defaultdict"))
        return NULL;
    struct view arguments = view_arguments(v);
    bool is_set = view_item(&arguments, is_deque, &key, &setting) && setting->type != CKPT_V_NONE;
    return is_set ? setting : NULL;
}

/* have_same_setting - sets *SAME to whether the containers A and B have equal settings. */
static ckpt_status have_same_setting(struct value_diff *d, const ckpt_value *a, const ckpt_value *b,
                                     bool *same, ckpt_error *err)
{
    const ckpt_value *in_a = get_setting(a), *in_b = get_setting(b);
    *same = in_a == in_b;
    d->equal.no_attributes = false;
    return in_a && in_b ? value_equal(&d->equal, in_a, in_b, same, err) : CKPT_OK;
}

static ckpt_status compare_container(struct value_diff *d, ckpt_str name, const struct leaf_container *a,
                                     const struct leaf_container *b, ckpt_error *err)
{
    uint32_t before;
    if (!d->containers && !(d->containers = map_new(0)))
        return fail_memory(err);
    if (!map_put(d->containers, name, 0, &before))
        return fail_memory(err);
    bool same, already_compared = before != MAP_NONE;
    if (already_compared || !diff_name_matches(d->o, name))
        return CKPT_OK;
    CKPT_TRY(have_same_setting(d, container_node(a), container_node(b), &same, err));
    if (same && have_same_class(container_node(a), container_node(b)))
        return CKPT_OK;
    ckpt_diff_value e = {CKPT_DIFF_CHANGED, name, make_container_leaf(d->a.f, a),
                         make_container_leaf(d->b.f, b)};
    CKPT_TRY_ALLOC(e.a && e.b, err);
    d->totals->changed++;
    return send_value_event(d, &e, err);
}

/* name_length_below - returns the length of the part of the leaf's name that follows C's name and a dot. */
static size_t name_length_below(const struct leaf_container *c)
{
    return c->leaf->name.len - c->name_len - (c->depth != 0);
}

/* compare_containers - compares the containers on the paths of leaves A and B, from the root on. NAME is the
 * shortened name of both leaves. Two containers are compared if the same part of NAME is below them. */
static ckpt_status compare_containers(struct value_diff *d, ckpt_str name, const ckpt_leaf *a,
                                      const ckpt_leaf *b, ckpt_error *err)
{
    struct leaf_container in_a = {.leaf = a}, in_b = {.leaf = b};
    bool more = a->containers && b->containers && a->npath && b->npath;
    while (more) {
        size_t below_a = name_length_below(&in_a), below_b = name_length_below(&in_b);
        ckpt_str container_name = str_of(name.ptr, below_a < name.len ? name.len - below_a - 1 : 0);
        if (below_a == below_b && below_a <= name.len)
            CKPT_TRY(compare_container(d, container_name, &in_a, &in_b, err));
        more = next_container(below_a >= below_b ? &in_a : &in_b);
    }
    return CKPT_OK;
}

static struct diff_path path_of_leaf(const struct value_side *s, const ckpt_leaf *leaf)
{
    return (struct diff_path){
        .file = s->f, .path = leaf->path, .n = leaf->npath, .containers = leaf->containers};
}

static ckpt_status compare_leaves(struct value_diff *d, uint32_t a, uint32_t b, ckpt_diff_value *e,
                                  ckpt_error *err)
{
    bool same;
    CKPT_TRY(compare_containers(d, e->name, e->a, e->b, err));
    d->equal.no_attributes = has_attributes_after(d->a.f, a) || has_attributes_after(d->b.f, b);
    ckpt_status st = value_equal(&d->equal, e->a->value, e->b->value, &same, err);
    CKPT_TRY(prefix_where_if_failed(st, e->name, err));
    const struct diff_path path_a = path_of_leaf(&d->a, e->a), path_b = path_of_leaf(&d->b, e->b);
    same = same && diff_have_same_key_types(&path_a, &path_b);
    bool unread = same && d->equal.has_unread;
    d->totals->same += same && !unread;
    d->totals->not_compared += unread;
    d->totals->changed += !same;
    e->what = unread ? CKPT_DIFF_NOT_COMPARED : CKPT_DIFF_CHANGED;
    return same && !unread ? CKPT_OK : send_value_event(d, e, err);
}

static bool is_empty_container(const ckpt_value *v)
{
    struct view view = view_of(v);
    return view.kind != VIEW_LEAF && !view.are_arguments && view.n == 0;
}

/* has_content_below - sets *OUT to true if S has a tensor or value below NAME. */
static ckpt_status has_content_below(struct value_side *s, const ckpt_diff_options *o, ckpt_str name,
                                     bool *out, ckpt_error *err)
{
    if (!s->rows.list)
        CKPT_TRY(diff_list_rows(s->f, o, &s->root, &s->rows, err));
    *out = diff_has_name_below(&s->rows, name) || diff_has_name_below(&s->leaves, name);
    return CKPT_OK;
}

static ckpt_status report_leaf(struct value_diff *d, const struct indexed_name *a,
                               const struct indexed_name *b, ckpt_error *err)
{
    ckpt_diff_value e = {.name = a ? a->name : b->name,
                         .a = a ? &d->a.f->leaves[a->index] : NULL,
                         .b = b ? &d->b.f->leaves[b->index] : NULL};
    bool other_has_content = false; /* below this name */
    if (a && b)
        return compare_leaves(d, a->index, b->index, &e, err);
    if (is_empty_container(a ? e.a->value : e.b->value))
        CKPT_TRY(has_content_below(a ? &d->b : &d->a, d->o, e.name, &other_has_content, err));
    if (other_has_content) /* its values are reported by their own names, its tensors by ckpt_diff */
        return CKPT_OK;
    e.what = a ? CKPT_DIFF_ONLY_A : CKPT_DIFF_ONLY_B;
    d->totals->only_a += a != NULL;
    d->totals->only_b += b != NULL;
    return send_value_event(d, &e, err);
}

static ckpt_status report_all_leaves(struct value_diff *d, ckpt_error *err)
{
    struct diff_join join = {.a = &d->a.leaves, .b = &d->b.leaves};
    const struct indexed_name *in_a, *in_b;
    d->totals->in_a = d->a.leaves.n;
    d->totals->in_b = d->b.leaves.n;
    d->totals->compared = d->a.leaves.n && d->b.leaves.n;
    while (d->totals->compared && diff_next_pair(&join, &in_a, &in_b))
        CKPT_TRY(report_leaf(d, in_a, in_b, err));
    return CKPT_OK;
}

static ckpt_status open_value_side(struct value_side *s, const char *root, const ckpt_diff_options *o,
                                   ckpt_error *err)
{
    CKPT_TRY(root_find(s->f, root ? root : o->root, &s->root, err));
    return diff_list_leaves(s->f, o, &s->root, &s->leaves, err);
}

static void close_value_side(struct value_side *s)
{
    free(s->leaves.list);
    free(s->rows.list);
}

ckpt_status ckpt_diff_values(ckpt_file *a, ckpt_file *b, const ckpt_diff_options *opts,
                             int (*event)(void *user, const ckpt_diff_value *), void *user,
                             ckpt_diff_value_totals *totals, ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    ckpt_diff_options o;
    ckpt_diff_value_totals local_totals = {0};
    struct value_diff d = {
        .a = {.f = a}, .b = {.f = b}, .o = &o, .event = event, .user = user, .totals = &local_totals};
    CKPT_TRY(totals ? sized_struct_clear(totals, err) : CKPT_OK);
    CKPT_TRY(sized_struct_copy_in(opts, &o, sizeof o, err));
    CKPT_REQUIRE(err, a && b && has_no_null(o.globs, o.nglobs));
    ckpt_status st = open_value_side(&d.a, d.o->root_a, d.o, err);
    if (st == CKPT_OK)
        st = open_value_side(&d.b, d.o->root_b, d.o, err);
    if (st == CKPT_OK)
        st = report_all_leaves(&d, err);
    if (totals && st == CKPT_OK)
        sized_struct_copy_out(totals, &local_totals, sizeof local_totals);
    close_value_side(&d.a);
    close_value_side(&d.b);
    value_equal_free(&d.equal);
    map_free(d.containers);
    return st;
}
