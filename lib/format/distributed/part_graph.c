/* part_graph.c - moves the pickles of parts to the checkpoint that consists of them. */
#include "format/distributed/part_graph.h"

/* rename_storages - puts "I/" in front of the storage keys in the pickles of PART, part I of F. */
static ckpt_status rename_storages(ckpt_file *f, const ckpt_file *part, size_t i, ckpt_error *err)
{
    for (size_t k = 0; k < part->npickles; k++)
        for (size_t n = 0; n < part->pickles[k]->npersids; n++) {
            struct torch_pid pid;
            ckpt_value *v = part->pickles[k]->persids[n], *item[6];
            if (!torch_pid_parse(v, &pid) || v->u.pid->type != CKPT_V_TUPLE || value_count(v->u.pid) > 6)
                continue;
            for (uint32_t t = 0; t < value_count(v->u.pid); t++)
                item[t] = value_item(v->u.pid, t);
            ckpt_str key = arena_printf(f->a, "%zu/%.*s", i, STR_ARG(pid.key));
            item[2] = key.ptr ? value_str(f->a, key) : NULL;
            v->u.pid = item[2] ? value_tuple(f->a, value_count(v->u.pid), item) : NULL;
            if (!v->u.pid)
                return fail_memory(err);
        }
    return CKPT_OK;
}

/* find_part - returns the index of PART in f->parts, where it must be. */
static size_t find_part(const ckpt_file *f, const ckpt_file *part)
{
    size_t i = 0;
    while (i + 1 < f->nparts && f->parts[i] != part)
        i++;
    return i;
}

ckpt_status part_graph_take(ckpt_file *f, ckpt_file *part, ckpt_value **root, ckpt_error *err)
{
    if (part->resolve) /* before its storage keys change */
        CKPT_TRY(part->resolve(part, err));
    part->resolve = NULL;
    for (size_t i = 0; i < part->table.nrows; i++)
        if (part->table.rows[i].t.value)
            ((ckpt_value *)(uintptr_t)part->table.rows[i].t.value)->row = CKPT_NO_TENSOR;
    if (part->table.nstorages)
        CKPT_TRY(rename_storages(f, part, find_part(f, part), err));
    CKPT_TRY(file_take_pickles(f, part, err));
    *root = (ckpt_value *)(uintptr_t)file_replacement(part, part->root);
    return CKPT_OK;
}

ckpt_status part_graph_find_storage(void *user, const struct torch_pid *pid, struct storage *s,
                                    ckpt_error *err)
{
    ckpt_file *f = *(ckpt_file **)user;
    size_t slash = str_find(pid->key, STR_LIT("/"), 0);
    uint64_t i;
    uint32_t at = CKPT_NO_STORAGE;
    if (slash == SIZE_MAX || !str_uint(str_of(pid->key.ptr, slash), &i) || i >= f->nparts)
        return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET, "storage {%.*s} is not in {=one of the files}",
                    STR_ARG(pid->key));
    CKPT_TRY(file_storage_find(f->parts[i], str_skip(pid->key, slash + 1), &at, err)); /* bounded: found */
    if (at == CKPT_NO_STORAGE)
        return fail(err, CKPT_ETRUNCATED, CKPT_NO_OFFSET, "{=storage %.*s} is {missing}", STR_ARG(pid->key));
    const struct storage *from = &f->parts[i]->table.storages[at];
    s->src = from->src ? source_ref(from->src) : NULL;
    s->off = from->off;
    s->s.nbytes = from->s.nbytes;
    s->has_crc = from->has_crc;
    s->crc = from->crc;
    s->swap = from->swap;
    return CKPT_OK;
}

ckpt_status part_graph_add_unreferenced(ckpt_file *f, ckpt_error *err)
{
    struct torch_storages st = {.user = &f, .find = part_graph_find_storage};
    return torch_add_unreferenced_storages(f, &st, err);
}
