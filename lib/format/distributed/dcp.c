/* dcp.c - reads Distributed Checkpoints of torch: a folder that many ranks have written.
 *
 *   .metadata         the chunks that each tensor is cut into, and where they are (dcp_metadata.c); or
 *   __R.metadata      the chunks of rank R alone, if the save used no collectives: all such files are read
 *   __R_N.distcp      items of rank R, one after the other. An item is a torch.save archive of one chunk of a
 *                     tensor or of one value, or a zstd frame of that archive. A save with safetensors has
 *                     first archives of values, and after them one safetensors file of all tensors
 *   meta.pt, common.pt     values of a trainer (parts/companion_values.c)
 *
 * Sources: torch/distributed/checkpoint/filesystem.py, default_planner.py, _nested_dict.py.
 *
 * Values are read when the checkpoint is opened, each like a file of its own, and join the graph. Archives
 * of tensors are opened by dcp_items.c when their bytes are read; until then only the sizes of the .distcp
 * files are checked.
 *
 * Refused: files outside the folder, items that overlap or end after their file, chunks that overlap with
 * different bytes, exceed the tensor or leave a gap in it, a chunk without an item, unknown transformations.
 * Chunks with the same offsets and sizes are replicas: one of them is read. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/box_index.h"
#include "core/check.h"
#include "format/distributed/dcp.h"
#include "format/distributed/dcp_metadata.h"
#include "format/distributed/dcp_write.h"
#include "format/files/checkpoint_names.h"
#include "format/files/folder.h"
#include "format/graph/numpy.h"
#include "format/graph/walk.h"
#include "format/nested.h"
#include "format/parts/companion_values.h"
#include "format/parts/part_files.h"
#include "format/parts/part_graph.h"
#include "format/recognize.h"
#include "format/registry.h"

#define METADATA  ".metadata"
#define MAX_FILES 1000000u
#define MAX_DIMS  (BOX_DIMS - 1u)     /* the limit of core/pieces.h */
#define MAX_HEAP  ((uint64_t)3 << 29) /* of metadata, unless max_metadata is given: about 7 million chunks */

/* A chunk of a tensor, as its metadata describe it. */
struct dcp_chunk {
    const uint64_t *offset, *size;
};

/* A _StorageInfo of storage_data: the file, offset and length of an item. */
struct dcp_storage_info {
    const uint64_t *offset; /* of the chunk in its tensor; NULL: a value */
    uint64_t file_offset, length;
    uint32_t ndim, file;
    uint32_t order : 31; /* among the infos of its entry: of two for the same chunk, the later counts */
    uint32_t is_zstd : 1;
    uint32_t item_number; /* 1 + index of the dcp_item that was made of it; 0: none yet */
};

/* What a name (fqn) of the checkpoint stands for: a tensor or another value. */
struct dcp_entry {
    struct joined_tensor tensor;                     /* shape NULL: a value, of which it has name and node */
    const struct dcp_metadata *path_meta;            /* the metadata that PATH is in; NULL: no path */
    dcp_word path;                                   /* in planner_data */
    size_t first_chunk, nchunks, first_info, ninfos; /* in dcp.chunks and dcp.infos */
    size_t first_item, nitems;                       /* in dcp.items */
    bool failed;                                     /* it cannot be read, which was reported */
};

struct distcp_file {
    ckpt_str name;
    ckpt_file *part;        /* NULL: missing */
    ckpt_file *safetensors; /* the safetensors file in it, or NULL */
    uint64_t safetensors_offset;
};

struct dcp {
    ckpt_file *f; /* must be first, for part_graph_find_storage */
    ckpt_error *err;
    const char *trusted;       /* the first metadata file, see part_files.h */
    struct dcp_metadata *meta; /* meta[I] was read from f->parts[I] */
    size_t nmeta;
    const ckpt_file *meta_file; /* the metadata file that is being read */
    struct dcp_entry *entries;
    size_t nentries, cap_entries;
    struct dcp_chunk *chunks;
    struct dcp_storage_info *infos;
    struct distcp_file *files;
    size_t nfiles, cap_files;
    map *entry_of, *file_of;
    struct dcp_item *items;
    const uint64_t **item_offset; /* by item: offset of its chunk in the tensor */
    size_t nitems, nchunks;
    size_t nwords;        /* in all metadata, which cannot have more chunks than words */
    uint64_t nbytes;      /* of all chunks */
    bool in_safetensors;  /* the tensors of a rank are one safetensors file */
    source *items_source; /* made by dcp_items_source */
};

/* ------------------------------------------------------------------------ folders */

/* is_rank_metadata - returns true for names such as "__12.metadata". */
static bool is_rank_metadata(ckpt_str name)
{
    uint64_t rank;
    return part_name_skip(&name, "__", &rank) && str_is(name, ".metadata");
}

static bool is_metadata(ckpt_str name) { return str_is(name, METADATA); }

static bool is_unfinished_metadata(ckpt_str name) { return str_ends(name, STR_LIT(METADATA ".tmp")); }

static bool is_data_or_rank_metadata(ckpt_str name)
{
    return folder_is_data_file(name) || is_rank_metadata(name);
}

/* has_torch_metadata - returns true if the first bytes of .metadata name torch. Other programs have files of
 * that name, too. */
static bool has_torch_metadata(const struct probe *probe)
{
    char head[256];
    ckpt_str found = probe_read_head(probe, METADATA, head, sizeof head);
    return str_find(found, STR_LIT("torch.distributed"), 0) != SIZE_MAX;
}

static bool probe(const struct probe *this_probe)
{
    struct folder d;
    if (has_torch_metadata(this_probe) || probe_matches(this_probe, is_data_or_rank_metadata))
        return true;
    folder_scan(this_probe->names, this_probe->nnames, &d);
    /* a damaged .metadata is accepted if no other checkpoint is in the folder */
    return probe_has(this_probe, METADATA) && !d.nindexes && !d.nsingle;
}

/* ----------------------------------------------------------------------- metadata */

