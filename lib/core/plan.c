/* plan.c - a plan records edits of a value graph without changing it, so several plans may share a file. */
#include "core/plan.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/text.h"
#include "base/utf8.h"
#include "core/convert.h"

ckpt_status ckpt_plan_new(ckpt_file *file, ckpt_plan **out, ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    CKPT_REQUIRE(err, out);
    *out = NULL;
    CKPT_REQUIRE(err, file);
    if (file->narrowed)
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "a file opened for a few tensors cannot be written");
    ckpt_plan *p = calloc(1, sizeof *p);
    CKPT_TRY_ALLOC(p, err);
    p->file = file;
    file_hold(file);
    p->report.notices.a = p->a = arena_new(UINT64_MAX);
    p->edits.index_of = map_new(0);
    p->keep = p->a ? arena_array(p->a, file->table.nrows, sizeof *p->keep) : NULL;
    if (!p->a || !p->edits.index_of || !p->keep) {
        ckpt_plan_free(p);
        return fail_memory(err);
    }
    p->cap_rows = file->table.nrows;
    p->root = file->root ? file_replacement_of(file, file->root) : NULL;
    for (size_t i = 0; i < file->table.nrows; i++)
        p->keep[i] = !file->losses.of_row || !file->losses.of_row[i];
    p->entries_stale = true;
    *out = p;
    return CKPT_OK;
}

void ckpt_plan_free(ckpt_plan *plan)
{
    if (!plan)
        return;
    map_free(plan->edits.index_of);
    map_free(plan->view_of);
    map_free(plan->renames.index_of);
    arena_free(plan->a);
    file_release(plan->file);
    free(plan);
}

/* grow_array - gives *ARRAY, which has USED elements of SIZE bytes or is NULL, room for CAP. */
static bool grow_array(const ckpt_plan *p, void *array, size_t used, size_t cap, size_t size)
{
    void *old, *larger;
    memcpy(&old, array, sizeof old);
    if (!old)
        return true;
    larger = arena_array(p->a, cap, size);
    if (larger && used)
        memcpy(larger, old, used * size);
    memcpy(array, &larger, sizeof larger);
    return larger != NULL;
}

/* forget_rows - drops what is made again from the rows when it is needed. */
static void forget_rows(ckpt_plan *p)
{
    p->entries = NULL;
    p->entries_stale = true;
    p->entry_rows = NULL;
    p->nentry_rows = 0;
    p->quantized = NULL;
}

ckpt_status plan_grow(ckpt_plan *p, ckpt_error *err)
{
    size_t used = p->cap_rows, nrows = p->file->table.nrows;
    size_t cap = nrows + nrows / 2;
    forget_rows(p);
    if (nrows > used) {
        bool ok = grow_array(p, &p->keep, used, cap, sizeof *p->keep) &&
                  grow_array(p, &p->casts.to, used, cap, sizeof *p->casts.to) &&
                  grow_array(p, &p->casts.is_weights, used, cap, sizeof *p->casts.is_weights) &&
                  grow_array(p, &p->renames.mapping_of, used, cap, sizeof *p->renames.mapping_of) &&
                  grow_array(p, &p->renames.old_names, used, cap, sizeof *p->renames.old_names);
        CKPT_TRY_ALLOC(ok, err);
        p->cap_rows = cap;
    }
    return CKPT_OK;
}

#define FEW_EDITS 4u /* comparing so many nodes costs less than hashing one */

const struct edit *plan_find_edit(const ckpt_plan *p, const ckpt_value *node)
{
    if (!p->edits.n || !node)
        return NULL;
    if (p->edits.n > FEW_EDITS) {
        uint32_t i = map_get_num(p->edits.index_of, ptr_key(node));
        return i == MAP_NONE ? NULL : &p->edits.items[i];
    }
    for (size_t i = 0; i < p->edits.n; i++)
        if (p->edits.items[i].node == node)
            return &p->edits.items[i];
    return NULL;
}

/* grow_edit - makes room in EDIT for COUNT entries, if its node got more. False: no memory. */
static bool grow_edit(ckpt_plan *p, struct edit *edit, uint32_t count)
{
    if (count > edit->cap) {
        uint32_t cap = count < UINT32_MAX / 2 ? count + count / 2 : count;
        if (!grow_array(p, &edit->names, edit->n, cap, sizeof *edit->names) ||
            !grow_array(p, &edit->dropped, edit->n, cap, sizeof *edit->dropped))
            return false;
        edit->cap = cap;
    }
    edit->n = count > edit->n ? count : edit->n;
    return true;
}

