/* root.c - `--root`: finds the part of a file below a name, and reduces an open file to it. */
#include "op/root.h"

#include "op/weights.h"

bool is_below_root(ckpt_str root, ckpt_str name)
{
    return name.len > root.len + 1 && str_starts(name, root) && name.ptr[root.len] == '.';
}

bool is_wanted(const struct wanted_names *names, ckpt_str name)
{
    bool (*matches)(ckpt_str, ckpt_str) = names->ignore_case ? ckpt_glob_match_any_case : ckpt_glob_match;
    bool any_positive = false, matched = false;
    for (size_t i = 0; i < names->nglobs; i++) {
        bool excludes = names->globs[i][0] == '!', match = matches(str_c(names->globs[i] + excludes), name);
        if (excludes && match)
            return false;
        matched |= match && !excludes;
        any_positive |= !excludes;
    }
    return matched || !any_positive;
}

bool glob_selects(const char *glob, ckpt_str name)
{
    bool hit = ckpt_glob_match(str_c(glob), name);
    for (size_t i = 0; !hit && i < name.len; i++)
        hit = name.ptr[i] == '.' && ckpt_glob_match(str_c(glob), str_of(name.ptr, i));
    return hit;
}

bool root_contains(const struct root *root, ckpt_str name, const ckpt_path_elem *path, uint32_t npath)
{
    if (root->only_own_tensors && npath > root->depth + 1) /* depth is less than the length of a path */
        return false;
    return !root->name.len ||
           (is_below_root(root->name, name) && path_begins(path, npath, root->path, root->depth));
}

/* count_containers - returns how many elements of PATH fit into ROOT; *LEN: their joined length. */
static uint32_t count_containers(ckpt_str root, const ckpt_path_elem *path, uint32_t npath, size_t *len)
{
    uint32_t depth = 0;
    *len = 0;
    while (path && depth + 1 < npath && *len < root.len) {
        size_t next = *len + (depth != 0) + path_elem_len(&path[depth]);
        if (next > root.len)
            break;
        *len = next;
        depth++;
    }
    return depth;
}

/* consider_split - if NAME is below WANTED, splits WANTED where PATH splits NAME. If this split is better
 * than *OUT, sets *OUT to it and returns true. */
static bool consider_split(struct root *out, ckpt_str wanted, ckpt_str name, const ckpt_path_elem *path,
                           uint32_t npath)
{
    size_t len;
    if (!is_below_root(wanted, name))
        return false;
    uint32_t depth = count_containers(wanted, path, npath, &len);
    bool is_better = len > out->containers_len || (len == out->containers_len && depth < out->depth);
    if (out->name.len && !is_better)
        return false;
    *out = (struct root){.name = wanted, .containers_len = len, .path = path, .depth = depth};
    return true;
}

/* split_root - sets *OUT to the best split of WANTED into containers; no change if nothing is below it. */
static void split_root(const ckpt_file *f, ckpt_str wanted, struct root *out)
{
    for (size_t i = 0; i < f->table.nrows; i++) {
        const struct row r = table_row(&f->table, i);
        if (consider_split(out, wanted, r.t.name, r.t.path, r.t.npath))
            out->node = r.steps ? r.steps[out->depth].node : NULL;
    }
    for (size_t i = 0; i < f->nleaves; i++) {
        const ckpt_leaf *leaf = &f->leaves[i];
        if (consider_split(out, wanted, leaf->name, leaf->path, leaf->npath))
            out->node = leaf->containers ? leaf->containers[out->depth] : NULL;
    }
}

/* find_weights_root - if there are weights, sets *WANTED to their name, and *ONLY_OWN_TENSORS. */
static ckpt_status find_weights_root(ckpt_file *f, ckpt_str *wanted, bool *only_own_tensors, ckpt_error *err)
{
    struct containers tree;
    struct weights found;
    ckpt_status st = containers_find(&tree, f, f->root, f->a, err);
    CKPT_THEN(st, weights_find(&tree, &found, err));
    if (st == CKPT_OK && found.container != NO_CONTAINER) {
        *only_own_tensors = found.only_own_tensors;
        *wanted = container_name(&tree, found.container);
        st = wanted->ptr ? CKPT_OK : fail_memory(err);
    }
    containers_free(&tree);
    return name_file_if_failed(st, f->path, err);
}

ckpt_status root_find(ckpt_file *f, const char *root, struct root *out, ckpt_error *err)
{
    ckpt_str wanted = str_c(root ? root : "");
    bool only_own_tensors = false;
    *out = (struct root){.name = str_c("")};
    if (root && strcmp(root, "auto") == 0) {
        wanted = str_c("");
        CKPT_TRY(find_weights_root(f, &wanted, &only_own_tensors, err));
    }
    if (wanted.len)
        split_root(f, wanted, out);
    out->only_own_tensors = only_own_tensors;
    return CKPT_OK;
}

struct narrowing {
    ckpt_file *f;
    struct root root;
    struct wanted_names names;
};