static ckpt_status read_metadata_file(struct dcp *dcp, ckpt_str name)
{
    ckpt_file *part, *f = dcp->f;
    uint64_t max_size = f->limits.max_metadata;
    CKPT_TRY(part_file_add(f, dcp->trusted, name, &part, dcp->err));
    file_raise_budget(f, part->src->size);
    /* by default 64 MiB and 24 bytes for each byte of the file, at most MAX_HEAP */
    if (!max_size && !(checked_mul(part->src->size, 24, &max_size) &&
                       checked_add(max_size, (uint64_t)64 << 20, &max_size) && max_size <= MAX_HEAP))
        max_size = MAX_HEAP;
    ckpt_status st = dcp_metadata_read(f->a, part->src, max_size, &dcp->meta[dcp->nmeta], dcp->err);
    if (st == CKPT_OK) {
        dcp->nwords += dcp->meta[dcp->nmeta].nwords;
        dcp->nmeta++;
        if (!dcp_is_instance(dcp->meta[dcp->nmeta - 1].root, DCP_METADATA))
            st = fail(dcp->err, CKPT_EFORMAT, 0,
                      "a pickle that makes {no} {=torch.distributed.checkpoint.metadata.Metadata}");
    }
    error_add_position(st == CKPT_OK ? NULL : dcp->err, 0, STR_LIT("pickle"));
    if (st != CKPT_OK && f->salvage)
        error_add_hint(dcp->err, "without its metadata nothing of the checkpoint has a name");
    return name_file_if_failed(st, part->path, dcp->err);
}

static ckpt_status fail_no_metadata(const struct dcp *dcp)
{
    ckpt_str *list;
    size_t n = 0;
    CKPT_TRY(folder_list(dcp->f, dcp->f->folder, is_unfinished_metadata, &list, &n, dcp->err));
    (void)fail(dcp->err, CKPT_ENOTFOUND, CKPT_NO_OFFSET,
               "data files of a distributed checkpoint, but {no} {=.metadata}");
    if (n)
        error_add_hint(dcp->err, "%.*s is there: the save did not finish; use an earlier checkpoint",
                       STR_ARG(list[0]));
    else
        error_add_hint(dcp->err,
                       "a save writes it last: this save did not finish, or the folder was not copied "
                       "completely");
    return CKPT_ENOTFOUND;
}

/* read_metadata - reads .metadata or, without it, the metadata of each rank. */
static ckpt_status read_metadata(struct dcp *dcp)
{
    ckpt_file *f = dcp->f;
    ckpt_str *list;
    size_t n;
    CKPT_TRY(folder_list(f, f->folder, is_metadata, &list, &n, dcp->err));
    if (!n)
        CKPT_TRY(folder_list(f, f->folder, is_rank_metadata, &list, &n, dcp->err));
    if (!n)
        return fail_no_metadata(dcp);
    dcp->trusted = list[0].ptr;
    dcp->meta = arena_array(f->a, n, sizeof *dcp->meta);
    CKPT_TRY_ALLOC(dcp->meta, dcp->err);
    for (size_t i = 0; i < n; i++)
        CKPT_TRY(read_metadata_file(dcp, list[i]));
    return CKPT_OK;
}

/* fail_entry - fails with FMT about the entry NAME of the metadata file that is being read. */
CKPT_PRINTF(3, 4) static ckpt_status fail_entry(struct dcp *dcp, ckpt_str name, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    (void)fail_v(dcp->err, CKPT_EFORMAT, 0, fmt, args);
    va_end(args);
    error_add_where(dcp->err, "%.*s", STR_ARG(name));
    error_add_hint(dcp->err, "the metadata are damaged, or of a kind that no release of torch writes");
    return name_file_if_failed(CKPT_EFORMAT, dcp->meta_file->path, dcp->err);
}

static const uint64_t *copy_sizes(arena *a, const uint64_t *sizes, uint32_t ndim)
{
    uint64_t *copy = arena_array(a, ndim, sizeof *copy);
    for (uint32_t k = 0; copy && k < ndim; k++)
        copy[k] = sizes[k];
    return copy;
}

/* read_shape - sets dtype and shape of ENTRY from VALUE, a TensorStorageMetadata. If several ranks have
 * metadata of ENTRY, they must agree. */
static ckpt_status read_shape(struct dcp *dcp, struct dcp_entry *entry, const struct dcp_metadata *meta,
                              dcp_word value)
{
    uint32_t ndim = 0;
    const uint64_t *shape = dcp_sizes(meta, dcp_field(meta, value, DCP_TENSOR, TENSOR_SIZE), &ndim);
    dcp_word properties = dcp_field(meta, value, DCP_TENSOR, TENSOR_PROPERTIES);
    ckpt_dtype dtype = dcp_dtype(dcp_field(meta, properties, DCP_PROPERTIES, PROPERTIES_DTYPE));
    if (!shape || !dtype)
        return fail_entry(dcp, entry->tensor.name, "a tensor with {no} {=%s}",
                          shape ? "element type of torch's" : "size of positive integers");
    if (ndim > MAX_DIMS)
        return fail_entry(dcp, entry->tensor.name, "a tensor of {%u dimensions}; {=%u} are allowed", ndim,
                          MAX_DIMS);
    bool same = entry->tensor.shape && entry->tensor.dtype == dtype && entry->tensor.ndim == ndim &&
                same_sizes(entry->tensor.shape, shape, ndim);
    if (entry->tensor.shape && !same)
        return fail_entry(dcp, entry->tensor.name,
                          "{another size or element type} than {=that of the other ranks}");
    if (dtype_info(dtype)->block_elems != 1) {
        (void)fail(dcp->err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET, "%s in pieces cannot be read",
                   dtype_info(dtype)->name);
        return prefix_where_if_failed(CKPT_EUNSUPPORTED, entry->tensor.name, dcp->err);
    }
    entry->tensor.dtype = dtype;
    entry->tensor.ndim = ndim;
    entry->tensor.shape = copy_sizes(dcp->f->a, shape, ndim);
    return entry->tensor.shape ? CKPT_OK : fail_memory(dcp->err);
}

