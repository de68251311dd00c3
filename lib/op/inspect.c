/* inspect.c - what a checkpoint is, in one look: the facts behind `ckpt info`. */
#include <stdlib.h>

#include "base/checked.h"
#include "base/sized.h"
#include "core/dtype.h"
#include "op/prefix.h"
#include "op/weights.h"
#include "op/weights_only.h"

/* ---- wrappers */

struct found {
    uint64_t lead, carry, tensors; /* keys that begin with it, that hold it, and all */
    bool inner;
};

/* look_for - how many tensors of place P have PREFIX in their keys. */
static ckpt_status look_for(const struct walk *w, const struct place *p, ckpt_str prefix, struct found *out,
                            ckpt_error *err)
{
    struct entry e;
    ckpt_str key;
    *out = (struct found){0};
    for (uint32_t i = 0; i < p->entries; i++) {
        if (!mapping_entry(p->node, i, &e) || !walk_is_tensor(w, e.val) || !value_text(e.key, &key))
            continue;
        ckpt_str bare = str_is(prefix, "module.") ? prefix_strip_certain(w->a, key) : key;
        if (!bare.ptr)
            return fail_memory(err);
        bool lead = str_starts(bare, prefix);
        while (str_starts(bare, prefix)) /* wrapped twice */
            bare = str_skip(bare, prefix.len);
        bool inner = prefix_inside(bare, prefix);
        out->lead += lead;
        out->inner |= inner;
        out->carry += lead || inner;
        out->tensors += !str_is(bare, "n_averaged"); /* AveragedModel's counter wraps nothing */
    }
    return CKPT_OK;
}

static ckpt_status wrappers_of(const struct walk *w, uint32_t at, ckpt_info *out, ckpt_wrapper **list,
                               size_t *cap, ckpt_error *err)
{
    for (size_t i = 0; i < nwrapper_names; i++) {
        struct found found;
        ckpt_str prefix = str_c(wrapper_names[i].prefix);
        CKPT_TRY(look_for(w, &w->places[at], prefix, &found, err));
        if (!found.carry)
            continue;
        *list = arena_grow(w->a, *list, out->nwrappers, cap, out->nwrappers + 1, sizeof **list);
        ckpt_str where = *list ? walk_name(w, at) : str_of(NULL, 0);
        if (!where.ptr)
            return fail_memory(err);
        bool shared = found.lead == found.tensors && !found.inner && str_is(prefix, "module.");
        (*list)[out->nwrappers++] = (ckpt_wrapper){.prefix = prefix,
                                                   .where = where,
                                                   .tensors = found.carry,
                                                   .of = found.tensors > found.carry ? found.tensors
                                                                                     : found.carry,
                                                   .anywhere = found.inner,
                                                   .certain = wrapper_names[i].certain || shared};
    }
    return CKPT_OK;
}

static ckpt_status find_wrappers(const struct walk *w, const struct weights *weights, ckpt_file *file,
                                 ckpt_info *out, ckpt_error *err)
{
    ckpt_wrapper *list = NULL;
    size_t cap = 0;
    for (uint32_t i = 0; i < w->n; i++)
        if (weights->role[i])
            CKPT_TRY(wrappers_of(w, i, out, &list, &cap, err));
    file->wrappers = list;
    file->nwrappers = out->nwrappers;
    return CKPT_OK;
}

/* ---- weights */

/* count_rows - LIST, whose items are for the places that NUMBER gives, gets the rows of FILE. */
static void count_rows(const ckpt_file *file, const uint32_t *place, const uint32_t *number,
                       ckpt_weights *list)
{
    for (size_t i = 0; i < file->table.nrows; i++) {
        const ckpt_tensor *t = &file->table.rows[i].t;
        if (place[i] == NO_PLACE)
            continue;
        ckpt_weights *one = &list[number[place[i]]];
        one->tensors += t->part_of == CKPT_NO_TENSOR;
        if (!t->has_data || t->alias_of != CKPT_NO_TENSOR)
            continue;
        if (!checked_add(one->elements, t->elements, &one->elements))
            one->elements = UINT64_MAX;
        if (!checked_add(one->bytes, t->nbytes, &one->bytes))
            one->bytes = UINT64_MAX;
    }
}

