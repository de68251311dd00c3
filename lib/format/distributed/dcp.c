/* dcp.c - reads Distributed Checkpoints of torch: a folder that many ranks have written.
 *
 *   .metadata         the chunks that each tensor is cut into, and where they are (dcp_metadata.c); or
 *   __R.metadata      the same of rank R alone, if the save used no collectives: all of them are read
 *   __R_N.distcp      items of rank R, one after the other. An item is a torch.save archive of one chunk of a
 *                     tensor or of one value, or a zstd frame of that archive. Or: archives of values, then
 *                     one safetensors file with all tensors of the rank
 *   meta.pt, common.pt     values of a trainer (dcp_extra_values.c)
 *
 * Sources: torch/distributed/checkpoint/filesystem.py, default_planner.py, _nested_dict.py.
 *
 * Values are read at once, each like a file of its own, and join the graph. The archives of tensors are
 * opened by dcp_items.c when their bytes are read; until then only the sizes of the .distcp files are
 * checked.
 *
 * Refused: files outside the folder, items that overlap or end after their file, chunks that overlap,
 * exceed the tensor or leave a gap in it, a chunk without an item, unknown transformations. Chunks with the
 * same offsets and sizes are replicas: one of them is read. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/checked.h"
#include "base/cursor.h"
#include "core/box_index.h"
#include "core/check.h"
#include "core/dtype.h"
#include "core/pieces.h"
#include "format/distributed/dcp.h"
#include "format/distributed/dcp_metadata.h"
#include "format/distributed/dcp_write.h"
#include "format/distributed/part_files.h"
#include "format/distributed/sharded_tensors.h"
#include "format/folder.h"
#include "format/nested.h"
#include "format/torch/graph.h"
#include "format/torch/zip.h"

#define METADATA  ".metadata"
#define MAX_FILES 1000000u
#define MAX_DIMS  (BOX_DIMS - 1u)     /* the limit of core/pieces.h */
#define MAX_HEAP  ((uint64_t)3 << 29) /* of metadata, unless max_metadata is given: about 7 million chunks */

/* A chunk of a tensor, as its metadata describe it. */
struct dcp_chunk {
    const uint64_t *offset, *size;
};

/* An entry of storage_data: the file, offset and length of an item. */
struct dcp_storage_info {
    const uint64_t *offset; /* of the chunk in its tensor; NULL: a value */
    uint64_t at, length;
    uint32_t ndim, file;
    uint32_t order : 31; /* of the entries with one name: if two are of the same chunk, the last one counts */
    uint32_t zstd : 1;
    uint32_t used; /* 1 + index of the dcp_item that was made of it; 0: none yet */
};

/* A name (fqn) of the checkpoint, which is a tensor or another value. */
struct dcp_entry {
    struct joined_tensor tensor;                     /* shape NULL: a value; node: of either */
    const struct dcp_metadata *path_of;              /* the metadata that PATH is in; NULL: no path */
    dcp_word path;                                   /* in planner_data */
    size_t first_chunk, nchunks, first_info, ninfos; /* in dcp.chunk and dcp.infos */
    size_t first_item, nitems;                       /* in dcp.item */
    bool failed;                                     /* it cannot be read, which was reported */
};

/* A .distcp file. */
struct dcp_data {
    ckpt_str name;
    ckpt_file *part;        /* NULL: missing */
    ckpt_file *safetensors; /* the safetensors file in it, or NULL */
    uint64_t safetensors_offset;
};

struct dcp {
    ckpt_file *f; /* must be first, for part_graph_find_storage */
    ckpt_error *err;
    const char *trusted;       /* the first metadata file, for part_file_path */
    struct dcp_metadata *meta; /* meta[I] was read from f->parts[I] */
    size_t nmeta;
    const ckpt_file *meta_file; /* the metadata file that is being read */
    struct dcp_entry *entry;
    size_t n, cap;
    struct dcp_chunk *chunk;
    struct dcp_storage_info *infos;
    struct dcp_data *data;
    size_t ndata, cap_data;
    map *names, *files;
    struct dcp_item *item;
    const uint64_t **item_offset; /* by item: offset of its chunk in the tensor */
    size_t nitems, nchunks;
    size_t nwords; /* in all metadata, which cannot have more chunks than words */
    uint64_t total;
    bool in_safetensors; /* the tensors of a rank are one safetensors file */
    source *items;       /* dcp_items_source */
};

/* ------------------------------------------------------------------------ folders */

static bool is_data(ckpt_str name) { return str_ends(name, STR_LIT(".distcp")); }

/* is_rank_metadata - returns true for names such as "__12.metadata". */
static bool is_rank_metadata(ckpt_str name)
{
    uint64_t rank;
    return part_name_skip(&name, "__", &rank) && str_is(name, ".metadata");
}

static bool is_metadata(ckpt_str name) { return str_is(name, METADATA); }

static bool is_unfinished_metadata(ckpt_str name) { return str_ends(name, STR_LIT(METADATA ".tmp")); }

static bool is_data_or_rank_metadata(ckpt_str name) { return is_data(name) || is_rank_metadata(name); }

/* has_torch_metadata - returns true if the first bytes of .metadata name torch. Other programs have files of
 * that name, too. */
static bool has_torch_metadata(const struct probe *p)
{
    char head[256];
    ckpt_str found = probe_read_head(p, METADATA, head, sizeof head);
    return str_find(found, STR_LIT("torch.distributed"), 0) != SIZE_MAX;
}

static bool probe(const struct probe *p)
{
    struct folder d;
    if (has_torch_metadata(p) || probe_matches(p, is_data_or_rank_metadata))
        return true;
    folder_scan(p->names, p->nnames, &d);
    /* a damaged .metadata, if no other checkpoint is in the folder */
    return probe_has(p, METADATA) && !d.nindex && !d.nsingle;
}

