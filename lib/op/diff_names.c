/* diff_names.c - lists the names of both files of a diff. Repeated names are paired in document order. */
#include "op/diff_names.h"

#include <stdlib.h>

#include "core/view.h"

bool diff_name_matches(const ckpt_diff_options *o, ckpt_str name)
{
    return is_wanted(&(struct wanted_names){o->globs, o->nglobs, false}, name);
}

/* is_key - returns true if element I of PATH is a key of a mapping. */
static bool is_key(const struct diff_path *path, uint32_t i)
{
    const ckpt_value *container = path->containers ? path->containers[i]
                                  : path->steps    ? path->steps[i].node
                                                   : NULL;
    return view_of(container).kind == VIEW_PAIRS;
}

static bool have_same_type(const ckpt_path_elem *a, const ckpt_path_elem *b)
{
    return a->is_int == b->is_int && a->is_other == b->is_other;
}

bool diff_have_same_key_types(const struct diff_path *a, const struct diff_path *b)
{
    for (uint32_t i = a->n, k = b->n; i && k && a->file->has_typed_keys && b->file->has_typed_keys;) {
        i--;
        k--;
        if (!have_same_type(&a->path[i], &b->path[k]) && is_key(a, i) && is_key(b, k))
            return false;
    }
    return true;
}

/* shorten_name - removes the root and the ignored prefix from NAME, which is below ROOT. */
static ckpt_str shorten_name(const ckpt_diff_options *o, const struct root *root, ckpt_str name)
{
    ckpt_str prefix = str_c(o->ignore_prefix ? o->ignore_prefix : "");
    if (root->name.len)
        name = str_skip(name, root->name.len + 1);
    return name.len > prefix.len && str_starts(name, prefix) ? str_skip(name, prefix.len) : name;
}

static bool root_contains_row(const struct root *root, const struct table *t, size_t i)
{
    return root_contains(root, table_name(t, i), table_path_of(t, i), table_npath_of(t, i));
}

/* select_row - sets *NAME to the shortened name of row I. Returns false if it is not selected. A component,
 * whose composite comes before it, is selected with the composite, which would not be compared without it. */
static bool select_row(const struct table *t, uint32_t i, const ckpt_diff_options *o, const struct root *root,
                       const bool *selected, ckpt_str *name)
{
    uint32_t composite = table_part_of(t, i);
    bool with_composite = composite != CKPT_NO_TENSOR && selected[composite];
    if (!with_composite && !root_contains_row(root, t, i))
        return false;
    *name = shorten_name(o, root, table_name(t, i));
    return with_composite || diff_name_matches(o, *name);
}

static ckpt_status sort_names(struct diff_names *names, ckpt_error *err)
{
    return names_sort(names->list, names->n, ckpt_natural_compare) ? CKPT_OK : fail_memory(err);
}

static ckpt_status alloc_names(struct diff_names *out, size_t n, ckpt_error *err)
{
    *out = (struct diff_names){0};
    if (n >= UINT32_MAX)
        return fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET, "%zu names", n);
    out->list = calloc(n + 1, sizeof *out->list);
    return out->list ? CKPT_OK : fail_memory(err);
}

ckpt_status diff_list_rows(const ckpt_file *f, const ckpt_diff_options *o, const struct root *root,
                           struct diff_names *out, ckpt_error *err)
{
    CKPT_TRY(alloc_names(out, f->table.nrows, err));
    bool *selected = calloc(f->table.nrows + 1, sizeof *selected);
    if (!selected)
        return fail_memory(err); /* the caller frees OUT */
    for (uint32_t i = 0; i < f->table.nrows; i++) {
        ckpt_str name;
        selected[i] = select_row(&f->table, i, o, root, selected, &name);
        if (selected[i])
            out->list[out->n++] = (struct indexed_name){name, i};
    }
    free(selected);
    return sort_names(out, err);
}

/* select_leaf - sets *NAME to the shortened name of LEAF. Returns false if it is not selected. */
static bool select_leaf(const ckpt_leaf *leaf, const ckpt_diff_options *o, const struct root *root,
                        ckpt_str *name)
{
    if (root->only_own_tensors || !root_contains(root, leaf->name, leaf->path, leaf->npath))
        return false;
    *name = shorten_name(o, root, leaf->name);
    return diff_name_matches(o, *name);
}

ckpt_status diff_list_leaves(const ckpt_file *f, const ckpt_diff_options *o, const struct root *root,
                             struct diff_names *out, ckpt_error *err)
{
    CKPT_TRY(alloc_names(out, f->nleaves, err));
    for (uint32_t i = 0; i < f->nleaves; i++)
        if (select_leaf(&f->leaves[i], o, root, &out->list[out->n].name))
            out->list[out->n++].index = i;
    return sort_names(out, err);
}

bool diff_has_row(const ckpt_file *f, const ckpt_diff_options *o, const struct root *root)
{
    for (size_t i = 0; i < f->table.nrows; i++)
        if (root_contains_row(root, &f->table, i) &&
            diff_name_matches(o, shorten_name(o, root, table_name(&f->table, i))))
            return true;
    return false;
}

/* is_shortened - returns true if shorten_name() removes the ignored prefix from NAME. */
static bool is_shortened(const ckpt_diff_options *o, const struct root *root, ckpt_str name)
{
    size_t below_root = name.len - (root->name.len ? root->name.len + 1 : 0);
    return shorten_name(o, root, name).len < below_root;
}

bool diff_has_prefix(const ckpt_file *f, const ckpt_diff_options *o, const struct root *root)
{
    for (size_t i = 0; i < f->table.nrows; i++)
        if (root_contains_row(root, &f->table, i) && is_shortened(o, root, table_name(&f->table, i)))
            return true;
    for (size_t i = 0; i < f->nleaves; i++) {
        const ckpt_leaf *leaf = &f->leaves[i];
        if (root_contains(root, leaf->name, leaf->path, leaf->npath) && is_shortened(o, root, leaf->name))
            return true;
    }
    return false;
}

bool diff_has_leaf(const ckpt_file *f, const ckpt_diff_options *o, const struct root *root)
{
    ckpt_str name;
    for (size_t i = 0; i < f->nleaves; i++)
        if (select_leaf(&f->leaves[i], o, root, &name))
            return true;
    return false;
}

bool diff_has_name_below(const struct diff_names *names, ckpt_str name)
{
    size_t from = 0, to = names->n;
    if (!name.len) /* the root; empty names sort first, so the last name is empty only if all are */
        return names->n && names->list[names->n - 1].name.len;
    while (from < to) { /* finds the first name after NAME, where the names below it begin */
        size_t mid = from + (to - from) / 2;
        if (ckpt_natural_compare(names->list[mid].name, name) <= 0)
            from = mid + 1;
        else
            to = mid;
    }
    while (from < names->n && str_starts(names->list[from].name, name) &&
           !is_below_root(name, names->list[from].name))
        from++; /* "a-b" is between "a" and "a.b" */
    return from < names->n && is_below_root(name, names->list[from].name);
}

bool diff_next_pair(struct diff_join *join, const struct indexed_name **a, const struct indexed_name **b)
{
    *a = join->next_a < join->a->n ? &join->a->list[join->next_a] : NULL;
    *b = join->next_b < join->b->n ? &join->b->list[join->next_b] : NULL;
    int order = *a && *b ? ckpt_natural_compare((*a)->name, (*b)->name) : 0;
    if (order > 0)
        *a = NULL;
    if (order < 0)
        *b = NULL;
    join->next_a += *a != NULL;
    join->next_b += *b != NULL;
    return *a || *b;
}
