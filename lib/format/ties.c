/* ties.c - for formats without shared storages: chooses the name that a shared tensor keeps, records its
 * other names in the metadata, and reads them again.
 *
 * safetensors.torch.save_model and the Hub's convert.py group the names of one storage, keep the smallest
 * name that covers all of it, drop the others and write dropped -> kept into the metadata. That loses data if
 * the names are different views (w and w.t(), a slice of w). So here only equal views are ties; any other
 * view is written as a copy.
 *
 * Of the names of a tie the smallest stays, but never lm_head if there is another: loaders tie the output
 * layer to the embedding, which they expect under its own name. In a tie that the input recorded, the name of
 * the tensor stays as long as it is written.
 *
 * Read: the pair {"alias": "name"} is a tie if "name" is the name of a tensor in the file and "alias" is not.
 * No alias is called "format", the key for the program that wrote the file, or "__metadata__", which cannot
 * be the name of a tensor. */
#include "format/ties.h"

#include <stdlib.h>

#include "core/check.h"

bool ties_can_record_name(ckpt_str key) { return !str_is(key, "format") && !str_is(key, "__metadata__"); }

/* --------------------------------------------------------------- read */

/* What the row of an alias has of its own; its other fields are those of the tensor's row. */
struct alias_row {
    ckpt_path_elem path;
    struct step step;
    ckpt_value val;
};

/* add_alias - adds a row called NAME, the text of KEY, with the same view as TENSOR_ROW. */
static ckpt_status add_alias(ckpt_file *f, ckpt_value *key, ckpt_str name, uint32_t tensor_row,
                             ckpt_error *err)
{
    uint32_t new_row;
    struct row row = table_row(&f->table, tensor_row);
    struct alias_row *alias = ARENA_NEW(f->a, struct alias_row);
    CKPT_TRY_ALLOC(alias, err);
    alias->path = (ckpt_path_elem){.str = name};
    row.t.name = name;
    row.t.path = &alias->path;
    row.t.npath = 1;
    if (row.t.value) { /* a row that is lost with its shard has no value */
        value_init(&alias->val, CKPT_V_TENSOR, value_offset(row.t.value));
        alias->step = (struct step){.node = f->root, .index = value_count(f->root)};
        row.steps = f->root_is_table ? NULL : &alias->step;
        row.t.value = &alias->val;
        CKPT_TRY_ALLOC(f->root_is_table || value_put(f->a, f->root, key, &alias->val), err);
    }
    CKPT_TRY(file_add_row(f, &row, &new_row, err));
    value_set_row(&alias->val, new_row);
    table_set_alias(&f->table, new_row, tensor_row);
    f->first_tie = f->nties++ ? f->first_tie : new_row;
    return CKPT_OK;
}

ckpt_status ties_add_rows(ckpt_file *f, ckpt_error *err)
{
    uint32_t n = 0, tensors = (uint32_t)f->table.nrows;
    const value_pair *pairs = f->metadata ? value_pairs(f->metadata, &n) : NULL;
    f->nties = 0;
    for (uint32_t i = 0; i < n; i++) {
        ckpt_str key, original;
        if (!value_text(pairs[i].key, &key) || !value_text(pairs[i].val, &original) ||
            !ties_can_record_name(key))
            continue;
        CKPT_TRY_ALLOC(file_index_names(f), err);
        uint32_t row = map_get(f->names, original);
        if (row == MAP_NONE || row >= tensors || map_get(f->names, key) != MAP_NONE)
            continue;
        CKPT_TRY(add_alias(f, pairs[i].key, key, row, err));
        CKPT_TRY_ALLOC(map_put(f->names, key, (uint32_t)f->table.nrows - 1, NULL), err);
    }
    return CKPT_OK;
}

/* -------------------------------------------------------------- written */

/* The range of the storage that the view of an entry covers. */
struct extent {
    uint64_t begin, end;
    uint32_t storage, entry;
};

/* has_own_bytes - returns true if ROW has bytes and is not a component of a composite. */
static bool has_own_bytes(const struct table *table, uint32_t row)
{
    return table_has_data(table, row) && table_storage_of(table, row) != CKPT_NO_STORAGE &&
           table_part_of(table, row) == CKPT_NO_TENSOR;
}