/* ----------------------------------------------------------------------- metadata */

static ckpt_status read_metadata_file(struct dcp *d, ckpt_str name)
{
    ckpt_file *part, *f = d->f;
    uint64_t most = f->limits.max_metadata;
    CKPT_TRY(part_file_add(f, d->trusted, name, &part, d->err));
    file_budget(f, part->src->size);
    /* by default 64 MiB and 24 bytes for each byte of the file, at most MAX_HEAP */
    if (!most && !(checked_mul(part->src->size, 24, &most) && checked_add(most, (uint64_t)64 << 20, &most) &&
                   most <= MAX_HEAP))
        most = MAX_HEAP;
    ckpt_status st = dcp_metadata_read(f->a, part->src, most, &d->meta[d->nmeta], d->err);
    if (st == CKPT_OK) {
        d->nwords += d->meta[d->nmeta].nwords; /* bounded: they are in memory */
        d->nmeta++;
        if (!dcp_is_instance(d->meta[d->nmeta - 1].root, DCP_METADATA))
            st = fail(d->err, CKPT_EFORMAT, 0,
                      "a pickle that makes {no} {=torch.distributed.checkpoint.metadata.Metadata}");
    }
    error_add_position(st == CKPT_OK ? NULL : d->err, 0, STR_LIT("pickle"));
    if (st != CKPT_OK && f->salvage)
        error_add_hint(d->err, "without its metadata nothing of the checkpoint has a name");
    return name_file_if_failed(st, part->path, d->err);
}

static ckpt_status fail_no_metadata(const struct dcp *d)
{
    ckpt_str *list;
    size_t n = 0;
    CKPT_TRY(folder_list(d->f->a, d->f->folder, is_unfinished_metadata, &list, &n, d->err));
    (void)fail(d->err, CKPT_ENOTFOUND, CKPT_NO_OFFSET,
               "data files of a distributed checkpoint, but {no} {=.metadata}");
    if (n)
        error_add_hint(d->err, "%.*s is there: the save did not finish; use an earlier checkpoint",
                       STR_ARG(list[0]));
    else
        error_add_hint(d->err,
                       "a save writes it last: this save did not finish, or the folder was not copied "
                       "completely");
    return CKPT_ENOTFOUND;
}

/* read_metadata - reads .metadata or, without it, the metadata of each rank. */
static ckpt_status read_metadata(struct dcp *d)
{
    ckpt_file *f = d->f;
    ckpt_str *list;
    size_t n;
    CKPT_TRY(folder_list(f->a, f->folder, is_metadata, &list, &n, d->err));
    if (!n)
        CKPT_TRY(folder_list(f->a, f->folder, is_rank_metadata, &list, &n, d->err));
    if (!n)
        return fail_no_metadata(d);
    d->trusted = list[0].ptr;
    d->meta = arena_array(f->a, n, sizeof *d->meta);
    if (!d->meta)
        return fail_memory(d->err);
    for (size_t i = 0; i < n; i++)
        CKPT_TRY(read_metadata_file(d, list[i]));
    return CKPT_OK;
}

/* fail_entry - fails with FMT about the entry NAME of the metadata file that is being read. */
CKPT_PRINTF(3, 4) static ckpt_status fail_entry(struct dcp *d, ckpt_str name, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    (void)fail_v(d->err, CKPT_EFORMAT, 0, fmt, args);
    va_end(args);
    error_add_where(d->err, "%.*s", STR_ARG(name));
    error_add_hint(d->err, "the metadata are damaged, or of a kind that no release of torch writes");
    return name_file_if_failed(CKPT_EFORMAT, d->meta_file->path, d->err);
}

static const uint64_t *copy_sizes(arena *a, const uint64_t *sizes, uint32_t n)
{
    uint64_t *copy = arena_array(a, n, sizeof *copy);
    for (uint32_t k = 0; copy && k < n; k++)
        copy[k] = sizes[k];
    return copy;
}

/* read_shape - sets dtype and shape of E from W, a TensorStorageMetadata. If several ranks have metadata
 * of E, they must agree. */
static ckpt_status read_shape(struct dcp *d, struct dcp_entry *e, const struct dcp_metadata *m, dcp_word w)
{
    uint32_t ndim = 0;
    const uint64_t *shape = dcp_sizes(m, dcp_field(m, w, DCP_TENSOR, TENSOR_SIZE), &ndim);
    dcp_word properties = dcp_field(m, w, DCP_TENSOR, TENSOR_PROPERTIES);
    ckpt_dtype dtype = dcp_dtype(dcp_field(m, properties, DCP_PROPERTIES, PROPERTIES_DTYPE));
    if (!shape || !dtype)
        return fail_entry(d, e->tensor.name, "a tensor with {no} {=%s}",
                          shape ? "element type of torch's" : "size of positive integers");
    if (ndim > MAX_DIMS)
        return fail_entry(d, e->tensor.name, "a tensor of {%u dimensions}; {=%u} are allowed", ndim,
                          MAX_DIMS);
    bool same = e->tensor.shape && e->tensor.dtype == dtype && e->tensor.ndim == ndim &&
                same_sizes(e->tensor.shape, shape, ndim);
    if (e->tensor.shape && !same)
        return fail_entry(d, e->tensor.name,
                          "{another size or element type} than {=that of the other ranks}");
    if (dtype_info(dtype)->block_elems != 1) {
        (void)fail(d->err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET, "%s in pieces cannot be read",
                   dtype_info(dtype)->name);
        return prefix_where_if_failed(CKPT_EUNSUPPORTED, e->tensor.name, d->err);
    }
    e->tensor.dtype = dtype;
    e->tensor.ndim = ndim;
    e->tensor.shape = copy_sizes(d->f->a, shape, ndim);
    return e->tensor.shape ? CKPT_OK : fail_memory(d->err);
}

