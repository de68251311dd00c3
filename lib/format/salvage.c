/* salvage.c - finds the lost rows of a damaged file. If a storage is lost, so are its tensors and the objects
 * that hold the storage. If a component is lost, so are its composite and the other components. */
#include <inttypes.h>
#include <stdio.h>

#include "core/check.h"
#include "core/view.h"
#include "format/graph/unrecoverable_objects.h"
#include "format/numpy/numpy.h"
#include "format/salvage.h"

static const struct storage *get_storage(const ckpt_file *f, size_t row)
{
    uint32_t i = table_storage_of(&f->table, row);
    return i < f->table.nstorages ? &f->table.storages[i] : NULL;
}

/* spread_losses - makes rows lost whose node is that of a lost row; then composites with a lost component,
 * from the last to the first, because a component may be a composite; then the components of lost
 * composites. */
static void spread_losses(ckpt_file *f)
{
    for (size_t i = 0; i < f->table.nrows; i++) {
        const ckpt_value *v = table_value_of(&f->table, i);
        uint32_t row = v ? value_row(v) : CKPT_NO_TENSOR;
        if (row < i && table_value_of(&f->table, row) == v && f->losses.of_row[row])
            f->losses.of_row[i] = true;
    }
    for (size_t i = f->table.nrows; COUNT_DOWN(i);) {
        uint32_t composite = table_part_of(&f->table, i);
        if (f->losses.of_row[i] && composite != CKPT_NO_TENSOR)
            f->losses.of_row[composite] = true;
    }
    for (size_t i = 0; i < f->table.nrows; i++) {
        uint32_t composite = table_part_of(&f->table, i);
        if (composite != CKPT_NO_TENSOR && f->losses.of_row[composite])
            f->losses.of_row[i] = true;
    }
}

/* has_unwritable_dtype - returns true if no format can write the dtype of TENSOR. Of the dtypes that are
 * known by name alone, numpy has some. */
static bool has_unwritable_dtype(const ckpt_tensor *tensor)
{
    return tensor->dtype == CKPT_DT_NAMED && !numpy_has_dtype(tensor);
}

/* cannot_be_written - returns true if TENSOR, a row of F, is a tensor whose data cannot be read, or whose
 * dtype no format can write. The objects of a pickle are written as they are. */
static bool cannot_be_written(const ckpt_file *f, const ckpt_tensor *tensor)
{
    return f->format->flat && tensor->part_of == CKPT_NO_TENSOR &&
           ((tensor->kind == CKPT_OPAQUE && !tensor->has_data) || has_unwritable_dtype(tensor));
}

ckpt_status salvage_leave_out_unfit(ckpt_plan *p, const struct format *to, ckpt_error *err)
{
    const ckpt_file *f = p->file;
    char why[128];
    for (uint32_t i = 0; f->salvage && f->format->flat && i < f->table.nrows; i++) {
        const ckpt_tensor t = table_tensor(&f->table, i);
        if (!p->keep[i] || t.dtype != CKPT_DT_NAMED || (to->holds_dtype && to->holds_dtype(&t)))
            continue;
        const ckpt_leaf leaf = {.name = t.name, .path = t.path, .npath = t.npath};
        (void)snprintf(why, sizeof why, "%s has no dtype %s, .npz has", to->title,
                       ckpt_tensor_dtype_name(&t));
        p->keep[i] = false;
        p->entries_stale = true;
        CKPT_TRY(plan_note_dropped(p, &leaf, why, err));
    }
    return CKPT_OK;
}

static ckpt_status add_lost_row(ckpt_file *f, size_t row, ckpt_error *err)
{
    const struct storage *s = get_storage(f, row);
    ckpt_lost l = {.row = (uint32_t)row, .why = STR_LIT("a part of it is lost"), .offset = CKPT_NO_OFFSET};
    const ckpt_tensor t = table_tensor(&f->table, row);
    if (cannot_be_written(f, &t))
        l.why = has_unwritable_dtype(&t) ? STR_LIT("no format can write its dtype")
                : t.note.len             ? t.note
                                         : STR_LIT("its data cannot be read");
    if (s && storage_loss(s))
        l = (ckpt_lost){(uint32_t)row, str_c(s->extra->lost_why), s->extra->lost_at, s->extra->file};
    struct losses *all = &f->losses;
    return arena_push(f->a, &all->items, &all->n, &all->cap, &l, sizeof l) ? CKPT_OK : fail_memory(err);
}

