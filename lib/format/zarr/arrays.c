/*
 * arrays.c - makes the chunks of a Zarr array (codec/zarr.c) the pieces of a tensor. Chunks are found by the
 * keys in the store, not by the shape, so that an array whose shape is far too large costs nothing. A
 * compressed chunk is decoded when it is read; the index of a shard is read when the file is opened.
 */
#include "format/zarr/arrays.h"

#include <inttypes.h>

#include "base/checked.h"
#include "base/cursor.h"
#include "codec/zarr.h"
#include "core/check.h"
#include "core/elements.h"
#include "core/pieces.h"
#include "format/torch/graph.h"

/* An array whose chunks are being put together. */
struct assembly {
    struct zarr_arrays *x;
    const struct zarr_source *from;
    struct zarr_array z;
    arena *a; /* freed when the tensor was made */
    uint64_t *stride;
    struct piece *piece;
    uint64_t missing;    /* bytes of the array that no piece has so far */
    source **held;       /* a reference to the source of each entry that has pieces */
    struct block *block; /* for each piece, if chunks are encoded; in the arena of the file */
    size_t n, cap, nblocks, cap_blocks, nheld, cap_held;
    source *decoded;
};

ckpt_status zarr_arrays_begin(struct zarr_arrays *x, ckpt_file *f, ckpt_error *err)
{
    *x = (struct zarr_arrays){.f = f, .err = err, .cache = block_cache_new(BLOCKS_IN_MEMORY, BLOCKS_IN_FILE)};
    return x->cache ? CKPT_OK : fail_memory(err);
}

void zarr_arrays_end(struct zarr_arrays *x) { block_cache_unref(x->cache); }

/* ------------------------------------------------------------------------- metadata */

/* find_metadata - sets *I to the entry with the metadata of the array; *V3: they are of version 3. */
static ckpt_status find_metadata(struct assembly *y, size_t *i, bool *v3)
{
    const struct store *s = y->from->s;
    static const char *const names[] = {ZARR_V2, ZARR_V3};
    for (unsigned k = 0; k < 2; k++) {
        ckpt_str key = arena_printf(y->a, "%.*s%s", (int)y->from->prefix.len, y->from->prefix.ptr, names[k]);
        if (!key.ptr)
            return fail_memory(y->x->err);
        *i = store_find(s, key);
        *v3 = k;
        if (*i < s->db.n && str_eq(s->db.entry[*i].key, key))
            return CKPT_OK;
    }
    return fail(y->x->err, CKPT_ETRUNCATED, CKPT_NO_OFFSET,
                "{no} {=" ZARR_V2 " or " ZARR_V3 "} of the array");
}

static ckpt_status read_metadata(struct assembly *y)
{
    size_t i = 0;
    bool v3 = false;
    ckpt_str text;
    CKPT_TRY(find_metadata(y, &i, &v3));
    CKPT_TRY(store_text(y->from->s, i, &text));
    ckpt_status st = zarr_read(text, v3, y->x->f->a, &y->z, y->x->err);
    fail_add_place(st == CKPT_OK ? NULL : y->x->err, CKPT_NO_OFFSET,
                   v3 ? STR_LIT(ZARR_V3) : STR_LIT(ZARR_V2));
    y->stride = arena_array(y->a, y->z.ndim, sizeof *y->stride);
    if (st == CKPT_OK && y->stride)
        zarr_get_strides(&y->z, y->stride);
    return st != CKPT_OK || y->stride ? st : fail_memory(y->x->err);
}

/* --------------------------------------------------------------------------- pieces */

/* Where a chunk or shard is stored. */
struct stored_chunk {
    source *src;
    uint64_t at, n;
    const char *file; /* path of SRC, or NULL */
};

/* add_block - adds the chunk P as the block that the next piece is decoded from. */
static ckpt_status add_block(struct assembly *y, const struct stored_chunk *p)
{
    const struct block block = {p->src, p->at, p->n, y->z.encoding.bytes, 0, p->file};
    return arena_push(y->x->f->a, &y->block, &y->nblocks, &y->cap_blocks, &block, sizeof block)
               ? CKPT_OK
               : fail_memory(y->x->err);
}

/* add_piece - adds the chunk P as a piece. It begins at element AT of the array, and may reach beyond the
 * end. */
