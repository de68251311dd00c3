/*
 * arrays.c - makes the chunks of a Zarr array (codec/zarr.c) the pieces of a tensor. Chunks are found by the
 * keys in the store, not by the shape, so that an array whose shape is far too large costs nothing. A
 * compressed chunk is decoded when it is read; the index of a shard is read when the file is opened.
 */
#include "format/zarr/arrays.h"

#include <inttypes.h>

#include "base/cursor.h"
#include "codec/zarr.h"
#include "core/check.h"
#include "core/elements.h"
#include "format/graph/walk.h"
#include "format/parts/part_graph.h"

/* An array whose chunks are being put together. */
struct assembly {
    ckpt_file *f;
    ckpt_error *err;
    block_cache *cache;
    const struct zarr_source *from;
    struct zarr_array meta;
    arena *a; /* freed when the tensor was made */
    uint64_t *stride;
    struct piece *pieces;
    uint64_t missing_bytes; /* bytes of the array that no piece has so far */
    source **held_sources;  /* a reference to the source of each entry that has pieces */
    struct block *blocks;   /* for each piece, if chunks are encoded; in the arena of the file */
    size_t npieces, cap_pieces, nblocks, cap_blocks, nheld, cap_held;
    source *decoded;
};

ckpt_status zarr_arrays_begin(struct zarr_arrays *arrays, ckpt_file *f, ckpt_error *err)
{
    *arrays = (struct zarr_arrays){
        .f = f, .err = err, .cache = block_cache_new(BLOCKS_IN_MEMORY, BLOCKS_IN_FILE)};
    return arrays->cache ? CKPT_OK : fail_memory(err);
}

void zarr_arrays_end(struct zarr_arrays *arrays) { block_cache_unref(arrays->cache); }

/* ------------------------------------------------------------------------- metadata */

/* find_metadata - sets *INDEX to the entry with the metadata of the array; *V3: they are of version 3. */
static ckpt_status find_metadata(struct assembly *array, size_t *index, bool *v3)
{
    const struct store *store = array->from->store;
    static const char *const names[] = {ZARR_V2, ZARR_V3};
    for (unsigned k = 0; k < 2; k++) {
        ckpt_str key = ARENA_CONCAT(array->a, array->from->prefix, str_c(names[k]));
        CKPT_TRY_ALLOC(key.ptr, array->err);
        *index = store_find(store, key);
        *v3 = k;
        if (*index < store->db.n && str_eq(store->db.entries[*index].key, key))
            return CKPT_OK;
    }
    return fail(array->err, CKPT_ETRUNCATED, CKPT_NO_OFFSET,
                "{no} {=" ZARR_V2 " or " ZARR_V3 "} of the array");
}

static ckpt_status read_metadata(struct assembly *array)
{
    size_t i = 0;
    bool v3 = false;
    ckpt_str text;
    CKPT_TRY(find_metadata(array, &i, &v3));
    CKPT_TRY(store_read_text(array->from->store, i, &text));
    ckpt_status st = zarr_read(text, v3, array->f->a, &array->meta, array->err);
    error_add_position(st == CKPT_OK ? NULL : array->err, CKPT_NO_OFFSET,
                       array->from->store->db.entries[i].key);
    array->stride = arena_array(array->a, array->meta.ndim, sizeof *array->stride);
    if (st == CKPT_OK && array->stride)
        zarr_get_strides(&array->meta, array->stride);
    return st != CKPT_OK || array->stride ? st : fail_memory(array->err);
}

/* --------------------------------------------------------------------------- pieces */

/* Where a chunk or shard is stored. */
struct stored_chunk {
    source *src;
    uint64_t offset, nbytes;
    const char *file; /* path of SRC, or NULL */
};

/* add_piece - adds CHUNK as a piece. The chunk begins at element AT of the array, and may extend beyond the
 * array. */
static ckpt_status add_piece(struct assembly *array, const uint64_t *at, const struct stored_chunk *chunk)
{
    uint32_t n = array->meta.ndim;
    struct piece *added = arena_append(array->a, &array->pieces, &array->npieces, &array->cap_pieces,
                                       sizeof *added);
    uint64_t *box = arena_array(array->a, 2 * (uint64_t)n, sizeof *box);
    CKPT_TRY_ALLOC(added && box, array->err);
    uint64_t bytes = array->meta.element_size;
    for (uint32_t k = 0; k < n; k++) {
        uint64_t left = array->meta.shape[k] - at[k];
        box[k] = at[k];
        box[n + k] = left < array->meta.chunk_shape[k] ? left : array->meta.chunk_shape[k];
        bytes *= box[n + k];
    }
    array->missing_bytes -= bytes < array->missing_bytes ? bytes : array->missing_bytes;
    *added = (struct piece){box, box + n, array->stride, chunk->src, chunk->offset};
    const struct block block = {chunk->src, chunk->offset, chunk->nbytes, array->meta.encoding.decoded_bytes,
                                0,          chunk->file};
    if (array->meta.encoding.ncodecs) /* the piece is what the block decodes to */
        return ARENA_PUSH(array->f->a, array, blocks, &block) ? CKPT_OK : fail_memory(array->err);
    if (chunk->nbytes != array->meta.encoding.decoded_bytes)
        return fail(array->err, CKPT_EFORMAT, source_pos(chunk->src, chunk->offset),
                    "a chunk of {%" PRIu64 " bytes}, it must have {=%" PRIu64 "}", chunk->nbytes,
                    array->meta.encoding.decoded_bytes);
    return CKPT_OK;
}

