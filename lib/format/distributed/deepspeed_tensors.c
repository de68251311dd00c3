/* deepspeed_tensors.c - assembles the tensors of a DeepSpeed save from the flat tensors in its files. */
#include "base/search.h"
#include "core/check.h"
#include "core/convert.h"
#include "core/view.h"
#include "format/distributed/deepspeed.h"
#include "format/parts/part_files.h"

#define MAX_DIMS 64u

ckpt_value *ds_get(const ckpt_value *mapping, const char *name)
{
    ckpt_value *v = mapping ? value_get(mapping, name) : NULL;
    return v && v->type == CKPT_V_NONE ? NULL : v;
}

ckpt_value *ds_get_numbered(const ckpt_value *value, uint64_t index)
{
    uint32_t n = 0;
    int64_t key;
    const value_pair *pairs = value ? value_pairs(value, &n) : NULL;
    for (uint32_t k = 0; k < n; k++)
        if (value_integer(pairs[k].key, &key) && key >= 0 && (uint64_t)key == index)
            return pairs[k].val;
    return value && index <= UINT32_MAX ? value_item(value, (uint32_t)index) : NULL;
}

const ckpt_tensor *ds_find_row(const ckpt_file *part, const ckpt_value *value, ckpt_tensor *room)
{
    if (!value || value_row(value) >= part->table.nrows)
        return NULL;
    *room = table_tensor(&part->table, value_row(value));
    return room;
}

bool ds_read_shape(struct deepspeed *ds, const ckpt_value *value, struct joined_tensor *tensor,
                   uint64_t *elements)
{
    struct view sizes = view_of(value);
    const ckpt_value *key, *size;
    int64_t n;
    uint64_t *shape = sizes.kind == VIEW_ITEMS && sizes.n <= MAX_DIMS
                          ? arena_array(ds->f->a, sizes.n, sizeof *shape)
                          : NULL;
    *elements = 1;
    for (size_t i = 0; shape && i < sizes.n; i++) {
        if (!view_item(&sizes, i, &key, &size) || !value_integer(size, &n) || n < 0 ||
            !checked_mul(*elements, (uint64_t)n, elements))
            return false;
        shape[i] = (uint64_t)n;
    }
    tensor->ndim = (uint32_t)sizes.n;
    tensor->shape = shape;
    return shape != NULL;
}

/* ------------------------------------------------------------------------- files */

ckpt_status ds_fail_missing(struct deepspeed *ds, const char *what)
{
    (void)fail(ds->err, CKPT_ENOTFOUND, CKPT_NO_OFFSET,
               "{=%s} is {missing}\n"
               "put the files of all ranks into the folder; `ckpt salvage` writes what the others hold",
               what);
    return part_file_accept_missing(ds->f, ds->err);
}

ckpt_status ds_open_file(struct deepspeed *ds, ckpt_str name, ckpt_file **out)
{
    *out = NULL;
    ckpt_status st = part_file_read_pickle(ds->f, ds->save.trusted, name, out, ds->err);
    if (st == CKPT_OK && *out && !(*out)->root) {
        st = fail(ds->err, CKPT_EFORMAT, 0, "{no} {=file that torch.save wrote}");
        error_add_file(ds->err, (*out)->path);
    }
    if (st == CKPT_OK || !ds->f->salvage || !check_is_fault(st))
        return st;
    *out = NULL;
    file_note_loss(ds->f, "%.*s cannot be read: %s", STR_ARG(name), ds->err->what);
    return CKPT_OK;
}

/* ------------------------------------------------------------------ flat tensors */

/* is_contiguous - returns true if TENSOR, a row of PART, is dense and its stored bytes are its row-major
 * elements. */
static bool is_contiguous(const ckpt_file *part, const ckpt_tensor *tensor)
{
    bool dense = tensor && tensor->kind == CKPT_DENSE && tensor->has_shape && !tensor->conj && !tensor->neg &&
                 dtype_info((ckpt_dtype)tensor->dtype)->block_elems == 1;
    return dense && is_row_major(tensor) &&
           (tensor->storage == CKPT_NO_STORAGE ||
            part->table.storages[tensor->storage].swap_width <= 1); /* 0, 1: not swapped */
}

static ckpt_status add_partition(struct deepspeed *ds, struct ds_flat *flat, struct ds_partition partition)
{
    partition.start = flat->nelements;
    if (!arena_push(ds->f->a, &flat->partitions, &flat->npartitions, &flat->cap, &partition,
                    sizeof partition))
        return fail_memory(ds->err);
    return checked_add(flat->nelements, partition.nelements, &flat->nelements)
               ? CKPT_OK
               : fail(ds->err, CKPT_EFORMAT, CKPT_NO_OFFSET, "partitions of {more} than {=2^64 elements}");
}