struct edit *plan_find_or_add_edit(ckpt_plan *p, const ckpt_value *node, uint32_t count)
{
    const struct edit *found = plan_find_edit(p, node);
    p->entries_stale = true;
    if (found) {
        struct edit *e = &p->edits.items[found - p->edits.items];
        return grow_edit(p, e, count) ? e : NULL;
    }
    const struct edit e = {.node = node,
                           .names = arena_array(p->a, count, sizeof *e.names),
                           .dropped = arena_array(p->a, count, sizeof *e.dropped),
                           .n = count,
                           .cap = count};
    bool ok = e.names && e.dropped && map_set_num(p->edits.index_of, ptr_key(node), (uint32_t)p->edits.n) &&
              arena_push(p->a, &p->edits.items, &p->edits.n, &p->edits.cap, &e, sizeof e);
    return ok ? &p->edits.items[p->edits.n - 1] : NULL;
}

bool plan_edit_entry(void *plan, const ckpt_value *value, uint32_t index, ckpt_str *text)
{
    const struct edit *e = plan_find_edit(plan, value);
    if (!e || index >= e->n)
        return true;
    *text = e->names[index];
    return !e->dropped[index];
}

/* ---- rows by the entries that lead to them */

static int compare_entry_rows(const void *left, const void *right)
{
    const struct entry_row *a = left, *b = right;
    if (a->node != b->node)
        return a->node < b->node ? -1 : 1;
    if (a->index != b->index)
        return a->index < b->index ? -1 : 1;
    return (a->row > b->row) - (a->row < b->row);
}

ckpt_status plan_index_entry_rows(ckpt_plan *p, ckpt_error *err)
{
    const struct table *t = &p->file->table;
    if (p->entry_rows)
        return CKPT_OK;
    struct entry_row *list = arena_array(p->a, t->nrows, sizeof *list);
    CKPT_TRY_ALLOC(list, err);
    for (uint32_t i = 0; i < t->nrows; i++) {
        uint32_t n = table_npath_of(t, i);
        const struct step *steps = table_steps_of(t, i), *last = steps && n ? &steps[n - 1] : NULL;
        if (last && last->node && table_part_of(t, i) == CKPT_NO_TENSOR)
            list[p->nentry_rows++] = (struct entry_row){ptr_key(last->node), last->index, i};
    }
    qsort(list, p->nentry_rows, sizeof *list, compare_entry_rows);
    p->entry_rows = list;
    return CKPT_OK;
}

/* first_entry_row - returns the index of the first row of entry INDEX of NODE; nentry_rows: it has none. */
static size_t first_entry_row(const ckpt_plan *p, const ckpt_value *node, uint32_t index)
{
    const struct entry_row wanted = {.node = ptr_key(node), .index = index};
    size_t from = 0, to = p->nentry_rows;
    while (from < to) {
        size_t mid = from + (to - from) / 2;
        if (compare_entry_rows(&p->entry_rows[mid], &wanted) < 0)
            from = mid + 1;
        else
            to = mid;
    }
    return from;
}

static bool is_row_of_entry(const ckpt_plan *p, size_t number, const ckpt_value *node, uint32_t index)
{
    return number < p->nentry_rows && p->entry_rows[number].node == ptr_key(node) &&
           p->entry_rows[number].index == index;
}

bool plan_leaves_rows_out(const ckpt_plan *p)
{
    for (size_t i = 0; i < p->file->table.nrows; i++)
        if (!p->keep[i])
            return true;
    return false;
}

bool plan_shares_entry(const ckpt_plan *p, const ckpt_value *node, uint32_t index)
{
    return is_row_of_entry(p, first_entry_row(p, node, index) + 1, node, index);
}

bool plan_keeps_entry(const ckpt_plan *p, const ckpt_value *node, uint32_t index)
{
    size_t first = first_entry_row(p, node, index), i = first;
    while (is_row_of_entry(p, i, node, index) && !p->keep[p->entry_rows[i].row])
        i++;
    return i == first || is_row_of_entry(p, i, node, index);
}

uint32_t plan_find_entry_row(const ckpt_plan *p, const ckpt_value *node, uint32_t index,
                             const ckpt_path_elem *path, uint32_t count)
{
    for (size_t i = first_entry_row(p, node, index); is_row_of_entry(p, i, node, index); i++) {
        const struct table *t = &p->file->table;
        uint32_t row = p->entry_rows[i].row, npath = table_npath_of(t, row);
        if (npath == count + 1 && path_begins(table_path_of(t, row), npath, path, count))
            return row;
    }
    return CKPT_NO_TENSOR;
}

bool plan_is_below_root(const ckpt_plan *p, const ckpt_path_elem *path, uint32_t count)
{
    return !p->root_depth || (count > p->root_depth && path_begins(path, count, p->root_path, p->root_depth));
}

bool plan_includes_leaf(const ckpt_plan *p, const ckpt_leaf *leaf)
{
    return !p->omits_values && leaf->npath > p->root_depth && plan_is_below_root(p, leaf->path, leaf->npath);
}

