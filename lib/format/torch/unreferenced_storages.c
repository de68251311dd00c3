/*
 * unreferenced_storages.c - storages that no tensor of the table shows, because only an
 * object of a class we do not look into holds them. A rewrite keeps such
 * objects as they are, and so needs their bytes.
 */
#include "format/torch/internal.h"

static ckpt_status resolve(struct graph *g, const ckpt_value *v)
{
    struct torch_pid pid;
    uint32_t index;
    ckpt_dtype dtype;
    uint64_t numel, view;
    if (!torch_pid_parse(v, &pid) || pid.dtype == CKPT_DT_NONE)
        return CKPT_OK;
    CKPT_TRY(file_storage_find(g->f, pid.key, &index, g->err));
    if (index != CKPT_NO_STORAGE)
        return CKPT_OK;
    return torch_storage(g, v, &index, &dtype, &numel, &view);
}

ckpt_status torch_graph_rest(ckpt_file *f, const struct torch_storages *storages, ckpt_error *err)
{
    struct graph g = {.f = f, .st = storages, .err = err};
    for (size_t i = 0; i < f->npickles; i++)
        for (size_t k = 0; k < f->pickles[i]->npersids; k++)
            CKPT_TRY(resolve(&g, f->pickles[i]->persids[k]));
    return CKPT_OK;
}
