/* diff_names.c - lists the names of both files of a diff. Repeated names are paired in document order. */
#include "op/diff_names.h"

#include <stdlib.h>

#include "core/view.h"

bool diff_name_matches(const ckpt_diff_options *opts, ckpt_str name)
{
    return is_wanted(&(struct wanted_names){opts->globs, opts->nglobs, false}, name);
}

/* is_key - returns true if element INDEX of PATH is a key of a mapping. */
static bool is_key(const struct diff_path *path, uint32_t index)
{
    const ckpt_value *container = path->containers ? path->containers[index]
                                  : path->steps    ? path->steps[index].node
                                                   : NULL;
    return view_of(container).kind == VIEW_PAIRS;
}

static bool have_same_type(const ckpt_path_elem *left, const ckpt_path_elem *right)
{
    return left->is_int == right->is_int && left->is_other == right->is_other;
}

bool diff_have_same_key_types(const struct diff_path *left, const struct diff_path *right)
{
    if (!left->file->has_typed_keys || !right->file->has_typed_keys)
        return true;
    uint32_t i = left->n, k = right->n; /* from the end, because a path may begin with the root of its file */
    while (COUNT_DOWN(i) && COUNT_DOWN(k))
        if (!have_same_type(&left->path[i], &right->path[k]) && is_key(left, i) && is_key(right, k))
            return false;
    return true;
}

/* shorten_name - removes the root and the ignored prefix from NAME, which is below ROOT. */
static ckpt_str shorten_name(const ckpt_diff_options *opts, const struct root *root, ckpt_str name)
{
    ckpt_str prefix = str_c(opts->ignore_prefix ? opts->ignore_prefix : "");
    if (root->name.len)
        name = str_skip(name, root->name.len + 1);
    return name.len > prefix.len && str_starts(name, prefix) ? str_skip(name, prefix.len) : name;
}

static bool root_contains_row(const struct root *root, const struct table *table, size_t index)
{
    return root_contains(root, table_name(table, index), table_path_of(table, index),
                         table_npath_of(table, index));
}

/* select_row - sets *NAME to the shortened name of row INDEX. Returns false if it is not selected. A
 * component, whose composite comes before it, is selected with the composite, which would not be compared
 * without it. */
static bool select_row(const struct table *table, uint32_t index, const ckpt_diff_options *opts,
                       const struct root *root, const bool *selected, ckpt_str *name)
{
    uint32_t composite = table_part_of(table, index);
    bool with_composite = composite != CKPT_NO_TENSOR && selected[composite];
    if (!with_composite && !root_contains_row(root, table, index))
        return false;
    *name = shorten_name(opts, root, table_name(table, index));
    return with_composite || diff_name_matches(opts, *name);
}

static ckpt_status sort_names(struct diff_names *names, ckpt_error *err)
{
    return names_sort(names->list, names->n, ckpt_natural_compare) ? CKPT_OK : fail_memory(err);
}

static ckpt_status alloc_names(struct diff_names *out, size_t count, ckpt_error *err)
{
    *out = (struct diff_names){0};
    if (count >= UINT32_MAX)
        return fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET, "%zu names", count);
    out->list = calloc(count + 1, sizeof *out->list);
    return out->list ? CKPT_OK : fail_memory(err);
}

ckpt_status diff_list_rows(const ckpt_file *f, const ckpt_diff_options *opts, const struct root *root,
                           struct diff_names *out, ckpt_error *err)
{
    CKPT_TRY(alloc_names(out, f->table.nrows, err));
    bool *selected = calloc(f->table.nrows + 1, sizeof *selected);
    if (!selected)
        return fail_memory(err); /* the caller frees OUT */
    for (uint32_t i = 0; i < f->table.nrows; i++) {
        ckpt_str name;
        selected[i] = select_row(&f->table, i, opts, root, selected, &name);
        if (selected[i])
            out->list[out->n++] = (struct indexed_name){name, i};
    }
    free(selected);
    return sort_names(out, err);
}

/* select_leaf - sets *NAME to the shortened name of LEAF. Returns false if it is not selected. */
static bool select_leaf(const ckpt_leaf *leaf, const ckpt_diff_options *opts, const struct root *root,
                        ckpt_str *name)
{
    if (root->only_own_tensors || !root_contains(root, leaf->name, leaf->path, leaf->npath))
        return false;
    *name = shorten_name(opts, root, leaf->name);
    return diff_name_matches(opts, *name);
}

ckpt_status diff_list_leaves(const ckpt_file *f, const ckpt_diff_options *opts, const struct root *root,
                             struct diff_names *out, ckpt_error *err)
{
    CKPT_TRY(alloc_names(out, f->nleaves, err));
    for (uint32_t i = 0; i < f->nleaves; i++)
        if (select_leaf(&f->leaves[i], opts, root, &out->list[out->n].name))
            out->list[out->n++].index = i;
    return sort_names(out, err);
}

bool diff_has_row(const ckpt_file *f, const ckpt_diff_options *opts, const struct root *root)
{
    for (size_t i = 0; i < f->table.nrows; i++)
        if (root_contains_row(root, &f->table, i) &&
            diff_name_matches(opts, shorten_name(opts, root, table_name(&f->table, i))))
            return true;
    return false;
}

/* is_shortened - returns true if shorten_name() removes the ignored prefix from NAME. */
static bool is_shortened(const ckpt_diff_options *opts, const struct root *root, ckpt_str name)
{
    size_t below_root = name.len - (root->name.len ? root->name.len + 1 : 0);
    return shorten_name(opts, root, name).len < below_root;
}

bool diff_has_prefix(const ckpt_file *f, const ckpt_diff_options *opts, const struct root *root)
{
    for (size_t i = 0; i < f->table.nrows; i++)
        if (root_contains_row(root, &f->table, i) && is_shortened(opts, root, table_name(&f->table, i)))
            return true;
    for (size_t i = 0; i < f->nleaves; i++) {
        const ckpt_leaf *leaf = &f->leaves[i];
        if (root_contains(root, leaf->name, leaf->path, leaf->npath) && is_shortened(opts, root, leaf->name))
            return true;
    }
    return false;
}

bool diff_has_leaf(const ckpt_file *f, const ckpt_diff_options *opts, const struct root *root)
{
    ckpt_str name;
    for (size_t i = 0; i < f->nleaves; i++)
        if (select_leaf(&f->leaves[i], opts, root, &name))
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

bool diff_next_pair(struct diff_join *join, const struct indexed_name **left,
                    const struct indexed_name **right)
{
    *left = join->next_a < join->a->n ? &join->a->list[join->next_a] : NULL;
    *right = join->next_b < join->b->n ? &join->b->list[join->next_b] : NULL;
    int order = *left && *right ? ckpt_natural_compare((*left)->name, (*right)->name) : 0;
    if (order > 0)
        *left = NULL;
    if (order < 0)
        *right = NULL;
    join->next_a += *left != NULL;
    join->next_b += *right != NULL;
    return *left || *right;
}
