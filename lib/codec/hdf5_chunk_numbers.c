/*
 * hdf5_chunk_numbers.c - finds the chunks of an HDF5 data set by an index that has a place for each number of
 * a chunk. Chunks are numbered in row-major order, those of the sizes to which the data set may grow: if
 * those are (20, 60) and a chunk is (10, 10), the second row of chunks begins at number 6, whatever the
 * shape is. In an extensible array, the one dimension without a limit comes first, wherever it is in the
 * shape. A number after a field is its size in bytes, a number in parentheses its value.
 *
 *   single            one chunk, at the address
 *   implicit          all chunks one after the other
 *   fixed array       "FAHD": version 1 (0), client 1 (1: filtered), size of an entry 1, log2 of the entries
 *                     in a page 1, entries 8, address of "FADB" 8, checksum 4. "FADB": version 1, client 1,
 *                     address of the header 8, then the entries and a checksum. If the entries fill more than
 *                     a page: a bit for each page, a checksum, and the pages, each with a checksum
 *   extensible array  "EAHD": version 1 (0), client 1, size of an entry 1, log2 of the most entries 1,
 *                     entries in the index block 1, in the smallest data block 1, data blocks of the first
 *                     super block 1, log2 of the entries in a page 1, four counts 8 each, entries in use 8,
 *                     entries with room 8, address of "EAIB" 8, checksum 4.
 *                     "EAIB": version 1, client 1, address of the header 8, entries, addresses of the data
 *                     blocks of the first super blocks, addresses of the other super blocks, checksum 4.
 *                     "EASB": the same up to the address; number of its first entry; if its data blocks have
 *                     pages: a bit for each page, which fill the first of as many bytes as each data
 *                     block would need for itself; addresses of its data blocks; checksum 4.
 *                     "EADB": the same up to the number; entries or, if it has pages, nothing; checksum 4;
 *                     the pages, each with a checksum.
 *                     Super block I has 2^(I/2) data blocks of 2^((I+1)/2) times the smallest
 */
#include "codec/hdf5_internal.h"

#define ARRAY_TEXT "an array of chunks" /* for errors */

/* How the chunks of a data set are numbered. */
struct grid {
    uint32_t order[HDF5_MAX_RANK];  /* its dimensions; the first one changes last */
    uint64_t counts[HDF5_MAX_RANK]; /* chunks along each dimension */
    uint64_t total;                 /* all chunks; 0 if a dimension has no limit */
};

/* An array of chunks, of either kind. */
struct array {
    struct hdf5_chunk_list *list;
    struct grid grid;
    uint64_t addr;                    /* address of its header */
    uint32_t entry_size;              /* bytes */
    uint64_t nentries;                /* entries that are in use */
    uint64_t page_entries, page_size; /* entries in a page; its bytes with the checksum */
};

/* set_grid - sets GRID to how the chunks of the data set of LIST are numbered. */
static ckpt_status set_grid(const struct hdf5_chunk_list *list, struct grid *grid)
{
    const struct hdf5_dataset *d = list->d;
    uint32_t nunlimited = 0, n = 0;
    grid->total = 1;
    for (uint32_t i = 0; i < d->ndim; i++) {
        uint64_t max = list->index->max_shape[i], chunk = d->chunk_shape[i];
        bool is_unlimited = max == HDF5_UNLIMITED;
        grid->counts[i] = max / chunk + (max % chunk != 0);
        nunlimited += is_unlimited;
        if (is_unlimited)
            grid->order[0] = i;
        if (max < d->shape[i] || !max ||
            (!is_unlimited && !checked_mul(grid->total, grid->counts[i], &grid->total)))
            return fail(list->h->err, CKPT_EFORMAT, list->index->addr,
                        "dimension %u can grow to {%llu}, but has size {=%llu}", i, (unsigned long long)max,
                        (unsigned long long)d->shape[i]);
    }
    if (nunlimited != (list->index->kind == HDF5_EXTENSIBLE_ARRAY))
        return fail(list->h->err, CKPT_EFORMAT, list->index->addr,
                    "{%u dimensions} without a limit, where the index of chunks allows {=%u}", nunlimited,
                    list->index->kind == HDF5_EXTENSIBLE_ARRAY);
    for (uint32_t i = 0; i < d->ndim; i++)
        if (!nunlimited || i != grid->order[0])
            grid->order[nunlimited + n++] = i;
    return CKPT_OK;
}

/* get_offset - sets OFFSET to the offset of chunk NUMBER. False: it is outside of any shape. */
static bool get_offset(const struct hdf5_dataset *dataset, const struct grid *grid, uint64_t number,
                       uint64_t *offset)
{
    for (uint32_t i = dataset->ndim; COUNT_DOWN(i) && i;) {
        uint32_t dim = grid->order[i];
        offset[dim] = number % grid->counts[dim] * dataset->chunk_shape[dim];
        number /= grid->counts[dim];
    }
    return checked_mul(number, dataset->chunk_shape[grid->order[0]], &offset[grid->order[0]]);
}

