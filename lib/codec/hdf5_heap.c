/*
 * hdf5_heap.c - reads the heaps of HDF5, the nodes of its version 1 B-trees, and its version 2 B-trees. A
 * number after a field is its size in bytes, a number in parentheses its value.
 *
 * Fractal heap, whose objects are links and attributes: "FRHP", and blocks in a table of WIDTH columns.
 * Blocks in rows 0 and 1 have the starting size, which doubles with each further row. A block that is larger
 * than the largest direct block is a table itself. Offsets count the bytes of all blocks. Larger objects are
 * outside of the blocks, and in a version 2 B-tree of type 1: address 8, size 8, number 8.
 *   table   "FHIB", version 1 (0), address of the heap 8, offset of the block, addresses 8 each, checksum 4
 *   direct  "FHDB", version 1 (0), address of the heap 8, offset of the block, checksum 4 (optional), objects
 * Version 2 B-tree: "BTHD" with the size of its nodes and records. Inner node: "BTIN", version 1 (0), type 1,
 * records, children, checksum 4; each child: address 8, number of its records and, unless the child is a
 * leaf, number of the records in it and below it. Leaf: "BTLF", version 1 (0), type 1, records, checksum 4.
 * Global heap, whose objects are texts: "GCOL", version 1 (1), zeros 3, size 8; objects: index 2, references
 * 2, zeros 4, size 8, bytes, padded to a multiple of 8. Index 0 is free space.
 */
#include "codec/hdf5_internal.h"

#define MAX_HEAP_MEMORY      ((uint64_t)32 << 20) /* with more bytes, all loaded collections are freed */
#define MAX_LEVELS           8u /* most levels of tables in a fractal heap, or of nodes in a B-tree */
#define MAX_ROWS             64u
#define BLOCK_HEAD           13u /* bytes of a block's signature, version and heap address */
#define BTREE2_NODE_OVERHEAD 10u /* bytes of a node's signature (4), version (1), type (1) and checksum (4) */

/* --------------------------------------------------------------------- fractal heaps */

struct hdf5_heap {
    uint64_t addr;
    uint64_t root;        /* address of a table of ROWS rows; of a direct block if ROWS is 0 */
    uint64_t huge_tree;   /* address of the B-tree of huge objects */
    uint32_t rows, width; /* WIDTH: number of blocks in a row of any table of the heap */
    uint32_t direct_rows; /* number of rows whose blocks are direct: they hold objects */
    uint64_t start_size, max_direct_size; /* bytes of a block in row 0, and of the largest direct block */
    uint32_t offset_width, length_width;  /* bytes of the offset and the length in an id */
    uint32_t id_size;
    bool has_checksums; /* true: each direct block has a checksum */
    cursor *blocks;     /* loaded blocks, by the numbers in hdf5.heap_block_numbers */
    size_t nblocks, cap_blocks;
};

uint32_t hdf5_get_log2(uint64_t count)
{
    uint32_t bits = 0;
    while (count >>= 1)
        bits++;
    return bits;
}

/* count_bytes - returns how many bytes are needed to store the number COUNT. */
static uint32_t count_bytes(uint64_t count) { return hdf5_get_log2(count) / 8 + 1; }

bool hdf5_is_power_of_two(uint64_t count) { return count && !(count & (count - 1)); }

static ckpt_status check_heap(struct hdf5 *hdf5, const struct hdf5_heap *heap, uint32_t offset_bits,
                              uint64_t addr)
{
    uint64_t start = heap->start_size, max = heap->max_direct_size;
    bool valid_sizes = hdf5_is_power_of_two(start) && hdf5_is_power_of_two(max) && start <= max &&
                       max <= 1u << 30;
    bool valid_table = hdf5_is_power_of_two(heap->width) && heap->width <= 1024 && heap->rows <= MAX_ROWS;
    return valid_sizes && valid_table && offset_bits && offset_bits <= 64
               ? CKPT_OK
               : fail(hdf5->err, CKPT_EFORMAT, addr,
                      "a fractal heap of {impossible sizes}; {=powers of two} are allowed");
}

