/* dcp_items.c - reads the elements of tensors from the items of a Distributed Checkpoint.
 *
 * In an archive that torch wrote, the bytes of the chunk are stored as they are. Such an archive is opened
 * once; then only the offset of these bytes is kept, and the file is read directly. A different archive is
 * kept open and is read under the lock; at most MAX_OPEN are open. It is a zstd frame or deflated, or its
 * tensor is not in row-major order or has a conjugate bit. */
#include "format/distributed/dcp.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/search.h"
#include "codec/unpack_archive.h"
#include "core/check.h"
#include "format/registry.h"

#define MAX_OPEN     16u
#define INDIRECT     UINT64_MAX /* a data_position: the bytes of the chunk are not in the file as they are */
#define MAX_OVERHEAD ((uint64_t)1 << 20) /* bytes that an archive may have in addition to its tensor */
#define MAX_RANGES   256u                /* reading a column reads some bytes of each of many items */
#define NO_ITEM      SIZE_MAX

/* Bytes [START, END) of an item: they were read and have this CRC-32. */
struct read_range {
    size_t item;
    uint64_t start, end;
    uint32_t crc;
};

struct item_source {
    source source; /* must be first: a pointer to it is a pointer to this struct */
    struct dcp_items items;
    pthread_mutex_t lock; /* protects the fields below */
    struct {
        size_t item;
        ckpt_file *file;
    } open_archives[MAX_OPEN];
    unsigned next_archive;                /* slot to replace next, modulo MAX_OPEN */
    struct read_range ranges[MAX_RANGES]; /* of items of which some bytes are not read yet */
    unsigned nranges, next_range;
};

/* chunk_end - returns where the chunk of item INDEX ends in the source. */
static uint64_t chunk_end(const struct dcp_items *items, size_t index)
{
    return index + 1 < items->nitems ? items->items[index + 1].source_offset : items->nbytes;
}

/* find_item - returns the index of the item that has byte OFF of the source. */
static size_t find_item(const struct dcp_items *items, uint64_t off)
{
    return find_begin(items->items, items->nitems, sizeof *items->items,
                      offsetof(struct dcp_item, source_offset), off);
}

/* ------------------------------------------------------------------------ opening */

ckpt_status dcp_unpack_zstd(source **src, uint64_t max_bytes, ckpt_error *err)
{
    spool *to = spool_new(max_bytes);
    ckpt_status st = to ? unpack_zstd(*src, to, err) : fail_memory(err);
    if (st == CKPT_ELIMIT)
        st = fail(err, CKPT_EFORMAT, source_pos(*src, 0),
                  "unpacks to {more} than the {=%" PRIu64 " bytes} allowed", max_bytes);
    source *out = to ? spool_source(to) : NULL;
    source_unref(*src);
    *src = st == CKPT_OK ? out : NULL;
    if (st != CKPT_OK)
        source_unref(out);
    return st;
}

/* max_unpacked_bytes - returns how many bytes item INDEX, a zstd frame, may unpack to. */
static uint64_t max_unpacked_bytes(const struct dcp_items *items, size_t index)
{
    uint64_t max_bytes = UINT64_MAX;
    (void)checked_add(chunk_end(items, index) - items->items[index].source_offset, MAX_OVERHEAD, &max_bytes);
    return max_bytes;
}

static ckpt_status check_matches_metadata(const struct dcp_items *items, const struct dcp_item *item,
                                          const ckpt_file *f, ckpt_error *err)
{
    const struct joined_tensor *expected = &items->tensors[item->tensor];
    const ckpt_tensor t = f->table.nrows ? table_tensor(&f->table, 0) : (ckpt_tensor){0};
    if (t.npath || !t.has_data || t.kind != CKPT_DENSE)
        return fail(err, CKPT_EFORMAT, item->file_offset, "an item that is {no} {=tensor}");
    if (t.dtype != expected->dtype)
        return fail(err, CKPT_EFORMAT, item->file_offset, "an item of {%s}; .metadata has {=%s}",
                    dtype_info((ckpt_dtype)t.dtype)->name, dtype_info(expected->dtype)->name);
    return t.ndim == expected->ndim && same_sizes(t.shape, item->size, expected->ndim)
               ? CKPT_OK
               : fail(err, CKPT_EFORMAT, item->file_offset,
                      "an item of {another shape} than {=its chunk} in .metadata");
}

