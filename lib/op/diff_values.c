/* diff_values.c - what two files hold besides tensors: joined by name, compared by meaning. */
#include <stdlib.h>

#include "base/sized.h"
#include "core/view.h"
#include "op/diff_names.h"
#include "op/value_equal.h"

struct side {
    ckpt_file *f;
    struct root root;
    struct diff_names leaves, rows; /* the rows once somebody asks */
};

struct value_diff {
    struct side a, b;
    const ckpt_diff_options *o;
    int (*event)(void *user, const ckpt_diff_value *);
    void *user;
    ckpt_diff_value_totals *totals;
    struct value_equal equal;
    map *containers; /* names of those that were compared */
};

/* is_below - is leaf I + 1 of F, which follows leaf I in the document, an attribute of it? */
static bool is_below(const ckpt_file *f, uint32_t i)
{
    if (i + 1 >= f->nleaves || f->leaves[i + 1].npath <= f->leaves[i].npath)
        return false;
    ckpt_str name = f->leaves[i].name, next = f->leaves[i + 1].name;
    return !name.len || (str_starts(next, name) && next.len > name.len && next.ptr[name.len] == '.');
}

static ckpt_status emit(const struct value_diff *d, const ckpt_diff_value *e, ckpt_error *err)
{
    if (d->event && d->event(d->user, e) != 0)
        return fail(err, CKPT_ECANCELLED, CKPT_NO_OFFSET, "stopped on request");
    return CKPT_OK;
}

/* ---- the containers that values are in */

/* One of the containers on the path of a leaf. */
struct container {
    const ckpt_leaf *leaf;
    uint32_t depth;
    size_t len; /* of its joined name */
};

/* container_down - one path element further; false: there is none but the leaf. */
static bool container_down(struct container *c)
{
    if (c->depth + 1 >= c->leaf->npath)
        return false;
    c->len += path_elem_len(&c->leaf->path[c->depth]) + (c->depth != 0); /* bounded: by the joined name */
    c->depth++;
    return true;
}

static const ckpt_value *node_of(const struct container *c) { return c->leaf->containers[c->depth]; }

/* made_leaf - the container as a leaf, which lives as long as its file F; NULL: no memory. */
static const ckpt_leaf *made_leaf(ckpt_file *f, const struct container *c)
{
    ckpt_leaf *leaf = ARENA_NEW(f->a, ckpt_leaf);
    if (leaf)
        *leaf = (ckpt_leaf){.name = str_of(c->leaf->name.ptr, c->len),
                            .path = c->leaf->path,
                            .npath = c->depth,
                            .value = node_of(c),
                            .containers = c->leaf->containers};
    return leaf;
}

/* same_class - of two lists or mappings; whatever else they are is compared as a value. */
static bool same_class(const ckpt_value *a, const ckpt_value *b)
{
    char type_a[256], type_b[256];
    enum view_kind in_a = view_of(a).kind, in_b = view_of(b).kind;
    if ((in_a != VIEW_ITEMS && in_a != VIEW_PAIRS) || (in_b != VIEW_ITEMS && in_b != VIEW_PAIRS))
        return true;
    return strcmp(ckpt_value_type_name(a, type_a, sizeof type_a),
                  ckpt_value_type_name(b, type_b, sizeof type_b)) == 0;
}

static ckpt_status container(struct value_diff *d, ckpt_str name, const struct container *a,
                             const struct container *b, ckpt_error *err)
{
    uint32_t before;
    if (!d->containers && !(d->containers = map_new(0)))
        return fail_memory(err);
    if (!map_put(d->containers, name, 0, &before))
        return fail_memory(err);
    bool known = before != MAP_NONE;
    if (known || !diff_wanted(d->o, name) || same_class(node_of(a), node_of(b)))
        return CKPT_OK;
    ckpt_diff_value e = {CKPT_DIFF_CHANGED, name, made_leaf(d->a.f, a), made_leaf(d->b.f, b)};
    if (!e.a || !e.b)
        return fail_memory(err);
    d->totals->changed++;
    return emit(d, &e, err);
}

/* length_below - of what follows the container, and a dot, in the name of its leaf. */
static size_t length_below(const struct container *c) { return c->leaf->name.len - c->len - (c->depth != 0); }

/* containers - those on the paths of leaves A and B, which are compared as NAME, from the root on. They
 * are in one place where as much of NAME follows them. */
static ckpt_status containers(struct value_diff *d, ckpt_str name, const ckpt_leaf *a, const ckpt_leaf *b,
                              ckpt_error *err)
{
    struct container in_a = {.leaf = a}, in_b = {.leaf = b};
    bool more = a->containers && b->containers && a->npath && b->npath;
    while (more) {
        size_t below_a = length_below(&in_a), below_b = length_below(&in_b);
        ckpt_str own = str_of(name.ptr, below_a < name.len ? name.len - below_a - 1 : 0);
        if (below_a == below_b && below_a <= name.len)
            CKPT_TRY(container(d, own, &in_a, &in_b, err));
        more = container_down(below_a >= below_b ? &in_a : &in_b);
    }
    return CKPT_OK;
}

