/*
 * shard_layout.c - which tensor goes into which shard, as huggingface_hub decides it
 * (serialization/_base.py, _torch.py).
 *
 * The cut is greedy, in the order of the keys: a tensor larger than the limit
 * gets a shard of its own, before the one still open; one that would tip the
 * open shard over the limit closes it. Tensors that share a storage stay
 * together and count once.
 *
 * A format without shared storages has its ties resolved first.
 */
#include "format/hub/shard_layout.h"

#include <stdlib.h>

#include "base/checked.h"
#include "base/map.h"
#include "base/utf8.h"
#include "format/hub/shards.h"
#include "format/ties.h"

static const ckpt_tensor *tensor_of(const struct cut *c, size_t entry)
{
    return &c->p->file->table.rows[c->entries[entry].row].t;
}

/* ------------------------------------------------------------------ units */

static uint32_t head_of(struct cut *c, uint32_t u)
{
    while (c->units[u].up != u)
        u = c->units[u].up = c->units[c->units[u].up].up; /* each walk halves the next */
    return u;
}

/* The smaller number leads, so that a group is met at its first member. */
static void unite(struct cut *c, uint32_t a, uint32_t b)
{
    a = head_of(c, a);
    b = head_of(c, b);
    if (a < b)
        c->units[b].up = a;
    else
        c->units[a].up = b;
}

static ckpt_status grow_unit(struct cut *c, uint32_t u, size_t entry, map *owner, ckpt_error *err)
{
    const ckpt_tensor *t = tensor_of(c, entry);
    uint32_t row = c->entries[entry].row, other = MAP_NONE;
    uint64_t bytes = 0;
    bool fits = !t->has_data || t->part_of != CKPT_NO_TENSOR || plan_nbytes(c->p, row, &bytes);
    c->unit_of[entry] = u;
    if (c->shares && t->storage != CKPT_NO_STORAGE) {
        fits = plan_storage_nbytes(c->p, row, &bytes);
        if (!map_put_num(owner, t->storage, u, &other))
            return fail_memory(err);
    }
    if (other != MAP_NONE)
        return unite(c, u, other), CKPT_OK;
    fits = fits && checked_add(c->units[u].size, bytes, &c->units[u].size);
    return fits && checked_add(c->total, bytes, &c->total)
               ? CKPT_OK
               : fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                      "the tensors together have {more} than {=2^64 bytes}");
}

static uint32_t add_unit(struct cut *c, ckpt_str name)
{
    c->units[c->nunits] = (struct unit){.name = name, .up = c->nunits};
    return c->nunits++;
}

static ckpt_status entries_as_units(struct cut *c, ckpt_error *err)
{
    for (size_t i = 0; i < c->n; i++)
        CKPT_TRY(grow_unit(c, add_unit(c, c->entries[i].name), i, NULL, err));
    return CKPT_OK;
}

/* The pair of the root that an entry lies below, and the key it will have. */
static ckpt_status pair_of(const struct cut *c, const map *keys, size_t entry, uint32_t *pair, ckpt_str *name,
                           ckpt_error *err)
{
    const ckpt_plan *p = c->p;
    const ckpt_tensor *t = tensor_of(c, entry);
    const ckpt_path_elem *e = t->npath > p->root_depth ? &t->path[p->root_depth] : NULL;
    const struct edit *edit = plan_edit_find(p, p->root);
    bool deep = t->npath - p->root_depth > 1 && t->part_of == CKPT_NO_TENSOR;
    *pair = !e || e->is_int || deep ? MAP_NONE : map_get(keys, e->str);
    if (*pair == MAP_NONE) {
        (void)fail(err, CKPT_ELOSSY, CKPT_NO_OFFSET,
                   "\"%.*s\" is %s; an index names only the tensors of one mapping of texts",
                   STR_ARG(c->entries[entry].name),
                   deep ? "deeper than that" : "below a key that is no text");
        fail_hint(err, "--root picks the mapping of names to tensors");
        return CKPT_ELOSSY;
    }
    *name = edit && *pair < edit->n && edit->names[*pair].ptr ? edit->names[*pair] : e->str;
    if (!utf8_check(*name, true, NULL))
        return fail(err, CKPT_ELOSSY, CKPT_NO_OFFSET,
                    "the name \"%.*s\" is not UTF-8; an index cannot hold it", STR_ARG(*name));
    return CKPT_OK;
}

/* UNIT_OF: pair -> unit. */
static ckpt_status units_of_pairs(struct cut *c, const map *keys, map *owner, uint32_t *unit_of,
                                  ckpt_error *err)
{
    for (size_t i = 0; i < c->n; i++) {
        uint32_t pair;
        ckpt_str name;
        CKPT_TRY(pair_of(c, keys, i, &pair, &name, err));
        if (unit_of[pair] == MAP_NONE)
            unit_of[pair] = add_unit(c, name);
        CKPT_TRY(grow_unit(c, unit_of[pair], i, owner, err));
    }
    return CKPT_OK;
}

