/* rows.c - adds the tensors of a header as rows with storages, and as nodes of a dict, which edits can
 * change. */
#include "core/check.h"
#include "core/dtype.h"
#include "format/safetensors/safetensors.h"

/* What a row refers to, in one allocation. */
struct row_nodes {
    ckpt_path_elem path;
    struct step step;
    ckpt_value key, val;
};

/* halve_last - halves the last size of X: the elements of torch's float4 tensors are bytes, those of the
 * header values, two per byte. */
static ckpt_status halve_last(const struct header_entry *x, ckpt_error *err)
{
    if (x->ndim == 0 || x->shape[x->ndim - 1] % 2)
        return fail(err, CKPT_EUNSUPPORTED, x->pos,
                    "tensor \"%.*s\" has a last dimension that splits a byte of two F4 values",
                    STR_ARG(x->name));
    x->shape[x->ndim - 1] /= 2;
    return CKPT_OK;
}

static ckpt_status add_lost(ckpt_file *f, const struct header_entry *x, uint64_t data_size, struct storage *s,
                            ckpt_error *err)
{
    ckpt_error why;
    (void)fail(&why, CKPT_ETRUNCATED, f->src->size,
               "it needs {=bytes %llu..%llu} of the data, the file has {%llu}", (unsigned long long)x->begin,
               (unsigned long long)x->end, (unsigned long long)data_size);
    return table_set_lost(&f->table, s, &why, err);
}

static ckpt_status add_storage(ckpt_file *f, const struct header_entry *x, uint32_t *index, ckpt_error *err)
{
    uint64_t data_size = f->src->size - f->data_offset; /* bounded: it is in the file */
    struct storage s = {.dtype = x->dtype, .numel = x->end - x->begin};
    s.s.nbytes = x->end - x->begin;
    s.s.key = x->name;
    if (x->end > data_size) { /* salvage: its end is missing */
        CKPT_TRY(add_lost(f, x, data_size, &s, err));
    } else {
        s.off = f->data_offset + x->begin; /* bounded: inside the file */
        s.src = source_ref(f->src);
    }
    return table_add_storage(&f->table, &s, index, err);
}

static ckpt_status add_row(ckpt_file *f, const struct header_entry *x, struct row_nodes *to, ckpt_error *err)
{
    ckpt_value *root = f->root;
    to->key = (ckpt_value){.type = CKPT_V_STR, .row = CKPT_NO_TENSOR, .u.str = x->name};
    to->val = (ckpt_value){.type = CKPT_V_TENSOR, .row = CKPT_NO_TENSOR, .offset = x->pos};
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
                          .shape = x->shape,
                          .has_shape = true,
                          .part_of = CKPT_NO_TENSOR,
                          .value = &to->val};
    if (dtype_info((ckpt_dtype)x->dtype)->st_last_mul == 2)
        CKPT_TRY(halve_last(x, err));
    CKPT_TRY(add_storage(f, x, &row.t.storage, err));
    row.t.has_data = f->table.storages[row.t.storage].src != NULL;
    return file_add_row(f, &row, &to->val.row, err);
}

/* The arrays have their final size at once: growing would leave copies of them in the arena. */
ckpt_status safetensors_add_rows(ckpt_file *f, const struct header_entry *entries, size_t n, ckpt_error *err)
{
    struct table *t = &f->table;
    arena_expect(f->a, n, sizeof(struct row) + sizeof(struct storage));
    struct row_nodes *nodes = arena_array(f->a, n, sizeof *nodes);
    value_pair *pairs = arena_array(f->a, n, sizeof *pairs);
    t->rows = arena_grow(f->a, NULL, 0, &t->cap_rows, n, sizeof *t->rows);
    t->storages = arena_grow(f->a, NULL, 0, &t->cap_storages, n, sizeof *t->storages);
    f->root = value_new(f->a, CKPT_V_DICT, 0);
    if (!nodes || !pairs || !f->root || !t->rows || !t->storages)
        return fail_memory(err);
    f->root->u.dict.pairs = pairs;
    f->root->u.dict.cap = (uint32_t)n;
    for (size_t i = 0; i < n; i++)
        if (!entries[i].bad)
            CKPT_TRY(add_row(f, &entries[i], &nodes[i], err));
    return CKPT_OK;
}
