/*
 * hdf5_chunks.c - finds the chunks of an HDF5 data set by its index, which is one of these. A number after a
 * field is its size in bytes, a number in parentheses its value.
 *
 *   B-tree 1       "TREE": type 1 (1), level 1, entries 2, siblings 8 + 8; a key, then for each entry its
 *                  address and another key. A key: stored size 4, skipped filters 4, offset in elements 8
 *                  for each dimension, zeros 8
 *   single         one chunk, at the address
 *   implicit       all chunks one after the other, in row-major order
 *   fixed array    "FAHD": version 1 (0), client 1 (1: filtered), size of an entry 1, log2 of the
 *                  entries in a page 1, entries 8, address of "FADB" 8, checksum 4. "FADB": version 1,
 *                  client 1, address of the header 8, then the entries and a checksum. If the entries fill
 *                  more than a page: a bit for each page, a checksum, and the pages, each with a checksum
 *   B-tree 2       records (type 10, or 11 if there are filters): address 8; if there are filters, stored
 *                  size and skipped filters 4; offset in chunks 8 for each dimension
 *
 * The offsets must be in ascending order, because libhdf5 searches the index.
 */

#include "base/checked.h"
#include "codec/hdf5_internal.h"

#define MAX_CHUNKS ((uint64_t)1 << 26)

struct chunks {
    struct hdf5 *h;
    struct hdf5_dataset *d;
    struct hdf5_chunk *chunks; /* in scratch memory */
    uint64_t *offsets;         /* offset of the first element of each chunk, ndim numbers */
    size_t n, cap, cap_offsets;
    uint64_t last_offset[HDF5_MAX_RANK]; /* offset of the chunk that was read last */
    bool has_last;                       /* true: last_offset is set */
    uint32_t size_width; /* bytes of the field "stored size"; 0: no filters, and no such field */
};

static int compare_offsets(const uint64_t *a, const uint64_t *b, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (a[i] != b[i])
            return a[i] < b[i] ? -1 : 1;
    return 0;
}

/* add_chunk - adds C, whose first element is at OFFSET in the data set, unless C is outside of the data
 * set. */
static ckpt_status add_chunk(struct chunks *list, const struct hdf5_chunk *c, const uint64_t *offset)
{
    uint32_t rank = list->d->ndim;
    uint64_t pos = c->offset;
    if (!range_within(c->offset, c->stored_size, list->h->src->size))
        return fail(
            list->h->err, CKPT_ETRUNCATED, pos, "a chunk needs {=%llu bytes}, the file has {%llu} there",
            (unsigned long long)c->stored_size,
            (unsigned long long)(c->offset < list->h->src->size ? list->h->src->size - c->offset : 0));
    if (!list->d->nfilters && c->stored_size != list->d->chunk_bytes)
        return fail(list->h->err, CKPT_EFORMAT, pos, "a chunk has {%llu bytes}, but must have {=%llu}",
                    (unsigned long long)c->stored_size, (unsigned long long)list->d->chunk_bytes);
    if (list->has_last && compare_offsets(offset, list->last_offset, rank) <= 0)
        return fail(list->h->err, CKPT_EFORMAT, pos,
                    "the offset of a chunk is {not after} {=that of the previous chunk}");
    memcpy(list->last_offset, offset, rank * sizeof *offset); /* bounded: HDF5_MAX_RANK */
    list->has_last = true;
    for (uint32_t i = 0; i < rank; i++)
        if (offset[i] >= list->d->shape[i])
            return CKPT_OK;
    struct hdf5_chunk *grown = arena_grow(list->h->scratch, list->chunks, list->n, &list->cap, list->n + 1,
                                          sizeof *grown);
    uint64_t *offsets = arena_grow(list->h->scratch, list->offsets, list->n * rank, &list->cap_offsets,
                                   (list->n + 1) * rank, sizeof *offsets);
    if (!grown || !offsets)
        return fail_memory(list->h->err);
    list->chunks = grown;
    list->offsets = offsets;
    memcpy(offsets + list->n * rank, offset, rank * sizeof *offset); /* bounded: arena_grow made room */
    grown[list->n++] = *c;
    return CKPT_OK;
}