/* replace_by_none - replaces ROW by None if it is an item of a list or tuple. */
static ckpt_status replace_by_none(ckpt_file *f, size_t row, ckpt_error *err)
{
    const struct row r = table_row(&f->table, row);
    const ckpt_value *node = r.steps && r.t.npath ? r.steps[r.t.npath - 1].node : NULL;
    uint32_t pairs = 0;
    if (node)
        (void)value_pairs(node, &pairs);
    if (!node || pairs || !r.t.value || r.t.part_of != CKPT_NO_TENSOR)
        return CKPT_OK;
    ckpt_value *none = value_new(f->a, CKPT_V_NONE, 0);
    return none && file_set_replacement(f, r.t.value, none) ? CKPT_OK : fail_memory(err);
}

void salvage_note_no_checksums(ckpt_file *f)
{
    size_t n = 0, nwithout = 0;
    bool has_any = f->whole_checksum;
    for (size_t i = 0; i < f->table.nstorages; i++) {
        const struct storage *s = &f->table.storages[i];
        bool has_own = s->has_crc || s->pieces_have_crcs, has_bytes = s->src && s->nbytes;
        has_any |= has_own;
        n += has_bytes;
        nwithout += has_bytes && !has_own;
    }
    if (!has_any)
        file_notice(f, "the file has no checksums: missing bytes are detected, changed bytes are not");
    else if (nwithout && !f->whole_checksum && !f->losses.zip) /* an archive has them of all members */
        file_notice(f, "%zu of %zu storages have no checksum: changed bytes in them are not detected",
                    nwithout, n);
}

void salvage_note_stray(ckpt_file *f, uint64_t count, const char *what)
{
    file_note_loss(f,
                   "%" PRIu64
                   " unreferenced byte%s after the last %s: if they were inserted before, the data after "
                   "them are shifted; fetch the file again",
                   count, count == 1 ? "" : "s", what);
}

/* must_read - returns true if only reading STORAGE shows whether its bytes are intact. The members of a zip
 * archive were compared with their checksums when it was opened; in a file without checksums no read can
 * fail. */
static bool must_read(const ckpt_file *f, const struct storage *storage)
{
    bool is_archive = f->losses.zip && storage->has_crc;
    bool is_plain = !storage->has_crc && !storage->checks_itself &&
                    source_pos(storage->src, storage->off) != CKPT_NO_OFFSET;
    return storage->nbytes && !storage->crc_checked && !is_archive && !is_plain;
}

/* read_storage - reads STORAGE, and fails if its bytes cannot be read or have another checksum. */
static ckpt_status read_storage(const struct storage *storage, ckpt_error *err)
{
    uint32_t crc = 0;
    enum crc_kind kind = storage->is_crc32c ? CRC_32C : CRC_32;
    CKPT_TRY(source_crc(storage->src, storage->off, storage->nbytes, kind, &crc, err));
    if (!storage->has_crc || crc == storage->crc)
        return CKPT_OK;
    return fail(err, CKPT_ECHECKSUM, source_pos(storage->src, storage->off),
                "its %s is {%08" PRIx32 "}, the file records {=%08" PRIx32 "}", crc_name(kind), crc,
                storage->crc);
}

/* check_storages - reads the storages of F, and makes those lost whose bytes are not intact. */
static ckpt_status check_storages(ckpt_file *f, ckpt_error *err)
{
    for (size_t i = 0; i < f->table.nstorages; i++) {
        struct storage *s = &f->table.storages[i];
        if (!s->src || !must_read(f, s))
            continue;
        ckpt_status st = read_storage(s, err);
        if (st == CKPT_OK)
            continue;
        if (!check_is_fault(st))
            return st;
        const ckpt_error why = *err;
        CKPT_TRY(table_set_lost(&f->table, s, &why, err));
    }
    return CKPT_OK;
}