bool plan_edit_path(const ckpt_plan *p, size_t row, ckpt_path_elem *out, bool *changed)
{
    const struct table *t = &p->file->table;
    const ckpt_path_elem *path = table_path_of(t, row);
    const struct step *steps = table_steps_of(t, row);
    *changed = p->root_depth != 0;
    for (uint32_t k = p->root_depth; k < table_npath_of(t, row); k++) {
        const struct edit *e = steps ? plan_find_edit(p, steps[k].node) : NULL;
        uint32_t i = e ? steps[k].index : 0;
        bool has_edit = e && i < e->n;
        if (has_edit && e->dropped[i])
            return false;
        bool renamed = has_edit && e->names[i].ptr;
        *changed |= renamed;
        if (out)
            out[k - p->root_depth] = renamed ? (ckpt_path_elem){.str = e->names[i]} : path[k];
    }
    return true;
}

/* is_row_written - returns true if tensor INDEX is written; PATH and CHANGED as in plan_edit_path. */
static bool is_row_written(const ckpt_plan *p, size_t index, ckpt_path_elem *path, bool *changed)
{
    const struct table *t = &p->file->table;
    return p->keep[index] && plan_is_below_root(p, table_path_of(t, index), table_npath_of(t, index)) &&
           plan_edit_path(p, index, path, changed);
}

static ckpt_status add_entry(ckpt_plan *p, uint32_t index, ckpt_path_elem *path, ckpt_error *err)
{
    const struct table *t = &p->file->table;
    bool changed;
    if (!is_row_written(p, index, path, &changed))
        return CKPT_OK;
    uint32_t n = table_npath_of(t, index) - p->root_depth;
    ckpt_str name = table_name(t, index);
    if (changed)
        name = n == 1 && !path->is_int ? path->str : path_join(p->a, path, n);
    CKPT_TRY_ALLOC(name.ptr, err);
    p->entries[p->nentries++] = (struct plan_entry){.row = index, .name = name};
    return CKPT_OK;
}

/* alloc_longest_path - allocates room for the longest path of the file; NULL: no memory. */
static ckpt_path_elem *alloc_longest_path(const ckpt_plan *p)
{
    size_t deepest = 1;
    for (size_t i = 0; i < p->file->table.nrows; i++)
        if (table_npath_of(&p->file->table, i) > deepest)
            deepest = table_npath_of(&p->file->table, i);
    return calloc(deepest, sizeof(ckpt_path_elem));
}

ckpt_status plan_fail_no_tensors(const ckpt_plan *p, ckpt_error *err)
{
    const ckpt_file *f = p->file;
    return fail(err, CKPT_ENOTFOUND, CKPT_NO_OFFSET, "no tensor is left to write\n%s",
                f->salvage && f->losses.n == f->table.nrows
                    ? "nothing of it is intact: get the file again"
                    : "`ckpt ls` lists what the input holds; see --root, --keep and --drop");
}

size_t plan_count_entries(const ckpt_plan *p)
{
    bool changed;
    size_t n = 0;
    if (!p->entries_stale)
        return p->nentries;
    for (size_t i = 0; i < p->file->table.nrows; i++)
        n += is_row_written(p, i, NULL, &changed);
    return n;
}

ckpt_status plan_update_entries(ckpt_plan *p, ckpt_error *err)
{
    if (!p->entries_stale)
        return CKPT_OK;
    size_t nrows = p->file->table.nrows;
    if (!p->entries)
        p->entries = arena_array(p->a, nrows, sizeof *p->entries);
    ckpt_path_elem *path = alloc_longest_path(p);
    ckpt_status st = p->entries && path ? CKPT_OK : fail_memory(err);
    p->nentries = 0;
    for (size_t i = 0; st == CKPT_OK && i < nrows; i++)
        st = add_entry(p, (uint32_t)i, path, err);
    free(path);
    p->entries_stale = st != CKPT_OK;
    return st;
}

ckpt_status plan_narrow(ckpt_plan *p, const struct plan_entry *entries, size_t count, ckpt_error *err)
{
    if (p->entries == p->renames.counted) { /* these stay, for make_renames */
        struct plan_entry *own = arena_array(p->a, p->nentries, sizeof *own);
        CKPT_TRY_ALLOC(own, err);
        memcpy(own, p->entries, p->nentries * sizeof *own);
        p->entries = own;
    }
    for (size_t i = 0; i < p->nentries; i++)
        p->keep[p->entries[i].row] = false;
    for (size_t i = 0; i < count; i++) {
        p->entries[i] = entries[i];
        p->keep[entries[i].row] = true;
    }
    p->nentries = count;
    p->entries_stale = false;
    return CKPT_OK;
}

void plan_note_shared(ckpt_plan *p, size_t count)
{
    if (count)
        plan_notice(p, "%zu tensor%s that %s to be left out stay%s: one mapping has several names", count,
                    count == 1 ? "" : "s", count == 1 ? "was" : "were", count == 1 ? "s" : "");
}

