/* sharded_tensors.c - collects the shards of all ranks by tensor, and makes one storage for each tensor. */
#include "format/parts/sharded_tensors.h"

#include "core/check.h"
#include "format/kit.h"

bool is_row_major(const ckpt_tensor *tensor)
{
    uint64_t run = 1;
    for (uint32_t d = tensor->ndim; tensor->stride && COUNT_DOWN(d);) {
        if (tensor->shape[d] > 1 && tensor->stride[d] != run)
            return false;
        run *= tensor->shape[d];
    }
    return true;
}

ckpt_status sharded_tensors_begin(struct sharded_tensors *all, ckpt_file *f, ckpt_error *err)
{
    *all = (struct sharded_tensors){.f = f, .err = err, .index_of = map_new(64), .seen_shards = map_new(64)};
    return all->index_of && all->seen_shards ? CKPT_OK : fail_memory(err);
}

void sharded_tensors_end(struct sharded_tensors *all)
{
    map_free(all->index_of);
    map_free(all->seen_shards);
}

/* find_tensor - sets *OUT to the tensor NAME, and adds it if it is new. Refuses VIEW, the row of a
 * shard, if its dtype, its number of dimensions or SHAPE differs from that of earlier shards. */
static ckpt_status find_tensor(struct sharded_tensors *all, ckpt_str name, const ckpt_tensor *view,
                               const uint64_t *shape, struct sharded_tensor **out)
{
    uint32_t i;
    CKPT_TRY_ALLOC(map_put(all->index_of, name, (uint32_t)all->ntensors, &i), all->err);
    if (i == MAP_NONE) {
        i = (uint32_t)all->ntensors;
        const struct sharded_tensor first = {
            .joined = {name, (ckpt_dtype)view->dtype, view->ndim, shape, CKPT_NO_STORAGE, NULL}};
        if (!arena_push(all->f->a, &all->tensors, &all->ntensors, &all->cap, &first, sizeof first))
            return fail_memory(all->err);
    }
    struct sharded_tensor *tensor = *out = &all->tensors[i];
    if (tensor->joined.dtype == view->dtype && tensor->joined.ndim == view->ndim &&
        !tensor->joined.shape == !shape && (!shape || same_sizes(shape, tensor->joined.shape, view->ndim)))
        return CKPT_OK;
    (void)fail(all->err, CKPT_EFORMAT, view->file_offset,
               "{another element type or shape} than {=that of the other ranks}\n"
               "the files are of different saves");
    return prefix_where_if_failed(CKPT_EFORMAT, name, all->err);
}

/* note_shard - records the shard of TENSOR at OFFSET with SIZE: its key in all->seen_shards consists of the
 * index of TENSOR, OFFSET and SIZE. Sets *IS_NEW to false if the shard is a replica. */
static ckpt_status note_shard(struct sharded_tensors *all, const struct sharded_tensor *tensor,
                              const uint64_t *offset, const uint64_t *size, bool *is_new)
{
    uint32_t before;
    size_t half = tensor->joined.ndim * sizeof *offset;
    uint64_t *key = arena_array(all->f->a, 2 * (uint64_t)tensor->joined.ndim + 1, sizeof *key);
    CKPT_TRY_ALLOC(key, all->err);
    key[0] = (uint64_t)(tensor - all->tensors);
    if (half) {
        memcpy(key + 1, offset, half);
        memcpy(key + 1 + tensor->joined.ndim, size, half);
    }
    if (!map_put(all->seen_shards, str_of((const char *)key, 2 * half + sizeof *key), 0, &before))
        return fail_memory(all->err);
    *is_new = before == MAP_NONE;
    return CKPT_OK;
}

/* locate_shard - sets *PIECE to SHARD, a block of the row TENSOR, in the storage STORED of that row. */
static ckpt_status locate_shard(struct sharded_tensors *all, const struct tensor_shard *shard,
                                const ckpt_tensor *tensor, const struct storage *stored, struct piece *piece)
{
    uint64_t element = tensor->storage_offset, step = 0, nbytes = 0;
    *piece = (struct piece){
        .offset = shard->offset, .size = tensor->shape, .stride = tensor->stride, .src = stored->src};
    if (shard->block_offset) {
        piece->size = shard->block_size;
        piece->stride = tensor->stride ? tensor->stride
                                       : kit_strides(all->f->a, tensor->shape, tensor->ndim, false);
        CKPT_TRY_ALLOC(piece->stride, all->err);
    }
    bool fits = true;
    for (uint32_t k = 0; fits && shard->block_offset && k < tensor->ndim; k++)
        fits = checked_mul(shard->block_offset[k], piece->stride[k], &step) &&
               checked_add(element, step, &element);
    fits = fits && dtype_bytes((ckpt_dtype)tensor->dtype, element, &nbytes) &&
           checked_add(stored->off, nbytes, &piece->at);
    return fits ? CKPT_OK
                : fail(all->err, CKPT_EFORMAT, tensor->file_offset, "its bytes are {beyond} {=2^64}");
}