/* add_shard - adds the chunks in SHARD, which begins at element AT of the array. */
static ckpt_status add_shard(struct assembly *array, const uint64_t *at, const struct stored_chunk *shard)
{
    const struct zarr_array *meta = &array->meta;
    struct zarr_stored_chunk *list;
    uint64_t grid[ZARR_DIMS] = {0}, begin[ZARR_DIMS];
    CKPT_TRY(zarr_read_index(meta, shard->src, shard->offset, shard->nbytes, array->a, &list, array->err));
    for (uint64_t i = 0; i < meta->chunks_in_shard; i++) {
        bool inside = list[i].at != UINT64_MAX; /* else the chunk is missing */
        for (uint32_t k = 0; k < meta->ndim; k++) {
            begin[k] = at[k] + grid[k];
            inside = inside && begin[k] < meta->shape[k];
        }
        /* zarr_read_index refuses a chunk that ends after the shard */
        const struct stored_chunk chunk = {shard->src, shard->offset + list[i].at, list[i].nbytes,
                                           shard->file};
        if (inside)
            CKPT_TRY(add_piece(array, begin, &chunk));
        for (uint32_t k = meta->ndim; COUNT_DOWN(k);) {
            grid[k] += meta->chunk_shape[k];
            if (grid[k] < meta->key_shape[k])
                break;
            grid[k] = 0;
        }
    }
    return CKPT_OK;
}

/* add_entry - adds the pieces in entry INDEX of the store, if it is a chunk or shard. */
static ckpt_status add_entry(struct assembly *array, size_t index)
{
    uint64_t at[ZARR_DIMS];
    struct stored_chunk chunk;
    struct store *store = array->from->store;
    if (!zarr_is_chunk_key(&array->meta, str_skip(store->db.entries[index].key, array->from->prefix.len), at))
        return CKPT_OK;
    source **held = arena_append(array->a, &array->held_sources, &array->nheld, &array->cap_held,
                                 sizeof(source *));
    CKPT_TRY_ALLOC(held, array->err);
    *held = NULL;
    CKPT_TRY(store_find_bytes(store, index, held, &chunk.offset, &chunk.nbytes));
    chunk.src = *held;
    chunk.file = store_file_path(store, index);
    return array->meta.is_sharded ? add_shard(array, at, &chunk) : add_piece(array, at, &chunk);
}

static ckpt_status add_entries(struct assembly *array)
{
    const struct store *store = array->from->store;
    ckpt_status st = CKPT_OK;
    for (size_t i = store_find(store, array->from->prefix);
         st == CKPT_OK && i < store->db.n && str_starts(store->db.entries[i].key, array->from->prefix); i++) {
        st = add_entry(array, i);
        if (st != CKPT_OK && store_file_path(store, i))
            error_add_file(array->err, store_file_path(store, i));
        else if (st != CKPT_OK)
            error_add_position(array->err, CKPT_NO_OFFSET, store->db.entries[i].key);
    }
    return st;
}

/* -------------------------------------------------------------------------- sources */

static ckpt_status decode_block(void *user, source *stored, spool *to, ckpt_error *err)
{
    return zarr_decode(user, stored, to, err);
}

static ckpt_status refer_to_decoded_blocks(struct assembly *array)
{
    arena *a = array->f->a;
    struct block_decoder *d = ARENA_NEW(a, struct block_decoder);
    struct zarr_encoding *e = ARENA_NEW(a, struct zarr_encoding);
    CKPT_TRY_ALLOC(d && e, array->err);
    *e = array->meta.encoding;
    *d = (struct block_decoder){"Zarr chunk", decode_block, e};
    CKPT_TRY(source_blocks(array->cache, array->blocks, array->npieces, d, &array->decoded, array->err));
    for (size_t i = 0; i < array->npieces; i++) {
        array->pieces[i].src = array->decoded;
        array->pieces[i].at = array->blocks[i].start;
    }
    return CKPT_OK;
}

