/*
 * zip_cast.c - which storages of an archive become another dtype.
 *
 * Tensors that share a storage go on sharing it: the storage is cast once and
 * whole, so all tensors on it must agree on what they are and become. The
 * pickles of merged shards name the storages of their own tables, which are
 * found by where their bytes lie.
 */
#include "base/text.h"
#include "core/convert.h"
#include "core/dtype.h"
#include "format/torch/zip.h"

/* Where a storage's bytes lie, as the key of a map. */
struct place {
    const source *src;
    uint64_t off, nbytes;
};

static ckpt_str place_key(struct place *at, const struct storage *s)
{
    memset(at, 0, sizeof *at);
    at->src = s->src;
    at->off = s->off;
    at->nbytes = s->s.nbytes;
    return str_of((const char *)at, sizeof *at);
}

static const ckpt_tensor *tensor_of(const struct torch_writer *w, const struct plan_entry *e)
{
    return &w->p->file->table.rows[e->row].t;
}

static bool agree(const struct torch_writer *w, const struct plan_entry *a, const struct plan_entry *b)
{
    ckpt_dtype to_a = plan_dtype(w->p, a->row), to_b = plan_dtype(w->p, b->row);
    bool cast = to_a != tensor_of(w, a)->dtype || to_b != tensor_of(w, b)->dtype;
    return !cast || (to_a == to_b && tensor_of(w, a)->dtype == tensor_of(w, b)->dtype);
}

static ckpt_status refuse_negated(const struct torch_writer *w, const struct plan_entry *e, ckpt_error *err)
{
    (void)fail(err, CKPT_ELOSSY, CKPT_NO_OFFSET, "\"%.*s\" is a negated view, which torch has not of %s",
               STR_ARG(e->name), ckpt_dtype_name(plan_dtype(w->p, e->row)));
    char word[SHELL_MOST];
    fail_hint(err, "--cast %s=%s leaves it as it is; a .safetensors output can have it",
              shell_glob(e->name, word),
              ckpt_dtype_name((ckpt_dtype)tensor_of(w, e)->dtype));
    return CKPT_ELOSSY;
}

static ckpt_status begin_cast(struct torch_writer *w, const struct plan_entry *e, ckpt_error *err)
{
    const ckpt_tensor *t = tensor_of(w, e);
    struct torch_cast *c = &w->casts[t->storage];
    const struct storage *s = &w->p->file->table.storages[t->storage];
    if (t->neg && dtype_info(plan_dtype(w->p, e->row))->block_bytes == 1)
        return refuse_negated(w, e, err);
    *c = (struct torch_cast){(ckpt_dtype)t->dtype, plan_dtype(w->p, e->row), e, 0};
    if (!map_set_num(w->cast_of, map_ptr(s), t->storage))
        return fail_memory(err);
    if (s->s.nbytes % dtype_info(c->from)->block_bytes == 0 &&
        plan_storage_nbytes(w->p, e->row, &c->nbytes))
        return CKPT_OK;
    return fail(err, CKPT_ELOSSY, CKPT_NO_OFFSET, "\"%.*s\" cannot become %s: its storage has %llu bytes",
                STR_ARG(e->name), ckpt_dtype_name(c->to), (unsigned long long)s->s.nbytes);
}

/* An array of numpy is written as it came, inside the pickle. */
static ckpt_status tell_arrays(struct torch_writer *w, const struct plan_entry *first, size_t n,
                               ckpt_error *err)
{
    if (!n)
        return CKPT_OK;
    ckpt_dtype is = (ckpt_dtype)tensor_of(w, first)->dtype;
    if (w->opts->strict)
        return fail(err, CKPT_ELOSSY, CKPT_NO_OFFSET, "\"%.*s\" is an array of numpy, which stays %s",
                    STR_ARG(first->name), ckpt_dtype_name(is));
    plan_notice(w->p, "\"%.*s\" stays %s: it is an array of numpy (%zu of them)", STR_ARG(first->name),
                ckpt_dtype_name(is), n);
    return CKPT_OK;
}

/* loses_grad - torch reads a byte wide float only when it needs no gradient; see as_cast(). */
static bool loses_grad(const struct torch_writer *w, const struct plan_entry *e)
{
    const ckpt_tensor *t = tensor_of(w, e);
    return t->requires_grad && !t->parameter && dtype_info(plan_dtype(w->p, e->row))->block_bytes == 1;
}

static ckpt_status tell_grads(struct torch_writer *w, const struct plan_entry *first, size_t n,
                              ckpt_error *err)
{
    if (!n)
        return CKPT_OK;
    if (w->opts->strict)
        return fail(err, CKPT_ELOSSY, CKPT_NO_OFFSET,
                    "\"%.*s\" requires a gradient, with which torch cannot read it as %s",
                    STR_ARG(first->name), ckpt_dtype_name(plan_dtype(w->p, first->row)));
    plan_notice(w->p, "\"%.*s\" no longer requires a gradient: torch cannot read it as %s then (%zu of them)",
                STR_ARG(first->name), ckpt_dtype_name(plan_dtype(w->p, first->row)), n);
    return CKPT_OK;
}