ckpt_status sharded_tensors_add(struct sharded_tensors *all, ckpt_str name, const uint64_t *shape,
                                const struct tensor_shard *shard)
{
    const ckpt_tensor t = table_tensor(&shard->part->table, shard->row);
    const struct storage *s = t.storage == CKPT_NO_STORAGE ? NULL : &shard->part->table.storages[t.storage];
    struct sharded_tensor *tensor = NULL;
    bool new = false;
    CKPT_TRY(find_tensor(all, name, &t, shape, &tensor));
    if (!s || !s->src) /* its bytes are missing: pieces_source reports the gap */
        return CKPT_OK;
    if (t.conj || t.neg || s->swap_width > 1) {
        (void)fail(all->err, CKPT_EUNSUPPORTED, t.file_offset,
                   "a shard of {%s elements}; only {=elements stored as they are} can be joined",
                   t.conj  ? "conjugated"
                   : t.neg ? "negated"
                           : "byte-swapped");
        return prefix_where_if_failed(CKPT_EUNSUPPORTED, name, all->err);
    }
    CKPT_TRY(note_shard(all, tensor, shard->offset, shard->block_size ? shard->block_size : t.shape, &new));
    if (!new)
        return CKPT_OK;
    struct piece piece;
    CKPT_TRY(locate_shard(all, shard, &t, s, &piece));
    return arena_push(all->f->a, &tensor->pieces, &tensor->npieces, &tensor->cap, &piece, sizeof piece)
               ? CKPT_OK
               : fail_memory(all->err);
}

/* compute_shape - sets the shape of TENSOR to the smallest one that contains all of its shards. */
static ckpt_status compute_shape(struct sharded_tensors *all, struct sharded_tensor *tensor)
{
    uint64_t *shape = arena_array(all->f->a, tensor->joined.ndim, sizeof *shape);
    CKPT_TRY_ALLOC(shape, all->err);
    for (size_t i = 0; i < tensor->npieces; i++)
        for (uint32_t k = 0; k < tensor->joined.ndim; k++) {
            uint64_t end;
            if (!checked_add(tensor->pieces[i].offset[k], tensor->pieces[i].size[k], &end))
                return fail(all->err, CKPT_EFORMAT, CKPT_NO_OFFSET, "a shard of it ends {beyond} {=2^64}");
            shape[k] = end > shape[k] ? end : shape[k];
        }
    tensor->joined.shape = shape;
    return CKPT_OK;
}

ckpt_status sharded_storage_add(ckpt_file *f, struct joined_tensor *tensor, const struct pieces *pieces,
                                bool pieces_have_crcs, ckpt_error *err)
{
    struct storage s = {
        .key = tensor->name, .dtype = (uint8_t)tensor->dtype, .pieces_have_crcs = pieces_have_crcs};
    CKPT_TRY(pieces_source(f->a, pieces, &s.src, &s.off, err));
    (void)checked_product(pieces->shape, pieces->ndim, &s.nbytes);
    s.nbytes *= pieces->width;
    return table_add_storage(&f->table, &s, &tensor->storage, err);
}

ckpt_status sharded_storage_accept_fault(ckpt_file *f, ckpt_str name, ckpt_dtype dtype, ckpt_status st,
                                         uint32_t *storage, ckpt_error *err)
{
    struct storage s = {.key = name, .dtype = (uint8_t)dtype};
    if (st == CKPT_OK)
        return CKPT_OK;
    ckpt_error why = *err;
    if (!err->where[0])
        error_add_where(err, "%.*s", STR_ARG(name));
    if (!f->salvage || !check_is_fault(st))
        return file_report_fault(f, st, err);
    CKPT_TRY(table_set_lost(&f->table, &s, &why, err));
    return table_add_storage(&f->table, &s, storage, err);
}

static ckpt_status add_storage(struct sharded_tensors *all, struct sharded_tensor *tensor)
{
    if (!tensor->joined.shape)
        CKPT_TRY(compute_shape(all, tensor));
    struct pieces p = {.shape = tensor->joined.shape,
                       .ndim = tensor->joined.ndim,
                       .width = dtype_info(tensor->joined.dtype)->block_bytes,
                       .piece = tensor->pieces,
                       .n = tensor->npieces};
    if (dtype_info(tensor->joined.dtype)->block_elems != 1)
        return fail(all->err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET, "%s in pieces cannot be read",
                    dtype_info(tensor->joined.dtype)->name);
    return sharded_storage_add(all->f, &tensor->joined, &p, false, all->err);
}

ckpt_status sharded_tensor_store(struct sharded_tensors *all, struct sharded_tensor *tensor)
{
    return sharded_storage_accept_fault(all->f, tensor->joined.name, tensor->joined.dtype,
                                        add_storage(all, tensor), &tensor->joined.storage, all->err);
}

ckpt_status sharded_tensors_store(struct sharded_tensors *all)
{
    for (size_t i = 0; i < all->ntensors; i++)
        CKPT_TRY(sharded_tensor_store(all, &all->tensors[i]));
    return CKPT_OK;
}

void joined_tensor_describe(const ckpt_file *f, const struct joined_tensor *tensor, struct row *row)
{
    row->t.dtype = (uint16_t)tensor->dtype;
    row->t.ndim = tensor->ndim;
    row->t.shape = tensor->shape;
    row->t.has_shape = tensor->shape != NULL;
    row->t.storage = tensor->storage;
    row->t.has_data = tensor->storage != CKPT_NO_STORAGE && f->table.storages[tensor->storage].src;
}

bool sharded_tensors_describe(void *user, const ckpt_value *value, struct row *row)
{
    const struct sharded_tensors *all = user;
    if (value->type != CKPT_V_TENSOR || value_offset(value) >= all->ntensors)
        return false;
    joined_tensor_describe(all->f, &all->tensors[value_offset(value)].joined, row);
    return true;
}
