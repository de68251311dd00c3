/*
 * read.c - reads Flax's .msgpack (flax/serialization.py): one value of MessagePack, mostly a map of maps,
 * whose values codec/flax.c reads. An array of more than 2^30 bytes is a map
 *   {"__msgpack_chunked_array__": true, "shape": {"0": n, ...}, "chunks": {"0": array, ...}}
 * whose chunks are its elements, one chunk after the other.
 *
 * Maps and lists are nodes of the value graph, so that keys keep their types and paths are those of the tree.
 *
 * Refused: what MessagePack refuses; bytes after the value; keys that are containers or arrays, that come
 * twice, or are texts and numbers in one map; a chunk that is missing or of a different dtype; a key that
 * differs from "__msgpack_chunked_array__" in a few bytes; more than FLAX_MAX_DEPTH nested containers.
 */
#include <inttypes.h>
#include <string.h>

#include "core/pieces.h"
#include "format/flax/flax.h"
#include "format/graph/walk.h"
#include "format/recognize.h"
#include "format/registry.h"

#define CHUNKED_KEY "__msgpack_chunked_array__"
#define CHUNKS_MAX  65536u

/* An array of the file. The offset of its TENSOR node is its index in r->arrays. */
struct stored_array {
    struct flax_array array;
    uint32_t storage; /* CKPT_NO_STORAGE: not added yet */
};

/* A container whose values are still being read. */
struct frame {
    ckpt_value *node;
    uint64_t values_left; /* values to come, keys included */
    ckpt_value *key;      /* of the next value of a map; NULL: the next value is a key */
    map *keys;            /* of a map: the keys so far */
};

struct flax_reading {
    struct flax_input input;
    struct frame *stack;
    size_t depth, cap_stack;
    struct stored_array *arrays;
    size_t narrays, cap_arrays;
    ckpt_value *root;
};

bool flax_is_scalar(const ckpt_file *f, const ckpt_value *v)
{
    const struct stored_array *arrays = f->container;
    return arrays[value_offset(v)].array.is_scalar;
}

/* ------------------------------------------------------------------------- arrays */

/* add_array - sets *OUT to a new node of type TENSOR for X, whose elements are in STORAGE. */
static ckpt_status add_array(struct flax_reading *r, const struct flax_array *x, uint32_t storage,
                             ckpt_value **out)
{
    arena *a = r->input.f->a;
    const struct stored_array array = {*x, storage};
    *out = value_new(a, CKPT_V_TENSOR, r->narrays);
    return *out && ARENA_PUSH(a, r, arrays, &array) ? CKPT_OK : fail_memory(r->input.err);
}

/* add_storage - adds the storage KEY of X, whose elements are at OFFSET of SRC, and sets *INDEX to its index.
 * Takes over the reference SRC. */
static ckpt_status add_storage(struct flax_reading *r, const struct flax_array *x, ckpt_str key, source *src,
                               uint64_t offset, uint32_t *index)
{
    struct storage s = {.nbytes = x->nbytes,
                        .key = key,
                        .src = src,
                        .off = offset,
                        .dtype = (uint8_t)x->dtype,
                        .swap_width = x->swap};
    return file_storage_add(r->input.f, &s, index, r->input.err);
}

static ckpt_status add_storages_of_unchunked(struct flax_reading *r)
{
    ckpt_file *f = r->input.f;
    for (size_t i = 0; i < r->narrays; i++) {
        struct stored_array *s = &r->arrays[i];
        if (s->storage != CKPT_NO_STORAGE)
            continue;
        ckpt_str key = arena_printf(f->a, "%zu", i);
        CKPT_TRY_ALLOC(key.ptr, r->input.err);
        CKPT_TRY(add_storage(r, &s->array, key, source_ref(f->src), s->array.at, &s->storage));
    }
    return CKPT_OK;
}

/* list_by_number - sets *OUT to the *N values of MAPPING (may be NULL), whose keys are "0" to "N - 1", in the
 * order of those numbers; to NULL if it has other keys, or too many. */