/* get_first_row - returns the first row with the same view as ROW, even if the plan drops it. */
static uint32_t get_first_row(const ckpt_plan *p, uint32_t row)
{
    uint32_t first = table_alias_of(&p->file->table, row);
    return first == CKPT_NO_TENSOR ? row : first;
}

/* is_better_name - returns true if the name of ENTRY_A should stay rather than that of ENTRY_B. An alias that
 * the input recorded never displaces the tensor's own name. */
static bool is_better_name(const ckpt_plan *p, size_t entry_a, size_t entry_b)
{
    ckpt_str a = p->entries[entry_a].name, b = p->entries[entry_b].name;
    bool is_alias_a = file_row_is_tie(p->file, p->entries[entry_a].row),
         is_alias_b = file_row_is_tie(p->file, p->entries[entry_b].row);
    if (is_alias_a != is_alias_b)
        return is_alias_b;
    bool head_a = str_find(a, STR_LIT("lm_head"), 0) != SIZE_MAX,
         head_b = str_find(b, STR_LIT("lm_head"), 0) != SIZE_MAX;
    return head_a != head_b ? head_b : str_compare(a, b) < 0;
}

static ckpt_status refuse_shared_bytes(const ckpt_plan *p, size_t left, size_t right, const char *relation,
                                       ckpt_error *err)
{
    return fail(
        err, CKPT_ELOSSY, CKPT_NO_OFFSET,
        "\"%.*s\" and \"%.*s\" %s, which the target cannot express\n"
        "--ties=drop keeps one name of each tensor and records the other, --ties=copy writes both in full",
        STR_ARG(p->entries[left].name), STR_ARG(p->entries[right].name), relation);
}

/* find_ties - sets DROP for all names of a tie but one. KEPT: first row with a view -> entry that stays. */
static ckpt_status find_ties(ckpt_plan *p, ckpt_ties how, bool *drop, map *kept, ckpt_error *err)
{
    for (size_t i = 0; i < p->nentries; i++) {
        uint32_t first = get_first_row(p, p->entries[i].row), other;
        bool is_unrecordable = how == CKPT_TIES_DROP && !ties_can_record_name(p->entries[i].name);
        if (!has_own_bytes(&p->file->table, p->entries[i].row) || is_unrecordable)
            continue;
        CKPT_TRY_ALLOC(map_put_num(kept, first, (uint32_t)i, &other), err);
        if (other == MAP_NONE)
            continue;
        if (how == CKPT_TIES_ERROR)
            return refuse_shared_bytes(p, other, i, "are one tensor", err);
        if (plan_dtype(p, p->entries[i].row) != plan_dtype(p, p->entries[other].row))
            return plan_fail_cast_conflict(p, &p->entries[other], &p->entries[i], err);
        bool is_better = is_better_name(p, i, other);
        drop[is_better ? other : i] = true;
        if (is_better && !map_set_num(kept, first, (uint32_t)i))
            return fail_memory(err);
    }
    return CKPT_OK;
}

static ckpt_status note_aliases(ckpt_plan *p, const bool *drop, const map *kept, ckpt_error *err)
{
    for (size_t i = 0; i < p->nentries; i++)
        if (drop[i]) {
            uint32_t stays = map_get_num(kept, get_first_row(p, p->entries[i].row));
            CKPT_TRY(plan_note_alias(p, p->entries[i].name, p->entries[stays].name, err));
        }
    return CKPT_OK;
}

static bool get_extent(const ckpt_tensor *tensor, struct extent *extent)
{
    uint64_t end;
    extent->storage = tensor->storage;
    return tensor_view_end(tensor, &end) && tensor_bytes(tensor, tensor->storage_offset, &extent->begin) &&
           tensor_bytes(tensor, end, &extent->end);
}