/* open_heap_at - opens the heap at ADDR, whose ids must have ID_SIZE bytes, in place of the open heap. */
static ckpt_status open_heap_at(struct hdf5 *hdf5, uint64_t addr, uint32_t id_size)
{
    static const struct hdf5_kind kind = {"FRHP", 0, "a fractal heap"};
    struct hdf5_heap *p = ARENA_NEW(hdf5->scratch, struct hdf5_heap);
    cursor c;
    map_free(hdf5->heap_block_numbers);
    hdf5->heap_block_numbers = map_new(16);
    CKPT_TRY_ALLOC(p && hdf5->heap_block_numbers, hdf5->err);
    CKPT_TRY(hdf5_load_checked(hdf5, addr, 146, &kind, &c));
    uint32_t found_id_size = cursor_u16(&c), filters = cursor_u16(&c);
    p->has_checksums = cursor_u8(&c) & 2;
    uint32_t max_managed = cursor_u32(&c);
    (void)cursor_u64(&c);
    p->huge_tree = cursor_u64(&c);
    (void)cursor_take(&c, 80); /* fields of free space, and counts of objects */
    p->addr = addr;
    p->id_size = found_id_size;
    p->width = cursor_u16(&c);
    p->start_size = cursor_u64(&c);
    p->max_direct_size = cursor_u64(&c);
    uint32_t offset_bits = cursor_u16(&c);
    (void)cursor_u16(&c);
    p->root = cursor_u64(&c);
    p->rows = cursor_u16(&c);
    if (filters)
        return fail(hdf5->err, CKPT_EUNSUPPORTED, addr,
                    "{a compressed heap}; only {=uncompressed heaps} are read");
    if (found_id_size != id_size)
        return fail(hdf5->err, CKPT_EFORMAT, addr, "a heap with ids of {%u bytes}, {=%u} are needed",
                    found_id_size, id_size);
    CKPT_TRY(check_heap(hdf5, p, offset_bits, addr));
    p->offset_width = (offset_bits + 7) / 8;
    uint32_t block_width = (hdf5_get_log2(p->max_direct_size) + 7) / 8;
    uint32_t object_width = count_bytes(max_managed);
    p->length_width = block_width < object_width ? block_width : object_width;
    p->direct_rows = 2 + hdf5_get_log2(p->max_direct_size) - hdf5_get_log2(p->start_size);
    hdf5->open_heap = p;
    return CKPT_OK;
}

/* A block of a fractal heap, as a table of blocks lists it. */
struct heap_block {
    uint64_t addr;
    uint64_t size;  /* bytes of the block */
    uint64_t begin; /* bytes of all blocks before it in the table */
    bool is_direct; /* true: the block holds objects; else it is a table */
};

/* check_block - compares the checksum of the direct block IN, at ADDR, with that in its header. */
static ckpt_status check_block(struct hdf5 *hdf5, const struct hdf5_heap *heap, cursor in, uint64_t addr)
{
    uint32_t sum_at = BLOCK_HEAD + heap->offset_width;
    unsigned char *copy = heap->has_checksums && in.left >= sum_at + 4 ? arena_alloc(hdf5->scratch, in.left)
                                                                       : NULL;
    if (!heap->has_checksums)
        return CKPT_OK;
    if (!copy)
        return in.left < sum_at + 4 ? hdf5_fail_short(hdf5, &in, "a block of a heap")
                                    : fail_memory(hdf5->err);
    memcpy(copy, in.p, in.left);
    memset(copy + sum_at, 0, 4);
    return hdf5_compare_sums(hdf5, addr, "a block of a heap", hdf5_checksum(copy, in.left),
                             load_u32le(in.p + sum_at));
}

/* add_block - adds IN, the block at ADDR, to the loaded blocks, so that it is loaded only once. */
static ckpt_status add_block(struct hdf5 *hdf5, struct hdf5_heap *heap, uint64_t addr, cursor in)
{
    bool ok = map_put_num(hdf5->heap_block_numbers, addr, (uint32_t)heap->nblocks, NULL) &&
              ARENA_PUSH(hdf5->scratch, heap, blocks, &in);
    return ok ? CKPT_OK : fail_memory(hdf5->err);
}

