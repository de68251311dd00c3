/* shard_layout.c - assigns tensors to shards, as huggingface_hub does (serialization/_base.py, _torch.py).
 *
 * The layout is greedy, in the order of the keys. A tensor larger than the limit gets a shard of its own,
 * numbered before the open one. A tensor for which the open shard has too little space left closes it and
 * begins the next. Tensors that share a storage are in one shard and count once.
 *
 * For a format without shared storages, ties are resolved first.
 *
 * With keep_shards, each tensor is in the shard that it was read from; shards that would be empty are left
 * out. */
#include "format/hub/shard_layout.h"

#include <stdlib.h>

#include "base/utf8.h"
#include "format/hub/shards.h"
#include "format/ties.h"

static ckpt_tensor get_tensor(const struct shard_layout *layout, size_t entry)
{
    return table_tensor(&layout->p->file->table, layout->entries[entry].row);
}

static uint32_t find_head(struct shard_layout *layout, uint32_t number)
{
    while (layout->units[number].parent != number)
        number = layout->units[number].parent =
            layout->units[layout->units[number].parent].parent; /* path halving */
    return number;
}

/* unite_units - joins two groups. The smaller number becomes the head, so that a group is found at its first
 * unit. */
static void unite_units(struct shard_layout *layout, uint32_t left, uint32_t right)
{
    left = find_head(layout, left);
    right = find_head(layout, right);
    if (left < right)
        layout->units[right].parent = left;
    else
        layout->units[left].parent = right;
}

/* grow_unit - adds ENTRY to unit NUMBER. If OWNER (storage -> unit) has a unit for the storage of ENTRY,
 * joins NUMBER with the group of that unit. */
static ckpt_status grow_unit(struct shard_layout *layout, uint32_t number, size_t entry, map *owner,
                             ckpt_error *err)
{
    const ckpt_tensor t = get_tensor(layout, entry);
    uint32_t row = layout->entries[entry].row, other = MAP_NONE;
    uint64_t bytes = 0;
    bool fits = !t.has_data || t.part_of != CKPT_NO_TENSOR || plan_nbytes(layout->p, row, &bytes);
    layout->unit_of[entry] = number;
    if (layout->shares_storages && t.storage != CKPT_NO_STORAGE) {
        fits = plan_storage_nbytes(layout->p, row, &bytes);
        CKPT_TRY_ALLOC(map_put_num(owner, t.storage, number, &other), err);
    }
    if (other != MAP_NONE) {
        unite_units(layout, number, other);
        return CKPT_OK;
    }
    fits = fits && checked_add(layout->units[number].size, bytes, &layout->units[number].size);
    return fits && checked_add(layout->total, bytes, &layout->total)
               ? CKPT_OK
               : fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                      "the tensors together have {more} than {=2^64 bytes}");
}

static uint32_t add_unit(struct shard_layout *layout, ckpt_str name)
{
    layout->units[layout->nunits] = (struct unit){.name = name, .parent = layout->nunits};
    return layout->nunits++;
}

static ckpt_status make_entry_units(struct shard_layout *layout, ckpt_error *err)
{
    for (size_t i = 0; i < layout->n; i++)
        CKPT_TRY(grow_unit(layout, add_unit(layout, layout->entries[i].name), i, NULL, err));
    return CKPT_OK;
}

/* find_root_pair - finds the pair of the root that ENTRY is below, and the key of that pair in the output. */
static ckpt_status find_root_pair(const struct shard_layout *layout, const map *keys, size_t entry,
                                  uint32_t *pair, ckpt_str *name, ckpt_error *err)
{
    const ckpt_plan *p = layout->p;
    const ckpt_tensor t = get_tensor(layout, entry);
    const ckpt_path_elem *e = t.npath > p->root_depth ? &t.path[p->root_depth] : NULL;
    const struct edit *edit = plan_find_edit(p, p->root);
    bool deep = t.npath - p->root_depth > 1 && t.part_of == CKPT_NO_TENSOR;
    *pair = !e || e->is_int || deep ? MAP_NONE : map_get(keys, e->str);
    if (*pair == MAP_NONE)
        return fail(err, CKPT_ELOSSY, CKPT_NO_OFFSET,
                    "\"%.*s\" is %s; an index lists only the tensors of one mapping with keys of text\n"
                    "--root picks the mapping of names to tensors",
                    STR_ARG(layout->entries[entry].name),
                    deep ? "in a nested container" : "below a key that is no text");
    *name = edit && *pair < edit->n && edit->names[*pair].ptr ? edit->names[*pair] : e->str;
    if (!utf8_check(*name, true, NULL))
        return fail(err, CKPT_ELOSSY, CKPT_NO_OFFSET,
                    "the name \"%.*s\" is not UTF-8; an index cannot hold it", STR_ARG(*name));
    return CKPT_OK;
}

