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

bool flax_is_scalar(const ckpt_file *f, const ckpt_value *value)
{
    const struct stored_array *arrays = f->container;
    return arrays[value_offset(value)].array.is_scalar;
}

/* ------------------------------------------------------------------------- arrays */

/* add_array - sets *OUT to a new node of type TENSOR for FLAX_ARRAY, whose elements are in STORAGE. */
static ckpt_status add_array(struct flax_reading *reading, const struct flax_array *flax_array,
                             uint32_t storage, ckpt_value **out)
{
    arena *a = reading->input.f->a;
    const struct stored_array array = {*flax_array, storage};
    *out = value_new(a, CKPT_V_TENSOR, reading->narrays);
    return *out && ARENA_PUSH(a, reading, arrays, &array) ? CKPT_OK : fail_memory(reading->input.err);
}

/* add_storage - adds the storage KEY of ARRAY, whose elements are at OFFSET of SRC, and sets *INDEX to its
 * index. Takes over the reference SRC. */
static ckpt_status add_storage(struct flax_reading *reading, const struct flax_array *array, ckpt_str key,
                               source *src, uint64_t offset, uint32_t *index)
{
    struct storage s = {.nbytes = array->nbytes,
                        .key = key,
                        .src = src,
                        .off = offset,
                        .dtype = (uint8_t)array->dtype,
                        .swap_width = array->swap};
    return file_storage_add(reading->input.f, &s, index, reading->input.err);
}

static ckpt_status add_storages_of_unchunked(struct flax_reading *reading)
{
    ckpt_file *f = reading->input.f;
    for (size_t i = 0; i < reading->narrays; i++) {
        struct stored_array *s = &reading->arrays[i];
        if (s->storage != CKPT_NO_STORAGE)
            continue;
        ckpt_str key = arena_printf(f->a, "%zu", i);
        CKPT_TRY_ALLOC(key.ptr, reading->input.err);
        CKPT_TRY(add_storage(reading, &s->array, key, source_ref(f->src), s->array.at, &s->storage));
    }
    return CKPT_OK;
}

/* list_by_number - sets *OUT to the *COUNT values of MAPPING (may be NULL), whose keys are "0" to "N - 1", in
 * the order of those numbers; to NULL if it has other keys, or too many. */
static ckpt_status list_by_number(struct flax_reading *reading, const ckpt_value *mapping, ckpt_value ***out,
                                  uint32_t *count)
{
    ckpt_str key;
    uint64_t at;
    const value_pair *pairs = value_pairs(mapping, count);
    *out = NULL;
    if (!pairs || *count > CHUNKS_MAX)
        return CKPT_OK;
    ckpt_value **values = arena_array(reading->input.f->a, *count, sizeof *values);
    CKPT_TRY_ALLOC(values, reading->input.err);
    for (uint32_t i = 0; i < *count; i++) {
        if (!value_text(pairs[i].key, &key) || !str_uint(key, &at) || at >= *count || values[at])
            return CKPT_OK;
        values[at] = pairs[i].val;
    }
    *out = values;
    return CKPT_OK;
}

/* add_chunks - adds a storage for ARRAY, whose elements of WIDTH bytes are in the COUNT arrays CHUNKS. */
static ckpt_status add_chunks(struct flax_reading *reading, const struct flax_array *array,
                              ckpt_value *const *chunks, uint32_t count, uint64_t width, uint32_t *index)
{
    ckpt_file *f = reading->input.f;
    struct piece *piece = arena_array(f->a, count, sizeof *piece);
    uint64_t *box = arena_array(f->a, 2u * count, sizeof *box), total = 0, at;
    ckpt_str key = arena_printf(f->a, "chunks-%zu", reading->narrays);
    source *src;
    CKPT_TRY_ALLOC(piece && box && key.ptr, reading->input.err);
    for (uint32_t i = 0; i < count; i++) {
        const struct flax_array *c = &reading->arrays[value_offset(chunks[i])].array;
        uint64_t *offset = &box[2 * i], *size = &box[2 * i + 1];
        *offset = total;
        *size = c->nbytes / width;
        piece[i] = (struct piece){.offset = offset, .size = size, .src = f->src, .at = c->at};
        total += *size;
    }
    const struct pieces p = {
        .shape = &total, .ndim = 1, .width = (uint32_t)width, .piece = piece, .n = count};
    CKPT_TRY(pieces_source(f->a, &p, &src, &at, reading->input.err));
    return add_storage(reading, array, key, src, at, index);
}