struct chunk_tree {
    struct chunks *list;
    struct hdf5_tree tree;
    /* least_offsets[i]: the offset in the key of the child of tree.nodes[i] that is being read. No key in
     * that child may have a smaller offset. */
    uint64_t least_offsets[HDF5_MAX_DEPTH + 1][HDF5_MAX_RANK];
};

/* read_key - reads the next key of C: the stored size and skipped filters of a chunk, and its OFFSET. */
static ckpt_status read_key(struct chunks *list, cursor *c, struct hdf5_chunk *out, uint64_t *offset)
{
    bool is_multiple = true;
    out->stored_size = cursor_u32(c);
    out->skipped_filters = cursor_u32(c);
    for (uint32_t i = 0; i < list->d->ndim; i++) {
        offset[i] = cursor_u64(c);
        is_multiple &= offset[i] % list->d->chunk_shape[i] == 0;
    }
    is_multiple &= cursor_u64(c) == 0; /* a key ends with an offset of 0 within the element */
    if (c->bad)
        return hdf5_fail_short(list->h, c, "a B-tree of chunks");
    return is_multiple ? CKPT_OK
                       : fail(list->h->err, CKPT_EFORMAT, c->pos,
                              "the offset of a chunk is {no multiple} of {=its size}");
}

/* next_child - reads the next child of the innermost node, or leaves that node after its last child. */
static ckpt_status next_child(struct chunk_tree *t)
{
    uint32_t depth = t->tree.depth;
    struct hdf5_node *n = &t->tree.nodes[depth - 1];
    struct chunks *list = t->list;
    struct hdf5_chunk chunk;
    uint64_t offset[HDF5_MAX_RANK];
    if (!n->unread) {
        t->tree.depth--;
        return CKPT_OK;
    }
    n->unread--;
    CKPT_TRY(read_key(list, &n->c, &chunk, offset));
    chunk.offset = cursor_u64(&n->c);
    if (depth > 1 && compare_offsets(offset, t->least_offsets[depth - 2], list->d->ndim) < 0)
        return fail(list->h->err, CKPT_EFORMAT, n->c.pos,
                    "the key of a chunk is {less} than {=that of its node}");
    if (!n->level)
        return add_chunk(list, &chunk, offset);
    if (list->has_last && compare_offsets(offset, list->last_offset, list->d->ndim) <= 0)
        return fail(list->h->err, CKPT_EFORMAT, n->c.pos,
                    "a key of a B-tree is {not after} {=the previous chunk}");
    memcpy(t->least_offsets[depth - 1], offset, sizeof offset);
    return hdf5_enter_node(list->h, &t->tree, chunk.offset);
}

static ckpt_status read_tree(struct chunks *list, uint64_t addr)
{
    struct chunk_tree *t = ARENA_NEW(list->h->scratch, struct chunk_tree);
    if (!t)
        return fail_memory(list->h->err);
    t->list = list;
    t->tree = (struct hdf5_tree){.what = "a B-tree of chunks",
                                 .type = 1,
                                 .key_size = 8 + 8 * (list->d->ndim + 1)}; /* bounded: HDF5_MAX_RANK */
    CKPT_TRY(hdf5_enter_node(list->h, &t->tree, addr));
    while (t->tree.depth)
        CKPT_TRY(next_child(t));
    return CKPT_OK;
}

static uint64_t count_chunks_along(const struct hdf5_dataset *d, uint32_t i)
{
    return d->shape[i] / d->chunk_shape[i] +
           (d->shape[i] % d->chunk_shape[i] != 0); /* bounded: at most shape[i] */
}

/* count_all_chunks - sets *N to the number of chunks that cover D; false: more than MAX_CHUNKS. */
static bool count_all_chunks(const struct hdf5_dataset *d, uint64_t *n)
{
    *n = 1;
    for (uint32_t i = 0; i < d->ndim; i++)
        if (!checked_mul(*n, count_chunks_along(d, i), n) || *n > MAX_CHUNKS)
            return false;
    return true;
}

/* get_grid_offset - sets OFFSET to the offset of chunk NUMBER in row-major order. */
static void get_grid_offset(const struct hdf5_dataset *d, uint64_t number, uint64_t *offset)
{
    for (uint32_t i = d->ndim; i-- > 0;) {
        uint64_t n = count_chunks_along(d, i);
        offset[i] = number % n * d->chunk_shape[i]; /* bounded: inside the shape */
        number /= n;
    }
}