/* find_loaded_block - sets *OUT to the block of SIZE bytes at ADDR; false: it was not loaded before. */
static bool find_loaded_block(const struct hdf5 *hdf5, const struct hdf5_heap *heap, uint64_t addr,
                              uint64_t size, cursor *out)
{
    uint32_t known = map_get_num(hdf5->heap_block_numbers, addr);
    if (known != MAP_NONE)
        *out = heap->blocks[known];
    return known != MAP_NONE && out->left == size;
}

/* load_direct - loads the direct block of SIZE bytes at ADDR, and sets *OUT to read it from its signature. */
static ckpt_status load_direct(struct hdf5 *hdf5, struct hdf5_heap *heap, uint64_t addr, uint64_t size,
                               cursor *out)
{
    if (find_loaded_block(hdf5, heap, addr, size, out))
        return CKPT_OK;
    CKPT_TRY(hdf5_load(hdf5, addr, size, "a block of a heap", out));
    cursor head = *out;
    const unsigned char *b = cursor_take(&head, BLOCK_HEAD);
    if (!b || memcmp(b, "FHDB", 4) != 0 || b[4] != 0 || load_u64le(b + 5) != heap->addr)
        return fail(hdf5->err, CKPT_EFORMAT, addr, "{no block} of the heap where {=one} must be");
    CKPT_TRY(check_block(hdf5, heap, *out, addr));
    return add_block(hdf5, heap, addr, *out);
}

/* load_table - loads the table of COUNT blocks at ADDR, and sets *OUT to read its entries. */
static ckpt_status load_table(struct hdf5 *hdf5, struct hdf5_heap *heap, uint64_t addr, uint64_t count,
                              cursor *out)
{
    static const struct hdf5_kind kind = {"FHIB", 0, "a table of a heap"};
    uint64_t entries = count * 8;
    if (find_loaded_block(hdf5, heap, addr, entries, out))
        return CKPT_OK;
    uint64_t header_size = BLOCK_HEAD + (uint64_t)heap->offset_width;
    CKPT_TRY(hdf5_load_checked(hdf5, addr, header_size + entries + 4, &kind, out));
    if (cursor_u64(out) != heap->addr)
        return fail(hdf5->err, CKPT_EFORMAT, addr, "a table of {another heap} than {=this}");
    (void)cursor_take(out, heap->offset_width);
    return add_block(hdf5, heap, addr, *out);
}

/* find_in_table - replaces *BLOCK, a table of ROWS rows, by that block in the table which has byte OFFSET,
 * counted over all blocks in the table. */
static ckpt_status find_in_table(struct hdf5 *hdf5, struct hdf5_heap *heap, struct heap_block *block,
                                 uint64_t offset, uint32_t rows)
{
    uint64_t size = heap->start_size, begin = 0, addr = block->addr;
    uint32_t row = 0;
    while (row < rows && (offset - begin) / heap->width >= size) {
        begin += size * heap->width;
        size *= row ? 2 : 1;
        row++;
    }
    if (row == rows)
        return fail(hdf5->err, CKPT_EFORMAT, addr, "an object is at byte {%llu} of a heap of {=%llu}",
                    (unsigned long long)offset, (unsigned long long)begin);
    uint64_t column = (offset - begin) / size;
    cursor c;
    CKPT_TRY(load_table(hdf5, heap, addr, (uint64_t)rows * heap->width, &c));
    (void)cursor_take(&c, (size_t)(row * heap->width + column) * 8);
    *block = (struct heap_block){cursor_u64(&c), size, begin + column * size, row < heap->direct_rows};
    return CKPT_OK;
}

/* find_block - sets *BLOCK to the direct block that has byte *OFFSET of the heap, and *OFFSET to the offset
 * in that block. */
static ckpt_status find_block(struct hdf5 *hdf5, struct hdf5_heap *heap, uint64_t *offset,
                              struct heap_block *block)
{
    uint32_t rows = heap->rows;
    *block = (struct heap_block){heap->root, heap->start_size, 0, rows == 0};
    for (uint32_t level = 0; !block->is_direct; level++) {
        if (level == MAX_LEVELS)
            return fail(hdf5->err, CKPT_ELIMIT, block->addr, "{more} than {=%u} tables of a heap are nested",
                        MAX_LEVELS);
        CKPT_TRY(find_in_table(hdf5, heap, block, *offset, rows));
        *offset -= block->begin;
        uint64_t row_size = heap->start_size * heap->width;
        rows = block->size < row_size ? 0 : hdf5_get_log2(block->size) - hdf5_get_log2(row_size) + 1;
        if (!block->is_direct && (rows == 0 || rows > MAX_ROWS))
            return fail(hdf5->err, CKPT_EFORMAT, block->addr,
                        "{a table} of a heap is smaller than {=one row}");
    }
    return CKPT_OK;
}