static ckpt_status find_lost_rows(ckpt_file *f, ckpt_error *err)
{
    f->losses.of_row = arena_array(f->a, f->table.nrows, sizeof *f->losses.of_row);
    for (size_t i = 0; f->losses.of_row && i < f->table.nrows; i++) {
        const struct storage *s = get_storage(f, i);
        const ckpt_tensor t = table_tensor(&f->table, i);
        f->losses.of_row[i] = (s && storage_loss(s)) || cannot_be_written(f, &t);
        table_set_has_data(&f->table, i, t.has_data && !f->losses.of_row[i]);
    }
    return f->losses.of_row ? CKPT_OK : fail_memory(err);
}

/* add_lost_objects - adds rows for lost objects that are not tensors, which losses.of_row then covers. */
static ckpt_status add_lost_objects(ckpt_file *f, ckpt_error *err)
{
    size_t n = f->table.nrows;
    CKPT_TRY(graph_find_unrecoverable_objects(f, err));
    bool *lost = arena_array(f->a, f->table.nrows, sizeof *lost);
    CKPT_TRY_ALLOC(lost, err);
    memcpy(lost, f->losses.of_row, n * sizeof *lost);
    for (size_t i = n; i < f->table.nrows; i++)
        lost[i] = true;
    f->losses.of_row = lost;
    return CKPT_OK;
}

/* note_damaged_members - notes the damaged members of an archive that are no tensors, such as the code of a
 * TorchScript model. The reader has not used them, or has done without. */
static void note_damaged_members(ckpt_file *f)
{
    enum { MAX_NOTED = 8 };
    const zip *z = f->losses.zip;
    size_t n = 0;
    for (size_t i = 0; z && i < z->n; i++) {
        const struct zip_entry *e = &z->entries[i];
        if (e->fault && !e->is_reported && !e->is_alias && n++ < MAX_NOTED)
            file_note_loss(f, "%.*s is lost: %s", STR_ARG(e->name), e->fault);
    }
    if (n > MAX_NOTED)
        file_note_loss(f, "%zu other members of the archive are lost", n - MAX_NOTED);
}

ckpt_status salvage_rows(ckpt_file *f, ckpt_error *err)
{
    if (f->losses.of_row) /* F has taken over a file for which this was done */
        return CKPT_OK;
    for (size_t i = 0; i < f->nparts; i++)
        f->losses.parts += f->parts[i]->losses.parts;
    if (f->add_opaque_storages)
        CKPT_TRY(f->add_opaque_storages(f, err));
    CKPT_TRY(check_storages(f, err));
    note_damaged_members(f);
    CKPT_TRY(find_lost_rows(f, err));
    CKPT_TRY(add_lost_objects(f, err));
    spread_losses(f);
    for (size_t i = 0; i < f->table.nrows; i++) {
        if (!f->losses.of_row[i])
            continue;
        CKPT_TRY(add_lost_row(f, i, err));
        CKPT_TRY(replace_by_none(f, i, err));
    }
    return CKPT_OK;
}

bool salvage_left_nothing(const ckpt_file *f)
{
    return f->losses.parts && !f->table.nrows && (f->format->flat || view_is_empty_mapping(f->root));
}

void salvage_hint_raw_bytes(const zip *archive, ckpt_error *err)
{
    uint64_t bytes = 0;
    size_t intact = 0;
    for (size_t i = 0; i < archive->n; i++)
        if (!archive->entries[i].fault && !str_ends(archive->entries[i].name, STR_LIT(".pkl"))) {
            intact++;
            bytes += archive->entries[i].usize;
        }
    err->hint[0] = 0;
    error_add_hint(err, "without the pickle no tensor has a name; %zu other records (%llu bytes) are intact",
                   intact, (unsigned long long)bytes);
}