/* What keys of one mapping begin with: one component, with its dot, and how many of those that have it go on
 * with more than one. */
struct lead {
    ckpt_str most, copy; /* of most of them; the first name of an averaged copy */
    uint64_t votes, carry, deep, copied;
};

static ckpt_str key_of(const ckpt_tensor *t)
{
    const ckpt_path_elem *last = t->npath && t->path ? &t->path[t->npath - 1] : NULL;
    return last && !last->is_int ? last->str : str_of("", 0);
}

/* first_component - of KEY, with its dot; empty: it has but one. */
static ckpt_str first_component(ckpt_str key)
{
    size_t dot = str_find(key, STR_LIT("."), 0);
    return dot == SIZE_MAX ? str_of(key.ptr, 0) : str_of(key.ptr, dot + 1); /* bounded: it is in KEY */
}

/* vote - for the first component of KEY; what is left when the votes for all others are taken off is the only
 * one that most keys can have (Boyer and Moore 1981). */
static void vote(struct lead *l, ckpt_str key)
{
    ckpt_str first = first_component(key);
    const ckpt_path_elem name = {.str = str_of(first.ptr, first.len ? first.len - 1 : 0)};
    if (!l->copy.len && weights_averaged(&name))
        l->copy = first;
    if (!l->votes)
        l->most = first;
    l->votes = !l->votes || str_eq(l->most, first) ? l->votes + 1 : l->votes - 1;
}

static void count_lead(struct lead *l, ckpt_str key)
{
    ckpt_str first = first_component(key);
    bool carries = first.len && str_eq(l->most, first);
    l->copied += first.len && str_eq(l->copy, first);
    l->carry += carries;
    l->deep += carries && first_component(str_skip(key, first.len)).len;
}

static bool is_wrapper(ckpt_str prefix)
{
    for (size_t i = 0; i < nwrapper_names; i++)
        if (str_is(prefix, wrapper_names[i].prefix))
            return true;
    return false;
}

/* set_prefix - of ONE, if L is that of a network inside another, or of a copy, not the name of a layer. */
static void set_prefix(ckpt_weights *one, const struct lead *l)
{
    if (l->carry > 1 && l->carry >= one->tensors - one->tensors / 4 && l->deep > l->carry / 2) {
        one->prefix = l->most;
        one->prefixed = l->carry;
    } else if (l->copied > 1 && l->copied >= one->tensors / 4) {
        one->prefix = l->copy;
        one->prefixed = l->copied;
    }
    if (is_wrapper(one->prefix)) { /* named already */
        one->prefix = str_of(NULL, 0);
        one->prefixed = 0;
    }
}

/* find_prefixes - of the N items of LIST; PLACE and NUMBER as for count_rows. */
static ckpt_status find_prefixes(const struct walk *w, const uint32_t *place, const uint32_t *number,
                                 ckpt_weights *list, size_t n, ckpt_error *err)
{
    const struct table *t = &w->file->table;
    struct lead *leads = calloc(n + 1, sizeof *leads); /* bounded: so many are in memory */
    if (!leads)
        return fail_memory(err);
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < t->nrows; i++)
            if (place[i] != NO_PLACE && t->rows[i].t.part_of == CKPT_NO_TENSOR)
                (pass ? count_lead : vote)(&leads[number[place[i]]], key_of(&t->rows[i].t));
    for (size_t i = 0; i < n; i++)
        set_prefix(&list[i], &leads[i]);
    free(leads);
    return CKPT_OK;
}

static ckpt_status list_weights(const struct walk *w, const struct weights *weights, ckpt_file *file,
                                ckpt_info *out, ckpt_error *err)
{
    ckpt_weights *list = NULL;
    size_t cap = 0;
    uint32_t *place, *number = arena_array(w->a, w->n, sizeof *number);
    if (!number)
        return fail_memory(err);
    for (uint32_t i = 0; i < w->n; i++) {
        if (!weights->role[i])
            continue;
        list = arena_grow(w->a, list, out->nweights, &cap, out->nweights + 1, sizeof *list);
        ckpt_str name = list ? walk_name(w, i) : str_of(NULL, 0);
        if (!name.ptr)
            return fail_memory(err);
        number[i] = (uint32_t)out->nweights;
        list[out->nweights++] = (ckpt_weights){.name = name,
                                               .averaged = weights->role[i] == WEIGHTS_AVERAGED};
    }
    file->weights = list;
    file->nweights = out->nweights;
    CKPT_TRY(weights_rows(w, weights, STR_LIT(""), &place, err));
    count_rows(w->file, place, number, list);
    return find_prefixes(w, place, number, list, out->nweights, err);
}

