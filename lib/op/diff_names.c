/* diff_names.c - see diff_names.h. Names that occur twice on one side are joined in the order of the file. */
#include "op/diff_names.h"

#include <stdlib.h>


bool diff_wanted(const ckpt_diff_options *o, ckpt_str name)
{
    return is_wanted(&(struct wanted_names){o->globs, o->nglobs, false}, name);
}

/* shorten - NAME as it is compared; false: it is not wanted. */
static bool shorten(const ckpt_diff_options *o, const struct root *root, ckpt_str *name,
                    const ckpt_path_elem *path, uint32_t npath)
{
    ckpt_str prefix = str_c(o->ignore_prefix ? o->ignore_prefix : "");
    if (!root_holds(root, *name, path, npath))
        return false;
    if (root->name.len)
        *name = str_skip(*name, root->name.len + 1);
    if (name->len > prefix.len && str_starts(*name, prefix))
        *name = str_skip(*name, prefix.len);
    return diff_wanted(o, *name);
}

static int by_name(const void *x, const void *y)
{
    const struct diff_name *a = x, *b = y;
    int c = ckpt_natural_compare(a->name, b->name);
    return c ? c : (a->index > b->index) - (a->index < b->index);
}

static ckpt_status begin(struct diff_names *out, size_t n, ckpt_error *err)
{
    *out = (struct diff_names){0};
    if (n >= UINT32_MAX)
        return fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET, "%zu names", n);
    out->list = calloc(n + 1, sizeof *out->list);
    return out->list ? CKPT_OK : fail_memory(err);
}

static ckpt_status sorted(struct diff_names *names)
{
    qsort(names->list, names->n, sizeof *names->list, by_name);
    return CKPT_OK;
}

ckpt_status diff_rows(const ckpt_file *f, const ckpt_diff_options *o, const struct root *root,
                      struct diff_names *out, ckpt_error *err)
{
    CKPT_TRY(begin(out, f->table.nrows, err));
    for (uint32_t i = 0; i < f->table.nrows; i++) {
        const ckpt_tensor *t = &f->table.rows[i].t;
        ckpt_str name = t->name;
        if (shorten(o, root, &name, t->path, t->npath))
            out->list[out->n++] = (struct diff_name){name, i};
    }
    return sorted(out);
}

ckpt_status diff_leaves(const ckpt_file *f, const ckpt_diff_options *o, const struct root *root,
                        struct diff_names *out, ckpt_error *err)
{
    CKPT_TRY(begin(out, f->nleaves, err));
    for (uint32_t i = 0; i < f->nleaves; i++) {
        const ckpt_leaf *leaf = &f->leaves[i];
        ckpt_str name = leaf->name;
        if (shorten(o, root, &name, leaf->path, leaf->npath))
            out->list[out->n++] = (struct diff_name){name, i};
    }
    return sorted(out);
}

bool diff_any_leaf(const ckpt_file *f, const ckpt_diff_options *o, const struct root *root)
{
    for (size_t i = 0; i < f->nleaves; i++) {
        const ckpt_leaf *leaf = &f->leaves[i];
        ckpt_str name = leaf->name;
        if (shorten(o, root, &name, leaf->path, leaf->npath))
            return true;
    }
    return false;
}

bool diff_any_below(const struct diff_names *n, ckpt_str name)
{
    size_t from = 0, to = n->n;
    if (!name.len) /* the root */
        return n->n && n->list[n->n - 1].name.len;
    while (from < to) { /* the first name after NAME: those below it follow */
        size_t mid = from + (to - from) / 2;
        if (ckpt_natural_compare(n->list[mid].name, name) <= 0)
            from = mid + 1;
        else
            to = mid;
    }
    while (from < n->n && str_starts(n->list[from].name, name) && !root_above(name, n->list[from].name))
        from++; /* "a-b" is between "a" and "a.b" */
    return from < n->n && root_above(name, n->list[from].name);
}

bool diff_next(struct diff_join *join, const struct diff_name **a, const struct diff_name **b)
{
    *a = join->i < join->a->n ? &join->a->list[join->i] : NULL;
    *b = join->j < join->b->n ? &join->b->list[join->j] : NULL;
    int c = *a && *b ? ckpt_natural_compare((*a)->name, (*b)->name) : 0;
    if (c > 0)
        *a = NULL;
    if (c < 0)
        *b = NULL;
    join->i += *a != NULL;
    join->j += *b != NULL;
    return *a || *b;
}