/* add_numbered - adds CHUNK as chunk NUMBER, if CHUNK is stored. */
static ckpt_status add_numbered(struct hdf5_chunk_list *list, const struct grid *grid, uint64_t number,
                                const struct hdf5_chunk *chunk)
{
    uint64_t offset[HDF5_MAX_RANK];
    return chunk->offset == HDF5_NOWHERE || !get_offset(list->d, grid, number, offset)
               ? CKPT_OK
               : hdf5_add_chunk(list, chunk, offset);
}

static ckpt_status read_single(struct hdf5_chunk_list *list, const struct grid *grid)
{
    const struct hdf5_index *index = list->index;
    const struct hdf5_chunk c = {index->addr, index->single_size, index->single_skipped_filters};
    return grid->total == 1 ? add_numbered(list, grid, 0, &c)
                            : fail(list->h->err, CKPT_EFORMAT, index->addr,
                                   "the index has {one chunk}, but the sizes need {=%llu}",
                                   (unsigned long long)grid->total);
}

static ckpt_status read_implicit(struct hdf5_chunk_list *list, const struct grid *grid)
{
    uint64_t addr = list->index->addr, all;
    struct hdf5_chunk c = {.offset = addr, .stored_size = list->d->chunk_bytes};
    if (!checked_mul(grid->total, c.stored_size, &all) || !range_within(addr, all, list->h->src->size))
        return fail(list->h->err, CKPT_ETRUNCATED, addr, "{%llu chunks} do not fit in {=the file}",
                    (unsigned long long)grid->total);
    for (uint64_t i = 0; i < grid->total; i++) {
        CKPT_TRY(add_numbered(list, grid, i, &c));
        c.offset += c.stored_size;
    }
    return CKPT_OK;
}

/* ----------------------------------------------------------------------- arrays */

/* read_entries - reads COUNT entries of IN, those of the chunks from number FIRST on, except those that are
 * not in use. */
static ckpt_status read_entries(const struct array *array, cursor in, uint64_t first, uint64_t count)
{
    if (first >= array->nentries)
        return CKPT_OK;
    count = count < array->nentries - first ? count : array->nentries - first;
    for (uint64_t i = 0; i < count; i++) {
        struct hdf5_chunk chunk = hdf5_read_chunk_entry(array->list, &in);
        if (in.bad)
            return hdf5_fail_short(array->list->h, &in, ARRAY_TEXT);
        CKPT_TRY(add_numbered(array->list, &array->grid, first + i, &chunk));
    }
    return CKPT_OK;
}

/* check_entries - checks the size of an entry against what the chunks need, and sets the size of a page.
 * LOG2_PAGE: the binary logarithm of the entries in it. */
static ckpt_status check_entries(struct array *array, unsigned client, uint32_t log2_page)
{
    uint32_t width = array->list->index->size_width, needed = 8 + (width ? width + 4 : 0);
    array->page_entries = (uint64_t)1 << (log2_page & 31);
    array->page_size = array->page_entries * array->entry_size + 4;
    return client == (width != 0) && array->entry_size == needed && log2_page < 32
               ? CKPT_OK
               : fail(array->list->h->err, CKPT_EFORMAT, array->addr,
                      "an array of kind %u has entries of {%u bytes}, pages of 2^%u; its chunks need entries "
                      "of {=%u}",
                      client, array->entry_size, log2_page, needed);
}

/* A bit for each page of an array or of a data block: 1 if the page is stored. */
struct page_bits {
    const unsigned char *bits;
    uint64_t first; /* number of the first of the pages */
};

static bool is_page_stored(struct page_bits pages, uint64_t index)
{
    uint64_t bit = pages.first + index;
    return pages.bits[bit / 8] >> (7 - bit % 8) & 1;
}

/* read_pages - reads the NUMBER entries, those of the chunks from number FIRST on, in the pages from ADDR
 * on. */
static ckpt_status read_pages(const struct array *array, uint64_t addr, struct page_bits pages,
                              uint64_t first, uint64_t number)
{
    struct hdf5 *h = array->list->h;
    cursor c;
    for (uint64_t i = 0; number && first < array->nentries; i++, addr += array->page_size) {
        uint64_t count = number < array->page_entries ? number : array->page_entries;
        if (is_page_stored(pages, i)) {
            CKPT_TRY(hdf5_load(h, addr, count * array->entry_size + 4, ARRAY_TEXT, &c));
            CKPT_TRY(hdf5_cut_checksum(h, c, ARRAY_TEXT, &c));
            CKPT_TRY(read_entries(array, c, first, count));
        }
        number -= count;
        first += count;
        if (addr > h->src->size)
            return fail(h->err, CKPT_ETRUNCATED, addr, ARRAY_TEXT " {ends after} {=the file}");
    }
    return CKPT_OK;
}

