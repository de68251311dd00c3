/*
 * ties.c - which name a shared tensor keeps where a file cannot share.
 *
 * safetensors.torch.save_model and the Hub's convert.py group the names of one
 * storage, keep the smallest that covers all of it, drop the others and write
 * dropped -> kept into the metadata. That is right where the names show the
 * same view and loses data where they do not (w and w.t(), a slice of w), so
 * here only equal views are ties; any other view is written as a copy.
 *
 * Of equal names the smallest stays, except that `lm_head` gives way: loaders
 * tie the output to the embedding, which they expect under its own name.
 */
#include "format/ties.h"

#include <stdlib.h>

#include "core/dtype.h"

/* The bytes of its storage that an entry's view lies in. */
struct extent {
    uint64_t begin, end;
    uint32_t storage, entry;
};

static const ckpt_tensor *tensor_of(const ckpt_plan *p, size_t entry)
{
    return &p->file->table.rows[p->entries[entry].row].t;
}

/* Parts of a composite are never written under names of their own. */
static bool has_bytes(const ckpt_tensor *t)
{
    return t->has_data && t->storage != CKPT_NO_STORAGE && t->elements > 0 && t->part_of == CKPT_NO_TENSOR;
}

/* The first row that shows the same view, whether the plan keeps it or not. */
static uint32_t first_row(const ckpt_plan *p, uint32_t row)
{
    uint32_t first = p->file->table.rows[row].t.alias_of;
    return first == CKPT_NO_TENSOR ? row : first;
}

static bool better_name(ckpt_str a, ckpt_str b)
{
    bool head_a = str_find(a, STR_LIT("lm_head"), 0) != SIZE_MAX,
         head_b = str_find(b, STR_LIT("lm_head"), 0) != SIZE_MAX;
    return head_a != head_b ? head_b : str_compare(a, b) < 0;
}

static ckpt_status refuse(const ckpt_plan *p, size_t a, size_t b, const char *how, ckpt_error *err)
{
    (void)fail(err, CKPT_ELOSSY, CKPT_NO_OFFSET, "\"%.*s\" and \"%.*s\" %s, which the target cannot express",
               STR_ARG(p->entries[a].name), STR_ARG(p->entries[b].name), how);
    fail_hint(
        err,
        "--ties=drop keeps one name of each tensor and records the other, --ties=copy writes both in full");
    return CKPT_ELOSSY;
}

/* KEPT: first row -> entry that stays. */
static ckpt_status find_ties(ckpt_plan *p, ckpt_ties how, bool *drop, map *kept, ckpt_error *err)
{
    for (size_t i = 0; i < p->nentries; i++) {
        uint32_t first = first_row(p, p->entries[i].row), other;
        if (!has_bytes(tensor_of(p, i)))
            continue;
        if (!map_put_num(kept, first, (uint32_t)i, &other))
            return fail_memory(err);
        if (other == MAP_NONE)
            continue;
        if (how == CKPT_TIES_ERROR)
            return refuse(p, other, i, "are one tensor", err);
        if (plan_dtype(p, p->entries[i].row) != plan_dtype(p, p->entries[other].row))
            return plan_cast_disagree(p, &p->entries[other], &p->entries[i], err);
        bool swap = better_name(p->entries[i].name, p->entries[other].name);
        drop[swap ? other : i] = true;
        if (swap && !map_set_num(kept, first, (uint32_t)i))
            return fail_memory(err);
    }
    return CKPT_OK;
}

static ckpt_status note_aliases(ckpt_plan *p, const bool *drop, const map *kept, ckpt_error *err)
{
    for (size_t i = 0; i < p->nentries; i++)
        if (drop[i]) {
            uint32_t stays = map_get_num(kept, first_row(p, p->entries[i].row));
            CKPT_TRY(plan_alias(p, p->entries[i].name, p->entries[stays].name, err));
        }
    return CKPT_OK;
}

static bool extent_of(const ckpt_tensor *t, struct extent *x)
{
    uint64_t end;
    x->storage = t->storage;
    return row_end(t, &end) && dtype_bytes((ckpt_dtype)t->dtype, t->storage_offset, &x->begin) &&
           dtype_bytes((ckpt_dtype)t->dtype, end, &x->end);
}

static int by_place(const void *pa, const void *pb)
{
    const struct extent *a = pa, *b = pb;
    if (a->storage != b->storage)
        return a->storage < b->storage ? -1 : 1;
    if (a->begin != b->begin)
        return a->begin < b->begin ? -1 : 1;
    return (a->entry > b->entry) - (a->entry < b->entry);
}

/* Views that overlap others without being equal to them: *N of them, and the
 * first pair. */
static size_t find_overlaps(struct extent *x, size_t n, size_t pair[2])
{
    size_t found = 0, far = 0; /* far: the one that reaches furthest so far */
    qsort(x, n, sizeof *x, by_place);
    for (size_t i = 1; i < n; i++) {
        if (x[i].storage == x[far].storage && x[i].begin < x[far].end && found++ == 0) {
            pair[0] = x[far].entry;
            pair[1] = x[i].entry;
        }
        if (x[i].storage != x[far].storage || x[i].end > x[far].end)
            far = i;
    }
    return found;
}

static ckpt_status check_overlaps(ckpt_plan *p, ckpt_ties how, const bool *drop, ckpt_error *err)
{
    struct extent *x = calloc(p->nentries ? p->nentries : 1, sizeof *x);
    size_t n = 0, pair[2] = {0, 0};
    if (!x)
        return fail_memory(err);
    for (size_t i = 0; i < p->nentries; i++)
        if (!drop[i] && has_bytes(tensor_of(p, i)) && extent_of(tensor_of(p, i), &x[n]))
            x[n++].entry = (uint32_t)i;
    size_t found = find_overlaps(x, n, pair);
    free(x);
    if (found && how == CKPT_TIES_ERROR)
        return refuse(p, pair[0], pair[1], "share bytes", err);
    if (found)
        plan_notice(p, "\"%.*s\" shares bytes with \"%.*s\", unlike it; each is written in full (%zu of %zu)",
                    STR_ARG(p->entries[pair[1]].name), STR_ARG(p->entries[pair[0]].name), found, p->nentries);
    return CKPT_OK;
}

ckpt_status ties_resolve(ckpt_plan *p, ckpt_ties how, bool *drop, ckpt_error *err)
{
    if (how == CKPT_TIES_COPY)
        return CKPT_OK;
    map *kept = map_new(p->nentries);
    ckpt_status st = kept ? find_ties(p, how, drop, kept, err) : fail_memory(err);
    if (st == CKPT_OK)
        st = note_aliases(p, drop, kept, err);
    map_free(kept);
    return st == CKPT_OK ? check_overlaps(p, how, drop, err) : st;
}
