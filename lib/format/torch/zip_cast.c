/*
 * zip_cast.c - decides which storages of an archive are cast to a different dtype.
 *
 * Tensors that share a storage continue to share it: the storage is cast once, so all its tensors must have
 * one dtype before the cast and one after it. If shards are merged, the pickle of each shard refers to the
 * storages of that shard; these are matched with those of the merged file by the position of their bytes.
 */
#include "base/text.h"
#include "format/torch/zip.h"

/* The position of the bytes of a storage, as the key of a map. */
struct byte_range {
    const source *src;
    uint64_t off, nbytes;
};

static ckpt_str make_range_key(struct byte_range *at, const struct storage *storage)
{
    memset(at, 0, sizeof *at);
    at->src = storage->src;
    at->off = storage->off;
    at->nbytes = storage->nbytes;
    return str_of((const char *)at, sizeof *at);
}

static ckpt_tensor get_tensor(const struct torch_writer *writer, const struct plan_entry *entry)
{
    return table_tensor(&writer->p->file->table, entry->row);
}

static bool casts_agree(const struct torch_writer *writer, const struct plan_entry *left,
                        const struct plan_entry *right)
{
    ckpt_dtype to_a = plan_dtype(writer->p, left->row), to_b = plan_dtype(writer->p, right->row);
    bool is_cast = to_a != get_tensor(writer, left).dtype || to_b != get_tensor(writer, right).dtype;
    return !is_cast || (to_a == to_b && get_tensor(writer, left).dtype == get_tensor(writer, right).dtype);
}

static ckpt_status refuse_negated(const struct torch_writer *writer, const struct plan_entry *entry,
                                  ckpt_error *err)
{
    (void)fail(err, CKPT_ELOSSY, CKPT_NO_OFFSET,
               "\"%.*s\" is a negated view, which torch does not support for %s", STR_ARG(entry->name),
               ckpt_dtype_name(plan_dtype(writer->p, entry->row)));
    char word[SHELL_WORD_MAX];
    error_add_hint(err, "--cast %s=%s leaves it as it is; a .safetensors output can hold the cast tensor",
                   shell_glob(entry->name, word),
                   ckpt_dtype_name((ckpt_dtype)get_tensor(writer, entry).dtype));
    return CKPT_ELOSSY;
}

static ckpt_status plan_storage_cast(struct torch_writer *writer, const struct plan_entry *entry,
                                     ckpt_error *err)
{
    const ckpt_tensor t = get_tensor(writer, entry);
    struct torch_cast *c = &writer->casts[t.storage];
    const struct storage *s = &writer->p->file->table.storages[t.storage];
    if (t.neg && dtype_info(plan_dtype(writer->p, entry->row))->block_bytes == 1)
        return refuse_negated(writer, entry, err);
    *c = (struct torch_cast){(ckpt_dtype)t.dtype, plan_dtype(writer->p, entry->row), entry, 0};
    CKPT_TRY_ALLOC(map_set_num(writer->cast_of, ptr_key(s), t.storage), err);
    if (s->nbytes % dtype_info(c->from)->block_bytes == 0 &&
        plan_storage_nbytes(writer->p, entry->row, &c->nbytes))
        return CKPT_OK;
    return fail(err, CKPT_ELOSSY, CKPT_NO_OFFSET,
                "\"%.*s\" cannot become %s: the size of its storage, %llu bytes, does not allow it",
                STR_ARG(entry->name), ckpt_dtype_name(c->to), (unsigned long long)s->nbytes);
}

/* report_uncast_arrays - reports that COUNT numpy arrays, FIRST and others, are not cast, because their bytes
 * are inside the pickle. */
static ckpt_status report_uncast_arrays(struct torch_writer *writer, const struct plan_entry *first,
                                        size_t count, ckpt_error *err)
{
    if (!count)
        return CKPT_OK;
    ckpt_dtype dtype = (ckpt_dtype)get_tensor(writer, first).dtype;
    if (writer->opts->strict)
        return fail(err, CKPT_ELOSSY, CKPT_NO_OFFSET, "\"%.*s\" is a numpy array, whose dtype stays %s",
                    STR_ARG(first->name), ckpt_dtype_name(dtype));
    plan_notice(writer->p, "the dtype of \"%.*s\" stays %s: it is a numpy array (%zu of them)",
                STR_ARG(first->name), ckpt_dtype_name(dtype), count);
    return CKPT_OK;
}

/* loses_grad - returns true if the cast of ENTRY must clear requires_grad, because torch cannot read a tensor
 * of one-byte floats that has it set; see make_cast_call. */
static bool loses_grad(const struct torch_writer *writer, const struct plan_entry *entry)
{
    const ckpt_tensor t = get_tensor(writer, entry);
    return t.requires_grad && !t.parameter && dtype_info(plan_dtype(writer->p, entry->row))->block_bytes == 1;
}

static ckpt_status report_dropped_grads(struct torch_writer *writer, const struct plan_entry *first,
                                        size_t count, ckpt_error *err)
{
    if (!count)
        return CKPT_OK;
    if (writer->opts->strict)
        return fail(err, CKPT_ELOSSY, CKPT_NO_OFFSET,
                    "\"%.*s\" requires a gradient; torch cannot read tensors of %s that do",
                    STR_ARG(first->name), ckpt_dtype_name(plan_dtype(writer->p, first->row)));
    plan_notice(
        writer->p,
        "\"%.*s\" no longer requires a gradient: torch cannot read tensors of %s that do (%zu of them)",
        STR_ARG(first->name), ckpt_dtype_name(plan_dtype(writer->p, first->row)), count);
    return CKPT_OK;
}