/* assign_pair_units - makes a unit for each pair of the root that has a tensor. PAIR_UNITS: pair -> unit. */
static ckpt_status assign_pair_units(struct shard_layout *layout, const map *keys, map *owner,
                                     uint32_t *pair_units, ckpt_error *err)
{
    for (size_t i = 0; i < layout->n; i++) {
        uint32_t pair;
        ckpt_str name;
        CKPT_TRY(find_root_pair(layout, keys, i, &pair, &name, err));
        if (pair_units[pair] == MAP_NONE)
            pair_units[pair] = add_unit(layout, name);
        CKPT_TRY(grow_unit(layout, pair_units[pair], i, owner, err));
    }
    return CKPT_OK;
}

/* check_values - fails if a rule has set a value: a shard holds none. */
static ckpt_status check_values(const ckpt_plan *p, ckpt_error *err)
{
    for (size_t i = 0; i < p->file->nleaves; i++)
        if (plan_includes_leaf(p, &p->file->leaves[i]))
            CKPT_TRY(plan_check_droppable(&p->file->leaves[i], "shards hold named tensors only", err));
    return CKPT_OK;
}

/* drop_left_out - drops the pairs of the root that are tensors which the plan leaves out. */
static void drop_left_out(const ckpt_plan *p, struct edit *edit)
{
    const struct table *table = &p->file->table;
    for (size_t row = 0; row < table->nrows; row++) {
        const struct step *steps = table_steps_of(table, row);
        const uint32_t depth = table_npath_of(table, row);
        if (!p->keep[row] && steps && depth && steps[depth - 1].node == p->root)
            edit->dropped[steps[depth - 1].index] = true;
    }
}

/* drop_pairs - drops the pairs of the root that have no tensor, because an index cannot list them. */
static ckpt_status drop_pairs(struct shard_layout *layout, const value_pair *pairs, uint32_t count,
                              const uint32_t *pair_units, ckpt_error *err)
{
    ckpt_plan *p = layout->p;
    struct edit *edit = plan_find_or_add_edit(p, p->root, count);
    size_t before = p->report.ndropped;
    CKPT_TRY_ALLOC(edit, err);
    CKPT_TRY(check_values(p, err));
    drop_left_out(p, edit);
    for (uint32_t i = 0; i < count; i++) {
        ckpt_path_elem key;
        if (pair_units[i] != MAP_NONE || edit->dropped[i])
            continue;
        edit->dropped[i] = true;
        CKPT_TRY(path_elem_from_key(p->a, pairs[i].key, &key, err));
        const ckpt_leaf pair = {
            .name = path_join(p->a, &key, 1), .path = &key, .npath = 1, .value = pairs[i].val};
        CKPT_TRY_ALLOC(pair.name.ptr, err);
        CKPT_TRY(plan_note_dropped(p, &pair, "not a tensor", err));
    }
    if (p->report.ndropped == before || !layout->opts->strict)
        return CKPT_OK;
    return fail(err, CKPT_ELOSSY, CKPT_NO_OFFSET,
                "\"%.*s\" is not a tensor, nor are %zu others; shards hold named tensors only\n"
                "without --strict they are left out and listed",
                STR_ARG(p->report.dropped[before].name), p->report.ndropped - before - 1);
}

static ckpt_status make_pair_units(struct shard_layout *layout, ckpt_error *err)
{
    uint32_t n = 0;
    const value_pair *pairs = layout->p->root ? value_pairs(layout->p->root, &n) : NULL;
    map *keys = map_new(n), *owner = map_new(layout->n);
    uint32_t *pair_units = arena_array(layout->p->a, n, sizeof *pair_units);
    ckpt_status st = keys && owner && pair_units ? CKPT_OK : fail_memory(err);
    for (uint32_t i = 0; st == CKPT_OK && i < n; i++) {
        ckpt_str key;
        pair_units[i] = MAP_NONE;
        if (value_text(pairs[i].key, &key) && !map_put(keys, key, i, NULL))
            st = fail_memory(err);
    }
    if (st == CKPT_OK)
        st = assign_pair_units(layout, keys, owner, pair_units, err);
    if (st == CKPT_OK && n)
        st = drop_pairs(layout, pairs, n, pair_units, err);
    map_free(keys);
    map_free(owner);
    return st;
}