static int compare_extents(const void *pa, const void *pb)
{
    const struct extent *a = pa, *b = pb;
    if (a->storage != b->storage)
        return a->storage < b->storage ? -1 : 1;
    if (a->begin != b->begin)
        return a->begin < b->begin ? -1 : 1;
    return (a->entry > b->entry) - (a->entry < b->entry);
}

/* find_overlaps - returns how many of the COUNT VIEWS overlap an earlier one, and sets PAIR to the first two
 * that overlap. */
static size_t find_overlaps(struct extent *views, size_t count, size_t pair[2])
{
    size_t found = 0, longest = 0, nsorted = 1; /* longest: the view that ends last so far */
    while (nsorted < count && compare_extents(&views[nsorted - 1], &views[nsorted]) < 0)
        nsorted++;
    if (nsorted < count) /* most files have their tensors in the order of the storages */
        qsort(views, count, sizeof *views, compare_extents);
    for (size_t i = 1; i < count; i++) {
        if (views[i].storage == views[longest].storage && views[i].begin < views[longest].end &&
            found++ == 0) {
            pair[0] = views[longest].entry;
            pair[1] = views[i].entry;
        }
        if (views[i].storage != views[longest].storage || views[i].end > views[longest].end)
            longest = i;
    }
    return found;
}

static ckpt_status check_overlaps(ckpt_plan *p, ckpt_ties how, const bool *drop, ckpt_error *err)
{
    struct extent *views = calloc(p->nentries ? p->nentries : 1, sizeof *views);
    size_t n = 0, pair[2] = {0, 0};
    CKPT_TRY_ALLOC(views, err);
    for (size_t i = 0; i < p->nentries; i++) {
        if (drop[i] || !has_own_bytes(&p->file->table, p->entries[i].row))
            continue;
        const ckpt_tensor t = table_tensor(&p->file->table, p->entries[i].row);
        if (t.elements && get_extent(&t, &views[n]))
            views[n++].entry = (uint32_t)i;
    }
    size_t found = find_overlaps(views, n, pair);
    free(views);
    if (found && how == CKPT_TIES_ERROR)
        return refuse_shared_bytes(p, pair[0], pair[1], "share bytes", err);
    if (found)
        plan_notice(p,
                    "\"%.*s\" and \"%.*s\" share bytes but are different views; each is written in full "
                    "(%zu of %zu tensors)",
                    STR_ARG(p->entries[pair[1]].name), STR_ARG(p->entries[pair[0]].name), found, p->nentries);
    return CKPT_OK;
}

/* count_copied_bytes - returns how many more bytes are written than stored if all entries that are not in
 * DROP are written in full. SEEN: one false for each storage. */
static uint64_t count_copied_bytes(const ckpt_plan *p, const bool *drop, bool *seen)
{
    uint64_t written = 0, stored = 0;
    const struct table *t = &p->file->table;
    for (size_t i = 0; i < p->nentries; i++) {
        uint32_t row = p->entries[i].row, storage = table_storage_of(t, row);
        if (drop[i] || !has_own_bytes(t, row))
            continue;
        if (!checked_add(written, table_nbytes_of(t, row), &written))
            return UINT64_MAX;
        if (!seen[storage] && !checked_add(stored, t->storages[storage].nbytes, &stored))
            return 0; /* at least 2^64 bytes are stored: not fewer than are written */
        seen[storage] = true;
    }
    return written > stored ? written - stored : 0;
}

/* check_copies - limits the output: a small file whose tensors all share one storage must not become a huge
 * one. */
static ckpt_status check_copies(const ckpt_plan *p, const bool *drop, ckpt_error *err)
{
    uint64_t max = p->file->table.max_expanded;
    bool *seen = calloc(p->file->table.nstorages + 1, sizeof *seen);
    CKPT_TRY_ALLOC(seen, err);
    uint64_t n = count_copied_bytes(p, drop, seen);
    free(seen);
    if (n <= max)
        return CKPT_OK;
    return fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET,
                "tensors that share bytes would be written in full: {%llu bytes} more than are stored, "
                "the limit is {=%llu}\n"
                "--ties=drop writes equal ones once; --max-expanded raises the limit",
                (unsigned long long)n, (unsigned long long)max);
}