/* read_entry - adds an entry for the name KEY, whose metadata are VALUE, and counts its chunks. */
static ckpt_status read_entry(struct dcp *dcp, const struct dcp_metadata *meta, dcp_word key, dcp_word value)
{
    ckpt_str name;
    uint32_t i;
    size_t nchunks;
    if (!dcp_text(meta, key, &name))
        return fail_entry(dcp, STR_LIT("state_dict_metadata"), "a key that is {no} {=text}");
    if (dcp_is_instance(value, DCP_SHARDED_TENSOR) ||
        !(dcp_is_instance(value, DCP_TENSOR) || dcp_is_instance(value, DCP_BYTES)))
        return fail_entry(dcp, name, "{neither} {=the metadata of a tensor nor those of a value}");
    CKPT_TRY_ALLOC(map_put(dcp->entry_of, name, (uint32_t)dcp->nentries, &i), dcp->err);
    if (i == MAP_NONE) {
        const struct dcp_entry new = {.tensor = {.name = name, .storage = CKPT_NO_STORAGE}};
        i = (uint32_t)dcp->nentries;
        CKPT_TRY_ALLOC(ARENA_PUSH(dcp->f->a, dcp, entries, &new), dcp->err);
    } else if (dcp_is_instance(value, DCP_TENSOR) != (dcp->entries[i].tensor.shape != NULL)) {
        return fail_entry(dcp, name, "{a tensor} for one rank and {=another value} for the next");
    }
    if (dcp_is_instance(value, DCP_BYTES))
        return CKPT_OK;
    (void)dcp_elements(meta, dcp_field(meta, value, DCP_TENSOR, TENSOR_CHUNKS), &nchunks);
    dcp->entries[i].nchunks += nchunks;
    dcp->nchunks += nchunks;
    if (dcp->nchunks > dcp->nwords) /* in a pickle, many tensors can share one list of chunks */
        return fail_entry(dcp, name, "{%zu chunks} up to this tensor, in metadata of {=%zu values}",
                          dcp->nchunks, dcp->nwords);
    return read_shape(dcp, &dcp->entries[i], meta, value);
}

/* for_each_pair - calls VISIT for each key and value of the dict FIELD in all metadata. */
static ckpt_status for_each_pair(struct dcp *dcp, unsigned field,
                                 ckpt_status (*visit)(struct dcp *, const struct dcp_metadata *, dcp_word,
                                                      dcp_word))
{
    for (size_t k = 0; k < dcp->nmeta; k++) {
        size_t n;
        const struct dcp_metadata *meta = &dcp->meta[k];
        dcp->meta_file = dcp->f->parts[k];
        const dcp_word *item = dcp_elements(meta, dcp_field(meta, meta->root, DCP_METADATA, field), &n);
        for (size_t i = 0; i + 1 < n; i += 2)
            CKPT_TRY(visit(dcp, meta, item[i], item[i + 1]));
    }
    return CKPT_OK;
}

static ckpt_status read_path(struct dcp *dcp, const struct dcp_metadata *meta, dcp_word key, dcp_word value)
{
    ckpt_str name;
    uint32_t i = dcp_text(meta, key, &name) ? map_get(dcp->entry_of, name) : MAP_NONE;
    bool is_tuple = dcp_type(value) == DCP_TUPLE || dcp_type(value) == DCP_SIZES; /* as torch writes it */
    if (i != MAP_NONE && is_tuple) {
        dcp->entries[i].path_meta = meta;
        dcp->entries[i].path = value;
    }
    return CKPT_OK;
}

static ckpt_status read_chunks(struct dcp *dcp, const struct dcp_metadata *meta, dcp_word key, dcp_word value)
{
    ckpt_str name;
    uint32_t noffsets, nsizes;
    size_t n;
    const dcp_word *list = dcp_elements(meta, dcp_field(meta, value, DCP_TENSOR, TENSOR_CHUNKS), &n);
    if (!n || !dcp_text(meta, key, &name))
        return CKPT_OK;
    struct dcp_entry *entry = &dcp->entries[map_get(dcp->entry_of, name)];
    for (size_t i = 0; i < n; i++) {
        struct dcp_chunk *chunk = &dcp->chunks[entry->first_chunk + entry->nchunks++];
        chunk->offset = dcp_sizes(meta, dcp_field(meta, list[i], DCP_CHUNK, CHUNK_OFFSETS), &noffsets);
        chunk->size = dcp_sizes(meta, dcp_field(meta, list[i], DCP_CHUNK, CHUNK_SIZES), &nsizes);
        uint32_t ndim = entry->tensor.ndim;
        if (!chunk->offset || !chunk->size || noffsets != ndim || nsizes != ndim)
            return fail_entry(
                dcp, name, "a chunk that has {no} {=offsets and sizes of %u dimension%s}, as the tensor has",
                ndim, ndim == 1 ? "" : "s");
    }
    return CKPT_OK;
}

/* -------------------------------------------------------------------- files of items */

static ckpt_status find_or_open_file(struct dcp *dcp, ckpt_str name, uint32_t *out)
{
    struct distcp_file data = {.name = name};
    CKPT_TRY_ALLOC(map_put(dcp->file_of, name, (uint32_t)dcp->nfiles, out), dcp->err);
    if (*out != MAP_NONE)
        return CKPT_OK;
    if (dcp->nfiles == MAX_FILES)
        return fail(dcp->err, CKPT_ELIMIT, CKPT_NO_OFFSET, "{more} than {=%u files}", MAX_FILES);
    ckpt_status st = part_file_add(dcp->f, dcp->trusted, name, &data.part, dcp->err);
    if (st == CKPT_ENOTFOUND) {
        data.part = NULL;
        (void)fail(dcp->err, st, CKPT_NO_OFFSET,
                   "{=the file %.*s} is {missing}\n"
                   "put all files of the save into the folder; `ckpt salvage` writes what the others hold",
                   STR_ARG(name));
        st = part_file_accept_missing(dcp->f, dcp->err);
    }
    CKPT_TRY(st);
    *out = (uint32_t)dcp->nfiles;
    return ARENA_PUSH(dcp->f->a, dcp, files, &data) ? CKPT_OK : fail_memory(dcp->err);
}

/* read_transforms - sets *IS_ZSTD to true if TRANSFORMS is zstd alone, and to false if it is empty. Refuses
 * any other. */
