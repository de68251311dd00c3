/*
 * hdf5_group.c - reads the links of an HDF5 group. A number after a field is its size in bytes, a number in
 * parentheses its value.
 *
 * A symbol table: a B-tree, and a local heap with the names.
 *   "TREE"  type 1 (0), level 1, entries 2, siblings 8 + 8; a key of 8 bytes, then for each entry its address
 *           and another key. A key is the heap offset of the last name before the key.
 *   "SNOD"  version 1 (1), zero 1, entries 2; each: heap offset of the name 8, object header 8, kind 4 (2:
 *           soft link), zeros 4, scratch pad 16, in which a soft link has the heap offset of its target 4
 *   "HEAP"  version 1 (0), zeros 3, size 8, free list 8, address of the names 8
 * Link messages: in the object header, or in a fractal heap, where a version 2 B-tree lists them.
 *   0   1  version, 1
 *   1   1  flags: the length has 1 << (flags & 3) bytes; 4: has order, 8: has kind, 16: has character set
 *   2      kind 1 (0 hard, 1 soft, 64 external), order 8, character set 1, length, name, and the target
 *
 * libhdf5 searches these trees, but we read all of them. So that we find the same links as libhdf5, names
 * must be in order, and keys and hashes must be those of the names.
 */
#include <stdlib.h>

#include "codec/hdf5_internal.h"

#define MAX_LINKS       2000000u /* most links of a group */
#define MAX_FREE_BLOCKS 4096u

#define SYMBOL_SOFT_LINK 2u /* the kind of a symbol; 0 and 1 are objects */

static ckpt_status add_link(struct hdf5 *hdf5, struct hdf5_links *list, struct hdf5_link link, uint64_t pos)
{
    ckpt_str name = link.name;
    if (!name.len || str_is(name, ".") || memchr(name.ptr, '/', name.len) || memchr(name.ptr, 0, name.len))
        return fail(hdf5->err, CKPT_EFORMAT, pos, "{\"%.*s\"} cannot be {=the name of a link}",
                    STR_ARG(name));
    if (list->n == MAX_LINKS)
        return fail(hdf5->err, CKPT_ELIMIT, pos, "a group of {more} than {=%u links}", MAX_LINKS);
    return arena_push(hdf5->scratch, &list->links, &list->n, &list->cap, &link, sizeof link)
               ? CKPT_OK
               : fail_memory(hdf5->err);
}

struct symbols {
    struct hdf5 *h;
    struct hdf5_links *links;
    ckpt_str heap;      /* bytes of the local heap */
    uint64_t free_list; /* offset of the first free block in the heap */
    uint64_t pos;       /* address of the B-tree, for errors */
    ckpt_str last_name; /* name that was read last */
    struct hdf5_tree tree;
};

/* find_name - sets *OUT to the name at offset AT of the local heap. Errors have the offset POS. */
static ckpt_status find_name(const struct symbols *symbols, uint64_t at, uint64_t pos, ckpt_str *out)
{
    size_t begin = at < symbols->heap.len ? (size_t)at : symbols->heap.len;
    const char *end = memchr(&symbols->heap.ptr[begin], 0, symbols->heap.len - begin);
    if (!end)
        return fail(symbols->h->err, CKPT_EFORMAT, pos,
                    "a name at {byte %llu} does not end in its local heap of {=%zu bytes}",
                    (unsigned long long)at, symbols->heap.len);
    *out = str_of(&symbols->heap.ptr[begin], (size_t)(end - &symbols->heap.ptr[begin]));
    return CKPT_OK;
}

static ckpt_status load_local_heap(struct symbols *symbols, uint64_t addr)
{
    static const struct hdf5_kind kind = {"HEAP", 0, "a local heap"};
    cursor c;
    CKPT_TRY(hdf5_load_block(symbols->h, addr, 32, &kind, &c));
    (void)cursor_take(&c, 3);
    uint64_t size = cursor_u64(&c);
    symbols->free_list = cursor_u64(&c);
    CKPT_TRY(hdf5_load(symbols->h, cursor_u64(&c), size, "the names of a group", &c));
    symbols->heap = str_of((const char *)c.p, c.left);
    return CKPT_OK;
}