/* read_entry - adds an entry for the name KEY, whose metadata are W, and counts its chunks. */
static ckpt_status read_entry(struct dcp *d, const struct dcp_metadata *m, dcp_word key, dcp_word w)
{
    ckpt_str name;
    uint32_t i;
    size_t nchunks;
    if (!dcp_text(m, key, &name))
        return fail_entry(d, STR_LIT("state_dict_metadata"), "a key that is {no} {=text}");
    if (dcp_is_instance(w, DCP_SHARDED_TENSOR) ||
        !(dcp_is_instance(w, DCP_TENSOR) || dcp_is_instance(w, DCP_BYTES)))
        return fail_entry(d, name, "{neither} {=the metadata of a tensor nor those of a value}");
    if (!map_put(d->names, name, (uint32_t)d->n, &i))
        return fail_memory(d->err);
    if (i == MAP_NONE) {
        const struct dcp_entry new = {.tensor = {.name = name, .storage = CKPT_NO_STORAGE}};
        i = (uint32_t)d->n; /* bounded: a map has fewer */
        if (!arena_push(d->f->a, &d->entry, &d->n, &d->cap, &new, sizeof new))
            return fail_memory(d->err);
    } else if (dcp_is_instance(w, DCP_TENSOR) != (d->entry[i].tensor.shape != NULL)) {
        return fail_entry(d, name, "{a tensor} for one rank and {=another value} for the next");
    }
    if (dcp_is_instance(w, DCP_BYTES))
        return CKPT_OK;
    (void)dcp_elements(m, dcp_field(m, w, DCP_TENSOR, TENSOR_CHUNKS), &nchunks);
    d->entry[i].nchunks += nchunks; /* bounded: nwords, of each list, are in memory; compared below */
    d->nchunks += nchunks;          /* bounded: likewise */
    if (d->nchunks > d->nwords)     /* a pickle can have one list, of many chunks, in many tensors */
        return fail_entry(d, name, "{%zu chunks} up to this tensor, in metadata of {=%zu values}", d->nchunks,
                          d->nwords);
    return read_shape(d, &d->entry[i], m, w);
}

/* for_each_pair - calls VISIT for each key and value of the dict FIELD in all metadata. */
static ckpt_status for_each_pair(struct dcp *d, unsigned field,
                                 ckpt_status (*visit)(struct dcp *, const struct dcp_metadata *, dcp_word,
                                                      dcp_word))
{
    for (size_t k = 0; k < d->nmeta; k++) {
        size_t n;
        const struct dcp_metadata *m = &d->meta[k];
        d->meta_file = d->f->parts[k];
        const dcp_word *item = dcp_elements(m, dcp_field(m, m->root, DCP_METADATA, field), &n);
        for (size_t i = 0; i + 1 < n; i += 2)
            CKPT_TRY(visit(d, m, item[i], item[i + 1]));
    }
    return CKPT_OK;
}

static ckpt_status read_path(struct dcp *d, const struct dcp_metadata *m, dcp_word key, dcp_word w)
{
    ckpt_str name;
    uint32_t i = dcp_text(m, key, &name) ? map_get(d->names, name) : MAP_NONE;
    if (i != MAP_NONE) {
        d->entry[i].path_of = m;
        d->entry[i].path = w;
    }
    return CKPT_OK;
}

/* read_chunks - appends the chunks of the tensor KEY, whose metadata are W. */
static ckpt_status read_chunks(struct dcp *d, const struct dcp_metadata *m, dcp_word key, dcp_word w)
{
    ckpt_str name;
    uint32_t a, b;
    size_t n;
    const dcp_word *list = dcp_elements(m, dcp_field(m, w, DCP_TENSOR, TENSOR_CHUNKS), &n);
    if (!n || !dcp_text(m, key, &name))
        return CKPT_OK;
    struct dcp_entry *e = &d->entry[map_get(d->names, name)];
    for (size_t i = 0; i < n; i++) {
        struct dcp_chunk *chunk = &d->chunk[e->first_chunk + e->nchunks++]; /* bounded: they were counted */
        chunk->offset = dcp_sizes(m, dcp_field(m, list[i], DCP_CHUNK, CHUNK_OFFSETS), &a);
        chunk->size = dcp_sizes(m, dcp_field(m, list[i], DCP_CHUNK, CHUNK_SIZES), &b);
        if (!chunk->offset || !chunk->size || a != e->tensor.ndim || b != e->tensor.ndim)
            return fail_entry(
                d, name, "a chunk that has {no} {=offsets and sizes of %u dimension%s}, as the tensor has",
                e->tensor.ndim, e->tensor.ndim == 1 ? "" : "s");
    }
    return CKPT_OK;
}

/* -------------------------------------------------------------------- files of items */

/* find_file - sets *OUT to the index in d->data of the file NAME, which is opened the first time. */
static ckpt_status find_file(struct dcp *d, ckpt_str name, uint32_t *out)
{
    struct dcp_data data = {.name = name};
    if (!map_put(d->files, name, (uint32_t)d->ndata, out))
        return fail_memory(d->err);
    if (*out != MAP_NONE)
        return CKPT_OK;
    if (d->ndata == MAX_FILES)
        return fail(d->err, CKPT_ELIMIT, CKPT_NO_OFFSET, "{more} than {=%u files}", MAX_FILES);
    ckpt_status st = part_file_add(d->f, d->trusted, name, &data.part, d->err);
    if (st == CKPT_ENOTFOUND) {
        data.part = NULL;
        (void)fail(d->err, st, CKPT_NO_OFFSET,
                   "{=the file %.*s} is {missing}\n"
                   "put all files of the save into the folder; `ckpt salvage` writes what the others hold",
                   STR_ARG(name));
        st = part_file_accept_missing(d->f, d->err);
    }
    CKPT_TRY(st);
    *out = (uint32_t)d->ndata;
    return arena_push(d->f->a, &d->data, &d->ndata, &d->cap_data, &data, sizeof data) ? CKPT_OK
                                                                                      : fail_memory(d->err);
}