static ckpt_status in_both(struct value_diff *d, uint32_t a, uint32_t b, ckpt_diff_value *e, ckpt_error *err)
{
    bool same;
    CKPT_TRY(containers(d, e->name, e->a, e->b, err));
    d->equal.no_attributes = is_below(d->a.f, a) || is_below(d->b.f, b);
    ckpt_status st = value_equal(&d->equal, e->a->value, e->b->value, &same, err);
    if (st != CKPT_OK) {
        fail_where(err, "%.*s", STR_ARG(e->name));
        return st;
    }
    d->totals->same += same;
    d->totals->changed += !same;
    e->what = CKPT_DIFF_CHANGED;
    return same ? CKPT_OK : emit(d, e, err);
}

/* is_empty - is V a list or mapping without anything in it? */
static bool is_empty(const ckpt_value *v)
{
    struct view view = view_of(v);
    return view.kind != VIEW_LEAF && !view.arguments && view.n == 0;
}

/* is_filled - has S something below NAME? */
static ckpt_status is_filled(struct side *s, const ckpt_diff_options *o, ckpt_str name, bool *out,
                             ckpt_error *err)
{
    if (!s->rows.list)
        CKPT_TRY(diff_rows(s->f, o, &s->root, &s->rows, err));
    *out = diff_any_below(&s->rows, name) || diff_any_below(&s->leaves, name);
    return CKPT_OK;
}

static ckpt_status one(struct value_diff *d, const struct diff_name *a, const struct diff_name *b,
                       ckpt_error *err)
{
    ckpt_diff_value e = {.name = a ? a->name : b->name,
                         .a = a ? &d->a.f->leaves[a->index] : NULL,
                         .b = b ? &d->b.f->leaves[b->index] : NULL};
    bool filled = false;
    if (a && b)
        return in_both(d, a->index, b->index, &e, err);
    if (is_empty(a ? e.a->value : e.b->value))
        CKPT_TRY(is_filled(a ? &d->b : &d->a, d->o, e.name, &filled, err));
    if (filled) /* what the other has in it is reported, or is a tensor */
        return CKPT_OK;
    e.what = a ? CKPT_DIFF_ONLY_A : CKPT_DIFF_ONLY_B;
    d->totals->only_a += a != NULL;
    d->totals->only_b += b != NULL;
    return emit(d, &e, err);
}

static ckpt_status all(struct value_diff *d, ckpt_error *err)
{
    struct diff_join join = {.a = &d->a.leaves, .b = &d->b.leaves};
    const struct diff_name *in_a, *in_b;
    d->totals->in_a = d->a.leaves.n;
    d->totals->in_b = d->b.leaves.n;
    d->totals->compared = d->a.leaves.n && d->b.leaves.n;
    while (d->totals->compared && diff_next(&join, &in_a, &in_b))
        CKPT_TRY(one(d, in_a, in_b, err));
    return CKPT_OK;
}

static ckpt_status side_open(struct side *s, const char *root, const ckpt_diff_options *o, ckpt_error *err)
{
    CKPT_TRY(root_find(s->f, root ? root : o->root, &s->root, err));
    return diff_leaves(s->f, o, &s->root, &s->leaves, err);
}

static void side_close(struct side *s)
{
    free(s->leaves.list);
    free(s->rows.list);
}

ckpt_status ckpt_diff_values(ckpt_file *a, ckpt_file *b, const ckpt_diff_options *opts,
                             int (*event)(void *user, const ckpt_diff_value *), void *user,
                             ckpt_diff_value_totals *totals, ckpt_error *err)
{
    ckpt_diff_options o;
    ckpt_diff_value_totals own = {0};
    struct value_diff d = {
        .a = {.f = a}, .b = {.f = b}, .o = &o, .event = event, .user = user, .totals = &own};
    CKPT_TRY(totals ? sized_clear(totals, err) : CKPT_OK);
    CKPT_TRY(sized_take(opts, &o, sizeof o, err));
    CKPT_REQUIRE(err, a && b && (o.globs || !o.nglobs));
    ckpt_status st = side_open(&d.a, d.o->root_a, d.o, err);
    if (st == CKPT_OK)
        st = side_open(&d.b, d.o->root_b, d.o, err);
    if (st == CKPT_OK)
        st = all(&d, err);
    if (totals)
        sized_give(totals, &own, sizeof own);
    side_close(&d.a);
    side_close(&d.b);
    value_equal_free(&d.equal);
    map_free(d.containers);
    return st;
}