/* The search for a huge object by its number. */
struct huge_object {
    uint64_t number;
    uint64_t addr, size; /* HDF5_NOWHERE: it was not found yet */
};

static ckpt_status find_huge_object(struct hdf5 *hdf5, void *user, cursor record)
{
    struct huge_object *x = user;
    uint64_t addr = cursor_u64(&record), size = cursor_u64(&record);
    if (cursor_u64(&record) == x->number && x->addr == HDF5_NOWHERE) {
        x->addr = addr;
        x->size = size;
    }
    return record.bad ? hdf5_fail_short(hdf5, &record, "a huge object of a heap") : CKPT_OK;
}

/* read_huge_object - sets *OUT to read the huge object whose id IN reads: its address and size or, if the id
 * is too short for them, its number in the B-tree of huge objects. */
static ckpt_status read_huge_object(struct hdf5 *hdf5, const struct hdf5_heap *heap, cursor in, cursor *out)
{
    struct huge_object x = {.addr = HDF5_NOWHERE};
    const struct hdf5_records records = {.type = 1, .size = 24, .visit = find_huge_object, .user = &x};
    if (in.left >= 16) {
        x.addr = cursor_u64(&in);
        x.size = cursor_u64(&in);
    } else {
        x.number = cursor_number(&in, in.left < 8 ? in.left : 8);
        CKPT_TRY(hdf5_visit_records(hdf5, heap->huge_tree, &records));
    }
    if (x.addr == HDF5_NOWHERE)
        return fail(hdf5->err, CKPT_EFORMAT, heap->addr, "a heap has {no huge object %llu}, only {=others}",
                    (unsigned long long)x.number);
    return hdf5_load(hdf5, x.addr, x.size, "a huge object of a heap", out);
}

ckpt_status hdf5_read_heap_object(struct hdf5 *hdf5, const unsigned char *id, cursor *out)
{
    struct hdf5_heap *p = hdf5->open_heap;
    cursor c = cursor_of(id, p->id_size, CKPT_NO_OFFSET);
    unsigned kind = cursor_u8(&c);
    struct heap_block block;
    if ((kind & 0x30) == 0x20) { /* the bytes are in the id */
        *out = cursor_sub(&c, (size_t)(kind & 15) + 1);
        return out->bad ? hdf5_fail_short(hdf5, &c, "an id of a heap") : CKPT_OK;
    }
    if ((kind & 0xf0) == 0x10)
        return read_huge_object(hdf5, p, c, out);
    if (kind & 0xf0)
        return fail(hdf5->err, CKPT_EUNSUPPORTED, p->addr,
                    "an object of a heap is of {kind %02x}; {=00, 10 and 20} are read", kind & 0xf0);
    uint64_t offset = cursor_number(&c, p->offset_width), n = cursor_number(&c, p->length_width);
    if (c.bad)
        return hdf5_fail_short(hdf5, &c, "an id of a heap");
    CKPT_TRY(find_block(hdf5, p, &offset, &block));
    CKPT_TRY(load_direct(hdf5, p, block.addr, block.size, out));
    uint32_t header_size = BLOCK_HEAD + p->offset_width + (p->has_checksums ? 4 : 0);
    if (offset < header_size || !range_within(offset, n, out->left))
        return fail(hdf5->err, CKPT_EFORMAT, block.addr,
                    "an object of {%llu bytes} at byte %llu does not fit in its block of {=%zu}",
                    (unsigned long long)n, (unsigned long long)offset, out->left);
    (void)cursor_take(out, (size_t)offset);
    *out = cursor_sub(out, (size_t)n);
    return CKPT_OK;
}