/* index_entries_by_row - allocates an array by tensor: the index of its entry; UINT32_MAX: not written. */
static uint32_t *index_entries_by_row(ckpt_plan *p)
{
    size_t rows = p->file->table.nrows;
    uint32_t *entry_of = calloc(rows + 1, sizeof *entry_of);
    for (size_t i = 0; entry_of && i < rows; i++)
        entry_of[i] = UINT32_MAX;
    for (size_t i = 0; entry_of && i < p->nentries; i++)
        entry_of[p->entries[i].row] = (uint32_t)i;
    return entry_of;
}

/* update_tie - if PAIR records a tie, updates the names of both tensors; false: one of them is left out. */
static bool update_tie(ckpt_plan *p, const uint32_t *entry_of, struct plan_pair *pair)
{
    uint32_t row = p->file->nties ? file_find_tensor(p->file, pair->key) : CKPT_NO_TENSOR;
    pair->tie = row != CKPT_NO_TENSOR && file_row_is_tie(p->file, row);
    if (!pair->tie)
        return true;
    if (table_alias_of(&p->file->table, row) == CKPT_NO_TENSOR) /* edited: it is a tensor of its own */
        return false;
    uint32_t alias = entry_of[row], original = entry_of[table_alias_of(&p->file->table, row)];
    if (alias == UINT32_MAX || original == UINT32_MAX)
        return false;
    pair->key = p->entries[alias].name;
    pair->text = p->entries[original].name;
    return true;
}

static void note_left_out(ckpt_plan *p, const ckpt_value *key, const char *why)
{
    ckpt_str text;
    if (value_text(key, &text))
        plan_notice(p, "left out \"%.*s\" of the metadata: it %s", STR_ARG(text), why);
}

ckpt_status plan_metadata(ckpt_plan *p, struct plan_pair **out, size_t *number, ckpt_error *err)
{
    uint32_t count = 0;
    const value_pair *pairs = p->file->metadata ? value_pairs(p->file->metadata, &count) : NULL;
    *number = 0;
    CKPT_TRY(plan_update_entries(p, err));
    uint32_t *entry_of = p->file->nties ? index_entries_by_row(p) : NULL;
    struct plan_pair *kept = arena_array(p->a, count, sizeof *kept);
    bool ok = kept && (!p->file->nties || (entry_of && file_index_names(p->file)));
    for (uint32_t i = 0; ok && i < count; i++) {
        struct plan_pair pair = {.value = pairs[i].val};
        if (pairs[i].val->flags & VALUE_ABBREVIATED) {
            note_left_out(p, pairs[i].key, "is too long to be a text");
            continue;
        }
        bool are_texts = value_text(pairs[i].key, &pair.key) && value_text(pairs[i].val, &pair.text);
        if (are_texts && !(utf8_check(pair.key, false, NULL) && utf8_check(pair.text, false, NULL)))
            note_left_out(p, pairs[i].key, "is not UTF-8");
        else if (are_texts && update_tie(p, entry_of, &pair))
            kept[(*number)++] = pair;
    }
    free(entry_of);
    *out = kept;
    return ok ? CKPT_OK : fail_memory(err);
}

uint64_t ckpt_plan_tensor_count(const ckpt_plan *plan) { return plan ? plan_count_entries(plan) : 0; }

void plan_notice(ckpt_plan *p, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    notices_add_v(&p->report.notices, fmt, ap);
    va_end(ap);
}

ckpt_status plan_no_match(ckpt_plan *p, ckpt_error *err, const char *fmt, ...)
{
    ckpt_error found;
    va_list ap;
    va_start(ap, fmt);
    ckpt_status st = fail_v(&found, CKPT_ENOTFOUND, CKPT_NO_OFFSET, fmt, ap);
    va_end(ap);
    if (p->allow_none) {
        plan_notice(p, "%s", found.what);
        return CKPT_OK;
    }
    if (err)
        *err = found;
    return name_file_if_failed(st, p->file->path, err);
}

void ckpt_plan_allow_none(ckpt_plan *plan, bool allow)
{
    if (plan)
        plan->allow_none = allow;
}

struct stream_options plan_stream_options(ckpt_plan *p)
{
    return (struct stream_options){
        .ignore_crc = p->file->ignore_crc, .notice = notices_add, .user = &p->report.notices};
}

struct sink_options plan_sink_options(ckpt_plan *p, const ckpt_write_options *options)
{
    return (struct sink_options){.force = options->force,
                                 .no_sync = options->no_sync,
                                 .notice = notices_add,
                                 .user = &p->report.notices};
}

ckpt_status plan_open_sink(ckpt_plan *p, const struct write_job *job, sink **out, ckpt_error *err)
{
    struct sink_options sink_opts = plan_sink_options(p, job->opts);
    sink_opts.batch = job->batch;
    if (job->path)
        return sink_file(job->path, &sink_opts, out, err);
    return job->memory ? sink_mem(PTRDIFF_MAX, job->memory, out, err)
                       : sink_fd(job->fd, &sink_opts, out, err);
}