/* ---- optimizer */

/* An optimizer is told by what it keeps for each parameter; the first line whose
 * names are all there. From torch/optim and fairseq's Adafactor. */
static const struct {
    const char *name, *keeps[2];
} optimizers[] = {
    {"Adam-like", {"exp_avg", "exp_avg_sq"}},
    {"Adamax", {"exp_avg", "exp_inf"}},
    {"Adafactor", {"exp_avg_sq_row", NULL}},
    {"Lion-like", {"exp_avg", NULL}},
    {"Adadelta", {"square_avg", "acc_delta"}},
    {"RMSprop", {"square_avg", NULL}},
    {"Rprop", {"prev", "step_size"}},
    {"ASGD", {"ax", "eta"}},
    {"SGD with momentum", {"momentum_buffer", NULL}},
    {"Adagrad", {"sum", "step"}},
};

static const char *optimizer_name(const ckpt_value *kept, const ckpt_value *group)
{
    if (!kept && mapping_get(group, "momentum"))
        return "SGD";
    if (!kept && mapping_get(group, "betas"))
        return "Adam-like";
    for (size_t i = 0; kept && i < sizeof optimizers / sizeof *optimizers; i++)
        if (mapping_get(kept, optimizers[i].keeps[0]) &&
            (!optimizers[i].keeps[1] || mapping_get(kept, optimizers[i].keeps[1])))
            return optimizers[i].name;
    return "an optimizer";
}

static ckpt_status find_optimizer(const struct walk *w, ckpt_info *out, ckpt_error *err)
{
    uint32_t first = NO_PLACE, count = 0;
    for (uint32_t i = 0; i < w->n; i++) {
        if (!w->places[i].optimizer)
            continue;
        if (!count++)
            first = i;
    }
    if (!count)
        return CKPT_OK;
    struct entry e = {0};
    const ckpt_value *state = mapping_get(w->places[first].node, "state");
    uint32_t n = mapping_count(state);
    bool any = mapping_entry(state, 0, &e);
    const ckpt_value *group = value_item(mapping_get(w->places[first].node, "param_groups"), 0);
    out->optimizer = arena_printf(w->a, "%s, %u state%s", optimizer_name(any ? e.val : NULL, group), n,
                                  n == 1 ? "" : "s");
    if (out->optimizer.ptr && count > 1)
        out->optimizer = arena_printf(w->a, "%.*s; %u more", STR_ARG(out->optimizer), count - 1);
    out->optimizer_path = walk_name(w, first);
    return out->optimizer.ptr && out->optimizer_path.ptr ? CKPT_OK : fail_memory(err);
}

/* ---- bytes */

/* What a row spans of its storage, in bytes. */
struct span {
    uint32_t storage;
    uint64_t from, to;
};

static uint64_t block_bytes(ckpt_dtype dt, uint64_t elems, bool up)
{
    const struct dtype_info *d = dtype_info(dt);
    uint64_t blocks = d->block_elems ? elems / d->block_elems + (up && elems % d->block_elems) : 0, bytes;
    return checked_mul(blocks, d->block_bytes, &bytes) ? bytes : UINT64_MAX;
}

static bool span_of(const ckpt_tensor *t, uint64_t size, struct span *s)
{
    uint64_t end;
    if (!t->has_data || t->storage == CKPT_NO_STORAGE || !row_end(t, &end) || end == 0)
        return false;
    *s = (struct span){.storage = t->storage, .to = size};
    if (dtype_info((ckpt_dtype)t->dtype)->block_bytes) {
        s->from = block_bytes((ckpt_dtype)t->dtype, t->storage_offset, false);
        s->to = block_bytes((ckpt_dtype)t->dtype, end, true);
    }
    if (s->to > size)
        s->to = size;
    return s->from < s->to;
}