static ckpt_status read_transforms(struct dcp *dcp, const struct dcp_metadata *meta, dcp_word transforms,
                                   bool *is_zstd)
{
    size_t n;
    ckpt_str name = {"", 0};
    const dcp_word *item = dcp_elements(meta, transforms, &n);
    *is_zstd = n == 1 && dcp_text(meta, item[0], &name) && str_is(name, "stream.zstd/1");
    if (*is_zstd || !n)
        return CKPT_OK;
    return fail(dcp->err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
                "items that were transformed {by \"%.*s\"}; {=stream.zstd/1} is known", STR_ARG(name));
}

static struct dcp_entry *find_entry(const struct dcp *dcp, const struct dcp_metadata *meta, dcp_word key)
{
    ckpt_str name;
    uint32_t i = dcp_text(meta, dcp_field(meta, key, DCP_INDEX, INDEX_FQN), &name)
                     ? map_get(dcp->entry_of, name)
                     : MAP_NONE;
    return i == MAP_NONE ? NULL : &dcp->entries[i];
}

static ckpt_status count_storage_info(struct dcp *dcp, const struct dcp_metadata *meta, dcp_word key,
                                      dcp_word value)
{
    struct dcp_entry *entry = find_entry(dcp, meta, key);
    (void)value;
    if (entry)
        entry->ninfos++;
    return CKPT_OK;
}

static ckpt_status read_storage_info(struct dcp *dcp, const struct dcp_metadata *meta, dcp_word key,
                                     dcp_word value)
{
    ckpt_str path;
    bool is_zstd;
    struct dcp_entry *entry = find_entry(dcp, meta, key);
    if (!entry)
        return CKPT_OK;
    struct dcp_storage_info *info = &dcp->infos[entry->first_info + entry->ninfos];
    info->order = (uint32_t)entry->ninfos & 0x7fffffff;
    entry->ninfos++;
    info->offset = dcp_sizes(meta, dcp_field(meta, key, DCP_INDEX, INDEX_OFFSET), &info->ndim);
    if (!dcp_text(meta, dcp_field(meta, value, DCP_STORAGE_INFO, INFO_PATH), &path) ||
        !dcp_int(dcp_field(meta, value, DCP_STORAGE_INFO, INFO_OFFSET), &info->file_offset) ||
        !dcp_int(dcp_field(meta, value, DCP_STORAGE_INFO, INFO_LENGTH), &info->length) ||
        (entry->tensor.shape && (!info->offset || info->ndim != entry->tensor.ndim)))
        return fail_entry(dcp, entry->tensor.name, "an item that has {no} {=file, offset and length}");
    ckpt_status st = read_transforms(dcp, meta, dcp_field(meta, value, DCP_STORAGE_INFO, INFO_TRANSFORMS),
                                     &is_zstd);
    info->is_zstd = is_zstd;
    CKPT_THEN(st, find_or_open_file(dcp, path, &info->file));
    return prefix_where_if_failed(st, entry->tensor.name, dcp->err);
}

/* read_entries - fills entries, chunks and infos from all metadata: counts first, then stores. */
static ckpt_status read_entries(struct dcp *dcp)
{
    size_t nchunks = 0, ninfos = 0;
    CKPT_TRY(for_each_pair(dcp, METADATA_TENSORS, read_entry));
    CKPT_TRY(for_each_pair(dcp, METADATA_PLANNER_DATA, read_path));
    CKPT_TRY(for_each_pair(dcp, METADATA_STORAGE_DATA, count_storage_info));
    for (size_t i = 0; i < dcp->nentries; i++) {
        struct dcp_entry *entry = &dcp->entries[i];
        entry->first_chunk = nchunks;
        entry->first_info = ninfos;
        nchunks += entry->nchunks;
        ninfos += entry->ninfos;
        entry->nchunks = entry->ninfos = 0; /* counted again as they are stored */
    }
    dcp->chunks = calloc(dcp->nchunks + 1, sizeof *dcp->chunks);
    dcp->infos = calloc(ninfos + 1, sizeof *dcp->infos);
    CKPT_TRY_ALLOC(dcp->chunks && dcp->infos, dcp->err);
    CKPT_TRY(for_each_pair(dcp, METADATA_TENSORS, read_chunks));
    CKPT_TRY(for_each_pair(dcp, METADATA_STORAGE_DATA, read_storage_info));
    for (size_t i = 0; i < dcp->nmeta; i++) /* a million chunks take 250 MB */
        dcp_metadata_keep_tuples(&dcp->meta[i]);
    return CKPT_OK;
}

/* -------------------------------------------------------------------------- items */

/* name_file_in_error - if ST is a failure and there is only one metadata file, names that file in dcp->err,
 * unless another is named there. */
static void name_file_in_error(struct dcp *dcp, ckpt_status st)
{
    error_add_file(st != CKPT_OK && dcp->nmeta == 1 ? dcp->err : NULL, dcp->meta_file->path);
}

/* accept_failure - handles ST, the outcome of reading ENTRY. Returns CKPT_OK if ST is CKPT_OK, if the fault
 * is reported, or if salvage can go on without ENTRY; otherwise ST. */
static ckpt_status accept_failure(struct dcp *dcp, struct dcp_entry *entry, ckpt_status st)
{
    name_file_in_error(dcp, st);
    entry->failed = entry->failed || st != CKPT_OK;
    if (entry->tensor.shape || !dcp->f->salvage || !check_is_fault(st))
        return sharded_storage_accept_fault(dcp->f, entry->tensor.name, entry->tensor.dtype, st,
                                            &entry->tensor.storage, dcp->err);
    file_note_loss(dcp->f, "\"%.*s\", which is not a tensor, is lost: %s", STR_ARG(entry->tensor.name),
                   dcp->err->what);
    return CKPT_OK;
}