/* ----------------------------------------------------------------------------- B-trees */

ckpt_status hdf5_enter_node(struct hdf5 *hdf5, struct hdf5_tree *tree, uint64_t addr)
{
    const struct hdf5_kind kind = {"TREE", tree->type,
                                   tree->what}; /* the type is in the place of a version */
    const struct hdf5_node *parent = tree->depth ? &tree->nodes[tree->depth - 1] : NULL;
    uint32_t max_level = parent ? parent->level - 1 : HDF5_MAX_DEPTH;
    cursor c;
    CKPT_TRY(hdf5_load_block(hdf5, addr, 24, &kind, &c));
    uint32_t level = cursor_u8(&c), n = cursor_u16(&c);
    if (parent ? level != max_level : level > max_level)
        return fail(hdf5->err, CKPT_EFORMAT, addr, "%s has a node of {level %u} at {=level %u}", tree->what,
                    level, max_level);
    uint64_t entries = tree->key_size + (uint64_t)n * (8 + tree->key_size);
    CKPT_TRY(hdf5_load(hdf5, addr, 24 + entries, tree->what, &c));
    (void)cursor_take(&c, 24);
    tree->nodes[tree->depth++] = (struct hdf5_node){c, level, n};
    return CKPT_OK;
}

/* A version 2 B-tree that is being read. */
struct btree2 {
    struct hdf5 *h;
    const struct hdf5_records *r;
    uint32_t node_size, depth;
    /* A node has two numbers for each child: how many records are in the child, stored in count_width
     * bytes, and how many are in it and below it, stored in total_widths[level of the child] bytes. */
    uint32_t count_width, total_widths[MAX_LEVELS + 1];
    uint64_t unread; /* number of records that are still to be read */
};

struct btree2_node {
    cursor records, children;
    uint32_t level;
    bool child_was_read; /* a record is to be visited next, not a child */
};

/* set_widths - sets count_width and total_widths, which depend on how many records fit in a leaf and in a
 * subtree. False: a node is too small for a record. */
static bool set_widths(struct btree2 *btree2)
{
    if (btree2->node_size < BTREE2_NODE_OVERHEAD + btree2->r->size)
        return false;
    uint64_t max_records = (btree2->node_size - BTREE2_NODE_OVERHEAD) / btree2->r->size,
             max_total = max_records;
    btree2->count_width = count_bytes(max_records);
    for (uint32_t k = 1; k <= btree2->depth; k++) {
        uint32_t child_size = 8 + btree2->count_width + btree2->total_widths[k - 1];
        uint32_t pair_size = btree2->r->size + child_size;
        if (btree2->node_size < BTREE2_NODE_OVERHEAD + child_size + pair_size)
            return false;
        max_records = (btree2->node_size - BTREE2_NODE_OVERHEAD - child_size) / pair_size;
        if (!checked_mul(max_records + 1, max_total, &max_total) ||
            !checked_add(max_total, max_records, &max_total))
            return false;
        btree2->total_widths[k] = count_bytes(max_total);
    }
    return true;
}

static ckpt_status load_node(struct btree2 *btree2, uint64_t addr, uint32_t level, uint64_t count,
                             struct btree2_node *out)
{
    struct hdf5_kind kind = {level ? "BTIN" : "BTLF", 0, "a node of a B-tree"};
    uint32_t child_size = level ? 8 + btree2->count_width + btree2->total_widths[level - 1] : 0;
    uint64_t records_size, children_size, entries_size;
    cursor c;
    if (!checked_mul(count, btree2->r->size, &records_size) ||
        !checked_mul(count + 1, child_size, &children_size) ||
        !checked_add(records_size, children_size, &entries_size) || entries_size > btree2->node_size ||
        btree2->node_size - entries_size < BTREE2_NODE_OVERHEAD || count > btree2->unread)
        return fail(btree2->h->err, CKPT_EFORMAT, addr, "{%llu records} do not fit in a node of {=%u bytes}",
                    (unsigned long long)count, btree2->node_size);
    CKPT_TRY(hdf5_load_checked(btree2->h, addr, entries_size + BTREE2_NODE_OVERHEAD, &kind, &c));
    if (cursor_u8(&c) != btree2->r->type)
        return fail(btree2->h->err, CKPT_EFORMAT, addr, "a node of {another type} than {=%u}",
                    btree2->r->type);
    btree2->unread -= count;
    *out = (struct btree2_node){.level = level};
    out->records = cursor_sub(&c, (size_t)records_size);
    out->children = cursor_sub(&c, (size_t)children_size);
    return CKPT_OK;
}