/* check_heap_has_no_names - fails if the heap of a group without links has a name: there is no other sign
 * that the entries of the B-tree are missing. A heap may have the empty name, 8 bytes, and free blocks. A
 * free block begins with the offset of the next one (1: there is none) and its own size. */
static ckpt_status check_heap_has_no_names(struct symbols *symbols)
{
    uint64_t at = symbols->free_list, free_bytes = 0;
    for (uint32_t i = 0; i < MAX_FREE_BLOCKS && range_within(at, 16, symbols->heap.len); i++) {
        const unsigned char *block = (const unsigned char *)&symbols->heap.ptr[at];
        uint64_t size = load_u64le(block + 8);
        if (!range_within(at, size, symbols->heap.len))
            break;
        free_bytes += size;
        at = load_u64le(block);
    }
    return symbols->heap.len <= 8 || free_bytes >= symbols->heap.len - 8
               ? CKPT_OK
               : fail(symbols->h->err, CKPT_EFORMAT, symbols->pos,
                      "a group has {no links}, but its heap has {=names} in %llu of its %zu bytes",
                      (unsigned long long)(symbols->heap.len - free_bytes), symbols->heap.len);
}

/* check_key - fails unless the next key of the innermost node is the last name that was read. */
static ckpt_status check_key(struct symbols *symbols)
{
    cursor *c = &symbols->tree.nodes[symbols->tree.depth - 1].c;
    uint64_t at = cursor_u64(c);
    ckpt_str key;
    CKPT_TRY(find_name(symbols, at, c->pos, &key));
    return str_eq(key, symbols->last_name)
               ? CKPT_OK
               : fail(symbols->h->err, CKPT_EFORMAT, c->pos,
                      "a B-tree has the key {\"%.*s\"}, but the name before it is {=\"%.*s\"}", STR_ARG(key),
                      STR_ARG(symbols->last_name));
}

static ckpt_status read_symbol(struct symbols *symbols, cursor *in)
{
    uint64_t pos = in->pos, name_at = cursor_u64(in);
    struct hdf5_link link = {.addr = cursor_u64(in)};
    uint32_t kind = cursor_u32(in);
    (void)cursor_u32(in);
    cursor scratch_pad = cursor_sub(in, 16);
    if (in->bad)
        return hdf5_fail_short(symbols->h, in, "a symbol");
    CKPT_TRY(find_name(symbols, name_at, pos, &link.name));
    if (symbols->links->n && str_compare(link.name, symbols->last_name) <= 0)
        return fail(symbols->h->err, CKPT_EFORMAT, pos,
                    "the name {\"%.*s\"} follows {=\"%.*s\"}: not in ascending order", STR_ARG(link.name),
                    STR_ARG(symbols->last_name));
    symbols->last_name = link.name;
    bool is_soft = kind == SYMBOL_SOFT_LINK;
    if (kind > SYMBOL_SOFT_LINK || is_soft != (link.addr == HDF5_NOWHERE))
        return fail(symbols->h->err, CKPT_EFORMAT, pos,
                    "the symbol \"%.*s\" of kind {%u} %s an address; {=kinds 0 and 1} have one, 2 has none",
                    STR_ARG(link.name), kind, link.addr == HDF5_NOWHERE ? "lacks" : "has");
    if (is_soft) {
        link.kind = HDF5_SOFT;
        CKPT_TRY(find_name(symbols, cursor_u32(&scratch_pad), pos, &link.target));
    }
    return add_link(symbols->h, symbols->links, link, pos);
}