/* read_sizes - sets the shape of ARRAY to the NDIM integers in SIZES, and array->nbytes for elements of WIDTH
 * bytes. False: SIZES are no sizes, or too large. */
static bool read_sizes(struct flax_array *array, ckpt_value *const *sizes, uint32_t ndim, uint64_t width)
{
    int64_t size;
    array->ndim = ndim;
    for (uint32_t i = 0; i < ndim; i++) {
        if (!value_integer(sizes[i], &size) || size < 0)
            return false;
        array->shape[i] = (uint64_t)size;
    }
    return flax_size(array->shape, ndim, width, &array->nbytes);
}

static ckpt_status join_chunks(struct flax_reading *reading, const ckpt_value *dict, ckpt_value **out)
{
    ckpt_value **sizes, **chunks;
    uint32_t ndim, n, storage;
    uint64_t have = 0;
    CKPT_TRY(list_by_number(reading, value_get(dict, "shape"), &sizes, &ndim));
    CKPT_TRY(list_by_number(reading, value_get(dict, "chunks"), &chunks, &n));
    if (!sizes || ndim > NPY_DIMENSIONS || !chunks || n == 0 || chunks[0]->type != CKPT_V_TENSOR)
        return fail(reading->input.err, CKPT_EFORMAT, value_offset(dict),
                    "an array in chunks with {no} {=shape and chunks}");
    struct flax_array x = reading->arrays[value_offset(chunks[0])].array;
    uint64_t width = x.dtype == CKPT_DT_NAMED ? 0 : dtype_info(x.dtype)->block_bytes;
    x.is_scalar = false;
    CKPT_TRY_ALLOC(x.shape = arena_array(reading->input.f->a, ndim, sizeof *x.shape), reading->input.err);
    if (!read_sizes(&x, sizes, ndim, width))
        return fail(
            reading->input.err, CKPT_EFORMAT, value_offset(dict),
            "an array in chunks whose shape is {negative, not a number or too large}; {=sizes} are allowed");
    for (uint32_t i = 0; i < n; i++) {
        bool is_array = chunks[i]->type == CKPT_V_TENSOR;
        const struct flax_array *c = is_array ? &reading->arrays[value_offset(chunks[i])].array : NULL;
        if (!c || c->dtype != x.dtype || c->swap != x.swap || !width)
            return fail(reading->input.err, CKPT_EFORMAT, value_offset(dict),
                        "chunks of {different dtypes}; {=one dtype} is allowed");
        have += c->nbytes;
    }
    if (have != x.nbytes)
        return fail(reading->input.err, CKPT_EFORMAT, value_offset(dict),
                    "chunks of {%" PRIu64 " bytes}; dtype and shape take {=%" PRIu64 "}", have, x.nbytes);
    CKPT_TRY(add_chunks(reading, &x, chunks, n, width, &storage));
    return add_array(reading, &x, storage, out);
}

/* --------------------------------------------------------------------- containers */