static ckpt_status list_by_number(struct flax_reading *r, const ckpt_value *mapping, ckpt_value ***out,
                                  uint32_t *n)
{
    ckpt_str key;
    uint64_t at;
    const value_pair *pairs = value_pairs(mapping, n);
    *out = NULL;
    if (!pairs || *n > CHUNKS_MAX)
        return CKPT_OK;
    ckpt_value **values = arena_array(r->input.f->a, *n, sizeof *values);
    CKPT_TRY_ALLOC(values, r->input.err);
    for (uint32_t i = 0; i < *n; i++) {
        if (!value_text(pairs[i].key, &key) || !str_uint(key, &at) || at >= *n || values[at])
            return CKPT_OK;
        values[at] = pairs[i].val;
    }
    *out = values;
    return CKPT_OK;
}

/* add_chunks - adds a storage for X, whose elements of WIDTH bytes are in the N arrays CHUNKS. */
static ckpt_status add_chunks(struct flax_reading *r, const struct flax_array *x, ckpt_value *const *chunks,
                              uint32_t n, uint64_t width, uint32_t *index)
{
    ckpt_file *f = r->input.f;
    struct piece *piece = arena_array(f->a, n, sizeof *piece);
    uint64_t *box = arena_array(f->a, 2u * n, sizeof *box), total = 0, at;
    ckpt_str key = arena_printf(f->a, "chunks-%zu", r->narrays);
    source *src;
    CKPT_TRY_ALLOC(piece && box && key.ptr, r->input.err);
    for (uint32_t i = 0; i < n; i++) {
        const struct flax_array *c = &r->arrays[value_offset(chunks[i])].array;
        uint64_t *offset = &box[2 * i], *size = &box[2 * i + 1];
        *offset = total;
        *size = c->nbytes / width;
        piece[i] = (struct piece){.offset = offset, .size = size, .src = f->src, .at = c->at};
        total += *size;
    }
    const struct pieces p = {.shape = &total, .ndim = 1, .width = (uint32_t)width, .piece = piece, .n = n};
    CKPT_TRY(pieces_source(f->a, &p, &src, &at, r->input.err));
    return add_storage(r, x, key, src, at, index);
}

/* read_sizes - sets the shape of X to the NDIM integers in SIZES, and x->nbytes for elements of WIDTH bytes.
 * False: SIZES are no sizes, or too large. */
static bool read_sizes(struct flax_array *x, ckpt_value *const *sizes, uint32_t ndim, uint64_t width)
{
    int64_t size;
    x->ndim = ndim;
    for (uint32_t i = 0; i < ndim; i++) {
        if (!value_integer(sizes[i], &size) || size < 0)
            return false;
        x->shape[i] = (uint64_t)size;
    }
    return flax_size(x->shape, ndim, width, &x->nbytes);
}

static ckpt_status join_chunks(struct flax_reading *r, const ckpt_value *dict, ckpt_value **out)
{
    ckpt_value **sizes, **chunks;
    uint32_t ndim, n, storage;
    uint64_t have = 0;
    CKPT_TRY(list_by_number(r, value_get(dict, "shape"), &sizes, &ndim));
    CKPT_TRY(list_by_number(r, value_get(dict, "chunks"), &chunks, &n));
    if (!sizes || ndim > NPY_DIMENSIONS || !chunks || n == 0 || chunks[0]->type != CKPT_V_TENSOR)
        return fail(r->input.err, CKPT_EFORMAT, value_offset(dict),
                    "an array in chunks with {no} {=shape and chunks}");
    struct flax_array x = r->arrays[value_offset(chunks[0])].array;
    uint64_t width = x.dtype == CKPT_DT_NAMED ? 0 : dtype_info(x.dtype)->block_bytes;
    x.is_scalar = false;
    CKPT_TRY_ALLOC(x.shape = arena_array(r->input.f->a, ndim, sizeof *x.shape), r->input.err);
    if (!read_sizes(&x, sizes, ndim, width))
        return fail(
            r->input.err, CKPT_EFORMAT, value_offset(dict),
            "an array in chunks whose shape is {negative, not a number or too large}; {=sizes} are allowed");
    for (uint32_t i = 0; i < n; i++) {
        bool is_array = chunks[i]->type == CKPT_V_TENSOR;
        const struct flax_array *c = is_array ? &r->arrays[value_offset(chunks[i])].array : NULL;
        if (!c || c->dtype != x.dtype || c->swap != x.swap || !width)
            return fail(r->input.err, CKPT_EFORMAT, value_offset(dict),
                        "chunks of {different dtypes}; {=one dtype} is allowed");
        have += c->nbytes;
    }
    if (have != x.nbytes)
        return fail(r->input.err, CKPT_EFORMAT, value_offset(dict),
                    "chunks of {%" PRIu64 " bytes}; dtype and shape take {=%" PRIu64 "}", have, x.nbytes);
    CKPT_TRY(add_chunks(r, &x, chunks, n, width, &storage));
    return add_array(r, &x, storage, out);
}