static int by_start(const void *x, const void *y)
{
    const struct span *a = x, *b = y;
    if (a->storage != b->storage)
        return a->storage < b->storage ? -1 : 1;
    return (a->from > b->from) - (a->from < b->from);
}

/* unreferenced - bytes of storages outside the reach of every view: what lies
 * between the elements of a strided view counts as shown. */
static ckpt_status unreferenced(const ckpt_file *f, uint64_t *out, ckpt_error *err)
{
    const struct table *t = &f->table;
    struct span *spans = calloc(t->nrows + 1, sizeof *spans);
    size_t n = 0;
    uint64_t total = 0, covered = 0, end = 0;
    if (!spans)
        return fail_memory(err);
    for (size_t i = 0; i < t->nrows; i++) {
        const ckpt_tensor *row = &t->rows[i].t;
        n += row->storage < t->nstorages && span_of(row, t->storages[row->storage].s.nbytes, &spans[n]);
    }
    for (size_t i = 0; i < t->nstorages; i++)
        if (t->storages[i].src && !checked_add(total, t->storages[i].s.nbytes, &total))
            total = UINT64_MAX;
    qsort(spans, n, sizeof *spans, by_start);
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || spans[i].storage != spans[i - 1].storage)
            end = 0;
        uint64_t from = spans[i].from > end ? spans[i].from : end;
        if (spans[i].to > from)
            covered += spans[i].to - from; /* at most total */
        if (spans[i].to > end)
            end = spans[i].to;
    }
    free(spans);
    if (!checked_add(total > covered ? total - covered : 0, f->unaccounted, out))
        *out = UINT64_MAX;
    return CKPT_OK;
}

static void sums(const ckpt_file *f, ckpt_info *out)
{
    for (size_t i = 0; i < f->table.nrows; i++) {
        const ckpt_tensor *t = &f->table.rows[i].t;
        out->aliases += t->alias_of != CKPT_NO_TENSOR;
        if (!t->has_data || t->alias_of != CKPT_NO_TENSOR)
            continue;
        if (!checked_add(out->elements, t->elements, &out->elements))
            out->elements = UINT64_MAX;
        if (!checked_add(out->nbytes, t->nbytes, &out->nbytes))
            out->nbytes = UINT64_MAX;
    }
}

/* ---- all of it */

static ckpt_status look_at_graph(const struct walk *w, ckpt_file *file, ckpt_info *out, ckpt_error *err)
{
    struct weights weights;
    CKPT_TRY(weights_find(w, &weights, err));
    out->weights_why = str_c(weights.why);
    if (weights.place != NO_PLACE) {
        out->has_weights = true;
        out->weights_root = walk_name(w, weights.place);
        if (!out->weights_root.ptr)
            return fail_memory(err);
    }
    CKPT_TRY(list_weights(w, &weights, file, out, err));
    CKPT_TRY(find_wrappers(w, &weights, file, out, err));
    return find_optimizer(w, out, err);
}

const ckpt_weights *ckpt_weights_at(const ckpt_file *f, size_t i)
{
    return i < file_or_empty(f)->nweights ? &f->weights[i] : NULL;
}

const ckpt_wrapper *ckpt_wrapper_at(const ckpt_file *f, size_t i)
{
    return i < file_or_empty(f)->nwrappers ? &f->wrappers[i] : NULL;
}

ckpt_status ckpt_inspect(ckpt_file *file, ckpt_info *out, ckpt_error *err)
{
    struct walk w;
    CKPT_TRY(sized_clear(out, err));
    CKPT_REQUIRE(err, file);
    ckpt_info info = {.producer = file->producer, .executes_code = file->executes_code};
    ckpt_status st = walk_graph(&w, file, file->root, file->a, err);
    if (st == CKPT_OK)
        st = look_at_graph(&w, file, &info, err);
    walk_free(&w);
    if (st == CKPT_OK)
        st = unreferenced(file, &info.unreferenced, err);
    if (st == CKPT_OK)
        st = weights_only_verdict(file, &info.weights_only, &info.weights_only_why, err);
    sums(file, &info);
    sized_give(out, &info, sizeof info);
    if (st != CKPT_OK)
        fail_file(err, file->path);
    return st;
}