static ckpt_status read_symbols(struct symbols *symbols, uint64_t addr)
{
    static const struct hdf5_kind kind = {"SNOD", 1, "a node of symbols"};
    cursor c;
    CKPT_TRY(hdf5_load_block(symbols->h, addr, 8, &kind, &c));
    (void)cursor_take(&c, 1);
    uint32_t n = cursor_u16(&c);
    CKPT_TRY(hdf5_load_block(symbols->h, addr, 8 + 40 * (uint64_t)n, &kind, &c));
    (void)cursor_take(&c, 3);
    for (uint32_t i = 0; i < n; i++)
        CKPT_TRY(read_symbol(symbols, &c));
    return CKPT_OK;
}

/* next_child - enters the next child of the innermost node, or reads the symbols of that child. Leaves the
 * node after its last child. */
static ckpt_status next_child(struct symbols *symbols)
{
    struct hdf5_node *n = &symbols->tree.nodes[symbols->tree.depth - 1];
    if (!n->unread)
        return --symbols->tree.depth ? check_key(symbols) : CKPT_OK;
    n->unread--;
    uint64_t child = cursor_u64(&n->c);
    CKPT_TRY(n->level ? hdf5_enter_node(symbols->h, &symbols->tree, child) : read_symbols(symbols, child));
    return check_key(symbols);
}

static ckpt_status read_symbol_table(struct hdf5 *hdf5, cursor in, struct hdf5_links *out)
{
    struct symbols *s = ARENA_NEW(hdf5->scratch, struct symbols);
    CKPT_TRY_ALLOC(s, hdf5->err);
    uint64_t tree = cursor_u64(&in), heap = cursor_u64(&in);
    s->h = hdf5;
    s->links = out;
    s->pos = tree;
    s->last_name = str_of("", 0);
    s->tree = (struct hdf5_tree){.what = "a B-tree of names", .type = 0, .key_size = 8};
    if (in.bad)
        return hdf5_fail_short(hdf5, &in, "a symbol table");
    CKPT_TRY(load_local_heap(s, heap));
    CKPT_TRY(hdf5_enter_node(hdf5, &s->tree, tree));
    CKPT_TRY(check_key(s));
    while (s->tree.depth)
        CKPT_TRY(next_child(s));
    return out->n ? CKPT_OK : check_heap_has_no_names(s);
}

/* join_external - replaces *TARGET, the value of an external link, by "FILE:PATH". The value is a byte
 * of flags, FILE and PATH; both texts end in NUL. False: out of memory. */
static bool join_external(struct hdf5 *hdf5, ckpt_str *target)
{
    ckpt_str file = str_skip(*target, 1);
    const char *nul = file.len ? memchr(file.ptr, 0, file.len) : NULL;
    ckpt_str path = nul ? str_skip(file, (size_t)(nul - file.ptr) + 1) : str_of("", 0);
    file.len = nul ? (size_t)(nul - file.ptr) : file.len;
    path.len -= path.len && !path.ptr[path.len - 1];
    *target = ARENA_CONCAT(hdf5->scratch, file, STR_LIT(":"), path);
    return target->ptr != NULL;
}

/* read_target - reads the target of LINK, which is of KIND. */
static ckpt_status read_target(struct hdf5 *hdf5, cursor *in, unsigned kind, struct hdf5_link *link)
{
    if (kind == 0) {
        link->addr = cursor_u64(in);
    } else {
        uint32_t n = cursor_u16(in);
        const unsigned char *text = cursor_take(in, n);
        link->kind = kind == 1 ? HDF5_SOFT : kind == 64 ? HDF5_EXTERNAL : HDF5_USER;
        link->target = str_of((const char *)text, text ? n : 0);
    }
    if (link->kind == HDF5_EXTERNAL && !join_external(hdf5, &link->target))
        return fail_memory(hdf5->err);
    return in->bad ? hdf5_fail_short(hdf5, in, "a link") : CKPT_OK;
}