/* The pairs of the root without a tensor have no place in an index. */
static ckpt_status drop_pairs(struct cut *c, const value_pair *pairs, uint32_t n, const uint32_t *unit_of,
                              ckpt_error *err)
{
    ckpt_plan *p = c->p;
    struct edit *edit = plan_edit(p, p->root, n);
    size_t before = p->ndropped;
    if (!edit)
        return fail_memory(err);
    for (uint32_t i = 0; i < n; i++) {
        ckpt_path_elem key;
        if (unit_of[i] != MAP_NONE || edit->dropped[i])
            continue;
        edit->dropped[i] = true;
        CKPT_TRY(path_elem(p->a, pairs[i].key, &key, err));
        const ckpt_leaf pair = {
            .name = path_join(p->a, &key, 1), .path = &key, .npath = 1, .value = pairs[i].val};
        if (!pair.name.ptr)
            return fail_memory(err);
        CKPT_TRY(plan_dropped(p, &pair, "not a tensor", err));
    }
    if (p->ndropped == before || !c->opts->strict)
        return CKPT_OK;
    (void)fail(err, CKPT_ELOSSY, CKPT_NO_OFFSET,
               "\"%.*s\" is not a tensor, nor are %zu others; shards hold named tensors only",
               STR_ARG(p->dropped[before].name), p->ndropped - before - 1);
    fail_hint(err, "without --strict they are left out and listed");
    return CKPT_ELOSSY;
}

static ckpt_status pairs_as_units(struct cut *c, ckpt_error *err)
{
    uint32_t n = 0;
    const value_pair *pairs = c->p->root ? value_pairs(c->p->root, &n) : NULL;
    map *keys = map_new(n), *owner = map_new(c->n);
    uint32_t *unit_of = arena_array(c->p->a, n, sizeof *unit_of);
    ckpt_status st = keys && owner && unit_of ? CKPT_OK : fail_memory(err);
    for (uint32_t i = 0; st == CKPT_OK && i < n; i++) {
        ckpt_str key;
        unit_of[i] = MAP_NONE;
        if (value_text(pairs[i].key, &key) && !map_put(keys, key, i, NULL))
            st = fail_memory(err);
    }
    if (st == CKPT_OK)
        st = units_of_pairs(c, keys, owner, unit_of, err);
    if (st == CKPT_OK && n)
        st = drop_pairs(c, pairs, n, unit_of, err);
    map_free(keys);
    map_free(owner);
    return st;
}

/* -------------------------------------------------------------------- cut */

/* Sizes of a group are summed at its first unit; the others follow it. */
static ckpt_status gather_sizes(struct cut *c, ckpt_error *err)
{
    for (uint32_t u = 0; u < c->nunits; u++) {
        uint32_t head = head_of(c, u);
        c->units[u].up = head; /* every later walk is one step */
        if (head != u && !checked_add(c->units[head].size, c->units[u].size, &c->units[head].size))
            return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                        "the tensors together have {more} than {=2^64 bytes}");
    }
    return CKPT_OK;
}

/* A shard is numbered when it is closed, so a too large tensor's comes before
 * the one that is still open: first OPEN, then the number. */
static ckpt_status assign(struct cut *c, ckpt_error *err)
{
    uint64_t max = c->opts->max_shard, open = 0;
    uint32_t current = UINT32_MAX; /* units of the open shard, renumbered when it closes */
    bool any = false;
    CKPT_TRY(gather_sizes(c, err));
    for (uint32_t u = 0, from = 0; u <= c->nunits; u++) {
        bool end = u == c->nunits, head = !end && c->units[u].up == u;
        uint64_t size = head ? c->units[u].size : 0;
        if (head && size > max) {
            c->units[u].shard = c->nshards++;
            continue;
        }
        if (any && (end || (head && size > max - open))) {
            for (uint32_t k = from; k < u; k++)
                if (c->units[k].up == k && c->units[k].shard == current)
                    c->units[k].shard = c->nshards;
            c->nshards++;
            from = u;
            open = 0;
            any = false;
        }
        if (head) {
            c->units[u].shard = current;
            open += size; /* bounded: by max */
            any = true;
        }
    }
    for (uint32_t u = 0; u < c->nunits; u++)
        c->units[u].shard = c->units[c->units[u].up].shard;
    if (c->nshards <= MAX_SHARDS)
        return CKPT_OK;
    return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "%u shards of at most %llu bytes; the limit is %u shards",
                c->nshards, (unsigned long long)max, MAX_SHARDS);
}

/* -------------------------------------------------------------------- all */

/* Ties that the format cannot hold leave the plan's mask for the time being. */
static ckpt_status drop_ties(struct cut *c, ckpt_error *err)
{
    ckpt_plan *p = c->p;
    bool *drop = c->shares ? NULL : calloc(p->nentries + 1, sizeof *drop);
    if (c->shares)
        return CKPT_OK;
    ckpt_status st = drop ? ties_resolve(p, c->opts->ties, drop, err) : fail_memory(err);
    for (size_t i = 0; st == CKPT_OK && i < p->nentries; i++)
        if (drop[i])
            p->keep[p->entries[i].row] = false;
    free(drop);
    p->entries_stale = true;
    return st == CKPT_OK ? plan_entries(p, err) : st;
}

ckpt_status shards_cut(ckpt_plan *p, const ckpt_write_options *opts, bool shares, struct cut *c,
                       ckpt_error *err)
{
    *c = (struct cut){.p = p, .opts = opts, .shares = shares};
    CKPT_TRY(drop_ties(c, err));
    c->n = p->nentries;
    c->entries = calloc(c->n + 1, sizeof *c->entries);
    c->units = calloc(c->n + 1, sizeof *c->units);
    c->unit_of = calloc(c->n + 1, sizeof *c->unit_of);
    if (!c->entries || !c->units || !c->unit_of)
        return fail_memory(err);
    memcpy(c->entries, p->entries, c->n * sizeof *c->entries);
    CKPT_TRY(shares ? pairs_as_units(c, err) : entries_as_units(c, err));
    CKPT_TRY(assign(c, err));
    if (c->nshards == 0) /* no tensor: one file, which is empty */
        c->nshards = 1;
    return CKPT_OK;
}

void shards_cut_free(struct cut *c)
{
    free(c->entries);
    free(c->units);
    free(c->unit_of);
}