static ckpt_status visit_nodes(struct btree2 *btree2, struct btree2_node *stack)
{
    uint32_t depth = 1;
    while (depth) {
        struct btree2_node *n = &stack[depth - 1];
        if (n->level && !n->child_was_read) {
            uint64_t addr = cursor_u64(&n->children);
            uint64_t count = cursor_number(&n->children, btree2->count_width);
            (void)cursor_number(&n->children, btree2->total_widths[n->level - 1]);
            n->child_was_read = true;
            CKPT_TRY(load_node(btree2, addr, n->level - 1, count, &stack[depth]));
            depth++;
        } else if (n->records.left) {
            n->child_was_read = false;
            CKPT_TRY(btree2->r->visit(btree2->h, btree2->r->user, cursor_sub(&n->records, btree2->r->size)));
        } else {
            depth--;
        }
    }
    return CKPT_OK;
}

ckpt_status hdf5_visit_records(struct hdf5 *hdf5, uint64_t addr, const struct hdf5_records *records)
{
    static const struct hdf5_kind kind = {"BTHD", 0, "a B-tree"};
    struct btree2 t = {.h = hdf5, .r = records};
    struct btree2_node stack[MAX_LEVELS + 1];
    cursor c;
    CKPT_TRY(hdf5_load_checked(hdf5, addr, 38, &kind, &c));
    uint32_t type = cursor_u8(&c);
    t.node_size = cursor_u32(&c);
    uint32_t record_size = cursor_u16(&c);
    t.depth = cursor_u16(&c);
    (void)cursor_u16(&c);
    uint64_t root = cursor_u64(&c), n = cursor_u16(&c);
    t.unread = cursor_u64(&c);
    if (type != records->type || record_size != records->size || t.depth > MAX_LEVELS || !set_widths(&t))
        return fail(
            hdf5->err, CKPT_EFORMAT, addr,
            "a B-tree has {type %u, records of %u bytes, depth %u}; {=type %u, records of %u} are needed",
            type, record_size, t.depth, records->type, records->size);
    if (root == HDF5_NOWHERE && !n && !t.unread)
        return CKPT_OK;
    CKPT_TRY(load_node(&t, root, t.depth, n, &stack[0]));
    CKPT_TRY(visit_nodes(&t, stack));
    return !t.unread ? CKPT_OK
                     : fail(hdf5->err, CKPT_EFORMAT, addr, "a B-tree lacks {%llu} of {=its records}",
                            (unsigned long long)t.unread);
}

ckpt_status hdf5_visit_dense(struct hdf5 *hdf5, cursor in, const struct hdf5_dense *dense,
                             const struct hdf5_records *records)
{
    unsigned version = cursor_u8(&in), flags = cursor_u8(&in);
    if (!in.bad && version)
        return fail(hdf5->err, CKPT_EUNSUPPORTED, in.pos, "%s of version {%u}; {=0} is read", dense->what,
                    version);
    (void)cursor_take(&in, flags & 1 ? dense->index_size : 0);
    uint64_t heap = cursor_u64(&in), tree = cursor_u64(&in);
    if (in.bad)
        return hdf5_fail_short(hdf5, &in, dense->what);
    if (heap == HDF5_NOWHERE)
        return CKPT_OK;
    CKPT_TRY(open_heap_at(hdf5, heap, dense->id_size));
    return hdf5_visit_records(hdf5, tree, records);
}

/* ------------------------------------------------------------------------ global heap */

struct hdf5_collection {
    ckpt_str *objects;  /* objects by their index */
    uint32_t max_index; /* the greatest index in use */
};

