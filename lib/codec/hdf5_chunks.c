/*
 * hdf5_chunks.c - finds the chunks of an HDF5 data set by its index, which is one of these, or of those in
 * hdf5_chunk_numbers.c. A number after a field is its size in bytes, a number in parentheses its value.
 *
 *   B-tree 1       "TREE": type 1 (1), level 1, entries 2, siblings 8 + 8; a key, then for each entry its
 *                  address and another key. A key: stored size 4, skipped filters 4, offset in elements 8
 *                  for each dimension, zeros 8
 *   B-tree 2       records (type 10, or 11 if there are filters): address 8; if there are filters, stored
 *                  size and skipped filters 4; offset in chunks 8 for each dimension
 *
 * The offsets must be in ascending order, because libhdf5 searches the index.
 */

#include "codec/hdf5_internal.h"

#define MAX_CHUNKS ((uint64_t)1 << 26)

static int compare_offsets(const uint64_t *left, const uint64_t *right, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (left[i] != right[i])
            return left[i] < right[i] ? -1 : 1;
    return 0;
}

/* is_at_edge - returns true if a chunk at OFFSET reaches over the edge of DATASET. */
static bool is_at_edge(const struct hdf5_dataset *dataset, const uint64_t *offset)
{
    for (uint32_t i = 0; i < dataset->ndim; i++)
        if (dataset->shape[i] - offset[i] < dataset->chunk_shape[i])
            return true;
    return false;
}

/* check_chunk - fails unless the bytes of CHUNK are in the file and, if no filter changed them, have the size
 * of a chunk. */
static ckpt_status check_chunk(const struct hdf5_chunk_list *list, const struct hdf5_chunk *chunk)
{
    uint64_t size = list->h->src->size;
    if (!range_within(chunk->offset, chunk->stored_size, size))
        return fail(list->h->err, CKPT_ETRUNCATED, chunk->offset,
                    "a chunk needs {=%llu bytes}, the file has {%llu} there",
                    (unsigned long long)chunk->stored_size,
                    (unsigned long long)(chunk->offset < size ? size - chunk->offset : 0));
    if (!list->d->nfilters && chunk->stored_size != list->d->chunk_bytes)
        return fail(list->h->err, CKPT_EFORMAT, chunk->offset,
                    "a chunk has {%llu bytes}, but must have {=%llu}", (unsigned long long)chunk->stored_size,
                    (unsigned long long)list->d->chunk_bytes);
    return CKPT_OK;
}

ckpt_status hdf5_add_chunk(struct hdf5_chunk_list *list, const struct hdf5_chunk *chunk,
                           const uint64_t *offset)
{
    uint32_t rank = list->d->ndim;
    CKPT_TRY(check_chunk(list, chunk));
    for (uint32_t i = 0; i < rank; i++)
        if (offset[i] >= list->d->shape[i])
            return CKPT_OK;
    if (list->n == MAX_CHUNKS)
        return fail(list->h->err, CKPT_ELIMIT, chunk->offset, "{more} than {=2^26 chunks}");
    struct hdf5_chunk *grown = arena_grow(list->h->scratch, list->chunks, list->n, &list->cap, list->n + 1,
                                          sizeof *grown);
    uint64_t *offsets = arena_grow(list->h->scratch, list->offsets, list->n * rank, &list->cap_offsets,
                                   (list->n + 1) * rank, sizeof *offsets);
    CKPT_TRY_ALLOC(grown && offsets, list->h->err);
    list->chunks = grown;
    list->offsets = offsets;
    memcpy(offsets + list->n * rank, offset, rank * sizeof *offset);
    grown[list->n] = *chunk;
    if (list->index->edges_are_unfiltered && is_at_edge(list->d, offset))
        grown[list->n].skipped_filters = UINT32_MAX;
    list->n++;
    return CKPT_OK;
}

/* add_ordered - adds CHUNK, as hdf5_add_chunk does, which must be after the chunk that was read before it. */
static ckpt_status add_ordered(struct hdf5_chunk_list *list, const struct hdf5_chunk *chunk,
                               const uint64_t *offset)
{
    uint32_t rank = list->d->ndim;
    if (list->has_last && compare_offsets(offset, list->last_offset, rank) <= 0)
        return fail(list->h->err, CKPT_EFORMAT, chunk->offset,
                    "the offset of a chunk is {not after} {=that of the previous chunk}");
    memcpy(list->last_offset, offset, rank * sizeof *offset);
    list->has_last = true;
    return hdf5_add_chunk(list, chunk, offset);
}

struct chunk_tree {
    struct hdf5_chunk_list *list;
    struct hdf5_tree tree;
    /* least_offsets[i]: the offset in the key of the child of tree.nodes[i] that is being read. No key in
     * that child may have a smaller offset. */
    uint64_t least_offsets[HDF5_MAX_DEPTH + 1][HDF5_MAX_RANK];
};