/* check_expansion - refuses a chunk that decodes to more bytes than file_max_unpacked allows for the file,
 * and missing chunks that together have more. */
static ckpt_status check_expansion(const struct assembly *array)
{
    uint64_t max = file_max_unpacked(array->f, array->f->nbytes), missing = array->missing_bytes;
    uint64_t chunk = array->npieces ? array->meta.encoding.decoded_bytes : 0;
    if (chunk <= max && missing <= max)
        return CKPT_OK;
    return fail(array->err, CKPT_ELIMIT, CKPT_NO_OFFSET,
                "%s of {%" PRIu64 " bytes}; {=%" PRIu64 "} are allowed\n"
                "raise it with --max-expanded (max_expanded in ckpt_limits)",
                missing > max ? "missing chunks" : "a chunk", missing > max ? missing : chunk, max);
}

/* make_source - sets *OUT to a source that has the elements of ARRAY from byte *AT on. */
static ckpt_status make_source(struct assembly *array, source **out, uint64_t *at)
{
    static const unsigned char zero[sizeof array->meta.fill];
    static const struct piece none;
    enum zarr_missing missing = array->from->missing;
    array->missing_bytes = array->meta.nbytes; /* add_entries subtracts what pieces have */
    CKPT_TRY(add_entries(array));
    CKPT_TRY(check_expansion(array));
    if (array->meta.encoding.ncodecs && array->npieces)
        CKPT_TRY(refer_to_decoded_blocks(array));
    struct pieces p = {.shape = array->meta.shape,
                       .ndim = array->meta.ndim,
                       .width = array->meta.element_size,
                       .piece = array->npieces ? array->pieces : &none,
                       .n = array->npieces};
    if (missing != MISSING_FAULT)
        p.fill = array->meta.has_fill ? array->meta.fill : missing == MISSING_ZERO ? zero : NULL;
    return pieces_source(array->f->a, &p, out, at, array->err);
}

/* assemble - reads the array FROM into ARRAY, and sets *OUT to a source that has its elements from byte *AT
 * on. The caller owns the reference. */
static ckpt_status assemble(struct zarr_arrays *arrays, const struct zarr_source *from,
                            struct assembly *array, source **out, uint64_t *at)
{
    *array = (struct assembly){.f = arrays->f, .err = arrays->err, .cache = arrays->cache, .from = from};
    array->a = arena_new(UINT64_MAX);
    ckpt_status st = array->a ? read_metadata(array) : fail_memory(arrays->err);
    CKPT_THEN(st, make_source(array, out, at));
    source_unref(array->decoded);
    for (size_t i = 0; i < array->nheld; i++)
        source_unref(array->held_sources[i]);
    arena_free(array->a);
    return st;
}

/* --------------------------------------------------------------------------- tensors */

/* add_tensor - adds a tensor, sets *TENSOR to it, and *NODE to a node whose offset is its index. */
static ckpt_status add_tensor(struct zarr_arrays *arrays, ckpt_value **node, struct zarr_tensor **tensor)
{
    *node = value_new(arrays->f->a, CKPT_V_TENSOR, arrays->ntensors);
    *tensor = *node ? arena_append(arrays->f->a, &arrays->tensors, &arrays->ntensors, &arrays->cap,
                                   sizeof **tensor)
                    : NULL;
    CKPT_TRY_ALLOC(*tensor, arrays->err);
    **tensor = (struct zarr_tensor){.joined.storage = CKPT_NO_STORAGE};
    return CKPT_OK;
}

/* list_unsupported - makes TENSOR, the array NAME, a row without data, for the reason in the error; in
 * salvage it is lost. */
static ckpt_status list_unsupported(struct zarr_arrays *arrays, ckpt_str name, struct zarr_tensor *tensor)
{
    struct storage lost = {.key = name, .dtype = (uint8_t)tensor->joined.dtype};
    const ckpt_error why = *arrays->err;
    if (!arrays->nunsupported++)
        arrays->first_unsupported = name;
    if (arrays->f->salvage) {
        CKPT_TRY(table_set_lost(&arrays->f->table, &lost, &why, arrays->err));
        return table_add_storage(&arrays->f->table, &lost, &tensor->joined.storage, arrays->err);
    }
    tensor->why_unreadable = arena_str(arrays->f->a, str_c(why.what));
    return tensor->why_unreadable.ptr ? CKPT_OK : fail_memory(arrays->err);
}

/* get_swap_unit - returns how many bytes of an element are swapped together; 0: it is little-endian. */
static uint8_t get_swap_unit(const struct zarr_array *meta)
{
    return meta->encoding.big_endian ? dtype_info(meta->dtype)->swap_bytes : 0;
}