static ckpt_status sum_group_sizes(struct shard_layout *layout, ckpt_error *err)
{
    for (uint32_t u = 0; u < layout->nunits; u++) {
        uint32_t head = find_head(layout, u);
        layout->units[u].parent = head; /* later searches take one step */
        if (head != u &&
            !checked_add(layout->units[head].size, layout->units[u].size, &layout->units[head].size))
            return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                        "the tensors together have {more} than {=2^64 bytes}");
    }
    return CKPT_OK;
}

/* assign_shards - numbers a shard when it is closed, so that the shard of a tensor above the limit comes
 * before the open one. */
static ckpt_status assign_shards(struct shard_layout *layout, ckpt_error *err)
{
    uint64_t max = layout->opts->max_shard, open_size = 0;
    uint32_t open_shard = UINT32_MAX; /* stands for the number of the open shard until that is closed */
    bool is_open = false;
    CKPT_TRY(sum_group_sizes(layout, err));
    for (uint32_t u = 0, open_begin = 0; u <= layout->nunits; u++) {
        bool is_end = u == layout->nunits, is_head = !is_end && layout->units[u].parent == u;
        uint64_t size = is_head ? layout->units[u].size : 0;
        if (size > max) {
            layout->units[u].shard = layout->nshards++;
            continue;
        }
        bool is_full = size > max - open_size;
        if (is_open && (is_end || is_full)) {
            for (uint32_t k = open_begin; k < u; k++)
                if (layout->units[k].parent == k && layout->units[k].shard == open_shard)
                    layout->units[k].shard = layout->nshards;
            layout->nshards++;
            open_begin = u;
            open_size = 0;
            is_open = false;
        }
        if (is_head) {
            layout->units[u].shard = open_shard;
            open_size += size;
            is_open = true;
        }
    }
    for (uint32_t u = 0; u < layout->nunits; u++)
        layout->units[u].shard = layout->units[layout->units[u].parent].shard;
    if (layout->nshards <= MAX_SHARDS)
        return CKPT_OK;
    return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "%u shards of at most %llu bytes; the limit is %u shards",
                layout->nshards, (unsigned long long)max, MAX_SHARDS);
}

static int compare_names(const void *left, const void *right)
{
    return ckpt_natural_compare(*(const ckpt_str *)left, *(const ckpt_str *)right);
}

/* number_input_shards - makes *OUT, which maps the name of each shard of the input to its number, in the
 * order of the names: an index lists them in any order. */
static ckpt_status number_input_shards(const struct shard_layout *layout, map **out, ckpt_error *err)
{
    const ckpt_file *f = layout->p->file;
    ckpt_str *names = arena_array(layout->p->a, f->nparts + 1, sizeof *names);
    *out = map_new(f->nparts);
    if (!names || !*out)
        return fail_memory(err);
    for (size_t i = 0; i < f->nparts; i++)
        names[i] = str_after_last(str_c(f->parts[i]->path), '/');
    qsort(names, f->nparts, sizeof *names, compare_names);
    for (size_t i = 0; i < f->nparts; i++)
        CKPT_TRY_ALLOC(map_put(*out, names[i], (uint32_t)i, NULL), err);
    return CKPT_OK;
}

/* find_input_shard - returns the number of the shard that entry INDEX was read from, or MAP_NONE. */
static uint32_t find_input_shard(const struct shard_layout *layout, const map *numbers, size_t index)
{
    const struct table *t = &layout->p->file->table;
    uint32_t storage = get_tensor(layout, index).storage;
    const struct storage_extra *extra = storage == CKPT_NO_STORAGE ? NULL : t->storages[storage].extra;
    return extra && extra->file.ptr ? map_get(numbers, str_after_last(extra->file, '/')) : MAP_NONE;
}

/* close_gaps - numbers the shards that have units from 0 on. */
static ckpt_status close_gaps(struct shard_layout *layout, size_t ninput, ckpt_error *err)
{
    uint32_t *number = calloc(ninput + 1, sizeof *number);
    CKPT_TRY_ALLOC(number, err);
    for (uint32_t u = 0; u < layout->nunits; u++)
        number[layout->units[u].shard] = 1;
    for (size_t i = 0; i < ninput; i++)
        number[i] = number[i] ? layout->nshards++ : 0;
    for (uint32_t u = 0; u < layout->nunits; u++)
        layout->units[u].shard = number[layout->units[u].shard];
    free(number);
    return CKPT_OK;
}

/* keep_shards - assigns each group of units to the shard that its head was read from; one without bytes goes
 * to the shard of the unit before it. */