static ckpt_status add_piece(struct assembly *y, const uint64_t *at, const struct stored_chunk *p)
{
    uint32_t n = y->z.ndim;
    struct piece *added = arena_append(y->a, &y->piece, &y->n, &y->cap, sizeof *added);
    uint64_t *box = arena_array(y->a, 2 * (uint64_t)n, sizeof *box); /* bounded: ZARR_DIMS */
    if (!added || !box)
        return fail_memory(y->x->err);
    uint64_t bytes = y->z.width;
    for (uint32_t k = 0; k < n; k++) {
        uint64_t left = y->z.shape[k] - at[k]; /* bounded: it begins inside */
        box[k] = at[k];
        box[n + k] = left < y->z.inner[k] ? left : y->z.inner[k];
        bytes *= box[n + k]; /* bounded: fewer than all bytes of the array */
    }
    y->missing -= bytes < y->missing ? bytes : y->missing;
    *added = (struct piece){box, box + n, y->stride, p->src, p->at};
    if (y->z.encoding.n)
        CKPT_TRY(add_block(y, p));
    else if (p->n != y->z.encoding.bytes)
        return fail(y->x->err, CKPT_EFORMAT, source_pos(p->src, p->at),
                    "a chunk of {%" PRIu64 " bytes}, it must have {=%" PRIu64 "}", p->n, y->z.encoding.bytes);
    return CKPT_OK;
}

/* add_parts - adds the chunks in the shard P, which begins at element AT of the array. */
static ckpt_status add_parts(struct assembly *y, const uint64_t *at, const struct stored_chunk *p)
{
    const struct zarr_array *z = &y->z;
    struct zarr_part *part;
    uint64_t grid[ZARR_DIMS] = {0}, begin[ZARR_DIMS];
    CKPT_TRY(zarr_read_index(z, p->src, p->at, p->n, y->a, &part, y->x->err));
    for (uint64_t i = 0; i < z->parts; i++) {
        bool inside = part[i].at != UINT64_MAX;
        for (uint32_t k = 0; k < z->ndim; k++) {
            begin[k] = at[k] + grid[k]; /* bounded: both are below 2^63 */
            inside = inside && begin[k] < z->shape[k];
        }
        /* bounded: zarr_read_index */
        const struct stored_chunk one = {p->src, p->at + part[i].at, part[i].n, p->file};
        if (inside)
            CKPT_TRY(add_piece(y, begin, &one));
        for (uint32_t k = z->ndim; k-- > 0;) {
            grid[k] += z->inner[k]; /* bounded: the same */
            if (grid[k] < z->chunk[k])
                break;
            grid[k] = 0;
        }
    }
    return CKPT_OK;
}

/* add_entry - adds the pieces in entry I of the store, if it is a chunk or shard. */
static ckpt_status add_entry(struct assembly *y, size_t i)
{
    uint64_t at[ZARR_DIMS];
    struct stored_chunk p;
    struct store *s = y->from->s;
    if (!zarr_is_chunk_key(&y->z, str_skip(s->db.entry[i].key, y->from->prefix.len), at))
        return CKPT_OK;
    source **held = arena_append(y->a, &y->held, &y->nheld, &y->cap_held, sizeof(source *));
    if (!held)
        return fail_memory(y->x->err);
    *held = NULL;
    CKPT_TRY(store_bytes(s, i, held, &p.at, &p.n));
    p.src = *held;
    p.file = store_file(s, i);
    return y->z.sharded ? add_parts(y, at, &p) : add_piece(y, at, &p);
}

static ckpt_status add_entries(struct assembly *y)
{
    const struct store *s = y->from->s;
    ckpt_status st = CKPT_OK;
    for (size_t i = store_find(s, y->from->prefix);
         st == CKPT_OK && i < s->db.n && str_starts(s->db.entry[i].key, y->from->prefix); i++) {
        st = add_entry(y, i);
        if (st != CKPT_OK && store_file(s, i))
            fail_file(y->x->err, store_file(s, i));
        else if (st != CKPT_OK)
            fail_add_place(y->x->err, CKPT_NO_OFFSET, s->db.entry[i].key);
    }
    return st;
}

/* -------------------------------------------------------------------------- sources */