bool plan_root_is_module(const ckpt_plan *p)
{
    const ckpt_file *f = p->file;
    return f->root && !p->root_depth && p->root != f->root && !(f->root->flags & VALUE_WRAPS) &&
           p->root == file_replacement_of(f, f->root);
}

void plan_note_module(ckpt_plan *p)
{
    plan_notice(p, "a module is written as its state dict; its class and code are not");
}

const char *ckpt_plan_notice_at(const ckpt_plan *plan, size_t index)
{
    return plan ? notices_at(&plan->report.notices, index) : NULL;
}
size_t ckpt_plan_rename_count(const ckpt_plan *plan) { return plan ? plan->renames.n : 0; }

const ckpt_dropped *ckpt_plan_dropped_at(const ckpt_plan *plan, size_t index)
{
    return plan && index < plan->report.ndropped ? &plan->report.dropped[index] : NULL;
}

const ckpt_alias *ckpt_plan_alias_at(const ckpt_plan *plan, size_t index)
{
    return plan && index < plan->report.naliases ? &plan->report.aliases[index] : NULL;
}

const ckpt_cast *ckpt_plan_cast_at(const ckpt_plan *plan, size_t index)
{
    return plan && index < plan->report.ncasts ? &plan->report.casts[index] : NULL;
}

size_t ckpt_plan_mapping_count(const ckpt_plan *plan) { return plan ? plan->renames.nmappings : 0; }
const char *ckpt_plan_prefix(const ckpt_plan *plan) { return plan ? plan->prefix.ptr : NULL; }

const ckpt_mapping *ckpt_plan_mapping_at(const ckpt_plan *plan, size_t index)
{
    return plan && index < plan->renames.nmappings ? &plan->renames.mappings[index] : NULL;
}

ckpt_status plan_begin_renaming(ckpt_plan *p, ckpt_error *err)
{
    map_free(p->renames.index_of);
    p->renames.index_of = map_new(p->renames.nnoted);
    bool ok = p->renames.index_of != NULL;
    for (size_t i = 0; ok && i < p->renames.nnoted; i++)
        ok = map_put(p->renames.index_of, p->renames.noted[i].to, (uint32_t)i, NULL);
    return ok ? CKPT_OK : fail_memory(err);
}

/* find_previous_rename - returns the rename, noted before, whose result NEXT renames again, or NULL. */
static ckpt_rename *find_previous_rename(const ckpt_plan *p, const ckpt_rename *next)
{
    uint32_t i = map_get(p->renames.index_of, next->from);
    ckpt_rename *previous = i == MAP_NONE ? NULL : &p->renames.noted[i];
    bool same_mapping = previous && previous->mapping == next->mapping &&
                        previous->metadata == next->metadata;
    return same_mapping ? previous : NULL;
}

ckpt_status plan_note_renamed(ckpt_plan *p, const ckpt_rename *rename, ckpt_error *err)
{
    ckpt_rename *previous = find_previous_rename(p, rename);
    if (previous) {
        previous->to = rename->to;
        return CKPT_OK;
    }
    struct plan_renames *all = &p->renames;
    return ARENA_PUSH(p->a, all, noted, rename) ? CKPT_OK : fail_memory(err);
}

ckpt_status plan_keep_old_names(ckpt_plan *p, ckpt_error *err)
{
    if (!p->root_depth) /* then those in the table are the old names */
        return CKPT_OK;
    CKPT_TRY(plan_update_entries(p, err));
    p->renames.old_names = arena_array(p->a, p->cap_rows, sizeof *p->renames.old_names);
    CKPT_TRY_ALLOC(p->renames.old_names, err);
    for (size_t i = 0; i < p->nentries; i++)
        p->renames.old_names[p->entries[i].row] = p->entries[i].name;
    return CKPT_OK;
}

static ckpt_str get_old_name(const ckpt_plan *p, uint32_t row)
{
    return p->renames.old_names ? p->renames.old_names[row] : table_name(&p->file->table, row);
}

/* count_in_mapping - counts ENTRY in its mapping, unless it is a component of a tensor. */
static void count_in_mapping(ckpt_plan *p, const struct plan_entry *entry, bool renamed)
{
    uint32_t m = p->renames.mapping_of[entry->row];
    if (m == UINT32_MAX || table_part_of(&p->file->table, entry->row) != CKPT_NO_TENSOR)
        return;
    p->renames.mappings[m].tensors++;
    p->renames.mappings[m].renamed += renamed;
}

static void count_rows(ckpt_plan *p)
{
    for (size_t i = 0; i < p->nentries; i++) {
        const struct plan_entry *e = &p->entries[i];
        bool renamed = !str_eq(get_old_name(p, e->row), e->name);
        count_in_mapping(p, e, renamed);
        p->renames.n += renamed;
    }
}

