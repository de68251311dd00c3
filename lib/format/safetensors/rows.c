/*
 * rows.c - the tensors of a header as rows with storages, and as
 * nodes of a graph that an edit can change: a dict of them.
 *
 * Made when first asked for: whoever only lists them needs a tenth of the memory.
 */
#include "core/check.h"
#include "core/dtype.h"
#include "format/safetensors/safetensors.h"
#include "format/ties.h"

/* Of one row, beside that. */
struct place {
    ckpt_path_elem path;
    struct step step;
    ckpt_value key, val;
};

struct rows {
    ckpt_file *f;
    const struct compact *p;
    uint64_t ndata;
    ckpt_error *err;
};

/* torch's float4 tensor counts bytes, the header counts values: two a byte. */
static ckpt_status halve_last(const struct rows *r, const struct compact_row *x, const uint64_t **shape)
{
    uint64_t *copy = arena_array(r->f->a, x->ndim, sizeof *copy);
    if (!copy)
        return fail_memory(r->err);
    if (x->ndim == 0 || (*shape)[x->ndim - 1] % 2)
        return fail(r->err, CKPT_EUNSUPPORTED, safetensors_place(r->f, x),
                    "tensor \"%.*s\" has a last dimension that splits a byte of two F4 values",
                    STR_ARG(x->name));
    memcpy(copy, *shape, x->ndim * sizeof *copy); /* bounded: the copy was just allocated */
    copy[x->ndim - 1] /= 2;
    *shape = copy;
    return CKPT_OK;
}

static ckpt_status add_lost(const struct rows *r, const struct compact_row *x, struct storage *s,
                            uint32_t *index)
{
    ckpt_error why;
    (void)fail(&why, CKPT_ETRUNCATED, r->f->src->size,
               "it needs {=bytes %llu..%llu} of the data, the file has {%llu}", (unsigned long long)x->begin,
               (unsigned long long)x->end, (unsigned long long)r->ndata);
    CKPT_TRY(table_lost(&r->f->table, s, &why, r->err));
    s->s.file_offset = CKPT_NO_OFFSET;
    return table_storage(&r->f->table, s, index, r->err);
}

static ckpt_status add_storage(const struct rows *r, const struct compact_row *x, uint32_t *index)
{
    struct storage s = {.dtype = x->dtype, .numel = x->end - x->begin};
    s.s.nbytes = x->end - x->begin;
    s.s.key = x->name;
    if (x->end > r->ndata) /* salvage: the rest was cut off */
        return add_lost(r, x, &s, index);
    s.off = r->p->data + x->begin; /* bounded: check_entries saw it inside the file */
    s.s.file_offset = source_pos(r->f->src, s.off);
    s.src = source_ref(r->f->src);
    return table_storage(&r->f->table, &s, index, r->err);
}

static ckpt_status add_row(const struct rows *r, const struct compact_row *x, struct place *to)
{
    ckpt_file *f = r->f;
    ckpt_value *root = f->root;
    to->key = (ckpt_value){.type = CKPT_V_STR, .row = CKPT_NO_TENSOR, .u.str = x->name};
    to->val =
        (ckpt_value){.type = CKPT_V_TENSOR, .row = CKPT_NO_TENSOR, .offset = safetensors_place(f, x)};
    to->path = (ckpt_path_elem){.str = x->name};
    to->step = (struct step){.node = root, .index = root->u.dict.n};
    root->u.dict.pairs[root->u.dict.n++] = (value_pair){&to->key, &to->val};
    struct row row = {.steps = &to->step};
    row.t = (ckpt_tensor){.name = x->name,
                          .path = &to->path,
                          .npath = 1,
                          .dtype = x->dtype,
                          .kind = CKPT_DENSE,
                          .ndim = x->ndim,
                          .shape = r->p->sizes + x->shape, /* bounded: it has so many */
                          .has_shape = true,
                          .has_data = true,
                          .part_of = CKPT_NO_TENSOR,
                          .value = &to->val};
    if (dtype_info((ckpt_dtype)x->dtype)->st_last_mul == 2)
        CKPT_TRY(halve_last(r, x, &row.t.shape));
    CKPT_TRY(add_storage(r, x, &row.t.storage));
    row.t.has_data = f->table.storages[row.t.storage].src != NULL;
    return file_row(f, &row, &to->val.row, r->err);
}

/* The arrays have their final size at once: nothing is left behind by growing. */
static ckpt_status add_rows(const struct rows *r)
{
    ckpt_file *f = r->f;
    struct table *t = &f->table;
    size_t n = r->p->n, all = n + f->nties; /* bounded: both are in memory */
    struct place *places = arena_array(f->a, n, sizeof *places);
    value_pair *pairs = arena_array(f->a, all, sizeof *pairs);
    t->rows = arena_grow(f->a, NULL, 0, &t->cap_rows, all, sizeof *t->rows);
    t->storages = arena_grow(f->a, NULL, 0, &t->cap_storages, n, sizeof *t->storages);
    f->root = value_new(f->a, CKPT_V_DICT, 0);
    if (!places || !pairs || !f->root || (n && (!t->rows || !t->storages)))
        return fail_memory(r->err);
    f->root->u.dict.pairs = pairs;
    f->root->u.dict.cap = (uint32_t)all;
    for (size_t i = 0; i < n; i++) {
        struct compact_row x;
        compact_get(r->p, i, &x);
        if (!x.bad)
            CKPT_TRY(add_row(r, &x, &places[i]));
    }
    return f->nties ? ties_read(f, r->err) : CKPT_OK;
}

ckpt_status safetensors_expand(ckpt_file *f, ckpt_error *err)
{
    const struct table compact = f->table;
    const struct rows r = {.f = f,
                           .p = compact.compact,
                           .ndata = f->src->size - compact.compact->data, /* bounded: they are in it */
                           .err = err};
    f->table.compact = NULL;
    f->table.nrows = f->table.nstorages = 0;
    arena_expect(f->a, r.p->n + f->nties, sizeof(struct row) + sizeof(struct storage));
    ckpt_status st = add_rows(&r);
    if (st == CKPT_OK)
        return st;
    table_close(&f->table);
    f->table = compact;
    f->root = NULL;
    return st;
}