static ckpt_status decode_block(void *user, source *stored, spool *to, ckpt_error *err)
{
    return zarr_decode(user, stored, to, err);
}

/* set_decoded - makes each piece refer to what its block decodes to. */
static ckpt_status set_decoded(struct assembly *y)
{
    arena *a = y->x->f->a;
    struct block_decoder *d = ARENA_NEW(a, struct block_decoder);
    struct zarr_encoding *e = ARENA_NEW(a, struct zarr_encoding);
    if (!d || !e)
        return fail_memory(y->x->err);
    *e = y->z.encoding;
    *d = (struct block_decoder){"Zarr chunk", decode_block, e};
    CKPT_TRY(source_blocks(y->x->cache, y->block, y->n, d, &y->decoded, y->x->err));
    for (size_t i = 0; i < y->n; i++) {
        y->piece[i].src = y->decoded;
        y->piece[i].at = y->block[i].start;
    }
    return CKPT_OK;
}

/* check_expansion - refuses chunks that decode to more bytes than file_max_unpacked allows for the file, and
 * missing chunks of more bytes. */
static ckpt_status check_expansion(const struct assembly *y)
{
    uint64_t most = file_max_unpacked(y->x->f, y->x->f->nbytes), bytes = y->z.encoding.bytes;
    uint64_t missing = y->missing;
    if ((!y->n || bytes <= most) && missing <= most)
        return CKPT_OK;
    return fail(y->x->err, CKPT_ELIMIT, CKPT_NO_OFFSET,
                "%s of {%" PRIu64 " bytes}; {=%" PRIu64 "} are allowed\n"
                "raise it with --max-expanded (max_expanded in ckpt_limits)",
                missing > most ? "missing chunks" : "a chunk", missing > most ? missing : bytes, most);
}

/* make_source - sets *OUT to a source that has the elements of Y from byte *AT on. */
static ckpt_status make_source(struct assembly *y, source **out, uint64_t *at)
{
    static const unsigned char zero[sizeof y->z.fill];
    static const struct piece none;
    enum zarr_missing missing = y->from->missing;
    y->missing = y->z.nbytes;
    CKPT_TRY(add_entries(y));
    CKPT_TRY(check_expansion(y));
    if (y->z.encoding.n && y->n)
        CKPT_TRY(set_decoded(y));
    struct pieces p = {.shape = y->z.shape,
                       .ndim = y->z.ndim,
                       .width = y->z.width,
                       .piece = y->n ? y->piece : &none,
                       .n = y->n};
    if (missing != MISSING_FAULT)
        p.fill = y->z.filled ? y->z.fill : missing == MISSING_ZERO ? zero : NULL;
    return pieces_source(y->x->f->a, &p, out, at, y->x->err);
}

/* assemble - reads the array FROM into Y, and sets *OUT to a source that has its elements from byte *AT on.
 * The caller owns the reference. */
static ckpt_status assemble(struct zarr_arrays *x, const struct zarr_source *from, struct assembly *y,
                            source **out, uint64_t *at)
{
    *y = (struct assembly){.x = x, .from = from, .a = arena_new(UINT64_MAX)};
    ckpt_status st = y->a ? read_metadata(y) : fail_memory(x->err);
    if (st == CKPT_OK)
        st = make_source(y, out, at);
    source_unref(y->decoded);
    for (size_t i = 0; i < y->nheld; i++)
        source_unref(y->held[i]);
    arena_free(y->a);
    return st;
}

/* --------------------------------------------------------------------------- tensors */

/* add_tensor - sets *NODE to a node for a new tensor, *T. */
static ckpt_status add_tensor(struct zarr_arrays *x, ckpt_value **node, struct joined_tensor **t)
{
    *node = value_new(x->f->a, CKPT_V_TENSOR, x->n);
    *t = *node ? arena_append(x->f->a, &x->tensor, &x->n, &x->cap, sizeof **t) : NULL;
    if (!*t)
        return fail_memory(x->err);
    **t = (struct joined_tensor){.storage = CKPT_NO_STORAGE};
    return CKPT_OK;
}

/* get_swap_unit - returns how many bytes of Z are swapped together, or 0 if it is little-endian. */
static uint8_t get_swap_unit(const struct zarr_array *z)
{
    return z->encoding.big_endian ? dtype_info(z->dtype)->swap_bytes : 0;
}