/* read_transforms - sets *ZSTD to true if TRANSFORMS is zstd alone, and to false if it is empty. Refuses any
 * other. */
static ckpt_status read_transforms(struct dcp *d, const struct dcp_metadata *m, dcp_word transforms,
                                   bool *zstd)
{
    size_t n;
    ckpt_str name = {"", 0};
    const dcp_word *item = dcp_elements(m, transforms, &n);
    *zstd = n == 1 && dcp_text(m, item[0], &name) && str_is(name, "stream.zstd/1");
    if (*zstd || !n)
        return CKPT_OK;
    return fail(d->err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
                "items that were transformed {by \"%.*s\"}; {=stream.zstd/1} is known", STR_ARG(name));
}

/* find_entry - returns the entry with the name of KEY, a MetadataIndex, or NULL. */
static struct dcp_entry *find_entry(const struct dcp *d, const struct dcp_metadata *m, dcp_word key)
{
    ckpt_str name;
    uint32_t i = dcp_text(m, dcp_field(m, key, DCP_INDEX, INDEX_FQN), &name) ? map_get(d->names, name)
                                                                             : MAP_NONE;
    return i == MAP_NONE ? NULL : &d->entry[i];
}

static ckpt_status count_storage_info(struct dcp *d, const struct dcp_metadata *m, dcp_word key, dcp_word w)
{
    struct dcp_entry *e = find_entry(d, m, key);
    (void)w;
    if (e)
        e->ninfos++;
    return CKPT_OK;
}

static ckpt_status read_storage_info(struct dcp *d, const struct dcp_metadata *m, dcp_word key, dcp_word w)
{
    ckpt_str path;
    bool zstd;
    struct dcp_entry *e = find_entry(d, m, key);
    if (!e)
        return CKPT_OK;
    struct dcp_storage_info *s = &d->infos[e->first_info + e->ninfos];
    s->order = (uint32_t)e->ninfos & 0x7fffffff; /* bounded: fewer are in memory */
    e->ninfos++;
    s->offset = dcp_sizes(m, dcp_field(m, key, DCP_INDEX, INDEX_OFFSET), &s->ndim);
    if (!dcp_text(m, dcp_field(m, w, DCP_STORED, STORED_PATH), &path) ||
        !dcp_int(dcp_field(m, w, DCP_STORED, STORED_OFFSET), &s->at) ||
        !dcp_int(dcp_field(m, w, DCP_STORED, STORED_LENGTH), &s->length) ||
        (e->tensor.shape && (!s->offset || s->ndim != e->tensor.ndim)))
        return fail_entry(d, e->tensor.name, "an item that has {no} {=file, offset and length}");
    ckpt_status st = read_transforms(d, m, dcp_field(m, w, DCP_STORED, STORED_TRANSFORMS), &zstd);
    s->zstd = zstd;
    if (st == CKPT_OK)
        st = find_file(d, path, &s->file);
    return prefix_where_if_failed(st, e->tensor.name, d->err);
}

/* read_entries - fills entry, chunk and infos from all metadata: counts first, then stores. */
static ckpt_status read_entries(struct dcp *d)
{
    size_t nchunks = 0, ninfos = 0;
    CKPT_TRY(for_each_pair(d, METADATA_TENSORS, read_entry));
    CKPT_TRY(for_each_pair(d, METADATA_PATHS, read_path));
    CKPT_TRY(for_each_pair(d, METADATA_STORED, count_storage_info));
    for (size_t i = 0; i < d->n; i++) { /* bounded: all of them are in memory */
        struct dcp_entry *e = &d->entry[i];
        e->first_chunk = nchunks;
        e->first_info = ninfos;
        nchunks += e->nchunks;
        ninfos += e->ninfos;
        e->nchunks = e->ninfos = 0;
    }
    d->chunk = calloc(d->nchunks + 1, sizeof *d->chunk);
    d->infos = calloc(ninfos + 1, sizeof *d->infos);
    if (!d->chunk || !d->infos)
        return fail_memory(d->err);
    CKPT_TRY(for_each_pair(d, METADATA_TENSORS, read_chunks));
    return for_each_pair(d, METADATA_STORED, read_storage_info);
}

/* -------------------------------------------------------------------------- items */

/* name_metadata - names the only metadata file in d->err if ST is an error that names no file. */
static void name_metadata(struct dcp *d, ckpt_status st)
{
    error_add_file(st != CKPT_OK && d->nmeta == 1 ? d->err : NULL, d->meta_file->path);
}

/* accept_failure - handles ST, the outcome of reading E. Returns CKPT_OK if ST is CKPT_OK, if the fault is
 * reported, or if salvage can go on without E; otherwise ST. */
static ckpt_status accept_failure(struct dcp *d, struct dcp_entry *e, ckpt_status st)
{
    name_metadata(d, st);
    e->failed = e->failed || st != CKPT_OK;
    if (e->tensor.shape || !d->f->salvage || !check_is_fault(st))
        return sharded_storage_accept_fault(d->f, e->tensor.name, e->tensor.dtype, st, &e->tensor.storage,
                                            d->err);
    file_notice(d->f, "\"%.*s\", which is not a tensor, is lost: %s", STR_ARG(e->tensor.name), d->err->what);
    return CKPT_OK;
}