ckpt_status zarr_add_array(struct zarr_arrays *arrays, const struct zarr_source *from, ckpt_value **node)
{
    struct assembly array;
    struct zarr_tensor *tensor;
    struct storage s = {.key = from->name};
    CKPT_TRY(add_tensor(arrays, node, &tensor));
    ckpt_status st = assemble(arrays, from, &array, &s.src, &s.off);
    struct joined_tensor *t = &tensor->joined;
    t->dtype = array.meta.dtype;
    t->ndim = array.meta.shape ? array.meta.ndim : 0;
    t->shape = array.meta.shape;
    if (st == CKPT_EUNSUPPORTED && arrays->lists_unsupported)
        return list_unsupported(arrays, from->name, tensor);
    s.nbytes = array.meta.nbytes;
    s.dtype = (uint8_t)array.meta.dtype;
    s.swap_width = get_swap_unit(&array.meta);
    s.pieces_have_crcs = s.checks_itself = zarr_has_checksums(&array.meta.encoding);
    CKPT_THEN(st, table_add_storage(&arrays->f->table, &s, &t->storage, arrays->err));
    return sharded_storage_accept_fault(arrays->f, from->name, t->dtype, st, &t->storage, arrays->err);
}

ckpt_status zarr_add_bytes(struct zarr_arrays *arrays, struct store *store, size_t index, ckpt_value **node)
{
    struct zarr_tensor *tensor;
    struct storage storage = {.key = store->db.entries[index].key, .dtype = CKPT_DT_U8};
    CKPT_TRY(add_tensor(arrays, node, &tensor));
    struct joined_tensor *t = &tensor->joined;
    ckpt_status st = store_find_bytes(store, index, &storage.src, &storage.off, &storage.nbytes);
    uint64_t *shape = arena_array(arrays->f->a, 1, sizeof *shape);
    CKPT_TRY_ALLOC(shape, arrays->err);
    *shape = storage.nbytes;
    *t = (struct joined_tensor){.dtype = CKPT_DT_U8, .ndim = 1, .shape = shape, .storage = CKPT_NO_STORAGE};
    CKPT_THEN(st, table_add_storage(&arrays->f->table, &storage, &t->storage, arrays->err));
    return sharded_storage_accept_fault(arrays->f, storage.key, CKPT_DT_U8, st, &t->storage, arrays->err);
}

/* ---------------------------------------------------------------------------- values */

static bool can_be_graph_number(const struct zarr_array *meta)
{
    return meta->ndim == 0 && dtype_info(meta->dtype)->klass != 'c' && meta->dtype != CKPT_DT_U64;
}

ckpt_status zarr_read_scalar(struct zarr_arrays *arrays, const struct zarr_source *from, ckpt_value **node)
{
    struct assembly array;
    source *src = NULL;
    uint64_t at;
    unsigned char element[16] = {0};
    ckpt_status st = assemble(arrays, from, &array, &src, &at);
    bool number = st == CKPT_OK && can_be_graph_number(&array.meta);
    if (number)
        st = source_read(src, at, element, array.meta.element_size, arrays->err);
    source_unref(src);
    if (st == CKPT_OK && !number)
        return zarr_add_array(arrays, from, node);
    if (st == CKPT_OK) {
        if (get_swap_unit(&array.meta))
            swap_bytes(element, array.meta.element_size, get_swap_unit(&array.meta));
        *node = value_number(arrays->f->a, array.meta.dtype, load_u64le(element));
        return *node ? CKPT_OK : fail_memory(arrays->err);
    }
    *node = NULL;
    error_add_where(arrays->err, "%.*s", STR_ARG(from->name));
    if (!arrays->f->salvage || !check_is_fault(st))
        return file_report_fault(arrays->f, st, arrays->err);
    file_note_loss(arrays->f, "\"%.*s\", which is not a tensor, is lost: %s", STR_ARG(from->name),
                   arrays->err->what);
    return CKPT_OK;
}

/* ------------------------------------------------------------------------------ graph */

static bool describe(void *user, const ckpt_value *value, struct row *row)
{
    const struct zarr_arrays *arrays = user;
    if (value->type != CKPT_V_TENSOR || value_offset(value) >= arrays->ntensors)
        return false;
    const struct zarr_tensor *t = &arrays->tensors[value_offset(value)];
    joined_tensor_describe(arrays->f, &t->joined, row);
    if (t->why_unreadable.len) {
        row->t.kind = CKPT_OPAQUE;
        row->t.note = t->why_unreadable;
    }
    return true;
}

ckpt_status zarr_arrays_make_graph(struct zarr_arrays *arrays, ckpt_value *root)
{
    const struct graph_input input = {.user = arrays,
                                      .find_storage = part_graph_find_storage,
                                      .describe_node = describe,
                                      .has_text_keys = true};
    arrays->f->root = root;
    return graph_walk(arrays->f, root, &input, arrays->err);
}