/* --------------------------------------------------------------------- containers */

static ckpt_status enter_container(struct flax_reading *r, const struct msgpack_value *v)
{
    arena *a = r->input.f->a;
    bool is_map = v->kind == MSGPACK_MAP;
    if (r->depth == FLAX_MAX_DEPTH)
        return fail(r->input.err, CKPT_ELIMIT, v->at, "{more} than {=%u} nested containers", FLAX_MAX_DEPTH);
    struct frame *top = arena_append(a, &r->stack, &r->depth, &r->cap_stack, sizeof *top);
    CKPT_TRY_ALLOC(top, r->input.err);
    *top = (struct frame){.node = value_new(a, is_map ? CKPT_V_DICT : CKPT_V_LIST, v->at),
                          .values_left = is_map ? 2 * v->count : v->count,
                          .keys = is_map ? map_new(0) : NULL};
    return top->node && (!is_map || top->keys) ? CKPT_OK : fail_memory(r->input.err);
}

/* is_nearly_chunked - returns true if KEY differs from CHUNKED_KEY in a few bytes. Then KEY is damaged: its
 * map is an array in chunks, and the chunks must not be listed as tensors. */
static bool is_nearly_chunked(ckpt_str key)
{
    size_t same = 0;
    for (size_t i = 0; key.len == strlen(CHUNKED_KEY) && i < key.len; i++)
        same += key.ptr[i] == CHUNKED_KEY[i];
    return same > strlen(CHUNKED_KEY) / 2 && same < strlen(CHUNKED_KEY);
}

/* take_key - makes KEY, which is at AT, the key of the next value of TOP. */
static ckpt_status take_key(struct flax_reading *r, struct frame *top, ckpt_value *key, uint64_t at)
{
    const ckpt_value *first = top->node->u.dict.n ? top->node->u.dict.pairs[0].key : key;
    ckpt_str text;
    uint32_t before = MAP_NONE;
    if (key->type == CKPT_V_TENSOR || value_is_sequence(key) || key->type == CKPT_V_DICT ||
        key->type == CKPT_V_CALL)
        return fail(r->input.err, CKPT_EFORMAT, at, "a key that is {a %s}, not {=a text or a number}",
                    key->type == CKPT_V_TENSOR ? "tensor" : "container");
    bool is_text = value_text(key, &text);
    if (is_text != (first->type == CKPT_V_STR)) /* jax sorts keys, and cannot compare these */
        return fail(r->input.err, CKPT_EFORMAT, at,
                    "a mapping with keys of {text and of numbers}; {=one kind} is allowed");
    if (is_text && is_nearly_chunked(text))
        return fail(r->input.err, CKPT_EFORMAT, at, "the key {\"%.*s\"} is nearly {=\"%s\"}", STR_ARG(text),
                    CHUNKED_KEY);
    if (is_text && !map_put(top->keys, text, 0, &before))
        return fail_memory(r->input.err);
    if (before != MAP_NONE)
        return fail(r->input.err, CKPT_EFORMAT, at, "the key \"%.*s\" comes {twice}, {=once} is allowed",
                    STR_ARG(text));
    top->key = key;
    return CKPT_OK;
}