/* add_numbered - adds C as chunk NUMBER in row-major order, if C is stored. */
static ckpt_status add_numbered(struct chunks *list, uint64_t number, const struct hdf5_chunk *c)
{
    uint64_t offset[HDF5_MAX_RANK];
    if (c->offset == HDF5_NOWHERE)
        return CKPT_OK;
    get_grid_offset(list->d, number, offset);
    return add_chunk(list, c, offset);
}

static ckpt_status read_implicit(struct chunks *list, uint64_t addr, uint64_t n)
{
    struct hdf5_chunk c = {.offset = addr, .stored_size = list->d->chunk_bytes};
    uint64_t all;
    if (!checked_mul(n, c.stored_size, &all) || !range_within(addr, all, list->h->src->size))
        return fail(list->h->err, CKPT_ETRUNCATED, addr, "{%llu chunks} do not fit in {=the file}",
                    (unsigned long long)n);
    for (uint64_t i = 0; i < n; i++) {
        CKPT_TRY(add_numbered(list, i, &c));
        c.offset += c.stored_size; /* bounded: all chunks are in the file */
    }
    return CKPT_OK;
}

/* read_entry - returns address, size and skipped filters of the chunk of the next entry or record in C. */
static struct hdf5_chunk read_entry(const struct chunks *list, cursor *c)
{
    struct hdf5_chunk chunk = {.offset = cursor_u64(c), .stored_size = list->d->chunk_bytes};
    if (list->size_width) {
        chunk.stored_size = cursor_number(c, list->size_width);
        chunk.skipped_filters = cursor_u32(c);
    }
    return chunk;
}

#define ARRAY_TEXT "an array of chunks" /* for errors */
static const struct hdf5_kind array_block = {"FADB", 0, ARRAY_TEXT};

/* read_entries - reads N entries of C, those of the chunks from number FIRST on. */
static ckpt_status read_entries(struct chunks *list, cursor c, uint64_t first, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        struct hdf5_chunk chunk = read_entry(list, &c);
        if (c.bad)
            return hdf5_fail_short(list->h, &c, ARRAY_TEXT);
        CKPT_TRY(add_numbered(list, first + i, &chunk)); /* bounded: at most MAX_CHUNKS */
    }
    return CKPT_OK;
}

struct fixed_array {
    uint64_t addr, nentries; /* address of "FADB"; number of entries in it */
    uint64_t page_entries;   /* number of entries in a page */
    uint32_t entry_size;
};

/* read_pages - reads the first N entries of A, which has more than one page. */
static ckpt_status read_pages(struct chunks *list, const struct fixed_array *a, uint64_t n)
{
    uint64_t per_page = a->page_entries,
             npages = a->nentries / per_page + (a->nentries % per_page != 0); /* bounded: at most nentries */
    uint64_t header_size = 14 + npages / 8 + (npages % 8 != 0) + 4; /* bounded: at most 2^26 pages */
    uint64_t page_size = per_page * a->entry_size + 4; /* bounded: at most 2^24 entries of 255 bytes */
    cursor c, bitmap;                                  /* BITMAP: a bit for each page, 1 if it is stored */
    CKPT_TRY(hdf5_load_checked(list->h, a->addr, header_size, &array_block, &bitmap));
    (void)cursor_take(&bitmap, 9);
    uint64_t at = a->addr + header_size; /* bounded: these bytes were read */
    for (uint64_t i = 0, first = 0; i < npages && first < n; i++, first += per_page) { /* bounded: nentries */
        uint64_t count = a->nentries - first < per_page ? a->nentries - first : per_page;
        if (bitmap.p[i / 8] >> (7 - i % 8) & 1) {
            CKPT_TRY(
                hdf5_load(list->h, at, count * a->entry_size + 4, ARRAY_TEXT, &c)); /* bounded: page_size */
            CKPT_TRY(hdf5_cut_checksum(list->h, c, ARRAY_TEXT, &c));
            CKPT_TRY(read_entries(list, c, first, n - first < count ? n - first : count));
        }
        at += page_size; /* bounded: 2^26 pages of 2^32 bytes */
    }
    return CKPT_OK;
}