ckpt_status zarr_add_array(struct zarr_arrays *x, const struct zarr_source *from, ckpt_value **node)
{
    struct assembly y;
    struct joined_tensor *t;
    struct storage s = {.s.key = from->name};
    CKPT_TRY(add_tensor(x, node, &t));
    ckpt_status st = assemble(x, from, &y, &s.src, &s.off);
    t->dtype = y.z.dtype;
    t->ndim = y.z.shape ? y.z.ndim : 0;
    t->shape = y.z.shape;
    s.s.nbytes = y.z.nbytes;
    s.dtype = y.z.dtype;
    s.swap = get_swap_unit(&y.z);
    s.has_crcs = s.checks_itself = zarr_has_checksums(&y.z.encoding);
    if (st == CKPT_OK)
        st = table_add_storage(&x->f->table, &s, &t->storage, x->err);
    return sharded_storage_accept_fault(x->f, from->name, t->dtype, st, &t->storage, x->err);
}

ckpt_status zarr_add_bytes(struct zarr_arrays *x, struct store *s, size_t i, ckpt_value **node)
{
    struct joined_tensor *t;
    struct storage one = {.s.key = s->db.entry[i].key, .dtype = CKPT_DT_U8};
    CKPT_TRY(add_tensor(x, node, &t));
    ckpt_status st = store_bytes(s, i, &one.src, &one.off, &one.s.nbytes);
    uint64_t *shape = arena_array(x->f->a, 1, sizeof *shape);
    if (!shape)
        return fail_memory(x->err);
    *shape = one.s.nbytes;
    *t = (struct joined_tensor){.dtype = CKPT_DT_U8, .ndim = 1, .shape = shape, .storage = CKPT_NO_STORAGE};
    if (st == CKPT_OK)
        st = table_add_storage(&x->f->table, &one, &t->storage, x->err);
    return sharded_storage_accept_fault(x->f, one.s.key, CKPT_DT_U8, st, &t->storage, x->err);
}

/* ---------------------------------------------------------------------------- values */

/* is_number - returns true if Z has one element, which can be a value of the graph. */
static bool is_number(const struct zarr_array *z)
{
    return z->ndim == 0 && dtype_info(z->dtype)->klass != 'c' && z->dtype != CKPT_DT_U64;
}

ckpt_status zarr_read_scalar(struct zarr_arrays *x, const struct zarr_source *from, ckpt_value **node)
{
    struct assembly y;
    source *src = NULL;
    uint64_t at;
    unsigned char element[16] = {0};
    ckpt_status st = assemble(x, from, &y, &src, &at);
    bool number = st == CKPT_OK && is_number(&y.z);
    if (number)
        st = source_read(src, at, element, y.z.width, x->err);
    source_unref(src);
    if (st == CKPT_OK && !number)
        return zarr_add_array(x, from, node);
    if (st == CKPT_OK) {
        if (get_swap_unit(&y.z))
            swap_bytes(element, y.z.width, get_swap_unit(&y.z));
        *node = value_number(x->f->a, y.z.dtype, load_u64le(element));
        return *node ? CKPT_OK : fail_memory(x->err);
    }
    *node = NULL;
    fail_where(x->err, "%.*s", STR_ARG(from->name));
    if (!x->f->salvage || !check_is_fault(st))
        return file_report_fault(x->f, st, x->err);
    file_notice(x->f, "\"%.*s\", which is not a tensor, is lost: %s", STR_ARG(from->name), x->err->what);
    return CKPT_OK;
}

/* ------------------------------------------------------------------------------ graph */

/* describe - sets ROW to the tensor V, for torch_walk_graph. */
static bool describe(void *user, const ckpt_value *v, struct row *row)
{
    const struct zarr_arrays *x = user;
    if (v->type != CKPT_V_TENSOR || v->offset >= x->n)
        return false;
    joined_tensor_describe(x->f, &x->tensor[v->offset], row);
    return true;
}

ckpt_status zarr_arrays_make_graph(struct zarr_arrays *x, ckpt_value *root)
{
    const struct torch_storages st = {.user = x, .object = describe};
    x->f->root = root;
    return torch_walk_graph(x->f, root, &st, x->err);
}
