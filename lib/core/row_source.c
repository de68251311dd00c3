/* row_source.c - see row_source.h. */
#include "core/row_source.h"

#include <pthread.h>
#include <stdlib.h>

#include "core/tensor.h"

#define WIDTH_MAX 64u /* bytes of an element */

struct row_source {
    source as_source;
    ckpt_file *file;
    ckpt_tensor tensor;   /* as it was: the table may describe it in another way now */
    uint64_t elements;    /* of a source of row_elements: its only dimension */
    uint32_t width;       /* bytes of an element */
    pthread_mutex_t lock; /* of the comparison of its checksum: threads that come later wait for it */
};

static ckpt_status check_crc(struct row_source *rows, ckpt_error *err)
{
    const struct stream_options options = tensor_stream_options(rows->file);
    pthread_mutex_lock(&rows->lock);
    ckpt_status st = storage_check_crc(&rows->file->table, rows->tensor.storage, &options, err);
    pthread_mutex_unlock(&rows->lock);
    return st;
}

/* read_part - reads the COUNT bytes at SKIP of element FIRST to OUT. */
static ckpt_status read_part(struct row_source *rows, uint64_t first, size_t skip, size_t count,
                             unsigned char *out, ckpt_error *err)
{
    unsigned char element[WIDTH_MAX];
    CKPT_TRY(stream_read_tensor(&rows->file->table, &rows->tensor, first, 1, element, err));
    memcpy(out, element + skip, count);
    return CKPT_OK;
}

static ckpt_status read_row(source *from, uint64_t off, void *to, size_t nbytes, ckpt_error *err)
{
    struct row_source *rows = (struct row_source *)(void *)from;
    unsigned char *out = to;
    uint64_t first = off / rows->width;
    size_t skip = (size_t)(off % rows->width);
    CKPT_TRY(name_file_if_failed(check_crc(rows, err), rows->file->path, err));
    if (skip) {
        size_t room = rows->width - skip, count = nbytes < room ? nbytes : room;
        CKPT_TRY(read_part(rows, first++, skip, count, out, err));
        out += count;
        nbytes -= count;
    }
    size_t complete = nbytes / rows->width;
    if (complete)
        CKPT_TRY(stream_read_tensor(&rows->file->table, &rows->tensor, first, complete, out, err));
    size_t done = complete * rows->width;
    return done < nbytes ? read_part(rows, first + complete, 0, nbytes - done, out + done, err) : CKPT_OK;
}

static void close_row(source *from)
{
    struct row_source *rows = (struct row_source *)(void *)from;
    pthread_mutex_destroy(&rows->lock);
    free(rows);
}

ckpt_status row_source_check(const ckpt_file *f, uint32_t row, ckpt_error *err)
{
    const ckpt_tensor t = table_tensor(&f->table, row);
    const struct dtype_info *info = dtype_info((ckpt_dtype)t.dtype);
    const char *why = t.kind != CKPT_DENSE && t.kind != CKPT_NDARRAY ? "is made of several tensors"
                      : t.part_of != CKPT_NO_TENSOR                  ? "is a component of another tensor"
                      : !t.has_data || !t.has_shape                  ? "has no bytes"
                      : info->block_elems != 1 || t.dtype == CKPT_DT_NAMED || !info->block_bytes ||
                              info->block_bytes > WIDTH_MAX
                          ? "has elements that are packed, or texts"
                          : NULL;
    if (!why)
        return stream_check_limit(&f->table, &t, err);
    return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET, "\"%.*s\" (%s, %s) %s", STR_ARG(t.name),
                ckpt_kind_name((ckpt_kind)t.kind), ckpt_tensor_dtype_name(&t), why);
}

static struct row_source *make_row_source(ckpt_file *f, const ckpt_tensor *tensor)
{
    static const struct source_ops ops = {.read_at = read_row, .close = close_row};
    struct row_source *rows = calloc(1, sizeof *rows);
    if (!rows)
        return NULL;
    rows->file = f;
    rows->tensor = *tensor;
    rows->width = dtype_info((ckpt_dtype)rows->tensor.dtype)->block_bytes;
    const source *stored = f->table.storages[rows->tensor.storage].src;
    rows->as_source = (source){.ops = &ops,
                               .size = rows->tensor.nbytes,
                               .position = CKPT_NO_OFFSET,
                               .refs = 1,
                               .serializes_reads = stored && stored->serializes_reads,
                               .is_remote = stored && stored->is_remote};
    pthread_mutex_init(&rows->lock, NULL);
    return rows;
}

source *row_source(ckpt_file *f, uint32_t row)
{
    const ckpt_tensor tensor = table_tensor(&f->table, row);
    struct row_source *rows = make_row_source(f, &tensor);
    return rows ? &rows->as_source : NULL;
}

/* make_elements - returns a source of the COUNT elements from the first of TENSOR on, as they follow each
 * other in its storage. */
static source *make_elements(ckpt_file *f, const ckpt_tensor *tensor, uint64_t count)
{
    struct row_source *rows = make_row_source(f, tensor);
    if (!rows)
        return NULL;
    ckpt_tensor *t = &rows->tensor;
    rows->elements = t->elements = count;
    t->shape = &rows->elements;
    t->stride = NULL;
    t->ndim = 1;
    rows->as_source.size = t->nbytes = count * rows->width; /* the storage has them */
    return &rows->as_source;
}

source *row_elements(ckpt_file *f, uint32_t row, uint64_t *at)
{
    const ckpt_tensor t = table_tensor(&f->table, row);
    uint64_t end;
    *at = 0;
    if (!t.elements || !f->table.storages[t.storage].src || !tensor_view_end(&t, &end))
        return source_mem("", 0, CKPT_NO_OFFSET);
    const struct storage *storage = &f->table.storages[t.storage];
    bool needs_check = storage->has_crc && !storage->crc_checked;
    if (needs_check || storage->swap_width > 1 || t.conj || t.neg)
        return make_elements(f, &t, end - t.storage_offset);
    *at = storage->off + t.storage_offset * dtype_info((ckpt_dtype)t.dtype)->block_bytes;
    return source_ref(storage->src);
}