/* make_renames - makes the list of the renames that plan_count_renames counted; false: no memory. */
static bool make_renames(ckpt_plan *p)
{
    ckpt_rename *renames = arena_array(p->a, p->renames.n, sizeof *renames);
    size_t n = 0;
    if (!renames)
        return false;
    for (size_t i = 0; i < p->renames.ncounted && n < p->renames.n; i++) {
        const struct plan_entry *e = &p->renames.counted[i];
        uint32_t composite = table_part_of(&p->file->table, e->row);
        ckpt_str old = get_old_name(p, e->row);
        if (!str_eq(old, e->name))
            renames[n++] = (ckpt_rename){.from = old,
                                         .to = e->name,
                                         .component = composite != CKPT_NO_TENSOR,
                                         .mapping = p->renames.mapping_of[e->row]};
    }
    for (size_t i = 0; i < p->renames.nnoted && n < p->renames.n; i++)
        if (!str_eq(p->renames.noted[i].from, p->renames.noted[i].to))
            renames[n++] = p->renames.noted[i];
    p->renames.list = renames;
    p->renames.n = n; /* fewer if a later renaming failed halfway */
    return true;
}

const ckpt_rename *ckpt_plan_rename_at(const ckpt_plan *plan, size_t index)
{
    ckpt_plan *p = (ckpt_plan *)(uintptr_t)plan; /* not const, because the list is a cache */
    if (!p || index >= p->renames.n || (!p->renames.list && !make_renames(p)))
        return NULL;
    return index < p->renames.n ? &p->renames.list[index] : NULL;
}

ckpt_status plan_count_renames(ckpt_plan *p, ckpt_error *err)
{
    CKPT_TRY(plan_update_entries(p, err));
    p->renames.list = NULL;
    p->renames.n = 0;
    p->renames.counted = p->entries;
    p->renames.ncounted = p->nentries;
    for (size_t i = 0; i < p->renames.nmappings; i++) {
        ckpt_mapping *m = &p->renames.mappings[i];
        m->tensors = m->renamed = m->metadata = m->values = 0;
    }
    count_rows(p);
    for (size_t i = 0; i < p->renames.nnoted; i++) {
        const ckpt_rename *rename = &p->renames.noted[i];
        if (str_eq(rename->from, rename->to)) /* renamed and renamed back */
            continue;
        p->renames.mappings[rename->mapping].metadata += rename->metadata;
        p->renames.mappings[rename->mapping].values += rename->value;
        p->renames.n++;
    }
    return CKPT_OK;
}

ckpt_status plan_note_dropped(ckpt_plan *p, const ckpt_leaf *leaf, const char *why, ckpt_error *err)
{
    struct plan_report *report = &p->report;
    char type[128] = "tensor";
    if (leaf->value)
        ckpt_value_type_name(leaf->value, type, sizeof type);
    const ckpt_dropped dropped = {.name = arena_str(p->a, leaf->name),
                                  .path = path_copy(p->a, leaf->path, leaf->npath),
                                  .npath = leaf->npath,
                                  .type = arena_str(p->a, str_c(type)),
                                  .why = arena_str(p->a, str_c(why))};
    bool ok = dropped.name.ptr && dropped.path && dropped.type.ptr && dropped.why.ptr &&
              ARENA_PUSH(p->a, report, dropped, &dropped);
    return ok ? CKPT_OK : fail_memory(err);
}

/* is_set_by_rule - returns true if LEAF is not a tensor and has the value that a rule gives it. */
static bool is_set_by_rule(const ckpt_leaf *leaf)
{
    return leaf->value && leaf->value->type != CKPT_V_TENSOR && leaf->value->flags & VALUE_BY_RULE;
}

bool plan_sets_values(const ckpt_plan *p)
{
    bool found = false;
    for (size_t i = 0; i < p->file->nleaves && !found; i++)
        found = is_set_by_rule(&p->file->leaves[i]);
    return found;
}

ckpt_status plan_check_droppable(const ckpt_leaf *leaf, const char *contents_rule, ckpt_error *err)
{
    if (!is_set_by_rule(leaf))
        return CKPT_OK;
    return fail(err, CKPT_ELOSSY, CKPT_NO_OFFSET,
                "\"%.*s\", which a rule sets, is not a tensor; %s\n"
                "a .pt has values; `ckpt meta` changes the metadata of safetensors and GGUF",
                STR_ARG(leaf->name), contents_rule);
}

ckpt_status plan_drop_description(ckpt_plan *p, bool strict, ckpt_error *err)
{
    const struct description *d = &p->file->description;
    if (d->row == CKPT_NO_TENSOR || (!p->keep[d->row] && !p->description_dropped))
        return CKPT_OK;
    const ckpt_tensor t = table_tensor(&p->file->table, d->row);
    if (strict)
        return fail(err, CKPT_ELOSSY, CKPT_NO_OFFSET,
                    "other formats have no place for %s, \"%.*s\"\n"
                    "without --strict it is left out and listed",
                    d->name, STR_ARG(t.name));
    const ckpt_leaf leaf = {.name = t.name, .path = t.path, .npath = t.npath};
    p->keep[d->row] = false;
    p->description_dropped = p->entries_stale = true;
    return plan_note_dropped(p, &leaf, d->full_name, err);
}