static ckpt_status enter_container(struct flax_reading *reading, const struct msgpack_value *value)
{
    arena *a = reading->input.f->a;
    bool is_map = value->kind == MSGPACK_MAP;
    if (reading->depth == FLAX_MAX_DEPTH)
        return fail(reading->input.err, CKPT_ELIMIT, value->at, "{more} than {=%u} nested containers",
                    FLAX_MAX_DEPTH);
    struct frame *top = arena_append(a, &reading->stack, &reading->depth, &reading->cap_stack, sizeof *top);
    CKPT_TRY_ALLOC(top, reading->input.err);
    *top = (struct frame){.node = value_new(a, is_map ? CKPT_V_DICT : CKPT_V_LIST, value->at),
                          .values_left = is_map ? 2 * value->count : value->count,
                          .keys = is_map ? map_new(0) : NULL};
    return top->node && (!is_map || top->keys) ? CKPT_OK : fail_memory(reading->input.err);
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
static ckpt_status take_key(struct flax_reading *reading, struct frame *top, ckpt_value *key, uint64_t at)
{
    const ckpt_value *first = top->node->u.dict.n ? top->node->u.dict.pairs[0].key : key;
    ckpt_str text;
    uint32_t before = MAP_NONE;
    if (key->type == CKPT_V_TENSOR || value_is_sequence(key) || key->type == CKPT_V_DICT ||
        key->type == CKPT_V_CALL)
        return fail(reading->input.err, CKPT_EFORMAT, at, "a key that is {a %s}, not {=a text or a number}",
                    key->type == CKPT_V_TENSOR ? "tensor" : "container");
    bool is_text = value_text(key, &text);
    if (is_text != (first->type == CKPT_V_STR)) /* jax sorts keys, and cannot compare these */
        return fail(reading->input.err, CKPT_EFORMAT, at,
                    "a mapping with keys of {text and of numbers}; {=one kind} is allowed");
    if (is_text && is_nearly_chunked(text))
        return fail(reading->input.err, CKPT_EFORMAT, at, "the key {\"%.*s\"} is nearly {=\"%s\"}",
                    STR_ARG(text), CHUNKED_KEY);
    if (is_text && !map_put(top->keys, text, 0, &before))
        return fail_memory(reading->input.err);
    if (before != MAP_NONE)
        return fail(reading->input.err, CKPT_EFORMAT, at,
                    "the key \"%.*s\" comes {twice}, {=once} is allowed", STR_ARG(text));
    top->key = key;
    return CKPT_OK;
}

/* add_node - adds NODE, a complete value that begins at AT, to the innermost container, and closes each
 * container that is now complete. NODE NULL: the innermost container is empty. */
static ckpt_status add_node(struct flax_reading *reading, ckpt_value *node, uint64_t at)
{
    while (reading->depth) {
        struct frame *top = &reading->stack[reading->depth - 1];
        bool is_map = top->node->type == CKPT_V_DICT;
        if (node && is_map && !top->key) {
            CKPT_TRY(take_key(reading, top, node, at));
        } else if (node) {
            bool ok = is_map ? value_put(reading->input.f->a, top->node, top->key, node)
                             : value_append(reading->input.f->a, top->node, node);
            top->key = NULL;
            CKPT_TRY_ALLOC(ok, reading->input.err);
        }
        top->values_left -= node != NULL;
        if (top->values_left)
            return CKPT_OK;
        node = top->node;
        map_free(top->keys);
        reading->depth--;
        if (is_map && value_get(node, CHUNKED_KEY))
            CKPT_TRY(join_chunks(reading, node, &node));
    }
    reading->root = node;
    return CKPT_OK;
}

static ckpt_status read_value(void *user, const struct msgpack_value *value, ckpt_error *err)
{
    struct flax_reading *r = user;
    struct flax_array x;
    ckpt_value *node = NULL;
    (void)err;
    if (value->kind == MSGPACK_MAP || value->kind == MSGPACK_ARRAY) {
        CKPT_TRY(enter_container(r, value));
        if (value->count)
            return CKPT_OK;
    } else if (value->kind == MSGPACK_EXT && (value->type == FLAX_ARRAY || value->type == FLAX_SCALAR)) {
        CKPT_TRY(flax_read_array(&r->input, value, &x));
        CKPT_TRY(add_array(r, &x, CKPT_NO_STORAGE, &node));
    } else {
        CKPT_TRY(flax_read_value(&r->input, value, &node));
    }
    return add_node(r, node, value->at);
}

/* -------------------------------------------------------------------------- table */

static bool describe(void *user, const ckpt_value *value, struct row *row)
{
    const struct flax_reading *r = user;
    if (value->type != CKPT_V_TENSOR || value_offset(value) >= r->narrays)
        return false;
    const struct flax_array *x = &r->arrays[value_offset(value)].array;
    row->t.dtype = (uint16_t)x->dtype;
    row->t.dtype_name = x->name;
    row->t.nbytes = x->nbytes;
    row->t.ndim = x->ndim;
    row->t.shape = x->shape;
    row->t.has_shape = row->t.has_data = true;
    row->t.storage = r->arrays[value_offset(value)].storage;
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
    CKPT_THEN(status, add_storages_of_unchunked(&r));
    if (status == CKPT_OK) {
        format_set_container(f, r.arrays, NULL);
        f->root = r.root;
        f->producer = STR_LIT("flax");
        status = graph_walk(f, r.root, &input, err);
    }
    error_add_position(status == CKPT_OK ? NULL : err, 0, STR_LIT("MessagePack"));
    return status;
}

static bool probe(const struct probe *this_probe)
{
    return !this_probe->is_folder &&
           flax_is_recognized(this_probe->path, this_probe->head, this_probe->nhead) &&
           !recognize(this_probe);
}

const struct format format_flax = {.name = "flax",
                                   .title = "Flax msgpack",
                                   .suffixes = ".msgpack",
                                   .probe = probe,
                                   .read = read,
                                   .write = flax_write};