ckpt_status ds_flat_add(struct deepspeed *ds, struct ds_flat *flat, const ckpt_file *part,
                        const ckpt_value *value, uint64_t count)
{
    ckpt_tensor room;
    const ckpt_tensor *t = part ? ds_find_row(part, value, &room) : NULL;
    if (!part)
        return add_partition(ds, flat, (struct ds_partition){.nelements = count});
    if (!t) {
        (void)fail(ds->err, CKPT_EFORMAT, CKPT_NO_OFFSET, "{no tensor} for {=each group of parameters}");
        error_add_where(ds->err, "optimizer_state_dict");
        return name_file_if_failed(CKPT_EFORMAT, part->path, ds->err);
    }
    const struct ds_partition partition = {.part = part, .row = value_row(value), .nelements = t->elements};
    if (!t->has_data && (ds->f->salvage || ds->f->check)) /* some of its bytes are missing */
        return add_partition(ds, flat, partition);
    if (t->ndim != 1 || !is_contiguous(part, t)) {
        ckpt_status st = fail(ds->err, CKPT_EUNSUPPORTED, t->file_offset, "{no} {=contiguous 1-d tensor}");
        return name_file_if_failed(prefix_where_if_failed(st, t->name, ds->err), part->path, ds->err);
    }
    if (flat->dtype && flat->dtype != t->dtype) {
        (void)fail(ds->err, CKPT_EFORMAT, t->file_offset, "{%s}; other partitions are {=%s}",
                   ckpt_dtype_name((ckpt_dtype)t->dtype), ckpt_dtype_name(flat->dtype));
        error_add_where(ds->err, "%.*s", STR_ARG(t->name));
        return name_file_if_failed(CKPT_EFORMAT, part->path, ds->err);
    }
    flat->dtype = (ckpt_dtype)t->dtype;
    return add_partition(ds, flat, partition);
}

/* ------------------------------------------------------------------------ pieces */

/* add_piece - adds NBYTES elements of PARTITION, from element FROM on, as a piece at element AT of the
 * tensor. */
static ckpt_status add_piece(struct deepspeed *ds, const struct ds_partition *partition, uint64_t from,
                             uint64_t nbytes, uint64_t at)
{
    const ckpt_tensor t = table_tensor(&partition->part->table, partition->row);
    const struct storage *s = t.storage == CKPT_NO_STORAGE ? NULL
                                                           : &partition->part->table.storages[t.storage];
    uint64_t first, skip;
    if (!s || !s->src) {
        ds->is_incomplete = true;
        return CKPT_OK;
    }
    if (!checked_add(t.storage_offset, from, &first) || !dtype_bytes((ckpt_dtype)t.dtype, first, &skip) ||
        !checked_add(s->off, skip, &skip))
        return fail(ds->err, CKPT_EFORMAT, t.file_offset, "its bytes are {beyond} {=2^64}");
    ds->lacks_crc |= !s->has_crc;
    struct piece *piece = arena_append(NULL, &ds->pieces, &ds->npieces, &ds->cap_pieces, sizeof *piece);
    struct ds_range *range = arena_append(NULL, &ds->ranges, &ds->nranges, &ds->cap_ranges, sizeof *range);
    CKPT_TRY_ALLOC(piece && range, ds->err);
    *piece = (struct piece){.src = s->src, .at = skip};
    *range = (struct ds_range){at, nbytes};
    return CKPT_OK;
}

/* find_partition - returns the partition that has element AT of FLAT; AT must be below flat->nelements. */
static const struct ds_partition *find_partition(const struct ds_flat *flat, uint64_t at)
{
    return &flat->partitions[find_begin(flat->partitions, flat->npartitions, sizeof *flat->partitions,
                                        offsetof(struct ds_partition, start), at)];
}

ckpt_status ds_add_slice(struct deepspeed *ds, const struct ds_flat *flat, uint64_t from, uint64_t nbytes,
                         uint64_t at)
{
    if (!range_within(from, nbytes, flat->nelements))
        return fail(ds->err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                    "needs {=elements %llu to %llu} of its partitions, which have {%llu}",
                    (unsigned long long)from, (unsigned long long)from + nbytes,
                    (unsigned long long)flat->nelements);
    for (const struct ds_partition *partition = nbytes ? find_partition(flat, from) : NULL; nbytes;
         partition++) {
        uint64_t skip = from - partition->start, left = partition->nelements - skip;
        uint64_t piece_length = left < nbytes ? left : nbytes;
        if (!partition->part && piece_length)
            ds->is_incomplete = true;
        else if (piece_length)
            CKPT_TRY(add_piece(ds, partition, skip, piece_length, at));
        from += piece_length;
        at += piece_length;
        nbytes -= piece_length;
    }
    return CKPT_OK;
}

/* ----------------------------------------------------------------------- tensors */

