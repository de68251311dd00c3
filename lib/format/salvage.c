/* salvage.c - a tensor is lost when its storage is, whole as that counts; a tensor made of
 * tensors is lost with any of them, and takes them with it. So is an object with what it holds. */
#include "format/salvage.h"

#include "format/torch/graph.h"

static const struct storage *storage_of(const ckpt_file *f, size_t row)
{
    uint32_t i = f->table.rows[row].t.storage;
    return i < f->table.nstorages ? &f->table.storages[i] : NULL;
}

/* spread - from the first row of a node to the others, from parts to the wholes before them, and back. */
static void spread(ckpt_file *f)
{
    for (size_t i = 0; i < f->table.nrows; i++) {
        const ckpt_value *v = f->table.rows[i].t.value;
        if (v && v->row < i && f->table.rows[v->row].t.value == v && f->lost_row[v->row])
            f->lost_row[i] = true;
    }
    for (size_t i = f->table.nrows; i-- > 0;) {
        uint32_t of = f->table.rows[i].t.part_of;
        if (f->lost_row[i] && of != CKPT_NO_TENSOR)
            f->lost_row[of] = true;
    }
    for (size_t i = 0; i < f->table.nrows; i++) {
        uint32_t of = f->table.rows[i].t.part_of;
        if (of != CKPT_NO_TENSOR && f->lost_row[of])
            f->lost_row[i] = true;
    }
}

static ckpt_status add(ckpt_file *f, size_t row, ckpt_error *err)
{
    const struct storage *s = storage_of(f, row);
    ckpt_lost *grown = arena_grow(f->a, f->lost, f->nlost, &f->cap_lost, f->nlost + 1, sizeof *grown);
    if (!grown)
        return fail_memory(err);
    f->lost = grown;
    ckpt_lost *l = &grown[f->nlost++];
    *l = (ckpt_lost){
        .row = (uint32_t)row, .why = STR_LIT("a part of it is lost"), .offset = CKPT_NO_OFFSET};
    if (s && storage_lost(s))
        *l = (ckpt_lost){(uint32_t)row, str_c(s->more->lost), s->more->lost_at, s->more->file};
    return CKPT_OK;
}

/* keep_place - None where ROW, an item of a list or tuple, was. */
static ckpt_status keep_place(ckpt_file *f, size_t row, ckpt_error *err)
{
    const struct row *r = &f->table.rows[row];
    const ckpt_value *node = r->steps && r->t.npath ? r->steps[r->t.npath - 1].node : NULL;
    uint32_t pairs = 0;
    if (node)
        (void)value_pairs(node, &pairs);
    if (!node || pairs || !r->t.value || r->t.part_of != CKPT_NO_TENSOR)
        return CKPT_OK;
    ckpt_value *none = value_new(f->a, CKPT_V_NONE, 0);
    return none && file_replace(f, r->t.value, none) ? CKPT_OK : fail_memory(err);
}

void salvage_blind(ckpt_file *f)
{
    for (size_t i = 0; i < f->table.nstorages; i++)
        if (f->table.storages[i].has_crc)
            return;
    file_notice(f,
                "it records no checksums: bytes that are missing are seen, bytes that were changed are not");
}

/* look - which rows are lost. */
static ckpt_status look(ckpt_file *f, ckpt_error *err)
{
    f->lost_row = arena_array(f->a, f->table.nrows, sizeof *f->lost_row);
    for (size_t i = 0; f->lost_row && i < f->table.nrows; i++) {
        const struct storage *s = storage_of(f, i);
        f->lost_row[i] = s && storage_lost(s);
    }
    return f->lost_row ? CKPT_OK : fail_memory(err);
}

/* look_into_objects - those that are lost are new rows. */
static ckpt_status look_into_objects(ckpt_file *f, ckpt_error *err)
{
    size_t n = f->table.nrows;
    CKPT_TRY(torch_lost_objects(f, err));
    bool *all = arena_array(f->a, f->table.nrows, sizeof *all);
    if (!all)
        return fail_memory(err);
    memcpy(all, f->lost_row, n * sizeof *all);
    for (size_t i = n; i < f->table.nrows; i++)
        all[i] = true;
    f->lost_row = all;
    return CKPT_OK;
}

ckpt_status salvage_rows(ckpt_file *f, ckpt_error *err)
{
    if (f->lost_row) /* it is what a folder turned out to be */
        return CKPT_OK;
    if (f->resolve)
        CKPT_TRY(f->resolve(f, err));
    CKPT_TRY(look(f, err));
    CKPT_TRY(look_into_objects(f, err));
    spread(f);
    for (size_t i = 0; i < f->table.nrows; i++) {
        if (!f->lost_row[i])
            continue;
        CKPT_TRY(add(f, i, err));
        CKPT_TRY(keep_place(f, i, err));
    }
    return CKPT_OK;
}

void salvage_raw(const zip *z, ckpt_error *err)
{
    uint64_t bytes = 0;
    size_t whole = 0;
    for (size_t i = 0; i < z->n; i++)
        if (!z->entries[i].fault && !str_ends(z->entries[i].name, STR_LIT(".pkl"))) {
            whole++;
            bytes += z->entries[i].usize; /* bounded: they lie apart in one file */
        }
    err->hint[0] = 0;
    fail_hint(err, "nothing can be named; %zu other records are intact, %llu bytes that a dump could give",
              whole, (unsigned long long)bytes);
}