/* read_key - reads the next key of IN: the stored size and skipped filters of a chunk, and its OFFSET. */
static ckpt_status read_key(struct hdf5_chunk_list *list, cursor *in, struct hdf5_chunk *out,
                            uint64_t *offset)
{
    bool is_multiple = true;
    out->stored_size = cursor_u32(in);
    out->skipped_filters = cursor_u32(in);
    for (uint32_t i = 0; i < list->d->ndim; i++) {
        offset[i] = cursor_u64(in);
        is_multiple &= offset[i] % list->d->chunk_shape[i] == 0;
    }
    is_multiple &= cursor_u64(in) == 0; /* a key ends with an offset of 0 within the element */
    if (in->bad)
        return hdf5_fail_short(list->h, in, "a B-tree of chunks");
    return is_multiple ? CKPT_OK
                       : fail(list->h->err, CKPT_EFORMAT, in->pos,
                              "the offset of a chunk is {no multiple} of {=its size}");
}

/* next_child - reads the next child of the innermost node, or leaves that node after its last child. */
static ckpt_status next_child(struct chunk_tree *tree)
{
    uint32_t depth = tree->tree.depth;
    struct hdf5_node *n = &tree->tree.nodes[depth - 1];
    struct hdf5_chunk_list *list = tree->list;
    struct hdf5_chunk chunk;
    uint64_t offset[HDF5_MAX_RANK];
    if (!n->unread) {
        tree->tree.depth--;
        return CKPT_OK;
    }
    n->unread--;
    CKPT_TRY(read_key(list, &n->c, &chunk, offset));
    chunk.offset = cursor_u64(&n->c);
    if (depth > 1 && compare_offsets(offset, tree->least_offsets[depth - 2], list->d->ndim) < 0)
        return fail(list->h->err, CKPT_EFORMAT, n->c.pos,
                    "the key of a chunk is {less} than {=that of its node}");
    if (!n->level)
        return add_ordered(list, &chunk, offset);
    if (list->has_last && compare_offsets(offset, list->last_offset, list->d->ndim) <= 0)
        return fail(list->h->err, CKPT_EFORMAT, n->c.pos,
                    "a key of a B-tree is {not after} {=the previous chunk}");
    memcpy(tree->least_offsets[depth - 1], offset, sizeof offset);
    return hdf5_enter_node(list->h, &tree->tree, chunk.offset);
}

static ckpt_status read_tree(struct hdf5_chunk_list *list, uint64_t addr)
{
    struct chunk_tree *t = ARENA_NEW(list->h->scratch, struct chunk_tree);
    CKPT_TRY_ALLOC(t, list->h->err);
    t->list = list;
    t->tree = (struct hdf5_tree){
        .what = "a B-tree of chunks", .type = 1, .key_size = 8 + 8 * (list->d->ndim + 1)};
    CKPT_TRY(hdf5_enter_node(list->h, &t->tree, addr));
    while (t->tree.depth)
        CKPT_TRY(next_child(t));
    return CKPT_OK;
}

struct hdf5_chunk hdf5_read_chunk_entry(const struct hdf5_chunk_list *list, cursor *in)
{
    struct hdf5_chunk chunk = {.offset = cursor_u64(in), .stored_size = list->d->chunk_bytes};
    if (list->index->size_width) {
        chunk.stored_size = cursor_number(in, list->index->size_width);
        chunk.skipped_filters = cursor_u32(in);
    }
    return chunk;
}

static ckpt_status read_record(struct hdf5 *hdf5, void *user, cursor record)
{
    struct hdf5_chunk_list *list = user;
    struct hdf5_chunk chunk = hdf5_read_chunk_entry(list, &record);
    uint64_t offset[HDF5_MAX_RANK];
    bool fits = true;
    for (uint32_t i = 0; i < list->d->ndim && fits; i++)
        fits = checked_mul(cursor_u64(&record), list->d->chunk_shape[i], &offset[i]);
    if (record.bad || !fits)
        return fail(hdf5->err, CKPT_EFORMAT, record.pos,
                    "{a record} of a B-tree does not describe {=a chunk}");
    return add_ordered(list, &chunk, offset);
}

static ckpt_status read_tree2(struct hdf5_chunk_list *list)
{
    uint32_t filter_bytes = list->index->size_width ? list->index->size_width + 4 : 0;
    uint32_t record_size = 8 + filter_bytes + 8 * list->d->ndim;
    const struct hdf5_records records = {filter_bytes ? 11 : 10, record_size, read_record, list};
    return hdf5_visit_records(list->h, list->index->addr, &records);
}

ckpt_status hdf5_read_chunks(struct hdf5 *hdf5, const struct hdf5_index *index, struct hdf5_dataset *dataset)
{
    struct hdf5_chunk_list list = {.h = hdf5, .d = dataset, .index = index};
    switch (index->kind) {
    case HDF5_BTREE1: CKPT_TRY(read_tree(&list, index->addr)); break;
    case HDF5_BTREE2: CKPT_TRY(read_tree2(&list)); break;
    default: CKPT_TRY(hdf5_read_numbered_chunks(&list));
    }
    dataset->chunks = list.chunks;
    dataset->chunk_offsets = list.offsets;
    dataset->nchunks = list.n;
    return CKPT_OK;
}