/* remove_path_prefix - removes the first CUT bytes of the joined path from *PATH; false: out of memory. */
static bool remove_path_prefix(arena *a, const ckpt_path_elem **path, uint32_t *count, size_t cut)
{
    for (; *path && *count; ++*path, --*count) {
        size_t len = path_elem_len(*path);
        if (cut <= len)
            break;
        cut -= len + 1; /* the element and its dot */
    }
    if (!cut || !*path || !*count)
        return true;
    ckpt_path_elem *copy = arena_array(a, *count, sizeof *copy);
    if (!copy)
        return false;
    memcpy(copy, *path, *count * sizeof *copy);
    copy->str = str_skip(copy->str, cut);
    *path = copy;
    return true;
}

/* shorten_to_root - makes *NAME and *PATH relative to the root. Sets *SELECTED to whether they are below the
 * root and match the globs. False: out of memory. */
static bool shorten_to_root(const struct narrowing *job, ckpt_str *name, const ckpt_path_elem **path,
                            uint32_t *count, bool *selected)
{
    size_t cut = job->root.name.len;
    *selected = root_contains(&job->root, *name, *path, *count);
    if (!*selected)
        return true;
    if (cut) {
        *name = str_skip(*name, cut + 1);
        if (!remove_path_prefix(job->f->a, path, count, cut + 1))
            return false;
    }
    *selected = is_wanted(&job->names, *name);
    return true;
}

/* renumber_node - sets the row of NODE to NEW_ROW if it is OLD_ROW, or if its earlier rows were left out. */
static void renumber_node(const ckpt_value *node, size_t old_row, uint32_t new_row)
{
    ckpt_value *v = (ckpt_value *)(uintptr_t)node;
    if (v && (value_row(v) == old_row || value_row(v) == CKPT_NO_TENSOR))
        value_set_row(v, new_row);
}

static bool narrow_rows(const struct narrowing *job)
{
    struct table *t = &job->f->table;
    uint32_t nties = 0;
    uint32_t *new_row = arena_array(job->f->a, t->nrows, sizeof *new_row); /* by old row */
    size_t nkept = 0;
    if (!new_row)
        return false;
    for (size_t i = 0; i < t->nrows; i++) {
        struct row r = table_row(t, i);
        bool selected;
        uint32_t composite = r.t.part_of, npath = r.t.npath, alias_of = r.t.alias_of;
        if (!shorten_to_root(job, &r.t.name, &r.t.path, &npath, &selected))
            return false;
        new_row[i] = CKPT_NO_TENSOR;
        selected |= composite != CKPT_NO_TENSOR && new_row[composite] != CKPT_NO_TENSOR;
        renumber_node(r.t.value, i, selected ? (uint32_t)nkept : CKPT_NO_TENSOR);
        if (!selected)
            continue;
        nties += file_row_is_tie(job->f, (uint32_t)i); /* recorded ties are the last rows, and stay so */
        r.t.npath = npath;
        r.steps = NULL;
        r.t.part_of = composite == CKPT_NO_TENSOR ? composite : new_row[composite];
        r.t.alias_of = alias_of == CKPT_NO_TENSOR ? alias_of : new_row[alias_of];
        if (alias_of != CKPT_NO_TENSOR && new_row[alias_of] == CKPT_NO_TENSOR)
            new_row[alias_of] = (uint32_t)nkept; /* the first alias that is kept replaces it */
        new_row[i] = (uint32_t)nkept;
        if (!table_replace_row(t, nkept++, &r))
            return false;
    }
    t->nrows = nkept;
    job->f->nties = nties;
    job->f->first_tie = (uint32_t)nkept - nties;
    return true;
}

static bool narrow_leaves(const struct narrowing *job)
{
    size_t nkept = 0;
    for (size_t i = 0; i < job->f->nleaves; i++) {
        ckpt_leaf leaf = job->f->leaves[i];
        bool selected;
        if (!shorten_to_root(job, &leaf.name, &leaf.path, &leaf.npath, &selected))
            return false;
        if (leaf.containers) /* shorten_to_root() only removes elements */
            leaf.containers += job->f->leaves[i].npath - leaf.npath;
        if (selected && !job->root.only_own_tensors)
            job->f->leaves[nkept++] = leaf;
    }
    job->f->nleaves = nkept;
    return true;
}

ckpt_status ckpt_file_narrow(ckpt_file *file, const char *root, const char *const *globs, size_t nglobs,
                             ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    CKPT_REQUIRE(err, file && has_no_null(globs, nglobs));
    struct narrowing job = {.f = file, .names = {globs, nglobs, file->ignore_case}};
    uint32_t npairs;
    (void)value_pairs(file->root, &npairs); /* the pairs are made of all rows */
    CKPT_TRY(root_find(file, root, &job.root, err));
    bool automatic = root && strcmp(root, "auto") == 0;
    if (root && *root && !automatic && !job.root.name.len) {
        ckpt_status st = fail(err, CKPT_ENOTFOUND, CKPT_NO_OFFSET,
                              "nothing is below \"%s\"\n`ckpt info` shows what there is", root);
        return name_file_if_failed(st, file->path, err);
    }
    if (automatic && job.root.name.len)
        notices_add(&file->notices, "using the weights under \"%.*s\"", STR_ARG(job.root.name));
    map_free(file->names);
    file->names = NULL;
    file->narrowed = true;
    return narrow_rows(&job) && narrow_leaves(&job) ? CKPT_OK : fail_memory(err);
}