ckpt_status ties_resolve(ckpt_plan *p, ckpt_ties how, bool *drop, ckpt_error *err)
{
    if (how == CKPT_TIES_COPY)
        return check_copies(p, drop, err);
    map *kept = map_new(p->nentries);
    ckpt_status st = kept ? find_ties(p, how, drop, kept, err) : fail_memory(err);
    CKPT_THEN(st, note_aliases(p, drop, kept, err));
    map_free(kept);
    CKPT_THEN(st, check_overlaps(p, how, drop, err));
    return st == CKPT_OK ? check_copies(p, drop, err) : st;
}

int ties_compare_keys(const void *pa, const void *pb)
{
    return str_compare(((const struct plan_pair *)pa)->key, ((const struct plan_pair *)pb)->key);
}

/* The pairs of the metadata, and the aliases to record in them. */
struct recording {
    struct plan_pair *pairs;
    size_t npairs;
    const ckpt_alias *aliases;
    size_t naliases;
    bool *is_recorded; /* by alias: there is a pair for it */
    map *alias_index;  /* name of an alias -> its index */
};

/* update_recorded_ties - removes pairs of ties that no longer exist and updates the pairs of other ties. */
static ckpt_status update_recorded_ties(struct recording *recording, ckpt_error *err)
{
    size_t kept = 0;
    for (size_t i = 0; i < recording->npairs; i++) {
        struct plan_pair *pair = &recording->pairs[i];
        uint32_t alias = map_get(recording->alias_index, pair->key);
        if (alias != MAP_NONE && !pair->tie)
            return fail(err, CKPT_EEXIST, CKPT_NO_OFFSET,
                        "the metadata have \"%.*s\" already: it cannot be recorded as a second name of "
                        "\"%.*s\"\n"
                        "--ties=copy writes both in full; `ckpt meta --unset` removes a text",
                        STR_ARG(pair->key), STR_ARG(recording->aliases[alias].of));
        if (alias != MAP_NONE) {
            pair->text = recording->aliases[alias].of;
            recording->is_recorded[alias] = true;
        }
        if (alias != MAP_NONE || !pair->tie)
            recording->pairs[kept++] = *pair;
    }
    recording->npairs = kept;
    return CKPT_OK;
}

static ckpt_status merge_recorded_ties(struct recording *recording, size_t *added, ckpt_error *err)
{
    bool ok = recording->is_recorded && recording->alias_index;
    for (size_t i = 0; ok && i < recording->naliases; i++)
        ok = map_put(recording->alias_index, recording->aliases[i].name, (uint32_t)i, NULL);
    CKPT_TRY_ALLOC(ok, err);
    CKPT_TRY(update_recorded_ties(recording, err));
    *added = recording->npairs;
    for (size_t i = 0; i < recording->naliases; i++)
        if (!recording->is_recorded[i])
            recording->pairs[recording->npairs++] = (struct plan_pair){
                .key = recording->aliases[i].name, .text = recording->aliases[i].of, .tie = true};
    qsort(recording->pairs + *added, recording->npairs - *added, sizeof *recording->pairs, ties_compare_keys);
    return CKPT_OK;
}

ckpt_status ties_update_metadata(ckpt_plan *p, size_t from, struct plan_pair **pairs, size_t *count,
                                 size_t *added, ckpt_error *err)
{
    struct recording r = {.npairs = *count, .naliases = p->report.naliases - from};
    if (r.naliases)
        r.aliases = p->report.aliases + from;
    r.pairs = arena_array(p->a, *count + r.naliases + 1, sizeof *r.pairs);
    CKPT_TRY_ALLOC(r.pairs, err);
    if (*count)
        memcpy(r.pairs, *pairs, *count * sizeof *r.pairs);
    r.is_recorded = calloc(r.naliases + 1, sizeof *r.is_recorded);
    r.alias_index = map_new(r.naliases);
    ckpt_status st = merge_recorded_ties(&r, added, err);
    free(r.is_recorded);
    map_free(r.alias_index);
    *pairs = r.pairs;
    *count = r.npairs;
    return st;
}