/* load_block - loads the block of SIZE bytes of A at ADDR, which begins with SIGNATURE; *IN is after the
 * address of the header in it. */
static ckpt_status load_block(const struct array *array, const char *signature, uint64_t addr, uint64_t size,
                              cursor *in)
{
    const struct hdf5_kind kind = {signature, 0, ARRAY_TEXT};
    CKPT_TRY(hdf5_load_checked(array->list->h, addr, size, &kind, in));
    (void)cursor_u8(in);
    if (cursor_u64(in) != array->addr)
        return fail(array->list->h->err, CKPT_EFORMAT, addr, "a block of {another array} than {=this}");
    return CKPT_OK;
}

#define BLOCK_HEAD 14u /* bytes of signature, version, client and address of the header in each block */

static ckpt_status read_fixed_array(struct array *array)
{
    static const struct hdf5_kind header = {"FAHD", 0, ARRAY_TEXT};
    struct hdf5 *h = array->list->h;
    uint64_t size;
    cursor c;
    CKPT_TRY(hdf5_load_checked(h, array->addr, 28, &header, &c));
    unsigned client = cursor_u8(&c);
    array->entry_size = cursor_u8(&c);
    uint32_t log2_page = cursor_u8(&c);
    array->nentries = cursor_u64(&c);
    uint64_t block = cursor_u64(&c);
    CKPT_TRY(check_entries(array, client, log2_page));
    if (array->nentries != array->grid.total || !checked_mul(array->nentries, array->entry_size, &size))
        return fail(h->err, CKPT_EFORMAT, array->addr, "an array has {%llu} entries for {=%llu chunks}",
                    (unsigned long long)array->nentries, (unsigned long long)array->grid.total);
    if (block == HDF5_NOWHERE)
        return CKPT_OK;
    if (array->nentries <= array->page_entries) {
        CKPT_TRY(load_block(array, "FADB", block, BLOCK_HEAD + size + 4, &c));
        return read_entries(array, c, 0, array->nentries);
    }
    uint64_t npages = (array->nentries - 1) / array->page_entries + 1;
    uint64_t head = BLOCK_HEAD + npages / 8 + (npages % 8 != 0);
    CKPT_TRY(load_block(array, "FADB", block, head + 4, &c));
    return read_pages(array, block + head + 4, (struct page_bits){c.p, 0}, 0, array->nentries);
}

/* ------------------------------------------------------------- extensible arrays */

struct extensible_array {
    struct array array;
    uint32_t log2_max;      /* binary logarithm of the most entries */
    uint32_t index_entries; /* entries in the index block */
    uint64_t least;         /* entries in the smallest data block */
    uint32_t first_blocks;  /* the least number of data blocks of a super block that has a block of its own */
    uint32_t number_width;  /* bytes of the number of an entry */
    uint64_t first;         /* number of the first entry that was not read yet */
};

static ckpt_status read_header(struct extensible_array *array, uint64_t *index_block)
{
    static const struct hdf5_kind kind = {"EAHD", 0, ARRAY_TEXT};
    struct array *a = &array->array;
    cursor c;
    CKPT_TRY(hdf5_load_checked(a->list->h, a->addr, 72, &kind, &c));
    unsigned client = cursor_u8(&c);
    a->entry_size = cursor_u8(&c);
    array->log2_max = cursor_u8(&c);
    array->index_entries = cursor_u8(&c);
    array->least = cursor_u8(&c);
    array->first_blocks = cursor_u8(&c);
    uint32_t log2_page = cursor_u8(&c);
    (void)cursor_take(&c, 32);
    a->nentries = cursor_u64(&c);
    (void)cursor_u64(&c);
    *index_block = cursor_u64(&c);
    array->number_width = (array->log2_max + 7) / 8;
    CKPT_TRY(check_entries(a, client, log2_page));
    if (hdf5_is_power_of_two(array->least) && hdf5_is_power_of_two(array->first_blocks) &&
        array->first_blocks > 1 && array->log2_max <= 62 && array->log2_max >= hdf5_get_log2(array->least))
        return CKPT_OK;
    return fail(a->list->h->err, CKPT_EFORMAT, a->addr,
                "an array of up to 2^{%u} chunks in blocks of %llu and %u; {=powers of two} are allowed",
                array->log2_max, (unsigned long long)array->least, array->first_blocks);
}