/* add_node - adds NODE, a complete value that begins at AT, to the innermost container, and closes each
 * container that is now complete. NODE NULL: the innermost container is empty. */
static ckpt_status add_node(struct flax_reading *r, ckpt_value *node, uint64_t at)
{
    while (r->depth) {
        struct frame *top = &r->stack[r->depth - 1];
        bool is_map = top->node->type == CKPT_V_DICT;
        if (node && is_map && !top->key) {
            CKPT_TRY(take_key(r, top, node, at));
        } else if (node) {
            bool ok = is_map ? value_put(r->input.f->a, top->node, top->key, node)
                             : value_append(r->input.f->a, top->node, node);
            top->key = NULL;
            CKPT_TRY_ALLOC(ok, r->input.err);
        }
        top->values_left -= node != NULL;
        if (top->values_left)
            return CKPT_OK;
        node = top->node;
        map_free(top->keys);
        r->depth--;
        if (is_map && value_get(node, CHUNKED_KEY))
            CKPT_TRY(join_chunks(r, node, &node));
    }
    r->root = node;
    return CKPT_OK;
}

static ckpt_status read_value(void *user, const struct msgpack_value *v, ckpt_error *err)
{
    struct flax_reading *r = user;
    struct flax_array x;
    ckpt_value *node = NULL;
    (void)err;
    if (v->kind == MSGPACK_MAP || v->kind == MSGPACK_ARRAY) {
        CKPT_TRY(enter_container(r, v));
        if (v->count)
            return CKPT_OK;
    } else if (v->kind == MSGPACK_EXT && (v->type == FLAX_ARRAY || v->type == FLAX_SCALAR)) {
        CKPT_TRY(flax_read_array(&r->input, v, &x));
        CKPT_TRY(add_array(r, &x, CKPT_NO_STORAGE, &node));
    } else {
        CKPT_TRY(flax_read_value(&r->input, v, &node));
    }
    return add_node(r, node, v->at);
}

/* -------------------------------------------------------------------------- table */

static bool describe(void *user, const ckpt_value *v, struct row *row)
{
    const struct flax_reading *r = user;
    if (v->type != CKPT_V_TENSOR || value_offset(v) >= r->narrays)
        return false;
    const struct flax_array *x = &r->arrays[value_offset(v)].array;
    row->t.dtype = (uint16_t)x->dtype;
    row->t.dtype_name = x->name;
    row->t.nbytes = x->nbytes;
    row->t.ndim = x->ndim;
    row->t.shape = x->shape;
    row->t.has_shape = row->t.has_data = true;
    row->t.storage = r->arrays[value_offset(v)].storage;
    return true;
}

static ckpt_status read(ckpt_file *f, ckpt_error *err)
{
    struct flax_reading r = {.input = {.f = f, .err = err}};
    const struct graph_input input = {.user = &r, .describe_node = describe, .has_text_keys = true};
    file_raise_budget(f, f->src->size);
    ckpt_status status = msgpack_read(f->src, read_value, &r, err);
    for (size_t i = 0; i < r.depth; i++)
        map_free(r.stack[i].keys);
    window_close(&r.input.window);
    if (status == CKPT_OK)
        status = add_storages_of_unchunked(&r);
    if (status == CKPT_OK) {
        format_set_container(f, r.arrays, NULL);
        f->root = r.root;
        f->producer = STR_LIT("flax");
        status = graph_walk(f, r.root, &input, err);
    }
    error_add_position(status == CKPT_OK ? NULL : err, 0, STR_LIT("MessagePack"));
    return status;
}

static bool probe(const struct probe *p)
{
    return !p->is_folder && flax_is_recognized(p->path, p->head, p->nhead) && !recognize(p);
}

const struct format format_flax = {.name = "flax",
                                   .title = "Flax msgpack",
                                   .suffixes = ".msgpack",
                                   .probe = probe,
                                   .read = read,
                                   .write = flax_write};