static int compare_offsets(const void *left, const void *right)
{
    const struct dcp_storage_info *x = left, *y = right;
    for (uint32_t k = 0; k < x->ndim && k < y->ndim; k++)
        if (x->offset[k] != y->offset[k])
            return x->offset[k] < y->offset[k] ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

/* find_storage_info - returns the last info of ENTRY whose chunk begins at OFFSET, or NULL. */
static struct dcp_storage_info *find_storage_info(const struct dcp *dcp, const struct dcp_entry *entry,
                                                  const uint64_t *offset)
{
    struct dcp_storage_info *list = dcp->infos + entry->first_info,
                            key = {.offset = offset, .ndim = entry->tensor.ndim};
    size_t low = 0, high = entry->ninfos;
    key.order = 0x7fffffff; /* after all infos with that offset */
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (compare_offsets(&list[mid], &key) <= 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low && same_sizes(list[low - 1].offset, offset, entry->tensor.ndim) ? &list[low - 1] : NULL;
}

/* format_chunk - writes CHUNK to TEXT as a Python slice, "[2:4, 0:8]", and returns TEXT. */
static const char *format_chunk(const struct dcp_entry *entry, const struct dcp_chunk *chunk, char text[256])
{
    buf b;
    buf_init(&b, 1u << 16);
    for (uint32_t k = 0; k < entry->tensor.ndim; k++) {
        uint64_t end = UINT64_MAX;
        (void)checked_add(chunk->offset[k], chunk->size[k], &end);
        buf_printf(&b, "%s%" PRIu64 ":%" PRIu64, k ? ", " : "", chunk->offset[k], end);
    }
    buf_byte(&b, 0);
    (void)snprintf(text, 256, "[%.200s]", buf_ok(&b) ? (const char *)b.data : "");
    buf_free(&b);
    return text;
}

/* check_range - checks that the item INFO is inside of its file and has at least NEED bytes. */
static ckpt_status check_range(struct dcp *dcp, const struct dcp_storage_info *info, uint64_t need)
{
    const struct distcp_file *in = &dcp->files[info->file];
    uint64_t size = in->part ? in->part->src->size : 0;
    ckpt_status st = CKPT_OK;
    if (!in->part)
        return fail(dcp->err, CKPT_ETRUNCATED, CKPT_NO_OFFSET,
                    "{=the file %.*s}, which holds it, is {missing}", STR_ARG(in->name));
    if (dcp->in_safetensors && info->offset)
        return CKPT_OK;
    if (!range_within(info->file_offset, info->length, size))
        st = fail(dcp->err, CKPT_ETRUNCATED, info->file_offset < size ? info->file_offset : size,
                  "an item of {=%" PRIu64 " bytes} at byte %" PRIu64 ", the file has {%" PRIu64 "} there",
                  info->length, info->file_offset, info->file_offset < size ? size - info->file_offset : 0);
    else if (!info->is_zstd && info->length < need)
        st = fail(dcp->err, CKPT_EFORMAT, info->file_offset,
                  "an item of {%" PRIu64 " bytes}, its chunk takes {=%" PRIu64 "}", info->length, need);
    return name_file_if_failed(st, in->part->path, dcp->err);
}

static ckpt_status add_item(struct dcp *dcp, const struct dcp_entry *entry, const struct dcp_chunk *chunk)
{
    char text[256];
    uint64_t need;
    struct dcp_storage_info *info = find_storage_info(dcp, entry, chunk->offset);
    if (!info)
        return fail(dcp->err, CKPT_EFORMAT, CKPT_NO_OFFSET, "chunk %s has {no} {=item}",
                    format_chunk(entry, chunk, text));
    if (!checked_product(chunk->size, entry->tensor.ndim, &need) ||
        !dtype_bytes(entry->tensor.dtype, need, &need) || dcp->nbytes > UINT64_MAX / 2 - need)
        return fail(dcp->err, CKPT_EFORMAT, CKPT_NO_OFFSET, "chunks of {more} than {=2^63 bytes}");
    if (info->item_number &&
        same_sizes(dcp->items[info->item_number - 1].size, chunk->size, entry->tensor.ndim))
        return CKPT_OK;                            /* a replica */
    info->item_number = (uint32_t)dcp->nitems + 1; /* metadata have fewer than 2^31 words */
    CKPT_TRY(check_range(dcp, info, need));
    struct dcp_item *item = &dcp->items[dcp->nitems];
    /* most chunks of a tensor have the same size, which is kept once */
    const uint64_t *last = dcp->nitems > entry->first_item ? item[-1].size : NULL;
    bool alike = last && same_sizes(last, chunk->size, entry->tensor.ndim);
    uint32_t tensor_index = (uint32_t)(entry - dcp->entries);
    *item = (struct dcp_item){.file_offset = info->file_offset,
                              .length = info->length,
                              .source_offset = dcp->nbytes,
                              .size = alike ? last : copy_sizes(dcp->f->a, chunk->size, entry->tensor.ndim),
                              .file = info->file,
                              .tensor = tensor_index & 0x7fffffff,
                              .is_zstd = info->is_zstd};
    dcp->item_offset[dcp->nitems++] = chunk->offset;
    dcp->nbytes += need;
    return item->size ? CKPT_OK : fail_memory(dcp->err);
}

/* add_items - adds an item for each chunk of ENTRY, or no item if one of them cannot be added. */
static ckpt_status add_items(struct dcp *dcp, struct dcp_entry *entry)
{
    entry->first_item = dcp->nitems;
    uint64_t total = dcp->nbytes;
    if (entry->ninfos)
        qsort(dcp->infos + entry->first_info, entry->ninfos, sizeof *dcp->infos, compare_offsets);
    ckpt_status st = CKPT_OK;
    for (size_t i = 0; st == CKPT_OK && i < entry->nchunks; i++)
        st = add_item(dcp, entry, &dcp->chunks[entry->first_chunk + i]);
    if (st != CKPT_OK) {
        dcp->nitems = entry->first_item;
        dcp->nbytes = total;
    }
    entry->nitems = dcp->nitems - entry->first_item;
    return accept_failure(dcp, entry, st);
}

/* looks_like_safetensors - returns true if a safetensors file begins at the offset of INFO. */
static bool looks_like_safetensors(const struct dcp *dcp, const struct dcp_storage_info *info)
{
    const ckpt_file *in = dcp->files[info->file].part;
    return in && !info->is_zstd && recognize_safetensors_at(in->src, info->file_offset);
}

/* detect_safetensors - sets dcp->in_safetensors by the first item of the first tensor. */
static void detect_safetensors(struct dcp *dcp)
{
    for (size_t i = 0; i < dcp->nentries; i++)
        if (dcp->entries[i].tensor.shape && dcp->entries[i].ninfos) {
            dcp->in_safetensors = looks_like_safetensors(dcp, &dcp->infos[dcp->entries[i].first_info]);
            return;
        }
}

/* The bytes of an item in its file. */
struct dcp_range {
    uint64_t start, end;
    uint32_t file, tensor;
};

static int compare_ranges(const void *left, const void *right)
{
    const struct dcp_range *x = left, *y = right;
    if (x->file != y->file)
        return x->file < y->file ? -1 : 1;
    return x->start != y->start ? (x->start < y->start ? -1 : 1) : (x->end > y->end) - (x->end < y->end);
}

/* check_overlaps - reports items that overlap in their file, except items with the same range: several names
 * may refer to one item. */
static ckpt_status check_overlaps(struct dcp *dcp)
{
    struct dcp_range *r = calloc(dcp->nitems + 1, sizeof *r);
    ckpt_status st = r ? CKPT_OK : fail_memory(dcp->err);
    for (size_t i = 0; r && i < dcp->nitems; i++)
        r[i] = (struct dcp_range){dcp->items[i].file_offset, dcp->items[i].file_offset + dcp->items[i].length,
                                  dcp->items[i].file, dcp->items[i].tensor};
    if (r && dcp->nitems)
        qsort(r, dcp->nitems, sizeof *r, compare_ranges);
    for (size_t i = 1; st == CKPT_OK && i < dcp->nitems; i++) {
        const struct dcp_range *a = &r[i - 1], *b = &r[i];
        if (a->file != b->file || b->start >= a->end || (a->start == b->start && a->end == b->end))
            continue;
        (void)fail(dcp->err, CKPT_EFORMAT, b->start,
                   "an item that {overlaps} that of \"%.*s\", which ends {=at %" PRIu64 "}",
                   STR_ARG(dcp->entries[a->tensor].tensor.name), a->end);
        error_add_where(dcp->err, "%.*s", STR_ARG(dcp->entries[b->tensor].tensor.name));
        error_add_file(dcp->err, dcp->files[b->file].part->path);
        st = file_report_fault(dcp->f, CKPT_EFORMAT, dcp->err);
    }
    free(r);
    return st;
}

static ckpt_status make_items(struct dcp *dcp)
{
    ckpt_file *f = dcp->f;
    dcp->items = arena_array(f->a, dcp->nchunks, sizeof *dcp->items);
    dcp->item_offset = calloc(dcp->nchunks + 1, sizeof *dcp->item_offset);
    struct joined_tensor *tensors = arena_array(f->a, dcp->nentries, sizeof *tensors);
    CKPT_TRY_ALLOC(dcp->items && dcp->item_offset && tensors, dcp->err);
    for (size_t i = 0; i < dcp->nentries; i++) {
        tensors[i] = dcp->entries[i].tensor;
        if (dcp->entries[i].tensor.shape)
            CKPT_TRY(add_items(dcp, &dcp->entries[i]));
    }
    if (!dcp->in_safetensors)
        CKPT_TRY(check_overlaps(dcp));
    ckpt_file **files = arena_array(f->a, dcp->nfiles, sizeof(ckpt_file *));
    for (size_t i = 0; files && i < dcp->nfiles; i++)
        files[i] = dcp->files[i].part;
    struct dcp_items x = {dcp->items, dcp->nitems, tensors, files, dcp->nbytes, f};
    dcp->items_source = files ? dcp_items_source(&x) : NULL;
    return dcp->items_source ? CKPT_OK : fail_memory(dcp->err);
}

/* ------------------------------------------------------------------------ tensors */

/* find_in_safetensors - sets *PIECE to the bytes of ITEM, a chunk of ENTRY, in a rank's safetensors file. */
static ckpt_status find_in_safetensors(struct dcp *dcp, const struct dcp_entry *entry,
                                       const struct dcp_item *item, struct piece *piece)
{
    struct distcp_file *in = &dcp->files[item->file];
    source *src;
    if (!in->safetensors) {
        CKPT_TRY(range_within(item->file_offset, 0, in->part->src->size)
                     ? source_slice(in->part->src, item->file_offset, in->part->src->size - item->file_offset,
                                    &src, dcp->err)
                     : fail(dcp->err, CKPT_ETRUNCATED, in->part->src->size,
                            "it begins {at byte %" PRIu64 "}, beyond {=the end of the file}",
                            item->file_offset));
        CKPT_TRY(format_open_part(dcp->f, in->part->path, src, &in->safetensors, dcp->err));
        if (!in->safetensors)
            return CKPT_EFORMAT;
        CKPT_TRY(part_file_keep(dcp->f, in->safetensors, dcp->err));
        in->safetensors_offset = item->file_offset;
    }
    uint32_t row = in->safetensors_offset == item->file_offset
                       ? file_find_tensor(in->safetensors, entry->tensor.name)
                       : CKPT_NO_TENSOR;
    const ckpt_tensor t = row == CKPT_NO_TENSOR ? (ckpt_tensor){0}
                                                : table_tensor(&in->safetensors->table, row);
    if (!t.has_data || t.dtype != entry->tensor.dtype || t.ndim != entry->tensor.ndim ||
        !same_sizes(t.shape, item->size, t.ndim))
        return fail(dcp->err, CKPT_EFORMAT, item->file_offset,
                    "the safetensors file of its rank has {no chunk} of {=this name, type and shape}");
    const struct storage *s = &in->safetensors->table.storages[t.storage];
    piece->src = s->src;
    piece->at = s->off;
    return CKPT_OK;
}

/* check_items - opens all archives of ENTRY, for `verify` and salvage. Sets *PIECES_HAVE_CRCS to whether all
 * have checksums. */
static ckpt_status check_items(struct dcp *dcp, const struct dcp_entry *entry, bool *pieces_have_crcs)
{
    *pieces_have_crcs = true;
    for (size_t i = 0; i < entry->nitems; i++) {
        struct check_record r;
        size_t at = entry->first_item + i;
        CKPT_TRY(dcp_items_check(dcp->items_source, at, dcp->f->check == NULL, &r, dcp->err));
        *pieces_have_crcs = *pieces_have_crcs && r.path;
        if (r.src)
            CKPT_TRY(check_add_record(dcp->f->check, &r, dcp->err));
    }
    return CKPT_OK;
}

static ckpt_status fill_pieces(struct dcp *dcp, const struct dcp_entry *entry, struct piece *piece)
{
    for (size_t i = 0; i < entry->nitems; i++) {
        size_t at = entry->first_item + i;
        const struct dcp_item *item = &dcp->items[at];
        piece[i] = (struct piece){.offset = dcp->item_offset[at], .size = item->size};
        piece[i].src = dcp->items_source;
        piece[i].at = item->source_offset;
        if (dcp->in_safetensors)
            CKPT_TRY(find_in_safetensors(dcp, entry, item, &piece[i]));
    }
    return CKPT_OK;
}

static ckpt_status add_tensor(struct dcp *dcp, struct dcp_entry *entry)
{
    bool pieces_have_crcs = false;
    struct piece *p = calloc(entry->nitems + 1, sizeof *p);
    struct pieces all = {.shape = entry->tensor.shape,
                         .ndim = entry->tensor.ndim,
                         .width = dtype_info(entry->tensor.dtype)->block_bytes,
                         .piece = p,
                         .n = entry->nitems,
                         .must_agree = true};
    ckpt_status st = p ? fill_pieces(dcp, entry, p) : fail_memory(dcp->err);
    if (st == CKPT_OK && !dcp->in_safetensors && (dcp->f->check || dcp->f->salvage))
        st = check_items(dcp, entry, &pieces_have_crcs);
    CKPT_THEN(st, sharded_storage_add(dcp->f, &entry->tensor, &all, pieces_have_crcs, dcp->err));
    free(p);
    return st;
}

static ckpt_status add_tensors(struct dcp *dcp)
{
    for (size_t i = 0; i < dcp->nentries; i++)
        if (dcp->entries[i].tensor.shape && !dcp->entries[i].failed)
            CKPT_TRY(accept_failure(dcp, &dcp->entries[i], add_tensor(dcp, &dcp->entries[i])));
    return CKPT_OK;
}

/* ------------------------------------------------------------------------- values */

/* open_bytesio - if *PART is an io.BytesIO with a torch.save archive, as Megatron-LM keeps objects, replaces
 * *PART by that archive. */
static ckpt_status open_bytesio(struct dcp *dcp, ckpt_file **part)
{
    ckpt_file *inner;
    source *bytes;
    const ckpt_value *root = (*part)->root;
    const ckpt_value *state = value_calls(root, "_io", "BytesIO", 0) ? value_state(root) : NULL;
    if (!state || state->type != CKPT_V_TUPLE)
        return CKPT_OK;
    CKPT_TRY(file_open_bytes(*part, value_item(state, 0), &bytes, dcp->err));
    if (!bytes)
        return CKPT_OK;
    const struct opening o = {
        .path = (*part)->path, .src = bytes, .limits = &dcp->f->limits, .only = &format_torch_zip};
    ckpt_status st = format_open(&o, &inner, dcp->err);
    if (st != CKPT_OK)
        return st == CKPT_ENOMEM ? st : CKPT_OK;
    *part = inner;
    return part_file_keep(dcp->f, inner, dcp->err);
}

static ckpt_status read_value(struct dcp *dcp, struct dcp_entry *entry)
{
    const struct dcp_storage_info *info = entry->ninfos ? &dcp->infos[entry->first_info] : NULL;
    source *src;
    ckpt_file *part;
    if (!info)
        return fail(dcp->err, CKPT_EFORMAT, CKPT_NO_OFFSET, "a value that has {no} {=item}");
    CKPT_TRY(check_range(dcp, info, 0));
    const ckpt_file *in = dcp->files[info->file].part;
    ckpt_status st = source_slice(in->src, info->file_offset, info->length, &src, dcp->err);
    if (st == CKPT_OK && info->is_zstd)
        st = dcp_unpack_zstd(&src, dcp->f->limits.max_header, dcp->err);
    CKPT_THEN(st, format_open_part(dcp->f, in->path, src, &part, dcp->err));
    error_add_position(st == CKPT_OK ? NULL : dcp->err, info->file_offset, entry->tensor.name);
    CKPT_TRY(name_file_if_failed(st, in->path, dcp->err));
    if (!part) { /* reported */
        entry->failed = true;
        return CKPT_OK;
    }
    CKPT_TRY(part_file_keep(dcp->f, part, dcp->err));
    st = open_bytesio(dcp, &part);
    CKPT_THEN(st, part_file_check_pickle(part, dcp->err));
    if (st == CKPT_OK && !part->root)
        st = fail(dcp->err, CKPT_EFORMAT, info->file_offset, "a value that {cannot} be read as {=a pickle}");
    CKPT_TRY(name_file_if_failed(st, in->path, dcp->err));
    return part_graph_take(dcp->f, part, &entry->tensor.node, dcp->err);
}

/* ------------------------------------------------------------------------- graph */

/* get_path - sets *OUT to the path of ENTRY in planner_data, or to its name alone if there is none. */
static ckpt_status get_path(const struct dcp *dcp, const struct dcp_entry *entry, ckpt_path_elem **out,
                            uint32_t *count)
{
    uint32_t nsizes = 0;
    size_t nitems = 0;
    const dcp_word *item = entry->path_meta ? dcp_elements(entry->path_meta, entry->path, &nitems) : NULL;
    const uint64_t *sizes = entry->path_meta ? dcp_sizes(entry->path_meta, entry->path, &nsizes) : NULL;
    *count = nitems && nitems <= dcp->f->limits.max_depth ? (uint32_t)nitems : nsizes ? nsizes : 1;
    ckpt_path_elem *path = *out = arena_array(dcp->f->a, *count, sizeof *path);
    CKPT_TRY_ALLOC(path, dcp->err);
    path[0].str = entry->tensor.name;
    for (uint32_t k = 0; k < *count && (nitems || nsizes); k++) {
        uint64_t num = sizes ? sizes[k] : 0;
        path[k].is_int = sizes || dcp_int(item[k], &num);
        path[k].num = (int64_t)num;
        if (!path[k].is_int && !dcp_text(entry->path_meta, item[k], &path[k].str))
            return fail(dcp->err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                        "a path with an element that is {neither} {=text nor a number}");
    }
    return CKPT_OK;
}

static ckpt_status put_entry(struct dcp *dcp, struct nested *nested, size_t index)
{
    struct dcp_entry *entry = &dcp->entries[index];
    ckpt_path_elem *path;
    uint32_t n;
    if (entry->tensor.shape && !(entry->tensor.node = value_new(dcp->f->a, CKPT_V_TENSOR, index)))
        return fail_memory(dcp->err);
    if (!entry->tensor.node)
        return CKPT_OK;
    CKPT_TRY(get_path(dcp, entry, &path, &n));
    return nested_put(nested, path, n, entry->tensor.node, dcp->err);
}

static ckpt_status make_graph(struct dcp *dcp)
{
    struct nested t;
    ckpt_status st = nested_begin(&t, dcp->f->a, dcp->nentries) ? CKPT_OK : fail_memory(dcp->err);
    for (size_t i = 0; st == CKPT_OK && i < dcp->nentries; i++) {
        st = prefix_where_if_failed(put_entry(dcp, &t, i), dcp->entries[i].tensor.name, dcp->err);
        name_file_in_error(dcp, st);
        st = file_report_fault(dcp->f, st, dcp->err);
    }
    if (st == CKPT_OK)
        dcp->f->root = nested_root(&t);
    nested_end(&t);
    return st;
}

static bool describe(void *user, const ckpt_value *value, struct row *row)
{
    const struct dcp *dcp = user;
    if (value->type != CKPT_V_TENSOR)
        return false;
    joined_tensor_describe(dcp->f, &dcp->entries[value_offset(value)].tensor, row);
    return true;
}

/* --------------------------------------------------------------------------- read */

/* note_unused_files - adds a notice if the folder has .distcp files without items of the checkpoint, and
 * another if it has the metadata of an unfinished save. */
static ckpt_status note_unused_files(struct dcp *dcp)
{
    ckpt_file *f = dcp->f;
    ckpt_str *list;
    size_t n, nunused = 0, first_unused = 0;
    CKPT_TRY(folder_list(f, f->folder, folder_is_data_file, &list, &n, dcp->err));
    for (size_t i = n; COUNT_DOWN(i);)
        if (map_get(dcp->file_of, list[i]) == MAP_NONE) {
            first_unused = i;
            nunused++;
        }
    if (nunused)
        file_notice(f, "%.*s%s no item of the checkpoint: an earlier save by more ranks may have left %s",
                    STR_ARG(list[first_unused]), nunused > 1 ? " and other .distcp files have" : " has",
                    nunused > 1 ? "them" : "it");
    CKPT_TRY(folder_list(f, f->folder, is_unfinished_metadata, &list, &n, dcp->err));
    if (n)
        file_notice(f, "%.*s is of a later save that did not finish, which may have replaced items",
                    STR_ARG(list[0]));
    return CKPT_OK;
}

/* count_ranks - counts the ranks by the names of their files: "__3_0.distcp" is of rank 3. */
static ckpt_status count_ranks(struct dcp *dcp)
{
    map *seen = map_new(64);
    uint32_t before = 0;
    bool ok = seen != NULL;
    for (size_t i = 0; ok && i < dcp->nfiles; i++) {
        ckpt_str name = dcp->files[i].name;
        size_t end = str_find(name, STR_LIT("_"), 2);
        if (!str_starts(name, STR_LIT("__")) || end == SIZE_MAX)
            continue;
        ok = map_put(seen, str_of(name.ptr, end), 0, &before);
        dcp->f->ranks.ranks += ok && before == MAP_NONE;
    }
    map_free(seen);
    return ok ? CKPT_OK : fail_memory(dcp->err);
}

static ckpt_status read_all(struct dcp *dcp)
{
    ckpt_file *f = dcp->f;
    struct graph_input input = {.user = dcp,
                                .find_storage = part_graph_find_storage,
                                .describe_node = describe,
                                .has_text_keys = true};
    CKPT_TRY(read_metadata(dcp));
    CKPT_TRY(read_entries(dcp));
    detect_safetensors(dcp);
    CKPT_TRY(make_items(dcp));
    CKPT_TRY(add_tensors(dcp));
    for (size_t i = 0; i < dcp->nentries; i++)
        if (!dcp->entries[i].tensor.shape)
            CKPT_TRY(accept_failure(dcp, &dcp->entries[i], read_value(dcp, &dcp->entries[i])));
    CKPT_TRY(make_graph(dcp));
    f->producer = STR_LIT("torch.distributed.checkpoint");
    CKPT_TRY(companion_values_read(f, dcp->trusted, dcp->err));
    CKPT_TRY(graph_walk(f, f->root, &input, dcp->err));
    f->add_opaque_storages = part_graph_add_unreferenced;
    CKPT_TRY(count_ranks(dcp));
    return note_unused_files(dcp);
}

static ckpt_status read(ckpt_file *f, ckpt_error *err)
{
    struct dcp dcp = {.f = f, .err = err, .entry_of = map_new(64), .file_of = map_new(64)};
    ckpt_status st = dcp.entry_of && dcp.file_of ? read_all(&dcp) : fail_memory(err);
    for (size_t i = 0; i < dcp.nmeta; i++)
        dcp_metadata_free(&dcp.meta[i]);
    source_unref(dcp.items_source);
    map_free(dcp.entry_of);
    map_free(dcp.file_of);
    free(dcp.chunks);
    free(dcp.infos);
    free(dcp.item_offset);
    return st;
}

const struct format format_dcp = {.name = "torch-dcp",
                                  .title = "PyTorch Distributed Checkpoint",
                                  .other_name = "dcp",
                                  .suffixes = ".dcp",
                                  .is_folder = true,
                                  .probe = probe,
                                  .read = read,
                                  .write = dcp_write};