static ckpt_status store_tensor(struct deepspeed *ds, struct joined_tensor *tensor)
{
    uint64_t nelements;
    if (!checked_product(tensor->shape, tensor->ndim, &nelements))
        return fail(ds->err, CKPT_EFORMAT, CKPT_NO_OFFSET, "a shape of {more} than {=2^64 elements}");
    if (ds->is_incomplete)
        return fail(ds->err, CKPT_ETRUNCATED, CKPT_NO_OFFSET,
                    "{a partition of it} is in a file that is missing or cannot be read");
    for (size_t i = 0; i < ds->npieces; i++) { /* only now, because ds->ranges moved when it grew */
        ds->pieces[i].offset = &ds->ranges[i].first;
        ds->pieces[i].size = &ds->ranges[i].nelements;
    }
    struct pieces p = {.shape = &nelements,
                       .ndim = 1,
                       .width = dtype_info(tensor->dtype)->block_bytes,
                       .piece = ds->pieces,
                       .n = ds->npieces};
    return sharded_storage_add(ds->f, tensor, &p, !ds->lacks_crc, ds->err);
}

ckpt_status ds_end_tensor(struct deepspeed *ds, const struct joined_tensor *tensor, ckpt_value **node)
{
    struct joined_tensor *to = arena_append(ds->f->a, &ds->tensors, &ds->ntensors, &ds->cap_tensors,
                                            sizeof *to);
    CKPT_TRY_ALLOC(to, ds->err);
    *to = *tensor;
    to->storage = CKPT_NO_STORAGE;
    ckpt_status st = sharded_storage_accept_fault(ds->f, tensor->name, tensor->dtype, store_tensor(ds, to),
                                                  &to->storage, ds->err);
    ds->npieces = ds->nranges = 0;
    ds->is_incomplete = false;
    ds->lacks_crc = false;
    CKPT_TRY(st);
    *node = to->node = value_new(ds->f->a, CKPT_V_TENSOR, ds->ntensors - 1);
    return *node ? CKPT_OK : fail_memory(ds->err);
}

ckpt_status ds_end_parameter(struct deepspeed *ds, const struct joined_tensor *tensor)
{
    ckpt_value *node;
    uint32_t at = (uint32_t)ds->ntensors; /* a table has fewer than 2^32 rows */
    uint32_t before;
    CKPT_TRY(ds_end_tensor(ds, tensor, &node));
    CKPT_TRY_ALLOC(map_put(ds->weights, tensor->name, at, &before), ds->err);
    if (before == MAP_NONE)
        return CKPT_OK;
    (void)fail(ds->err, CKPT_EFORMAT, CKPT_NO_OFFSET, "{a second} parameter of {=that name}");
    return prefix_where_if_failed(CKPT_EFORMAT, tensor->name, ds->err);
}

ckpt_status ds_add_copy(struct deepspeed *ds, const ckpt_file *part, const ckpt_value *value, ckpt_str key,
                        ckpt_value **node)
{
    ckpt_tensor room;
    const ckpt_tensor *t = ds_find_row(part, value, &room);
    bool lost = t && t->has_shape && !t->has_data && (ds->f->salvage || ds->f->check);
    *node = NULL;
    if (!lost && !is_contiguous(part, t))
        return CKPT_OK;
    struct joined_tensor copy = {
        .name = key, .dtype = (ckpt_dtype)t->dtype, .ndim = t->ndim, .shape = t->shape};
    if (t->elements)
        CKPT_TRY(
            add_piece(ds, &(struct ds_partition){.part = part, .row = value_row(value)}, 0, t->elements, 0));
    return ds_end_tensor(ds, &copy, node); /* if LOST, add_piece has set ds->is_incomplete */
}

/* ------------------------------------------------------------------------ float32 */

ckpt_status ds_add_as_float32(struct deepspeed *ds, const ckpt_file *part, const ckpt_value *value,
                              ckpt_str key, ckpt_value **node)
{
    ckpt_tensor room;
    const ckpt_tensor *t = ds_find_row(part, value, &room);
    const struct storage *s = t && t->storage != CKPT_NO_STORAGE ? &part->table.storages[t->storage] : NULL;
    uint64_t size;
    *node = NULL;
    if (!t || (t->dtype != CKPT_DT_F16 && t->dtype != CKPT_DT_BF16) || !is_contiguous(part, t) || !s ||
        !s->src)
        return CKPT_OK;
    struct joined_tensor wide = {.name = key, .dtype = CKPT_DT_F32, .ndim = t->ndim, .shape = t->shape};
    if (!dtype_bytes(CKPT_DT_F32, t->elements, &size))
        return fail(ds->err, CKPT_EFORMAT, t->file_offset, "as float32 it has {more} than {=2^64 bytes}");
    if (t->elements)
        CKPT_TRY(
            add_piece(ds, &(struct ds_partition){.part = part, .row = value_row(value)}, 0, t->elements, 0));
    if (ds->npieces) {
        struct piece *p = &ds->pieces[0];
        p->src = convert_source_f32(p->src, p->at, (ckpt_dtype)t->dtype, false, size);
        p->at = 0;
        CKPT_TRY_ALLOC(p->src, ds->err);
    }
    source *made = ds->npieces ? ds->pieces[0].src : NULL;
    ckpt_status st = ds_end_tensor(ds, &wide, node);
    source_unref(made); /* the storage has a reference */
    return st;
}