static ckpt_status free_collections(struct hdf5 *hdf5)
{
    arena_free(hdf5->heaps);
    map_free(hdf5->collection_index);
    hdf5->collections = NULL;
    hdf5->ncollections = hdf5->cap_collections = 0;
    hdf5->heaps = arena_new(UINT64_MAX);
    hdf5->collection_index = map_new(64);
    return hdf5->heaps && hdf5->collection_index ? CKPT_OK : fail_memory(hdf5->err);
}

/* take_object - reads the header of the next object in IN, and sets *OBJECT to read its bytes. False: no
 * object follows, or the object is truncated, which makes IN bad. */
static bool take_object(cursor *in, uint32_t *index, cursor *object)
{
    if (in->left < 16)
        return false;
    *index = cursor_u16(in);
    (void)cursor_take(in, 6);
    uint64_t n = cursor_u64(in);
    if (*index)
        *object = hdf5_take_padded(in, n <= in->left ? (size_t)n : SIZE_MAX, 8);
    return *index && !in->bad;
}

/* index_objects - puts the objects in IN into collection->objects, each at its index. */
static ckpt_status index_objects(struct hdf5 *hdf5, cursor in, struct hdf5_collection *collection)
{
    cursor all = in, object;
    uint32_t index;
    while (take_object(&all, &index, &object))
        collection->max_index = index > collection->max_index ? index : collection->max_index;
    if (all.bad)
        return hdf5_fail_short(hdf5, &all, "an object of a global heap");
    collection->objects = arena_array(hdf5->heaps, (uint64_t)collection->max_index + 1,
                                      sizeof *collection->objects);
    CKPT_TRY_ALLOC(collection->objects, hdf5->err);
    while (take_object(&in, &index, &object)) {
        if (collection->objects[index].ptr)
            return fail(hdf5->err, CKPT_EFORMAT, object.pos,
                        "{two objects} of a global heap have the index {=%u}", index);
        collection->objects[index] = str_of((const char *)object.p, object.left);
    }
    return CKPT_OK;
}

/* load_collection - loads the collection at ADDR into hdf5->heaps, and sets *OUT to it. */
static ckpt_status load_collection(struct hdf5 *hdf5, uint64_t addr, struct hdf5_collection **out)
{
    static const struct hdf5_kind kind = {"GCOL", 1, "a global heap"};
    cursor c;
    if (!hdf5->heaps || arena_used(hdf5->heaps) > MAX_HEAP_MEMORY)
        CKPT_TRY(free_collections(hdf5));
    arena *scratch = hdf5->scratch;
    hdf5->scratch = hdf5->heaps;
    struct hdf5_collection *x = ARENA_NEW(hdf5->heaps, struct hdf5_collection);
    ckpt_status st = x ? hdf5_load_block(hdf5, addr, 16, &kind, &c) : fail_memory(hdf5->err);
    if (st == CKPT_OK) {
        (void)cursor_take(&c, 3);
        st = hdf5_load_block(hdf5, addr, cursor_u64(&c), &kind, &c);
    }
    hdf5->scratch = scratch;
    CKPT_TRY(st);
    (void)cursor_take(&c, 11);
    *out = x;
    return index_objects(hdf5, c, x);
}

static ckpt_status find_collection(struct hdf5 *hdf5, uint64_t addr, struct hdf5_collection **out)
{
    uint32_t known = hdf5->collection_index ? map_get_num(hdf5->collection_index, addr) : MAP_NONE;
    if (known != MAP_NONE) {
        *out = hdf5->collections[known];
        return CKPT_OK;
    }
    CKPT_TRY(load_collection(hdf5, addr, out));
    bool ok = map_put_num(hdf5->collection_index, addr, (uint32_t)hdf5->ncollections, NULL) &&
              ARENA_PUSH(hdf5->heaps, hdf5, collections, out);
    return ok ? CKPT_OK : fail_memory(hdf5->err);
}

ckpt_status hdf5_read_heap_text(struct hdf5 *hdf5, uint64_t addr, uint32_t index, ckpt_str *out)
{
    struct hdf5_collection *x = NULL;
    CKPT_TRY(find_collection(hdf5, addr, &x));
    if (!index || index > x->max_index || !x->objects[index].ptr)
        return fail(hdf5->err, CKPT_EFORMAT, addr, "a global heap has {no object %u}, only {=others}", index);
    *out = x->objects[index];
    return CKPT_OK;
}
