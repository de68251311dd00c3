/* part_graph.c - moves the pickles of the parts of a checkpoint to it. */
#include "format/parts/part_graph.h"

#include "format/graph/persistent_id.h"

/* rename_storages - puts "I/" in front of the storage keys in the pickles of PART, part INDEX of F. */
static ckpt_status rename_storages(ckpt_file *f, const ckpt_file *part, size_t index, ckpt_error *err)
{
    for (size_t k = 0; k < part->npickles; k++)
        for (size_t n = 0; n < part->pickles[k]->npersids; n++) {
            char number[STR_NUMBER_MAX];
            struct torch_pid pid;
            ckpt_value *v = part->pickles[k]->persids[n], *item[6];
            if (!torch_pid_parse(v, &pid) || v->u.pid->type != CKPT_V_TUPLE || value_count(v->u.pid) > 6)
                continue;
            for (uint32_t t = 0; t < value_count(v->u.pid); t++)
                item[t] = value_item(v->u.pid, t);
            ckpt_str key = ARENA_CONCAT(f->a, format_number(index, number), STR_LIT("/"), pid.key);
            item[2] = key.ptr ? value_str(f->a, key) : NULL;
            v->u.pid = item[2] ? value_tuple(f->a, value_count(v->u.pid), item) : NULL;
            CKPT_TRY_ALLOC(v->u.pid, err);
        }
    return CKPT_OK;
}

ckpt_status part_graph_take(ckpt_file *f, ckpt_file *part, ckpt_value **root, ckpt_error *err)
{
    size_t index = 0;
    while (index + 1 < f->nparts && f->parts[index] != part)
        index++;
    if (part->add_opaque_storages) /* before its storage keys change */
        CKPT_TRY(part->add_opaque_storages(part, err));
    part->add_opaque_storages = NULL;
    for (size_t i = 0; i < part->table.nrows; i++)
        if (table_value_of(&part->table, i))
            value_set_row((ckpt_value *)(uintptr_t)table_value_of(&part->table, i), CKPT_NO_TENSOR);
    if (part->table.nstorages)
        CKPT_TRY(rename_storages(f, part, index, err));
    CKPT_TRY(file_add_pickles_of(f, part, err));
    *root = (ckpt_value *)(uintptr_t)file_replacement_of(part, part->root);
    return CKPT_OK;
}

/* copy_loss - makes STORAGE lost for the reason of LOSS, of part INDEX of F. */
static ckpt_status copy_loss(ckpt_file *f, uint64_t index, const struct storage_extra *loss,
                             struct storage *storage, ckpt_error *err)
{
    struct storage_extra *extra = ARENA_NEW(f->a, struct storage_extra);
    CKPT_TRY_ALLOC(extra, err);
    *extra = *loss;
    if (!extra->file.len)
        extra->file = str_after_last(str_c(f->parts[index]->path), '/');
    storage->extra = extra;
    return CKPT_OK;
}

ckpt_status part_graph_find_storage(void *user, const struct torch_pid *pid, struct storage *storage,
                                    ckpt_error *err)
{
    ckpt_file *f = *(ckpt_file **)user;
    size_t slash = str_find(pid->key, STR_LIT("/"), 0);
    uint64_t i; /* index of the part */
    uint32_t at = CKPT_NO_STORAGE;
    if (slash == SIZE_MAX || !str_uint(str_of(pid->key.ptr, slash), &i) || i >= f->nparts)
        return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET, "storage {%.*s} is not in {=one of the files}",
                    STR_ARG(pid->key));
    CKPT_TRY(file_storage_find(f->parts[i], str_skip(pid->key, slash + 1), &at, err));
    if (at == CKPT_NO_STORAGE)
        return fail(err, CKPT_ETRUNCATED, CKPT_NO_OFFSET, "{=storage %.*s} is {missing}", STR_ARG(pid->key));
    const struct storage *from = &f->parts[i]->table.storages[at];
    storage->src = from->src ? source_ref(from->src) : NULL;
    storage->off = from->off;
    storage->nbytes = from->nbytes;
    storage->has_crc = from->has_crc;
    storage->crc = from->crc;
    storage->swap_width = from->swap_width;
    storage->is_crc32c = from->is_crc32c;
    storage->pieces_have_crcs = from->pieces_have_crcs;
    storage->checks_itself = from->checks_itself;
    return storage_loss(from) ? copy_loss(f, i, from->extra, storage, err) : CKPT_OK;
}

ckpt_status part_graph_add_unreferenced(ckpt_file *f, ckpt_error *err)
{
    struct graph_input input = {.user = &f, .find_storage = part_graph_find_storage};
    return graph_add_unreferenced_storages(f, &input, err);
}