/* read_fixed_array - reads the chunks that the first N entries of the fixed array at ADDR describe. */
static ckpt_status read_fixed_array(struct chunks *list, uint64_t addr, uint64_t n)
{
    static const struct hdf5_kind header = {"FAHD", 0, ARRAY_TEXT};
    struct fixed_array a;
    cursor c;
    CKPT_TRY(hdf5_load_checked(list->h, addr, 28, &header, &c));
    uint32_t client = cursor_u8(&c);
    a.entry_size = cursor_u8(&c);
    uint32_t page_bits = cursor_u8(&c); /* the binary logarithm of the entries in a page */
    a.nentries = cursor_u64(&c);
    a.addr = cursor_u64(&c);
    uint32_t entry_size = 8 + (list->size_width ? list->size_width + 4 : 0);
    if (client != (list->size_width != 0) || a.entry_size != entry_size || page_bits > 24 || a.nentries < n ||
        a.nentries > MAX_CHUNKS)
        return fail(list->h->err, CKPT_EFORMAT, addr,
                    "an array has {%llu} entries of %u bytes, where {=%llu chunks} need entries of %u",
                    (unsigned long long)a.nentries, a.entry_size, (unsigned long long)n, entry_size);
    a.page_entries = (uint64_t)1 << page_bits;
    if (a.addr == HDF5_NOWHERE)
        return CKPT_OK;
    if (a.nentries > a.page_entries)
        return read_pages(list, &a, n);
    uint64_t size = 14 + a.nentries * a.entry_size + 4; /* bounded: 2^26 entries */
    CKPT_TRY(hdf5_load_checked(list->h, a.addr, size, &array_block, &c));
    (void)cursor_take(&c, 9);
    return read_entries(list, c, 0, n);
}

static ckpt_status read_record(struct hdf5 *h, void *user, cursor record)
{
    struct chunks *list = user;
    struct hdf5_chunk chunk = read_entry(list, &record);
    uint64_t offset[HDF5_MAX_RANK];
    bool fits = true;
    for (uint32_t i = 0; i < list->d->ndim && fits; i++)
        fits = checked_mul(cursor_u64(&record), list->d->chunk_shape[i], &offset[i]);
    if (record.bad || !fits)
        return fail(h->err, CKPT_EFORMAT, record.pos, "{a record} of a B-tree does not describe {=a chunk}");
    return add_chunk(list, &chunk, offset);
}

/* read_other_index - reads the chunks by INDEX, which may be of any kind but HDF5_BTREE1. */
static ckpt_status read_other_index(struct chunks *list, const struct hdf5_index *index)
{
    uint64_t n;
    struct hdf5_chunk single = {index->addr, index->single_size, index->single_skipped_filters};
    uint32_t filter_bytes = list->size_width ? list->size_width + 4 : 0;
    uint32_t record_size = 8 + filter_bytes + 8 * list->d->ndim; /* bounded: HDF5_MAX_RANK */
    const struct hdf5_records records = {filter_bytes ? 11 : 10, record_size, read_record, list};
    if (!count_all_chunks(list->d, &n))
        return fail(list->h->err, CKPT_ELIMIT, index->addr, "{more} than {=2^26 chunks}");
    switch (index->kind) {
    case HDF5_SINGLE:
        return n == 1 ? add_numbered(list, 0, &single)
                      : fail(list->h->err, CKPT_EFORMAT, index->addr,
                             "the index has {one chunk}, but the sizes need {=%llu}", (unsigned long long)n);
    case HDF5_IMPLICIT: return read_implicit(list, index->addr, n);
    case HDF5_FIXED_ARRAY: return read_fixed_array(list, index->addr, n);
    default: return hdf5_visit_records(list->h, index->addr, &records);
    }
}

ckpt_status hdf5_read_chunks(struct hdf5 *h, const struct hdf5_index *index, struct hdf5_dataset *d)
{
    struct chunks list = {.h = h, .d = d};
    if (d->nfilters) /* one byte more than the size of a decoded chunk needs */
        for (list.size_width = 2; d->chunk_bytes >> (8 * (list.size_width - 1)) && list.size_width < 8;)
            list.size_width++;
    CKPT_TRY(index->kind == HDF5_BTREE1 ? read_tree(&list, index->addr) : read_other_index(&list, index));
    d->chunks = list.chunks;
    d->chunk_offsets = list.offsets;
    d->nchunks = list.n;
    return CKPT_OK;
}