static ckpt_status open_item(const struct dcp_items *items, size_t index, ckpt_file **out, ckpt_error *err)
{
    const struct dcp_item *item = &items->items[index];
    const ckpt_file *in = items->files[item->file];
    source *src;
    ckpt_status st = source_slice(in->src, item->file_offset, item->length, &src, err);
    if (st == CKPT_OK && item->is_zstd)
        st = dcp_unpack_zstd(&src, max_unpacked_bytes(items, index), err);
    CKPT_THEN(st, format_open(&(struct opening){.path = in->path,
                                                .src = src,
                                                .limits = &items->checkpoint->limits,
                                                .only = &format_torch_zip},
                              out, err));
    if (st == CKPT_OK && (st = check_matches_metadata(items, item, *out, err)) != CKPT_OK)
        file_free(*out);
    if (st == CKPT_OK)
        return CKPT_OK;
    error_add_position(err, item->file_offset, str_of("", 0));
    return name_file_if_failed(st, in->path, err);
}

static uint64_t find_data_position(const struct dcp_item *item, const ckpt_file *f)
{
    ckpt_error ignored;
    const ckpt_tensor t = table_tensor(&f->table, 0);
    const struct storage *s = &f->table.storages[t.storage];
    uint64_t at, skip;
    if (item->is_zstd || t.conj || t.neg || s->swap_width || !is_row_major(&t) || !s->src ||
        source_locate(s->src, &ignored) != CKPT_OK ||
        !dtype_bytes((ckpt_dtype)t.dtype, t.storage_offset, &skip) || !checked_add(s->off, skip, &skip) ||
        (at = source_pos(s->src, skip)) == CKPT_NO_OFFSET)
        return INDIRECT;
    return at < INDIRECT - 1 ? at + 1 : INDIRECT;
}

/* ------------------------------------------------------------------------ reading */

static ckpt_file *find_open_archive(const struct item_source *self, size_t index)
{
    for (unsigned k = 0; k < MAX_OPEN; k++)
        if (self->open_archives[k].item == index)
            return self->open_archives[k].file;
    return NULL;
}

/* keep_open_archive - keeps F, the archive of item INDEX, and closes the archive that was kept longest. */
static void keep_open_archive(struct item_source *self, size_t index, ckpt_file *f)
{
    unsigned k = self->next_archive++ % MAX_OPEN;
    file_free(self->open_archives[k].file);
    self->open_archives[k].item = index;
    self->open_archives[k].file = f;
}

/* read_elements - reads NBYTES of the row-major bytes of row 0 of F, from OFF on. The row may have any
 * strides. */
static ckpt_status read_elements(ckpt_file *f, uint64_t off, unsigned char *out, size_t nbytes,
                                 ckpt_error *err)
{
    uint32_t width = dtype_info(table_dtype_of(&f->table, 0))->block_bytes;
    unsigned char element[32];
    while (nbytes) {
        uint64_t first = off / width, skip = off % width, count = nbytes / width, nread;
        if (skip == 0 && count) {
            CKPT_TRY(stream_read(&f->table, 0, first, count, out, err));
            nread = count * width;
        } else {
            CKPT_TRY(stream_read(&f->table, 0, first, 1, element, err));
            nread = width - skip < nbytes ? width - skip : nbytes;
            memcpy(out, element + skip, (size_t)nread);
        }
        out += nread;
        off += nread;
        nbytes -= (size_t)nread;
    }
    return CKPT_OK;
}

/* read_indirect - reads NBYTES bytes at OFF of item INDEX through its archive. The caller holds the lock. */
static ckpt_status read_indirect(struct item_source *self, size_t index, uint64_t off, void *out,
                                 size_t nbytes, ckpt_error *err)
{
    ckpt_file *f = find_open_archive(self, index);
    if (!f) {
        CKPT_TRY(open_item(&self->items, index, &f, err));
        keep_open_archive(self, index, f);
    }
    return read_elements(f, off, out, nbytes, err);
}

/* copy_crc - copies the checksum in F, the archive of ITEM, to ITEM if it covers exactly the chunk. */
static void copy_crc(struct dcp_item *item, const ckpt_file *f)
{
    const ckpt_tensor t = table_tensor(&f->table, 0);
    const struct storage *s = &f->table.storages[t.storage];
    item->has_crc = s->has_crc && s->nbytes == t.nbytes && t.storage_offset == 0;
    item->crc = s->crc;
}