/* read_data_block - reads the data block of COUNT entries at ADDR, if it is stored. PAGES: its pages. */
static ckpt_status read_data_block(struct extensible_array *array, uint64_t addr, uint64_t count,
                                   struct page_bits pages)
{
    const struct array *a = &array->array;
    uint64_t first = array->first, head = BLOCK_HEAD + (uint64_t)array->number_width;
    cursor c;
    array->first += count; /* all data blocks have less than 2^63 entries, see read_header */
    if (addr == HDF5_NOWHERE || first >= a->nentries)
        return CKPT_OK;
    if (count > a->page_entries) {
        CKPT_TRY(load_block(a, "EADB", addr, head + 4, &c));
        return read_pages(a, addr + head + 4, pages, first, count);
    }
    CKPT_TRY(load_block(a, "EADB", addr, head + count * a->entry_size + 4, &c));
    (void)cursor_take(&c, array->number_width);
    return read_entries(a, c, first, count);
}

/* read_super_block - reads the COUNT data blocks of ENTRIES entries each of the super block at ADDR. */
static ckpt_status read_super_block(struct extensible_array *array, uint64_t addr, uint64_t count,
                                    uint64_t entries)
{
    const struct array *a = &array->array;
    uint64_t npages = entries > a->page_entries ? entries / a->page_entries : 0;
    uint64_t bit_bytes = npages / 8 + (npages % 8 != 0);
    uint64_t head = BLOCK_HEAD + (uint64_t)array->number_width, size;
    cursor c;
    if (!checked_mul(bit_bytes + 8, count, &size) || !checked_add(size, head + 4, &size))
        return fail(a->list->h->err, CKPT_EFORMAT, addr, "{%llu} data blocks do not fit in {=the file}",
                    (unsigned long long)count);
    CKPT_TRY(load_block(a, "EASB", addr, size, &c));
    (void)cursor_take(&c, array->number_width);
    const unsigned char *bits = cursor_take(&c, (size_t)(bit_bytes * count));
    for (uint64_t i = 0; i < count; i++)
        CKPT_TRY(read_data_block(array, cursor_u64(&c), entries, (struct page_bits){bits, i * npages}));
    return CKPT_OK;
}

/* read_extensible_array - reads the index block, and then all super blocks that have entries in use. */
static ckpt_status read_extensible_array(struct extensible_array *array)
{
    struct array *a = &array->array;
    uint64_t index_block;
    cursor c;
    CKPT_TRY(read_header(array, &index_block));
    if (index_block == HDF5_NOWHERE)
        return CKPT_OK;
    uint32_t nsuper = 1 + array->log2_max - hdf5_get_log2(array->least);
    uint32_t ndirect = 2 * hdf5_get_log2(array->first_blocks); /* super blocks without a block */
    uint32_t naddrs = 2 * (array->first_blocks - 1) + (nsuper > ndirect ? nsuper - ndirect : 0);
    uint64_t entries_size = (uint64_t)array->index_entries * a->entry_size;
    CKPT_TRY(load_block(a, "EAIB", index_block, BLOCK_HEAD + entries_size + 8 * (uint64_t)naddrs + 4, &c));
    CKPT_TRY(read_entries(a, cursor_sub(&c, (size_t)entries_size), 0, array->index_entries));
    array->first = array->index_entries;
    for (uint32_t i = 0; i < nsuper && array->first < a->nentries; i++) {
        uint64_t n = (uint64_t)1 << (i / 2);
        uint64_t entries = array->least << ((i + 1) / 2);
        if (i >= ndirect) {
            uint64_t addr = cursor_u64(&c);
            CKPT_TRY(addr == HDF5_NOWHERE ? CKPT_OK : read_super_block(array, addr, n, entries));
            array->first += addr == HDF5_NOWHERE ? n * entries : 0;
        } else if (entries > a->page_entries) {
            return fail(a->list->h->err, CKPT_EFORMAT, index_block,
                        "an array has {pages} in its first blocks, {=none} are allowed");
        } else {
            for (uint64_t k = 0; k < n; k++)
                CKPT_TRY(read_data_block(array, cursor_u64(&c), entries, (struct page_bits){NULL, 0}));
        }
    }
    return CKPT_OK;
}

ckpt_status hdf5_read_numbered_chunks(struct hdf5_chunk_list *list)
{
    struct extensible_array x = {.array = {.list = list, .addr = list->index->addr}};
    struct grid *grid = &x.array.grid;
    CKPT_TRY(set_grid(list, grid));
    switch (list->index->kind) {
    case HDF5_SINGLE: return read_single(list, grid);
    case HDF5_IMPLICIT: return read_implicit(list, grid);
    case HDF5_FIXED_ARRAY: return read_fixed_array(&x.array);
    default: return read_extensible_array(&x);
    }
}