static ckpt_status cast_entries(struct torch_writer *writer, const struct plan_entry **first_of,
                                ckpt_error *err)
{
    const struct plan_entry *first_array = NULL, *first_grad = NULL;
    size_t narrays = 0, ngrads = 0;
    for (size_t i = 0; i < writer->p->nentries; i++) {
        const struct plan_entry *e = &writer->p->entries[i];
        const ckpt_tensor t = get_tensor(writer, e);
        bool is_cast = plan_dtype(writer->p, e->row) != t.dtype;
        if (t.kind == CKPT_NDARRAY && is_cast && narrays++ == 0)
            first_array = e;
        if (t.kind == CKPT_NDARRAY || t.storage == CKPT_NO_STORAGE)
            continue;
        if (first_of[t.storage] && !casts_agree(writer, first_of[t.storage], e))
            return plan_fail_cast_conflict(writer->p, first_of[t.storage], e, err);
        if (!first_of[t.storage] && is_cast)
            CKPT_TRY(plan_storage_cast(writer, e, err));
        if (is_cast && loses_grad(writer, e) && ngrads++ == 0)
            first_grad = e;
        if (!first_of[t.storage])
            first_of[t.storage] = e;
    }
    CKPT_TRY(report_dropped_grads(writer, first_grad, ngrads, err));
    return report_uncast_arrays(writer, first_array, narrays, err);
}

/* map_shard_casts - adds the storages in SHARD, the table of a shard, to writer->cast_of. CAST_AT: byte range
 * of a storage -> index into casts. */
static ckpt_status map_shard_casts(struct torch_writer *writer, const struct table *shard, const map *cast_at,
                                   ckpt_error *err)
{
    struct byte_range range;
    for (size_t i = 0; i < shard->nstorages; i++) {
        uint32_t cast = map_get(cast_at, make_range_key(&range, &shard->storages[i]));
        if (cast != MAP_NONE && !map_set_num(writer->cast_of, ptr_key(&shard->storages[i]), cast))
            return fail_memory(err);
    }
    return CKPT_OK;
}

static ckpt_status map_all_shard_casts(struct torch_writer *writer, map *cast_at, struct byte_range *ranges,
                                       ckpt_error *err)
{
    const ckpt_file *f = writer->p->file;
    uint32_t other_index;
    for (uint32_t i = 0; i < f->table.nstorages; i++) {
        struct torch_cast *c = &writer->casts[i];
        if (!c->to)
            continue;
        if (!map_put(cast_at, make_range_key(&ranges[i], &f->table.storages[i]), i, &other_index))
            return fail_memory(err);
        if (other_index != MAP_NONE &&
            (writer->casts[other_index].to != c->to || writer->casts[other_index].from != c->from))
            return plan_fail_cast_conflict(writer->p, writer->casts[other_index].first_entry, c->first_entry,
                                           err);
    }
    for (size_t k = 0; k < f->nparts; k++)
        CKPT_TRY(map_shard_casts(writer, &f->parts[k]->table, cast_at, err));
    return CKPT_OK;
}

ckpt_status torch_zip_plan_casts(struct torch_writer *writer, ckpt_error *err)
{
    const ckpt_file *f = writer->p->file;
    size_t n = f->table.nstorages;
    if (!writer->p->casts.to)
        return CKPT_OK;
    CKPT_TRY(plan_update_entries(writer->p, err));
    const struct plan_entry **first_of = arena_array(writer->p->a, n, sizeof *first_of);
    writer->casts = arena_array(writer->p->a, n, sizeof *writer->casts);
    CKPT_TRY_ALLOC(first_of && writer->casts, err);
    CKPT_TRY(cast_entries(writer, first_of, err));
    if (!f->nparts)
        return CKPT_OK;
    struct byte_range *ranges = arena_array(writer->p->a, n, sizeof *ranges);
    map *cast_at = map_new(n);
    ckpt_status st = ranges && cast_at ? map_all_shard_casts(writer, cast_at, ranges, err) : fail_memory(err);
    map_free(cast_at);
    return st;
}

const struct torch_cast *torch_find_cast(const struct torch_writer *writer, const struct storage *storage)
{
    uint32_t i = writer->casts ? map_get_num(writer->cast_of, ptr_key(storage)) : MAP_NONE;
    return i == MAP_NONE ? NULL : &writer->casts[i];
}

uint64_t torch_zip_storage_size(const struct torch_writer *writer, const struct storage *storage)
{
    const struct torch_cast *cast = torch_find_cast(writer, storage);
    return cast ? cast->nbytes : storage->nbytes;
}

static uint64_t count_storage_elements(const struct storage *storage, ckpt_dtype dtype)
{
    const struct dtype_info *d = dtype_info(dtype);
    return storage->nbytes / d->block_bytes *
           d->block_elems; /* plan_storage_cast checked the size after the cast */
}

ckpt_status torch_zip_report_casts(struct torch_writer *writer, const struct convert_tally *tallies,
                                   ckpt_error *err)
{
    size_t ncasts_before = writer->p->report.ncasts;
    for (size_t i = 0; writer->casts && i < writer->nstorages; i++) {
        const struct torch_cast *cast = torch_find_cast(writer, writer->storages[i]);
        if (cast)
            CKPT_TRY(plan_note_cast(writer->p, cast->first_entry->name, cast->first_entry->row,
                                    count_storage_elements(writer->storages[i], cast->from),
                                    tallies[i].overflowed, err));
    }
    return writer->opts->strict ? plan_check_lossless(writer->p, ncasts_before, err) : CKPT_OK;
}