ckpt_status plan_note_alias(ckpt_plan *p, ckpt_str name, ckpt_str of, ckpt_error *err)
{
    struct plan_report *report = &p->report;
    const ckpt_alias alias = {.name = arena_str(p->a, name), .of = arena_str(p->a, of)};
    bool ok = alias.name.ptr && alias.of.ptr && ARENA_PUSH(p->a, report, aliases, &alias);
    return ok ? CKPT_OK : fail_memory(err);
}

ckpt_status plan_note_sanitized(ckpt_plan *p, ckpt_sanitized change, ckpt_error *err)
{
    struct plan_report *report = &p->report;
    change.type = change.type.ptr ? arena_str(p->a, change.type) : change.type;
    bool ok = change.name.ptr && change.type.ptr && change.callable.ptr &&
              ARENA_PUSH(p->a, report, sanitized, &change);
    return ok ? CKPT_OK : fail_memory(err);
}

size_t ckpt_plan_sanitized_count(const ckpt_plan *plan) { return plan ? plan->report.nsanitized : 0; }
const ckpt_sanitized *ckpt_plan_sanitized_at(const ckpt_plan *plan, size_t index)
{
    return plan && index < plan->report.nsanitized ? &plan->report.sanitized[index] : NULL;
}

ckpt_status plan_note_output(ckpt_plan *p, const char *path, ckpt_error *err)
{
    struct plan_report *report = &p->report;
    ckpt_str copy = arena_str(p->a, str_c(path));
    return copy.ptr && ARENA_PUSH(p->a, report, outputs, &copy.ptr) ? CKPT_OK : fail_memory(err);
}

ckpt_dtype plan_dtype(const ckpt_plan *p, uint32_t row)
{
    if (p->casts.to && p->casts.to[row])
        return (ckpt_dtype)p->casts.to[row];
    return table_dtype_of(&p->file->table, row);
}

bool plan_nbytes(const ckpt_plan *p, uint32_t row, uint64_t *out)
{
    const struct table *t = &p->file->table;
    *out = table_nbytes_of(t, row);
    return !p->casts.to || !p->casts.to[row] ||
           dtype_bytes(plan_dtype(p, row), table_elements_of(t, row), out);
}

bool plan_storage_nbytes(const ckpt_plan *p, uint32_t row, uint64_t *out)
{
    const ckpt_tensor t = table_tensor(&p->file->table, row);
    uint64_t bytes = p->file->table.storages[t.storage].nbytes;
    *out = bytes;
    if (!p->casts.to || !p->casts.to[row] || t.kind == CKPT_NDARRAY)
        return true;
    const struct dtype_info *d = dtype_info((ckpt_dtype)t.dtype);
    return dtype_bytes(plan_dtype(p, row), bytes / d->block_bytes * d->block_elems, out);
}

ckpt_status plan_note_cast(ckpt_plan *p, ckpt_str name, uint32_t row, uint64_t elements, uint64_t overflowed,
                           ckpt_error *err)
{
    const ckpt_cast cast = {.name = name,
                            .from = (uint16_t)table_dtype_of(&p->file->table, row),
                            .to = (uint16_t)plan_dtype(p, row),
                            .elements = elements,
                            .overflowed = overflowed,
                            .became = convert_overflow_name(plan_dtype(p, row))};
    return ARENA_PUSH(p->a, &p->report, casts, &cast) ? CKPT_OK : fail_memory(err);
}

struct plan_computed *plan_add_computed(ckpt_plan *p, ckpt_str name, ckpt_dtype dtype)
{
    struct plan_report *report = &p->report;
    struct plan_computed *computed = ARENA_NEW(p->file->a, struct plan_computed);
    ckpt_str *overflowed = arena_grow(p->a, report->overflowed, 0, &report->cap_overflowed,
                                      report->ncomputed + 1, sizeof *overflowed);
    if (!computed || !overflowed || !ARENA_PUSH(p->a, report, computed, &computed))
        return NULL;
    report->overflowed = overflowed; /* there is room for all: listing them cannot fail after writing */
    computed->name = name;
    computed->dtype = dtype;
    atomic_init(&computed->is_overflow, false);
    return computed;
}

/* computed_overflow_name - returns what a number beyond the largest of DT became. */
static const char *computed_overflow_name(ckpt_dtype dt)
{
    return convert_overflow_name((ckpt_dtype)dtype_info(dt)->number);
}