static ckpt_status keep_shards(struct shard_layout *layout, ckpt_error *err)
{
    map *numbers;
    uint32_t last = 0;
    ckpt_status st = number_input_shards(layout, &numbers, err);
    if (st == CKPT_OK)
        st = sum_group_sizes(layout, err);
    for (uint32_t u = 0; u < layout->nunits; u++)
        layout->units[u].shard = MAP_NONE;
    for (size_t i = 0; st == CKPT_OK && i < layout->n; i++)
        if (layout->units[layout->unit_of[i]].shard == MAP_NONE)
            layout->units[layout->unit_of[i]].shard = find_input_shard(layout, numbers, i);
    map_free(numbers);
    for (uint32_t u = 0; u < layout->nunits; u++) {
        const struct unit *head = &layout->units[layout->units[u].parent];
        last = head->shard == MAP_NONE ? last : head->shard;
        layout->units[u].shard = last;
    }
    return st == CKPT_OK ? close_gaps(layout, layout->p->file->nparts, err) : st;
}

/* drop_ties - takes ties that the format cannot hold out of the plan's mask, until plan_restore. */
static ckpt_status drop_ties(struct shard_layout *layout, ckpt_error *err)
{
    ckpt_plan *p = layout->p;
    bool *drop = layout->shares_storages ? NULL : calloc(p->nentries + 1, sizeof *drop);
    if (layout->shares_storages)
        return CKPT_OK;
    ckpt_status st = drop ? ties_resolve(p, layout->opts->ties, drop, err) : fail_memory(err);
    for (size_t i = 0; st == CKPT_OK && i < p->nentries; i++)
        if (drop[i])
            p->keep[p->entries[i].row] = false;
    free(drop);
    p->entries_stale = true;
    return st == CKPT_OK ? plan_update_entries(p, err) : st;
}

/* sort_by_shard - sorts the entries by shard, and sums the sizes of the shards. */
static ckpt_status sort_by_shard(struct shard_layout *layout, ckpt_error *err)
{
    struct plan_entry *sorted = calloc(layout->n + 1, sizeof *sorted);
    uint32_t *next = calloc((size_t)layout->nshards + 1, sizeof *next);
    layout->begins = calloc((size_t)layout->nshards + 1, sizeof *layout->begins);
    layout->sizes = calloc(layout->nshards, sizeof *layout->sizes);
    bool ok = sorted && next && layout->begins && layout->sizes;
    for (size_t i = 0; ok && i < layout->n; i++)
        layout->begins[layout->units[layout->unit_of[i]].shard + 1]++;
    for (uint32_t k = 0; ok && k < layout->nshards; k++)
        next[k + 1] = layout->begins[k + 1] += layout->begins[k];
    for (size_t i = 0; ok && i < layout->n; i++)
        sorted[next[layout->units[layout->unit_of[i]].shard]++] = layout->entries[i];
    for (uint32_t u = 0; ok && u < layout->nunits; u++)
        if (layout->units[u].parent == u) /* a head has the sum of its group, and all sums are at most 2^64 */
            layout->sizes[layout->units[u].shard] += layout->units[u].size;
    free(next);
    if (!ok) {
        free(sorted);
        return fail_memory(err);
    }
    layout->entries = layout->sorted = sorted;
    free(layout->unit_of);
    layout->unit_of = NULL;
    return CKPT_OK;
}

ckpt_status shards_lay_out(ckpt_plan *p, const ckpt_write_options *opts, bool shares_storages,
                           struct shard_layout *layout, ckpt_error *err)
{
    *layout = (struct shard_layout){.p = p, .opts = opts, .shares_storages = shares_storages};
    CKPT_TRY(drop_ties(layout, err));
    layout->n = p->nentries;
    layout->entries = p->entries;
    layout->units = calloc(layout->n + 1, sizeof *layout->units);
    layout->unit_of = calloc(layout->n + 1, sizeof *layout->unit_of);
    CKPT_TRY_ALLOC(layout->units && layout->unit_of, err);
    CKPT_TRY(shares_storages ? make_pair_units(layout, err) : make_entry_units(layout, err));
    CKPT_TRY(opts->keep_shards ? keep_shards(layout, err) : assign_shards(layout, err));
    if (layout->nshards == 0) /* no tensor: one empty file */
        layout->nshards = 1;
    return sort_by_shard(layout, err);
}

void shard_layout_free_entries(struct shard_layout *layout)
{
    free(layout->sorted);
    layout->entries = layout->sorted = NULL;
}

void shard_layout_free(struct shard_layout *layout)
{
    shard_layout_free_entries(layout);
    free(layout->units);
    free(layout->unit_of);
    free(layout->begins);
    free(layout->sizes);
}