static ckpt_status cast_entries(struct torch_writer *w, const struct plan_entry **first, ckpt_error *err)
{
    const struct plan_entry *array = NULL, *grad = NULL;
    size_t arrays = 0, grads = 0;
    for (size_t i = 0; i < w->p->nentries; i++) {
        const struct plan_entry *e = &w->p->entries[i];
        const ckpt_tensor *t = tensor_of(w, e);
        if (t->kind == CKPT_NDARRAY && plan_dtype(w->p, e->row) != t->dtype && arrays++ == 0)
            array = e;
        if (t->kind == CKPT_NDARRAY || t->storage == CKPT_NO_STORAGE)
            continue;
        if (first[t->storage] && !agree(w, first[t->storage], e))
            return plan_cast_disagree(w->p, first[t->storage], e, err);
        if (!first[t->storage] && plan_dtype(w->p, e->row) != t->dtype)
            CKPT_TRY(begin_cast(w, e, err));
        if (plan_dtype(w->p, e->row) != t->dtype && loses_grad(w, e) && grads++ == 0)
            grad = e;
        if (!first[t->storage])
            first[t->storage] = e;
    }
    CKPT_TRY(tell_grads(w, grad, grads, err));
    return tell_arrays(w, array, arrays, err);
}

/* cast_part - the storages of a shard's own table. */
static ckpt_status cast_part(struct torch_writer *w, const struct table *part, const map *at, ckpt_error *err)
{
    struct place place;
    for (size_t i = 0; i < part->nstorages; i++) {
        uint32_t cast = map_get(at, place_key(&place, &part->storages[i]));
        if (cast != MAP_NONE && !map_set_num(w->cast_of, map_ptr(&part->storages[i]), cast))
            return fail_memory(err);
    }
    return CKPT_OK;
}

static ckpt_status cast_parts(struct torch_writer *w, map *at, struct place *places, ckpt_error *err)
{
    const ckpt_file *f = w->p->file;
    uint32_t other;
    for (uint32_t i = 0; i < f->table.nstorages; i++) {
        struct torch_cast *c = &w->casts[i];
        if (!c->to)
            continue;
        if (!map_put(at, place_key(&places[i], &f->table.storages[i]), i, &other))
            return fail_memory(err);
        if (other != MAP_NONE && (w->casts[other].to != c->to || w->casts[other].from != c->from))
            return plan_cast_disagree(w->p, w->casts[other].first, c->first, err);
    }
    for (size_t k = 0; k < f->nparts; k++)
        CKPT_TRY(cast_part(w, &f->parts[k]->table, at, err));
    return CKPT_OK;
}

ckpt_status torch_zip_casts(struct torch_writer *w, ckpt_error *err)
{
    const ckpt_file *f = w->p->file;
    size_t n = f->table.nstorages;
    if (!w->p->cast)
        return CKPT_OK;
    CKPT_TRY(plan_entries(w->p, err));
    const struct plan_entry **first = arena_array(w->p->a, n, sizeof *first);
    w->casts = arena_array(w->p->a, n, sizeof *w->casts);
    if (!first || !w->casts)
        return fail_memory(err);
    CKPT_TRY(cast_entries(w, first, err));
    if (!f->nparts)
        return CKPT_OK;
    struct place *places = arena_array(w->p->a, n, sizeof *places);
    map *at = map_new(n);
    ckpt_status st = places && at ? cast_parts(w, at, places, err) : fail_memory(err);
    map_free(at);
    return st;
}

const struct torch_cast *torch_cast_of(const struct torch_writer *w, const struct storage *s)
{
    uint32_t i = w->casts ? map_get_num(w->cast_of, map_ptr(s)) : MAP_NONE;
    return i == MAP_NONE ? NULL : &w->casts[i];
}

uint64_t torch_zip_bytes(const struct torch_writer *w, const struct storage *s)
{
    const struct torch_cast *cast = torch_cast_of(w, s);
    return cast ? cast->nbytes : s->s.nbytes;
}

ckpt_status torch_zip_casts_done(struct torch_writer *w, const struct convert_tally *tallies, ckpt_error *err)
{
    size_t before = w->p->ncasts;
    for (size_t i = 0; w->casts && i < w->n; i++) {
        const struct torch_cast *cast = torch_cast_of(w, w->items[i]);
        if (cast)
            CKPT_TRY(plan_cast_done(w->p, cast->first->name, cast->first->row,
                                    w->items[i]->s.nbytes / dtype_info(cast->from)->block_bytes,
                                    tallies[i].overflowed, err));
    }
    return w->opts->strict ? plan_cast_lossless(w->p, before, err) : CKPT_OK;
}