/* locate_item - sets *POSITION to the data_position of item INDEX, and opens its archive if that is not
 * known. */
static ckpt_status locate_item(struct item_source *self, size_t index, uint64_t *position, ckpt_error *err)
{
    ckpt_file *f;
    struct dcp_item *item = &self->items.items[index];
    *position = atomic_load_explicit(&item->data_position, memory_order_acquire);
    if (*position)
        return CKPT_OK;
    pthread_mutex_lock(&self->lock); /* because reference counts are not atomic */
    ckpt_status st = open_item(&self->items, index, &f, err);
    if (st == CKPT_OK) {
        *position = find_data_position(item, f);
        if (*position != INDIRECT)
            copy_crc(item, f);
        file_free(f);
        atomic_store_explicit(&item->data_position, *position, memory_order_release);
    }
    pthread_mutex_unlock(&self->lock);
    return st;
}

/* join_ranges - extends RANGE by the kept ranges just before and after it, and removes these. */
static void join_ranges(struct item_source *self, struct read_range *range)
{
    for (unsigned k = 0; k < self->nranges;) {
        const struct read_range *x = &self->ranges[k];
        bool before = x->item == range->item && x->end == range->start;
        if (!before && !(x->item == range->item && x->start == range->end)) {
            k++;
            continue;
        }
        const struct read_range *first = before ? x : range, *second = before ? range : x;
        uint64_t n = second->end - second->start;
        *range = (struct read_range){range->item, first->start, second->end,
                                     crc_combine(CRC_32, first->crc, second->crc, n)};
        self->ranges[k] = self->ranges[--self->nranges];
        k = 0;
    }
}

/* keep_range - keeps RANGE until the bytes next to it are read. If there is no room, RANGE replaces another
 * range, whose item is then not checked. */
static void keep_range(struct item_source *self, const struct read_range *range)
{
    unsigned k = self->nranges < MAX_RANGES ? self->nranges++ : self->next_range++ % MAX_RANGES;
    self->ranges[k] = *range;
}

/* add_range - notes that NBYTES bytes at OFF of item INDEX were read. When all bytes of the item were read,
 * in any order, checks their checksum. */
static ckpt_status add_range(struct item_source *self, size_t index, uint64_t off, const void *bytes,
                             size_t nbytes, ckpt_error *err)
{
    struct dcp_item *item = &self->items.items[index];
    if (!item->has_crc || atomic_load(&item->crc_checked) || self->items.checkpoint->ignore_crc)
        return CKPT_OK;
    struct read_range range = {index, off, off + nbytes, crc32_update(0, bytes, nbytes)};
    pthread_mutex_lock(&self->lock);
    join_ranges(self, &range);
    bool all = range.start == 0 && range.end == chunk_end(&self->items, index) - item->source_offset;
    if (all)
        atomic_store(&item->crc_checked, range.crc == item->crc);
    else
        keep_range(self, &range);
    pthread_mutex_unlock(&self->lock);
    if (!all || range.crc == item->crc)
        return CKPT_OK;
    (void)fail(err, CKPT_ECHECKSUM, item->file_offset,
               "the CRC-32 of an item is {%08x}; its central directory has {=%08x}\n"
               "the file is damaged; fetch it again, or go on with --ignore-crc",
               range.crc, item->crc);
    return name_file_if_failed(CKPT_ECHECKSUM, self->items.files[item->file]->path, err);
}

static ckpt_status read_item(struct item_source *self, size_t index, uint64_t off, void *out, size_t nbytes,
                             ckpt_error *err)
{
    uint64_t position;
    const ckpt_file *in = self->items.files[self->items.items[index].file];
    CKPT_TRY(locate_item(self, index, &position, err));
    if (position != INDIRECT) {
        ckpt_status st = source_read(in->src, position - 1 + off, out, nbytes, err);
        return st == CKPT_OK ? add_range(self, index, off, out, nbytes, err)
                             : name_file_if_failed(st, in->path, err);
    }
    pthread_mutex_lock(&self->lock);
    ckpt_status st = read_indirect(self, index, off, out, nbytes, err);
    pthread_mutex_unlock(&self->lock);
    return st;
}