void plan_list_overflowed(ckpt_plan *p)
{
    char others[48] = "";
    const struct plan_computed *first = NULL;
    p->report.noverflowed = 0;
    for (size_t i = 0; i < p->report.ncomputed; i++) {
        const struct plan_computed *computed = p->report.computed[i];
        if (!atomic_load_explicit(&computed->is_overflow, memory_order_relaxed))
            continue;
        first = first ? first : computed;
        p->report.overflowed[p->report.noverflowed++] = computed->name;
    }
    if (p->report.noverflowed > 1)
        (void)snprintf(others, sizeof others, ", as in %zu more", p->report.noverflowed - 1);
    if (first)
        plan_notice(p, "\"%.*s\" has numbers beyond the largest %s, which became %s%s", STR_ARG(first->name),
                    ckpt_dtype_name(first->dtype), computed_overflow_name(first->dtype), others);
}

/* check_computed - returns CKPT_ELOSSY if a computed tensor overflowed. */
static ckpt_status check_computed(const ckpt_plan *p, ckpt_error *err)
{
    for (size_t i = 0; i < p->report.ncomputed; i++) {
        const struct plan_computed *computed = p->report.computed[i];
        if (atomic_load_explicit(&computed->is_overflow, memory_order_relaxed))
            return fail(err, CKPT_ELOSSY, CKPT_NO_OFFSET,
                        "\"%.*s\": numbers overflow %s (would become %s); nothing written\n"
                        "without --strict, such numbers are written, and a notice names the tensors",
                        STR_ARG(computed->name), ckpt_dtype_name(computed->dtype),
                        computed_overflow_name(computed->dtype));
    }
    return CKPT_OK;
}

ckpt_status plan_check_lossless(const ckpt_plan *p, size_t first, ckpt_error *err)
{
    CKPT_TRY(check_computed(p, err));
    const ckpt_cast *cast = NULL;
    size_t others = 0;
    char text_of_others[48] = "";
    for (size_t i = first; i < p->report.ncasts; i++) {
        if (!p->report.casts[i].overflowed)
            continue;
        others += cast != NULL;
        cast = cast ? cast : &p->report.casts[i];
    }
    if (!cast)
        return CKPT_OK;
    if (others)
        (void)snprintf(text_of_others, sizeof text_of_others, ", and %zu other%s likewise", others,
                       others == 1 ? "" : "s");
    char word[SHELL_WORD_MAX];
    return fail(err, CKPT_ELOSSY, CKPT_NO_OFFSET,
                "\"%.*s\": %llu of %llu values overflow %s (would become %s)%s; nothing written\n"
                "--cast %s=%s keeps its dtype; without --strict, such values are written and listed",
                STR_ARG(cast->name), (unsigned long long)cast->overflowed, (unsigned long long)cast->elements,
                ckpt_dtype_name((ckpt_dtype)cast->to), cast->became, text_of_others,
                shell_glob(cast->name, word), ckpt_dtype_name((ckpt_dtype)cast->from));
}

ckpt_status plan_fail_cast_conflict(const ckpt_plan *p, const struct plan_entry *left,
                                    const struct plan_entry *right, ckpt_error *err)
{
    ckpt_dtype to_a = plan_dtype(p, left->row), to_b = plan_dtype(p, right->row);
    return fail(err, CKPT_ELOSSY, CKPT_NO_OFFSET,
                "\"%.*s\" and \"%.*s\" share bytes; one would be %s, the other %s\n"
                "--cast one dtype for both; a .safetensors output with --ties=copy writes each by itself",
                STR_ARG(left->name), STR_ARG(right->name), ckpt_dtype_name(to_a), ckpt_dtype_name(to_b));
}

ckpt_status plan_save(ckpt_plan *p, struct plan_saved *saved, ckpt_error *err)
{
    size_t rows = p->file->table.nrows;
    const struct edit *e = plan_find_edit(p, p->root);
    saved->n = e ? e->n : 0;
    saved->keep = arena_array(p->a, rows, sizeof *saved->keep);
    saved->dropped = arena_array(p->a, saved->n, sizeof *saved->dropped);
    CKPT_TRY_ALLOC(saved->keep && saved->dropped, err);
    memcpy(saved->keep, p->keep, rows * sizeof *saved->keep);
    if (saved->n)
        memcpy(saved->dropped, e->dropped, saved->n * sizeof *saved->dropped);
    return CKPT_OK;
}

void plan_restore(ckpt_plan *p, const struct plan_saved *saved)
{
    const struct edit *e = plan_find_edit(p, p->root);
    memcpy(p->keep, saved->keep, p->file->table.nrows * sizeof *saved->keep);
    for (uint32_t i = 0; e && i < e->n; i++)
        e->dropped[i] = i < saved->n && saved->dropped[i];
    p->entries_stale = true;
}

ckpt_str plan_find_nearest(const ckpt_plan *p, ckpt_str name)
{
    ckpt_str nearest = str_of("", 0);
    size_t most = 0;
    for (size_t i = 0; i < p->nentries; i++) {
        size_t common = file_count_common(p->entries[i].name, name);
        if (common > most) {
            most = common;
            nearest = p->entries[i].name;
        }
    }
    return nearest;
}