static int compare_offsets(const void *a, const void *b)
{
    const struct dcp_storage_info *x = a, *y = b;
    for (uint32_t k = 0; k < x->ndim && k < y->ndim; k++)
        if (x->offset[k] != y->offset[k])
            return x->offset[k] < y->offset[k] ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

/* find_storage_info - returns the last entry of E whose chunk begins at OFFSET, or NULL. */
static struct dcp_storage_info *find_storage_info(const struct dcp *d, const struct dcp_entry *e,
                                                  const uint64_t *offset)
{
    struct dcp_storage_info *list = d->infos + e->first_info,
                            key = {.offset = offset, .ndim = e->tensor.ndim};
    size_t low = 0, high = e->ninfos;
    key.order = 0x7fffffff; /* after all entries of that offset */
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (compare_offsets(&list[mid], &key) <= 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low && same_sizes(list[low - 1].offset, offset, e->tensor.ndim) ? &list[low - 1] : NULL;
}

/* format_chunk - writes CHUNK to TEXT as a Python slice, "[2:4, 0:8]", and returns TEXT. */
static const char *format_chunk(const struct dcp_entry *e, const struct dcp_chunk *chunk, char text[256])
{
    buf b;
    buf_init(&b, 1u << 16);
    for (uint32_t k = 0; k < e->tensor.ndim; k++) {
        uint64_t end = UINT64_MAX;
        (void)checked_add(chunk->offset[k], chunk->size[k], &end);
        buf_printf(&b, "%s%" PRIu64 ":%" PRIu64, k ? ", " : "", chunk->offset[k], end);
    }
    ckpt_str s = buf_view(&b);
    (void)snprintf(text, 256, "[%.*s]", STR_ARG(s));
    buf_free(&b);
    return text;
}

/* check_range - checks that the item S is inside of its file and has at least NEED bytes. */
static ckpt_status check_range(struct dcp *d, const struct dcp_storage_info *s, uint64_t need)
{
    const struct dcp_data *in = &d->data[s->file];
    uint64_t size = in->part ? in->part->src->size : 0;
    ckpt_status st = CKPT_OK;
    if (!in->part)
        return fail(d->err, CKPT_ETRUNCATED, CKPT_NO_OFFSET, "{=the file %.*s}, where it is, is {missing}",
                    STR_ARG(in->name));
    if (d->in_safetensors && s->offset)
        return CKPT_OK;
    if (!range_within(s->at, s->length, size))
        st = fail(d->err, CKPT_ETRUNCATED, s->at < size ? s->at : size,
                  "an item of {=%" PRIu64 " bytes} at byte %" PRIu64 ", the file has {%" PRIu64 "} there",
                  s->length, s->at, s->at < size ? size - s->at : 0);
    else if (!s->zstd && s->length < need)
        st = fail(d->err, CKPT_EFORMAT, s->at,
                  "an item of {%" PRIu64 " bytes}, its chunk takes {=%" PRIu64 "}", s->length, need);
    return name_file_if_failed(st, in->part->path, d->err);
}

static ckpt_status add_item(struct dcp *d, const struct dcp_entry *e, const struct dcp_chunk *chunk)
{
    char text[256];
    uint64_t need;
    struct dcp_storage_info *s = find_storage_info(d, e, chunk->offset);
    if (!s)
        return fail(d->err, CKPT_EFORMAT, CKPT_NO_OFFSET, "chunk %s has {no} {=item}",
                    format_chunk(e, chunk, text));
    if (!checked_product(chunk->size, e->tensor.ndim, &need) || !dtype_bytes(e->tensor.dtype, need, &need) ||
        d->total > UINT64_MAX / 2 - need)
        return fail(d->err, CKPT_EFORMAT, CKPT_NO_OFFSET, "chunks of {more} than {=2^63 bytes}");
    if (s->used && same_sizes(d->item[s->used - 1].size, chunk->size, e->tensor.ndim))
        return CKPT_OK;                /* a replica; a chunk of a different size would overlap */
    s->used = (uint32_t)d->nitems + 1; /* bounded: metadata have fewer than 2^31 words */
    CKPT_TRY(check_range(d, s, need));
    struct dcp_item *it = &d->item[d->nitems];
    /* most chunks of a tensor have the same size, which is kept once */
    const uint64_t *last = d->nitems > e->first_item ? it[-1].size : NULL;
    bool alike = last && same_sizes(last, chunk->size, e->tensor.ndim);
    *it = (struct dcp_item){.file_offset = s->at,
                            .length = s->length,
                            .source_offset = d->total,
                            .size = alike ? last : copy_sizes(d->f->a, chunk->size, e->tensor.ndim),
                            .file = s->file,
                            .tensor = (uint32_t)(e - d->entry) & 0x7fffffff, /* bounded: a map has fewer */
                            .zstd = s->zstd};
    d->item_offset[d->nitems++] = chunk->offset;
    d->total += need; /* bounded: just compared */
    return it->size ? CKPT_OK : fail_memory(d->err);
}

/* add_items - adds an item for each chunk of E, or no item if one of them cannot be added. */
static ckpt_status add_items(struct dcp *d, struct dcp_entry *e)
{
    e->first_item = d->nitems;
    uint64_t total = d->total;
    if (e->ninfos)
        qsort(d->infos + e->first_info, e->ninfos, sizeof *d->infos, compare_offsets);
    ckpt_status st = CKPT_OK;
    for (size_t i = 0; st == CKPT_OK && i < e->nchunks; i++)
        st = add_item(d, e, &d->chunk[e->first_chunk + i]);
    if (st != CKPT_OK) {
        d->nitems = e->first_item;
        d->total = total;
    }
    e->nitems = d->nitems - e->first_item;
    return accept_failure(d, e, st);
}

/* looks_like_safetensors - returns true if a safetensors file begins at the offset of S. */
static bool looks_like_safetensors(const struct dcp *d, const struct dcp_storage_info *s)
{
    unsigned char head[9];
    const ckpt_file *in = d->data[s->file].part;
    return in && !s->zstd && source_read(in->src, s->at, head, sizeof head, NULL) == CKPT_OK &&
           head[8] == '{' && range_within(8, load_u64le(head), in->src->size);
}

/* detect_safetensors - sets d->in_safetensors if the first item of the first tensor is a safetensors file. */
static void detect_safetensors(struct dcp *d)
{
    for (size_t i = 0; i < d->n; i++)
        if (d->entry[i].tensor.shape && d->entry[i].ninfos) {
            d->in_safetensors = looks_like_safetensors(d, &d->infos[d->entry[i].first_info]);
            return;
        }
}

/* The bytes of an item in its file. */
struct dcp_range {
    uint64_t at, end;
    uint32_t file, tensor;
};

static int compare_ranges(const void *a, const void *b)
{
    const struct dcp_range *x = a, *y = b;
    if (x->file != y->file)
        return x->file < y->file ? -1 : 1;
    return x->at != y->at ? (x->at < y->at ? -1 : 1) : (x->end > y->end) - (x->end < y->end);
}

/* check_overlaps - reports items that overlap in their file, except items with the same range: several names
 * may refer to one item. */
static ckpt_status check_overlaps(struct dcp *d)
{
    struct dcp_range *r = calloc(d->nitems + 1, sizeof *r);
    ckpt_status st = r ? CKPT_OK : fail_memory(d->err);
    for (size_t i = 0; r && i < d->nitems; i++) /* bounded: the end is in the file */
        r[i] = (struct dcp_range){d->item[i].file_offset, d->item[i].file_offset + d->item[i].length,
                                  d->item[i].file, d->item[i].tensor};
    if (r && d->nitems)
        qsort(r, d->nitems, sizeof *r, compare_ranges);
    for (size_t i = 1; st == CKPT_OK && i < d->nitems; i++) {
        const struct dcp_range *a = &r[i - 1], *b = &r[i];
        if (a->file != b->file || b->at >= a->end || (a->at == b->at && a->end == b->end))
            continue;
        (void)fail(d->err, CKPT_EFORMAT, b->at,
                   "an item that {overlaps} that of \"%.*s\", which ends {=at %" PRIu64 "}",
                   STR_ARG(d->entry[a->tensor].tensor.name), a->end);
        error_add_where(d->err, "%.*s", STR_ARG(d->entry[b->tensor].tensor.name));
        error_add_file(d->err, d->data[b->file].part->path);
        st = file_report_fault(d->f, CKPT_EFORMAT, d->err);
    }
    free(r);
    return st;
}

static ckpt_status make_items(struct dcp *d)
{
    ckpt_file *f = d->f;
    d->item = arena_array(f->a, d->nchunks, sizeof *d->item);
    d->item_offset = calloc(d->nchunks + 1, sizeof *d->item_offset);
    struct joined_tensor *tensors = arena_array(f->a, d->n, sizeof *tensors);
    if (!d->item || !d->item_offset || !tensors)
        return fail_memory(d->err);
    for (size_t i = 0; i < d->n; i++) {
        tensors[i] = d->entry[i].tensor;
        if (d->entry[i].tensor.shape)
            CKPT_TRY(add_items(d, &d->entry[i]));
    }
    if (!d->in_safetensors)
        CKPT_TRY(check_overlaps(d));
    ckpt_file **files = arena_array(f->a, d->ndata, sizeof(ckpt_file *));
    for (size_t i = 0; files && i < d->ndata; i++)
        files[i] = d->data[i].part;
    struct dcp_items x = {d->item, d->nitems, tensors, files, d->total, f};
    d->items = files ? dcp_items_source(&x) : NULL;
    return d->items ? CKPT_OK : fail_memory(d->err);
}

/* ------------------------------------------------------------------------ tensors */

/* find_in_safetensors - sets *P to the bytes of the chunk IT of E in the safetensors file of its rank. */
static ckpt_status find_in_safetensors(struct dcp *d, const struct dcp_entry *e, const struct dcp_item *it,
                                       struct piece *p)
{
    struct dcp_data *in = &d->data[it->file];
    source *src;
    if (!in->safetensors) {
        CKPT_TRY(range_within(it->file_offset, 0, in->part->src->size)
                     ? source_slice(in->part->src, it->file_offset, in->part->src->size - it->file_offset,
                                    &src, d->err)
                     : fail(d->err, CKPT_ETRUNCATED, in->part->src->size,
                            "it begins {at byte %" PRIu64 "}, beyond {=the end of the file}",
                            it->file_offset));
        CKPT_TRY(format_open_part(d->f, in->part->path, src, &in->safetensors, d->err));
        if (!in->safetensors)
            return CKPT_EFORMAT;
        CKPT_TRY(part_file_keep(d->f, in->safetensors, d->err));
        in->safetensors_offset = it->file_offset;
    }
    uint32_t row = in->safetensors_offset == it->file_offset ? file_find(in->safetensors, e->tensor.name)
                                                             : CKPT_NO_TENSOR;
    const ckpt_tensor *t = row == CKPT_NO_TENSOR ? NULL : &in->safetensors->table.rows[row].t;
    if (!t || !t->has_data || t->dtype != e->tensor.dtype || t->ndim != e->tensor.ndim ||
        !same_sizes(t->shape, it->size, t->ndim))
        return fail(d->err, CKPT_EFORMAT, it->file_offset,
                    "the safetensors file of its rank has {no chunk} of {=this name, type and shape}");
    const struct storage *s = &in->safetensors->table.storages[t->storage];
    p->src = s->src;
    p->at = s->off;
    return CKPT_OK;
}

/* check_items - opens all archives of E, for `verify` and salvage. Sets *HAS_CRCS to true if all have
 * checksums. */
static ckpt_status check_items(struct dcp *d, const struct dcp_entry *e, bool *pieces_have_crcs)
{
    *pieces_have_crcs = true;
    for (size_t i = 0; i < e->nitems; i++) {
        struct check_record r;
        size_t at = e->first_item + i; /* bounded: an item of E */
        CKPT_TRY(dcp_items_check(d->items, at, d->f->check == NULL, &r, d->err));
        *pieces_have_crcs = *pieces_have_crcs && r.path;
        if (r.src)
            CKPT_TRY(check_add_record(d->f->check, &r, d->err));
    }
    return CKPT_OK;
}

static ckpt_status fill_pieces(struct dcp *d, const struct dcp_entry *e, struct piece *p)
{
    const struct dcp_item *item = d->item + e->first_item;    /* bounded: an item of E */
    const uint64_t **offset = d->item_offset + e->first_item; /* bounded */
    for (size_t i = 0; i < e->nitems; i++) {
        const struct dcp_item *it = item + i;
        p[i] = (struct piece){
            .offset = offset[i], .size = it->size, .src = d->items, .at = it->source_offset};
        if (d->in_safetensors)
            CKPT_TRY(find_in_safetensors(d, e, it, &p[i]));
    }
    return CKPT_OK;
}

/* add_tensor - adds a storage for E that consists of its chunks. */
static ckpt_status add_tensor(struct dcp *d, struct dcp_entry *e)
{
    bool pieces_have_crcs = false;
    struct piece *p = calloc(e->nitems + 1, sizeof *p);
    struct pieces all = {.shape = e->tensor.shape,
                         .ndim = e->tensor.ndim,
                         .width = dtype_info(e->tensor.dtype)->block_bytes,
                         .piece = p,
                         .n = e->nitems};
    ckpt_status st = p ? fill_pieces(d, e, p) : fail_memory(d->err);
    if (st == CKPT_OK && !d->in_safetensors && (d->f->check || d->f->salvage))
        st = check_items(d, e, &pieces_have_crcs);
    if (st == CKPT_OK)
        st = sharded_storage_add(d->f, &e->tensor, &all, pieces_have_crcs, d->err);
    free(p);
    return st;
}

static ckpt_status add_tensors(struct dcp *d)
{
    for (size_t i = 0; i < d->n; i++)
        if (d->entry[i].tensor.shape && !d->entry[i].failed)
            CKPT_TRY(accept_failure(d, &d->entry[i], add_tensor(d, &d->entry[i])));
    return CKPT_OK;
}

/* ------------------------------------------------------------------------- values */

/* open_bytesio - if *PART holds an io.BytesIO that torch.save wrote into, as Megatron-LM keeps objects,
 * replaces *PART by that archive. */
static ckpt_status open_bytesio(struct dcp *d, ckpt_file **part)
{
    ckpt_file *inner;
    source *bytes;
    const ckpt_value *root = (*part)->root;
    const ckpt_value *state = value_calls(root, "_io", "BytesIO", 0) ? value_state(root) : NULL;
    if (!state || state->type != CKPT_V_TUPLE)
        return CKPT_OK;
    CKPT_TRY(torch_open_bytes(*part, value_item(state, 0), &bytes, d->err));
    if (!bytes)
        return CKPT_OK;
    const struct opening o = {
        .path = (*part)->path, .src = bytes, .limits = &d->f->limits, .only = &format_torch_zip};
    ckpt_status st = format_open(&o, &inner, d->err);
    if (st != CKPT_OK)
        return st == CKPT_ENOMEM ? st : CKPT_OK;
    *part = inner;
    return part_file_keep(d->f, inner, d->err);
}

static ckpt_status read_value(struct dcp *d, struct dcp_entry *e)
{
    const struct dcp_storage_info *s = e->ninfos ? &d->infos[e->first_info] : NULL;
    source *src;
    ckpt_file *part;
    if (!s)
        return fail(d->err, CKPT_EFORMAT, CKPT_NO_OFFSET, "a value that has {no} {=item}");
    CKPT_TRY(check_range(d, s, 0));
    const ckpt_file *in = d->data[s->file].part;
    ckpt_status st = source_slice(in->src, s->at, s->length, &src, d->err);
    if (st == CKPT_OK && s->zstd)
        st = dcp_unpack_zstd(&src, d->f->limits.max_header, d->err);
    if (st == CKPT_OK)
        st = format_open_part(d->f, in->path, src, &part, d->err);
    error_add_position(st == CKPT_OK ? NULL : d->err, s->at, e->tensor.name);
    CKPT_TRY(name_file_if_failed(st, in->path, d->err));
    if (!part) { /* reported */
        e->failed = true;
        return CKPT_OK;
    }
    CKPT_TRY(part_file_keep(d->f, part, d->err));
    st = open_bytesio(d, &part);
    if (st == CKPT_OK)
        st = part_file_check_pickle(part, d->err);
    if (st == CKPT_OK && !part->root)
        st = fail(d->err, CKPT_EFORMAT, s->at, "a value that {cannot} be read as {=a pickle}");
    CKPT_TRY(name_file_if_failed(st, in->path, d->err));
    return part_graph_take(d->f, part, &e->tensor.node, d->err);
}

/* ------------------------------------------------------------------------- graph */

/* get_path - sets *OUT to the path of E in planner_data, or to its name alone if there is none. */
static ckpt_status get_path(const struct dcp *d, const struct dcp_entry *e, ckpt_path_elem **out, uint32_t *n)
{
    uint32_t nsizes = 0;
    size_t nitems = 0;
    const dcp_word *item = e->path_of ? dcp_elements(e->path_of, e->path, &nitems) : NULL;
    const uint64_t *sizes = e->path_of ? dcp_sizes(e->path_of, e->path, &nsizes) : NULL;
    *n = nitems && nitems <= d->f->limits.max_depth ? (uint32_t)nitems : nsizes ? nsizes : 1;
    ckpt_path_elem *path = *out = arena_array(d->f->a, *n, sizeof *path);
    if (!path)
        return fail_memory(d->err);
    path[0].str = e->tensor.name;
    for (uint32_t k = 0; k < *n && (nitems || nsizes); k++) {
        uint64_t num = sizes ? sizes[k] : 0;
        path[k].is_int = sizes || dcp_int(item[k], &num);
        path[k].num = (int64_t)num;
        if (!path[k].is_int && !dcp_text(e->path_of, item[k], &path[k].str))
            return fail(d->err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                        "a path with an element that is {neither} {=text nor a number}");
    }
    return CKPT_OK;
}

/* put_entry - adds entry I to the graph at its path. */
static ckpt_status put_entry(struct dcp *d, struct nested *t, size_t i)
{
    struct dcp_entry *e = &d->entry[i];
    ckpt_path_elem *path;
    uint32_t n;
    if (e->tensor.shape && !(e->tensor.node = value_new(d->f->a, CKPT_V_TENSOR, i)))
        return fail_memory(d->err);
    if (!e->tensor.node)
        return CKPT_OK;
    CKPT_TRY(get_path(d, e, &path, &n));
    return nested_put(t, path, n, e->tensor.node, d->err);
}

static ckpt_status make_graph(struct dcp *d)
{
    struct nested t;
    ckpt_status st = nested_begin(&t, d->f->a, d->n) ? CKPT_OK : fail_memory(d->err);
    for (size_t i = 0; st == CKPT_OK && i < d->n; i++) {
        st = prefix_where_if_failed(put_entry(d, &t, i), d->entry[i].tensor.name, d->err);
        name_metadata(d, st);
        st = file_report_fault(d->f, st, d->err);
    }
    if (st == CKPT_OK)
        d->f->root = nested_root(&t);
    nested_end(&t);
    return st;
}

/* describe - fills ROW for the tensor node V, whose offset is the index of its entry. */
static bool describe(void *user, const ckpt_value *v, struct row *row)
{
    const struct dcp *d = user;
    if (v->type != CKPT_V_TENSOR)
        return false;
    joined_tensor_describe(d->f, &d->entry[v->offset].tensor, row);
    return true;
}

/* --------------------------------------------------------------------------- read */

/* note_unused_files - adds a notice if no item is in a .distcp file of the folder, and if the folder has the
 * metadata of an unfinished save. */
static ckpt_status note_unused_files(struct dcp *d)
{
    ckpt_file *f = d->f;
    ckpt_str *list;
    size_t n, others = 0, first = 0;
    CKPT_TRY(folder_list(f->a, f->folder, is_data, &list, &n, d->err));
    for (size_t i = n; i-- > 0;)
        if (map_get(d->files, list[i]) == MAP_NONE) {
            first = i;
            others++;
        }
    if (others)
        file_notice(f,
                    "no item of the checkpoint is in %.*s%s: an earlier save by more ranks may have left it",
                    STR_ARG(list[first]), others > 1 ? " or in other .distcp files" : "");
    CKPT_TRY(folder_list(f->a, f->folder, is_unfinished_metadata, &list, &n, d->err));
    if (n)
        file_notice(f, "%.*s is of a later save that did not finish, which may have replaced items",
                    STR_ARG(list[0]));
    return CKPT_OK;
}

/* count_ranks - counts the ranks by the names of their files: "__3_0.distcp" is of rank 3. */
static ckpt_status count_ranks(struct dcp *d)
{
    map *seen = map_new(64);
    uint32_t before = 0;
    bool ok = seen != NULL;
    for (size_t i = 0; ok && i < d->ndata; i++) {
        ckpt_str name = d->data[i].name;
        size_t end = str_find(name, STR_LIT("_"), 2);
        if (!str_starts(name, STR_LIT("__")) || end == SIZE_MAX)
            continue;
        ok = map_put(seen, str_of(name.ptr, end), 0, &before);
        d->f->ranks.ranks += ok && before == MAP_NONE;
    }
    map_free(seen);
    return ok ? CKPT_OK : fail_memory(d->err);
}

static ckpt_status read_all(struct dcp *d)
{
    ckpt_file *f = d->f;
    struct torch_storages st = {.user = d, .find = part_graph_find_storage, .object = describe};
    CKPT_TRY(read_metadata(d));
    CKPT_TRY(read_entries(d));
    detect_safetensors(d);
    CKPT_TRY(make_items(d));
    CKPT_TRY(add_tensors(d));
    for (size_t i = 0; i < d->n; i++)
        if (!d->entry[i].tensor.shape)
            CKPT_TRY(accept_failure(d, &d->entry[i], read_value(d, &d->entry[i])));
    CKPT_TRY(make_graph(d));
    f->producer = STR_LIT("torch.distributed.checkpoint");
    CKPT_TRY(dcp_read_extra_values(f, d->trusted, d->err));
    CKPT_TRY(torch_walk_graph(f, f->root, &st, d->err));
    f->resolve = part_graph_add_unreferenced;
    CKPT_TRY(count_ranks(d));
    return note_unused_files(d);
}

static ckpt_status read(ckpt_file *f, ckpt_error *err)
{
    struct dcp d = {.f = f, .err = err, .names = map_new(64), .files = map_new(64)};
    ckpt_status st = d.names && d.files ? read_all(&d) : fail_memory(err);
    for (size_t i = 0; i < d.nmeta; i++)
        dcp_metadata_free(&d.meta[i]);
    source_unref(d.items);
    map_free(d.names);
    map_free(d.files);
    free(d.chunk);
    free(d.infos);
    free(d.item_offset);
    return st;
}

const struct format format_dcp = {
    .name = "torch-dcp",
    .title = "PyTorch Distributed Checkpoint",
    .other_name = "dcp",
    .suffixes = ".dcp",
    .probe = probe,
    .read = read,
    .write = dcp_write,
};