static ckpt_status items_read(source *src, uint64_t off, void *to, size_t nbytes, ckpt_error *err)
{
    struct item_source *self = (struct item_source *)src;
    unsigned char *out = to;
    for (size_t i = find_item(&self->items, off); nbytes; i++) {
        uint64_t left = chunk_end(&self->items, i) - off;
        size_t chunk_size = left < nbytes ? (size_t)left : nbytes;
        if (chunk_size)
            CKPT_TRY(read_item(self, i, off - self->items.items[i].source_offset, out, chunk_size, err));
        out += chunk_size;
        off += chunk_size;
        nbytes -= chunk_size;
    }
    return CKPT_OK;
}

static void items_close(source *src)
{
    struct item_source *self = (struct item_source *)src;
    for (unsigned k = 0; k < MAX_OPEN; k++)
        file_free(self->open_archives[k].file);
    pthread_mutex_destroy(&self->lock);
    free(self);
}

static const struct source_ops items_ops = {.read_at = items_read, .close = items_close};

source *dcp_items_source(const struct dcp_items *items)
{
    struct item_source *self = calloc(1, sizeof *self);
    if (!self || pthread_mutex_init(&self->lock, NULL) != 0) {
        free(self);
        return NULL;
    }
    self->source = (source){.ops = &items_ops, .size = items->nbytes, .position = CKPT_NO_OFFSET, .refs = 1};
    self->items = *items;
    for (unsigned k = 0; k < MAX_OPEN; k++)
        self->open_archives[k].item = NO_ITEM;
    return &self->source;
}

/* ----------------------------------------------------------------------- checking */

static ckpt_status check_item_crc(const struct dcp_items *items, size_t index, ckpt_file *f, ckpt_error *err)
{
    const struct dcp_item *item = &items->items[index];
    struct stream_options o = {.ignore_crc = false};
    ckpt_status st = storage_check_crc(&f->table, table_storage_of(&f->table, 0), &o, err);
    error_add_position(st == CKPT_OK ? NULL : err, item->file_offset, str_of("", 0));
    return name_file_if_failed(st, items->files[item->file]->path, err);
}

/* fill_record - sets *OUT to where the elements of item INDEX are in its file; F is the archive of the item.
 * If the elements are compressed, checks their CRC instead and leaves out->src NULL. */
static ckpt_status fill_record(const struct dcp_items *items, size_t index, ckpt_file *f,
                               struct check_record *out, ckpt_error *err)
{
    const ckpt_file *in = items->files[items->items[index].file];
    const struct storage *s = &f->table.storages[table_storage_of(&f->table, 0)];
    CKPT_TRY(source_locate(s->src, err));
    *out = (struct check_record){.name = items->tensors[items->items[index].tensor].name,
                                 .path = in->path,
                                 .file_offset = source_pos(s->src, s->off),
                                 .crc = s->crc};
    if (items->items[index].is_zstd || out->file_offset == CKPT_NO_OFFSET)
        return check_item_crc(items, index, f, err);
    return source_slice(in->src, out->file_offset, s->nbytes, &out->src, err); /* F closes s->src */
}

static ckpt_status check_open_archive(struct item_source *self, size_t index, bool compare, ckpt_file *f,
                                      struct check_record *record, ckpt_error *err)
{
    const struct storage *in = &f->table.storages[table_storage_of(&f->table, 0)];
    atomic_store_explicit(&self->items.items[index].data_position,
                          find_data_position(&self->items.items[index], f), memory_order_release);
    if (!in->has_crc)
        return CKPT_OK;
    ckpt_status st = compare ? check_item_crc(&self->items, index, f, err)
                             : fill_record(&self->items, index, f, record, err);
    record->path = self->items.files[self->items.items[index].file]->path;
    return st;
}

ckpt_status dcp_items_check(source *items_source, size_t index, bool compare, struct check_record *record,
                            ckpt_error *err)
{
    struct item_source *self = (struct item_source *)items_source;
    ckpt_file *f;
    *record = (struct check_record){.src = NULL};
    ckpt_status st = open_item(&self->items, index, &f, err);
    if (st == CKPT_OK) {
        st = check_open_archive(self, index, compare, f, record, err);
        file_free(f);
    }
    return prefix_where_if_failed(st, self->items.tensors[self->items.items[index].tensor].name, err);
}