static ckpt_status read_link(struct hdf5 *hdf5, cursor in, struct hdf5_links *out)
{
    uint64_t pos = in.pos;
    struct hdf5_link link = {.kind = HDF5_HARD};
    unsigned version = cursor_u8(&in), flags = cursor_u8(&in);
    if (version != 1)
        return fail(hdf5->err, CKPT_EUNSUPPORTED, pos, "a link of version {%u}; {=1} is read", version);
    unsigned kind = flags & 8 ? cursor_u8(&in) : 0;
    (void)cursor_take(&in, (flags & 4 ? 8 : 0) + (flags & 16 ? 1 : 0));
    uint64_t n = cursor_number(&in, 1u << (flags & 3));
    const unsigned char *name = n <= in.left ? cursor_take(&in, (size_t)n) : NULL;
    if (!name)
        return hdf5_fail_short(hdf5, &in, "a link");
    link.name = str_of((const char *)name, (size_t)n);
    CKPT_TRY(read_target(hdf5, &in, kind, &link));
    return add_link(hdf5, out, link, pos);
}

/* Links that are read from a fractal heap ("dense"). */
struct dense_links {
    struct hdf5_links *out;
    uint32_t last_hash; /* hash of the name of the link that was read last */
};

static ckpt_status read_dense_link(struct hdf5 *hdf5, void *user, cursor record)
{
    struct dense_links *d = user;
    cursor c;
    uint32_t hash = cursor_u32(&record);
    const unsigned char *id = cursor_take(&record, 7);
    if (!id)
        return hdf5_fail_short(hdf5, &record, "a link");
    CKPT_TRY(hdf5_read_heap_object(hdf5, id, &c));
    CKPT_TRY(read_link(hdf5, c, d->out));
    ckpt_str name = d->out->links[d->out->n - 1].name;
    uint32_t computed = hdf5_checksum((const unsigned char *)name.ptr, name.len);
    if (computed != hash)
        return fail(hdf5->err, CKPT_EFORMAT, record.pos,
                    "the link \"%.*s\" is listed with the hash {%08x}, but has {=%08x}", STR_ARG(name), hash,
                    computed);
    if (hash < d->last_hash)
        return fail(hdf5->err, CKPT_EFORMAT, record.pos,
                    "the link \"%.*s\" is listed with the hash {%08x} after a link with {=%08x}",
                    STR_ARG(name), hash, d->last_hash);
    d->last_hash = hash;
    return CKPT_OK;
}

static ckpt_status read_dense_links(struct hdf5 *hdf5, cursor in, struct hdf5_links *out)
{
    struct dense_links d = {.out = out};
    static const struct hdf5_dense dense = {"the description of a group's links", .index_size = 8,
                                            .id_size = 7};
    const struct hdf5_records records = {.type = 5, .size = 11, .visit = read_dense_link, .user = &d};
    return hdf5_visit_dense(hdf5, in, &dense, &records);
}

static int compare_links(const void *left, const void *right)
{
    const struct hdf5_link *x = left, *y = right;
    int c = ckpt_natural_compare(x->name, y->name);
    return c ? c : str_compare(x->name, y->name);
}

ckpt_status hdf5_read_links(struct hdf5 *hdf5, const struct hdf5_object *object, struct hdf5_links *out)
{
    *out = (struct hdf5_links){NULL, 0, 0};
    if (object->symbol_table.is_there)
        CKPT_TRY(read_symbol_table(hdf5, object->symbol_table.body, out));
    if (object->link_info.is_there)
        CKPT_TRY(read_dense_links(hdf5, object->link_info.body, out));
    for (size_t i = 0; i < object->nlinks; i++)
        CKPT_TRY(read_link(hdf5, object->links[i], out));
    if (out->n)
        qsort(out->links, out->n, sizeof *out->links, compare_links);
    for (size_t i = 1; i < out->n; i++)
        if (str_eq(out->links[i].name, out->links[i - 1].name))
            return fail(hdf5->err, CKPT_EFORMAT, object->addr,
                        "a group has {two links} of the name \"%.*s\", where {=one} is allowed",
                        STR_ARG(out->links[i].name));
    return CKPT_OK;
}
