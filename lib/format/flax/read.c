/*
 * read.c - Flax's .msgpack (flax/serialization.py): one value of MessagePack, mostly a map of maps, with the
 * extensions
 *   1, 3   an array, a scalar of numpy: [shape, name of the dtype, elements in row-major order]
 *   2      a complex number: [real, imaginary]
 * An array of more than 2^30 bytes is a map {"__msgpack_chunked_array__": true, "shape": {"0": n, ...},
 * "chunks": {"0": array, ...}} of pieces of its elements, one after the other.
 *
 * Maps and lists are nodes of the value graph, so that keys keep their types and paths are those of the
 * tree. Other extensions are handed out by flax as they are; here they are a pair of type and bytes.
 *
 * Refused: what MessagePack refuses, bytes after the value, keys that are no scalars or come twice, text
 * that is not UTF-8, arrays of other dtypes than flax reads, of fewer or more bytes than they take, chunks
 * that are missing or of different dtypes, a key that is nearly that of arrays in chunks, texts and numbers
 * as keys of one mapping, more than FLAX_DEPTH containers in each other.
 */
#include <inttypes.h>
#include <string.h>

#include "base/checked.h"
#include "base/map.h"
#include "base/utf8.h"
#include "codec/msgpack.h"
#include "core/check.h"
#include "core/numpy.h"
#include "core/pieces.h"
#include "format/flax/flax.h"
#include "format/torch/graph.h"
#include "io/window.h"

#define DTYPE_NAME 64u
#define CHUNKS_MAX 65536u
#define HEAD_MAX   128u /* of an array: shape and dtype, where an extension is searched for one */

/* An array as it was found; a node of type TENSOR has its index as offset. */
struct flax_array {
    ckpt_dtype dtype;
    const char *name; /* of a dtype that only numpy has */
    uint8_t swap;
    bool scalar; /* of numpy */
    uint32_t ndim;
    uint64_t *shape;
    uint64_t at, nbytes; /* of its elements, in the file */
    uint32_t storage;    /* CKPT_NO_STORAGE: not added yet */
};

struct frame {
    ckpt_value *node;
    uint64_t left; /* values that are still to come, keys included */
    ckpt_value *key;
    map *keys;
};

struct flax_reading {
    ckpt_file *f;
    ckpt_error *err;
    struct window window;
    struct frame *stack;
    size_t depth, cap_stack;
    struct flax_array *arrays;
    size_t n, cap;
    ckpt_value *root;
};

/* ------------------------------------------------------------------------ arrays */

/* What an extension of type 1, 2 or 3 holds, while it is read. */
struct payload {
    struct flax_reading *r;
    source *src;
    unsigned seen; /* values before this one */
    uint64_t dims, count;
    uint64_t shape[NPY_DIMENSIONS];
    char name[DTYPE_NAME];
    size_t nname;
    uint64_t at, nbytes;
    bool has_bytes;
    double part[2]; /* of a complex number */
    ckpt_error *err;
};

static ckpt_status payload_fail(struct payload *p, const struct msgpack_value *v, const char *what)
{
    return fail(p->err, CKPT_EFORMAT, source_pos(p->src, v->at), "{%s}, where {=[shape, dtype, bytes]} is",
                what);
}

/* visit_array - reads V, the next value of [shape, dtype, bytes]. */
static ckpt_status visit_array(void *user, const struct msgpack_value *v, ckpt_error *err)
{
    struct payload *p = user;
    unsigned i = p->seen++;
    if (i == 0)
        return v->kind == MSGPACK_ARRAY && v->count == 3 ? CKPT_OK : payload_fail(p, v, "no list of three");
    if (i == 1) {
        p->dims = v->count;
        return v->kind == MSGPACK_ARRAY && v->count <= NPY_DIMENSIONS ? CKPT_OK
                                                                      : payload_fail(p, v, "no shape");
    }
    if (p->count < p->dims) {
        p->shape[p->count++] = v->bits;
        return v->kind == MSGPACK_UINT || (v->kind == MSGPACK_INT && v->bits <= INT64_MAX)
                   ? CKPT_OK
                   : payload_fail(p, v, "no size");
    }
    bool text = v->kind == MSGPACK_TEXT || v->kind == MSGPACK_BYTES;
    if (!p->nname) {
        if (!text || !v->n || v->n > sizeof p->name)
            return payload_fail(p, v, "no dtype");
        p->nname = (size_t)v->n;
        return source_read(p->src, v->data, p->name, p->nname, err);
    }
    p->at = v->data;
    p->nbytes = v->n;
    p->has_bytes = v->kind == MSGPACK_BYTES;
    return p->has_bytes ? CKPT_OK : payload_fail(p, v, "no bytes");
}

bool flax_is_scalar(const ckpt_file *f, const ckpt_value *v)
{
    const struct flax_array *arrays = f->container;
    return arrays[v->offset].scalar;
}

/* find_dtype - NAME as flax reads it: by numpy's name or code, or by that of ml_dtypes. */
static bool find_dtype(arena *a, ckpt_str name, struct flax_array *x, uint64_t *width)
{
    struct numpy_dtype d;
    *x = (struct flax_array){.dtype = dtype_by_name(name), .storage = CKPT_NO_STORAGE};
    const struct dtype_info *known = dtype_info(x->dtype);
    *width = known->block_bytes;
    if (x->dtype != CKPT_DT_NONE && known->block_elems == 1 && strchr("fiubc", known->klass))
        return true;
    if (str_starts(name, STR_LIT("datetime64[")) || str_starts(name, STR_LIT("timedelta64["))) {
        x->dtype = CKPT_DT_NP;
        x->name = arena_str(a, name).ptr;
        *width = 8;
        return x->name != NULL;
    }
    if (!numpy_dtype_parse(name, &d) || !strchr("fiubc", d.kind))
        return false;
    x->dtype = numpy_torch_dtype(&d);
    x->swap = d.big_endian ? numpy_swap_bytes(&d) : 0;
    *width = d.bytes;
    if (x->dtype == CKPT_DT_NONE) {
        x->dtype = CKPT_DT_NP;
        x->name = numpy_dtype_text(a, &d);
        return x->name != NULL;
    }
    return true;
}

bool flax_size(const uint64_t *shape, uint32_t ndim, uint64_t width, uint64_t *nbytes)
{
    uint64_t all = width;
    bool fits = true, empty = false;
    for (uint32_t i = 0; i < ndim; i++) {
        fits = fits && (shape[i] == 0 || checked_mul(all, shape[i], &all)) && all <= INT64_MAX;
        empty = empty || shape[i] == 0;
    }
    *nbytes = empty ? 0 : all;
    return fits;
}

/* check_size - the shape of P times WIDTH is as many bytes as there are. */
static ckpt_status check_size(struct payload *p, uint64_t width)
{
    uint64_t need;
    bool fits = flax_size(p->shape, (uint32_t)p->dims, width, &need);
    if (fits && need == p->nbytes)
        return CKPT_OK;
    return fail(p->err, CKPT_EFORMAT, source_pos(p->src, p->at),
                "an array of {%" PRIu64 " bytes}; its dtype and shape take {=%s%" PRIu64 "}", p->nbytes,
                fits ? "" : "more than ", need);
}

static ckpt_value *add_array(struct flax_reading *r, const struct flax_array *x)
{
    struct flax_array *grown = arena_grow(r->f->a, r->arrays, r->n, &r->cap, r->n + 1, sizeof *grown);
    if (!grown)
        return NULL;
    r->arrays = grown;
    grown[r->n] = *x;
    return value_new(r->f->a, CKPT_V_TENSOR, r->n++);
}

/* read_array - V as a node of type TENSOR. */
static ckpt_status read_array(struct flax_reading *r, const struct msgpack_value *v, ckpt_value **out)
{
    struct payload p = {.r = r, .err = r->err};
    struct flax_array x;
    uint64_t width;
    CKPT_TRY(source_slice(r->f->src, v->data, v->n, &p.src, r->err));
    ckpt_status st = msgpack_read(p.src, visit_array, &p, r->err);
    if (st == CKPT_OK && !p.has_bytes)
        st = fail(r->err, CKPT_EFORMAT, v->at, "an array without {=[shape, dtype, bytes]}");
    if (st == CKPT_OK && !find_dtype(r->f->a, str_of(p.name, p.nname), &x, &width))
        st = fail(r->err, CKPT_EFORMAT, v->at,
                  "an array of {\"%.*s\"}; {=a dtype that flax reads} was expected", (int)p.nname, p.name);
    if (st == CKPT_OK)
        st = check_size(&p, width);
    source_unref(p.src);
    CKPT_TRY(st);
    x.scalar = v->type == FLAX_SCALAR;
    x.ndim = (uint32_t)p.dims;
    x.shape = arena_array(r->f->a, x.ndim, sizeof *x.shape);
    x.at = v->data + p.at; /* bounded: inside of V */
    x.nbytes = p.nbytes;
    if (x.shape) /* bounded: no more than NPY_DIMENSIONS */
        memcpy(x.shape, p.shape, x.ndim * sizeof *x.shape);
    *out = x.shape ? add_array(r, &x) : NULL;
    return *out ? CKPT_OK : fail_memory(r->err);
}

/* visit_complex - reads V, the next value of [real, imaginary]. */
static ckpt_status visit_complex(void *user, const struct msgpack_value *v, ckpt_error *err)
{
    struct payload *p = user;
    unsigned i = p->seen++;
    float f;
    uint32_t low = (uint32_t)v->bits;
    (void)err;
    if (i == 0)
        return v->kind == MSGPACK_ARRAY && v->count == 2 ? CKPT_OK : payload_fail(p, v, "no complex number");
    if (i > 2 || (v->kind != MSGPACK_FLOAT && v->kind != MSGPACK_UINT && v->kind != MSGPACK_INT))
        return payload_fail(p, v, "no complex number");
    memcpy(&f, &low, sizeof f);
    if (v->kind != MSGPACK_FLOAT)
        p->part[i - 1] = v->kind == MSGPACK_UINT ? (double)v->bits : (double)(int64_t)v->bits;
    else if (v->width == 4)
        p->part[i - 1] = (double)f;
    else
        memcpy(&p->part[i - 1], &v->bits, sizeof p->part[0]);
    return CKPT_OK;
}

static ckpt_value *float_node(arena *a, double d)
{
    ckpt_value *v = value_new(a, CKPT_V_FLOAT, 0);
    if (v)
        v->u.f = d;
    return v;
}

/* read_complex - V as a call of complex(). */
static ckpt_status read_complex(struct flax_reading *r, const struct msgpack_value *v, ckpt_value **out)
{
    arena *a = r->f->a;
    struct payload p = {.r = r, .err = r->err};
    CKPT_TRY(source_slice(r->f->src, v->data, v->n, &p.src, r->err));
    ckpt_status st = msgpack_read(p.src, visit_complex, &p, r->err);
    source_unref(p.src);
    CKPT_TRY(st);
    ckpt_value *parts[2] = {float_node(a, p.part[0]), float_node(a, p.part[1])};
    ckpt_value *args = parts[0] && parts[1] ? value_tuple(a, 2, parts) : NULL;
    ckpt_value *complex = value_global(a, STR_LIT("builtins"), STR_LIT("complex"), v->at);
    *out = args && complex ? value_call(a, CALL_REDUCE, complex, args, v->at) : NULL;
    return *out ? CKPT_OK : fail_memory(r->err);
}

/* ------------------------------------------------------------------------ values */

/* read_bytes - the bytes of V as a node of TYPE. */
static ckpt_status read_bytes(struct flax_reading *r, const struct msgpack_value *v, ckpt_value_type type,
                              ckpt_value **out)
{
    uint64_t most = r->f->limits.max_header;
    if (v->n > most)
        return fail(r->err, CKPT_ELIMIT, source_pos(r->f->src, v->at),
                    "a value of {%" PRIu64 " bytes}; the limit is {=%" PRIu64 "}", v->n, most);
    char *bytes = arena_alloc(r->f->a, (size_t)v->n + 1); /* bounded: by max_header */
    if (!bytes)
        return fail_memory(r->err);
    CKPT_TRY(window_read(&r->window, r->f->src, v->data, bytes, (size_t)v->n, r->err));
    bytes[v->n] = 0;
    ckpt_str s = str_of(bytes, (size_t)v->n);
    if (type == CKPT_V_STR && !utf8_check(s, false, NULL))
        return fail(r->err, CKPT_EFORMAT, source_pos(r->f->src, v->data), "a text that is {not} {=UTF-8}");
    *out = type == CKPT_V_STR ? value_str(r->f->a, s) : value_new(r->f->a, type, v->at);
    if (*out && type != CKPT_V_STR)
        (*out)->u.str = s;
    return *out ? CKPT_OK : fail_memory(r->err);
}

/* holds_array - do BYTES, of an extension that is none of flax's, end as an array does, with bytes whose
 * length is that to the end? Then its type is damaged. */
static bool holds_array(ckpt_str bytes)
{
    const unsigned char *b = (const unsigned char *)bytes.ptr;
    for (size_t i = 0; i < bytes.len && i < HEAD_MAX; i++) {
        size_t width = b[i] >= 0xc4 && b[i] <= 0xc6 ? (size_t)1 << (b[i] - 0xc4) : 0, n = 0;
        if (!width || bytes.len - i - 1 < width)
            continue;
        for (size_t k = 1; k <= width; k++)
            n = n << 8 | b[i + k];
        if (n == bytes.len - i - 1 - width)
            return true;
    }
    return false;
}

static ckpt_status read_extension(struct flax_reading *r, const struct msgpack_value *v, ckpt_value **out)
{
    if (v->type == FLAX_ARRAY || v->type == FLAX_SCALAR)
        return read_array(r, v, out);
    if (v->type == FLAX_COMPLEX)
        return read_complex(r, v, out);
    if (v->type == FLAX_TIMESTAMP && v->n != 4 && v->n != 8 && v->n != 12)
        return fail(r->err, CKPT_EFORMAT, v->at, "a timestamp of {%llu bytes}; {=4, 8 or 12} are allowed",
                    (unsigned long long)v->n);
    ckpt_value *pair[2] = {value_int(r->f->a, v->type), NULL};
    CKPT_TRY(read_bytes(r, v, CKPT_V_BYTES, &pair[1]));
    if (holds_array(pair[1]->u.str))
        return fail(r->err, CKPT_EFORMAT, v->at,
                    "an extension of {type %d} that holds an array; those are of {=type 1 or 3}", v->type);
    *out = pair[0] ? value_tuple(r->f->a, 2, pair) : NULL;
    return *out ? CKPT_OK : fail_memory(r->err);
}

static ckpt_value *number_node(struct flax_reading *r, const struct msgpack_value *v)
{
    arena *a = r->f->a;
    unsigned char le[9] = {0};
    float f;
    double d;
    uint32_t low = (uint32_t)v->bits;
    memcpy(&f, &low, sizeof f);
    memcpy(&d, &v->bits, sizeof d);
    if (v->kind == MSGPACK_FLOAT)
        return float_node(a, v->width == 4 ? (double)f : d);
    if (v->kind == MSGPACK_INT || v->bits <= INT64_MAX)
        return value_int(a, (int64_t)v->bits);
    for (int i = 0; i < 8; i++)
        le[i] = (unsigned char)(v->bits >> 8 * i);
    ckpt_value *big = value_new(a, CKPT_V_BIGINT, v->at);
    if (big)
        big->u.str = arena_str(a, str_of((const char *)le, sizeof le));
    return big && big->u.str.ptr ? big : NULL;
}

/* read_leaf - V, which is no container, as a node. */
static ckpt_status read_leaf(struct flax_reading *r, const struct msgpack_value *v, ckpt_value **out)
{
    switch (v->kind) {
    case MSGPACK_TEXT: return read_bytes(r, v, CKPT_V_STR, out);
    case MSGPACK_BYTES: return read_bytes(r, v, CKPT_V_BYTES, out);
    case MSGPACK_EXT: return read_extension(r, v, out);
    case MSGPACK_NIL: *out = value_new(r->f->a, CKPT_V_NONE, v->at); break;
    case MSGPACK_BOOL:
        if ((*out = value_new(r->f->a, CKPT_V_BOOL, v->at)))
            (*out)->u.b = v->bits != 0;
        break;
    default: *out = number_node(r, v); break;
    }
    return *out ? CKPT_OK : fail_memory(r->err);
}

/* -------------------------------------------------------------------- containers */

/* list_by_number - the nodes of MAPPING, whose keys are "0" to "N - 1", in that order; false: it is no such
 * mapping. */
static bool list_by_number(arena *a, const ckpt_value *mapping, ckpt_value ***out, uint32_t *n)
{
    ckpt_str key;
    uint64_t at;
    const value_pair *pairs = mapping ? value_pairs(mapping, n) : NULL;
    if (!pairs || *n > CHUNKS_MAX || !(*out = arena_array(a, *n, sizeof **out)))
        return false;
    for (uint32_t i = 0; i < *n; i++) {
        if (!value_text(pairs[i].key, &key) || !str_uint(key, &at) || at >= *n || (*out)[at])
            return false;
        (*out)[at] = pairs[i].val;
    }
    return true;
}

/* add_pieces - the storage of X, whose elements are those of the N arrays at CHUNK, WIDTH bytes each. */
static ckpt_status add_pieces(struct flax_reading *r, struct flax_array *x, ckpt_value *const *chunk,
                              uint32_t n, uint64_t width)
{
    arena *a = r->f->a;
    struct piece *piece = arena_array(a, n, sizeof *piece);
    uint64_t *box = arena_array(a, 2u * n, sizeof *box), total = 0;
    struct storage s = {.dtype = x->dtype, .swap = x->swap};
    if (!piece || !box)
        return fail_memory(r->err);
    for (uint32_t i = 0; i < n; i++) {
        const struct flax_array *c = &r->arrays[chunk[i]->offset];
        box[2 * i] = total;
        box[2 * i + 1] = c->nbytes / width;
        piece[i] = (struct piece){
            .offset = &box[2 * i], .size = &box[2 * i + 1], .src = r->f->src, .at = c->at};
        total += c->nbytes / width; /* bounded: in the file */
    }
    const struct pieces p = {.shape = &total, .ndim = 1, .width = (uint32_t)width, .piece = piece, .n = n};
    s.s.nbytes = x->nbytes;
    s.s.key = arena_printf(a, "chunks-%zu", r->n);
    if (!s.s.key.ptr)
        return fail_memory(r->err);
    CKPT_TRY(pieces_source(a, &p, &s.src, &s.off, r->err));
    return file_storage_add(r->f, &s, &x->storage, r->err);
}

/* join_chunks - DICT, which is marked as an array in chunks, as *OUT. */
static ckpt_status join_chunks(struct flax_reading *r, const ckpt_value *dict, ckpt_value **out)
{
    ckpt_value **size, **chunk;
    uint32_t ndim, n;
    uint64_t need, have = 0;
    int64_t one;
    if (!list_by_number(r->f->a, value_get(dict, "shape"), &size, &ndim) || ndim > NPY_DIMENSIONS ||
        !list_by_number(r->f->a, value_get(dict, "chunks"), &chunk, &n) || n == 0 ||
        chunk[0]->type != CKPT_V_TENSOR)
        return fail(r->err, CKPT_EFORMAT, dict->offset, "an array in chunks with {no} {=shape and chunks}");
    struct flax_array x = r->arrays[chunk[0]->offset];
    x.scalar = false;
    uint64_t width = x.dtype == CKPT_DT_NP ? 0 : dtype_info(x.dtype)->block_bytes;
    x.ndim = ndim;
    x.shape = arena_array(r->f->a, ndim, sizeof *x.shape);
    if (!x.shape)
        return fail_memory(r->err);
    need = width;
    for (uint32_t i = 0; i < ndim; i++) {
        if (!value_integer(size[i], &one) || one < 0 || !checked_mul(need, (uint64_t)one, &need))
            return fail(
                r->err, CKPT_EFORMAT, dict->offset,
                "an array in chunks whose shape is {negative, no number or too large}; {=sizes} are allowed");
        x.shape[i] = (uint64_t)one;
    }
    for (uint32_t i = 0; i < n; i++) {
        const struct flax_array *c = chunk[i]->type == CKPT_V_TENSOR ? &r->arrays[chunk[i]->offset] : NULL;
        if (!c || c->dtype != x.dtype || c->swap != x.swap || !width)
            return fail(r->err, CKPT_EFORMAT, dict->offset, "chunks of {different dtypes}, where {=one} is");
        have += c->nbytes; /* bounded: in the file */
    }
    if (have != need)
        return fail(r->err, CKPT_EFORMAT, dict->offset,
                    "chunks of {%" PRIu64 " bytes}; dtype and shape take {=%" PRIu64 "}", have, need);
    x.nbytes = need;
    CKPT_TRY(add_pieces(r, &x, chunk, n, width));
    *out = add_array(r, &x);
    return *out ? CKPT_OK : fail_memory(r->err);
}

static ckpt_status push(struct flax_reading *r, const struct msgpack_value *v)
{
    bool is_map = v->kind == MSGPACK_MAP;
    if (r->depth == FLAX_DEPTH)
        return fail(r->err, CKPT_ELIMIT, v->at, "{more} than {=%u} containers in each other", FLAX_DEPTH);
    struct frame *grown = arena_grow(r->f->a, r->stack, r->depth, &r->cap_stack, r->depth + 1, sizeof *grown);
    if (!grown)
        return fail_memory(r->err);
    r->stack = grown;
    grown[r->depth] = (struct frame){.node = value_new(r->f->a, is_map ? CKPT_V_DICT : CKPT_V_LIST, v->at),
                                     .left = is_map ? 2 * v->count : v->count, /* bounded: 32 bits */
                                     .keys = is_map ? map_new(0) : NULL};
    r->depth++;
    return grown[r->depth - 1].node && (!is_map || grown[r->depth - 1].keys) ? CKPT_OK : fail_memory(r->err);
}

/* is_damaged_mark - is KEY the key of arrays in chunks but for a few bytes? Then its mapping is such an
 * array, and its pieces are no tensors of their own. */
static bool is_damaged_mark(ckpt_str key)
{
    size_t same = 0;
    for (size_t i = 0; key.len == strlen(FLAX_CHUNKED) && i < key.len; i++)
        same += key.ptr[i] == FLAX_CHUNKED[i];
    return same > strlen(FLAX_CHUNKED) / 2 && same < strlen(FLAX_CHUNKED);
}

static ckpt_status take_key(struct flax_reading *r, struct frame *top, ckpt_value *key, uint64_t at)
{
    const ckpt_value *first = top->node->u.dict.n ? top->node->u.dict.pairs[0].key : key;
    ckpt_str text;
    uint32_t before = MAP_NONE;
    if (key->type == CKPT_V_TENSOR || value_is_sequence(key) || key->type == CKPT_V_DICT ||
        key->type == CKPT_V_CALL)
        return fail(r->err, CKPT_EFORMAT, at, "a key that is {a %s}, not {=a text or a number}",
                    key->type == CKPT_V_TENSOR ? "tensor" : "container");
    bool is_text = value_text(key, &text);
    if (is_text != (first->type == CKPT_V_STR)) /* jax sorts keys, and cannot compare these */
        return fail(r->err, CKPT_EFORMAT, at,
                    "a mapping with keys of {text and of numbers}; {=one kind} is allowed");
    if (is_text && is_damaged_mark(text))
        return fail(r->err, CKPT_EFORMAT, at, "the key {\"%.*s\"} is nearly {=\"%s\"}", STR_ARG(text),
                    FLAX_CHUNKED);
    if (is_text && !map_put(top->keys, text, 0, &before))
        return fail_memory(r->err);
    if (before != MAP_NONE)
        return fail(r->err, CKPT_EFORMAT, at, "the key \"%.*s\" comes {twice}, {=once} is allowed",
                    STR_ARG(text));
    top->key = key;
    return CKPT_OK;
}

/* place - NODE, which is complete, where it belongs; closes the containers that are complete with it. */
static ckpt_status place(struct flax_reading *r, ckpt_value *node, uint64_t at)
{
    while (r->depth) {
        struct frame *top = &r->stack[r->depth - 1];
        bool is_map = top->node->type == CKPT_V_DICT;
        if (node && is_map && !top->key) {
            CKPT_TRY(take_key(r, top, node, at));
        } else if (node) {
            bool ok = is_map ? value_put(r->f->a, top->node, top->key, node)
                             : value_append(r->f->a, top->node, node);
            top->key = NULL;
            if (!ok)
                return fail_memory(r->err);
        }
        top->left -= node != NULL;
        if (top->left)
            return CKPT_OK;
        node = top->node;
        map_free(top->keys);
        r->depth--;
        if (is_map && value_get(node, FLAX_CHUNKED))
            CKPT_TRY(join_chunks(r, node, &node));
    }
    r->root = node;
    return CKPT_OK;
}

static ckpt_status visit(void *user, const struct msgpack_value *v, ckpt_error *err)
{
    struct flax_reading *r = user;
    ckpt_value *node = NULL;
    bool container = v->kind == MSGPACK_MAP || v->kind == MSGPACK_ARRAY;
    (void)err;
    CKPT_TRY(container ? push(r, v) : read_leaf(r, v, &node));
    return !container || v->count == 0 ? place(r, node, v->at) : CKPT_OK;
}

/* ------------------------------------------------------------------------- table */

static ckpt_status add_storages(struct flax_reading *r)
{
    for (size_t i = 0; i < r->n; i++) {
        struct flax_array *x = &r->arrays[i];
        struct storage s = {.dtype = x->dtype, .swap = x->swap > 1 ? x->swap : 0, .off = x->at};
        if (x->storage != CKPT_NO_STORAGE)
            continue;
        s.s.nbytes = x->nbytes;
        s.s.key = arena_printf(r->f->a, "%zu", i);
        if (!s.s.key.ptr)
            return fail_memory(r->err);
        s.src = source_ref(r->f->src);
        CKPT_TRY(file_storage_add(r->f, &s, &x->storage, r->err));
    }
    return CKPT_OK;
}

static bool describe(void *user, const ckpt_value *v, struct row *row)
{
    const struct flax_reading *r = user;
    if (v->type != CKPT_V_TENSOR || v->offset >= r->n)
        return false;
    const struct flax_array *x = &r->arrays[v->offset];
    row->t.dtype = (uint16_t)x->dtype;
    row->t.dtype_name = x->name;
    row->t.nbytes = x->nbytes;
    row->t.ndim = x->ndim;
    row->t.shape = x->shape;
    row->t.has_shape = row->t.has_data = true;
    row->t.storage = x->storage;
    return true;
}

static ckpt_status read(ckpt_file *f, ckpt_error *err)
{
    struct flax_reading r = {.f = f, .err = err};
    const struct torch_storages st = {.user = &r, .object = describe};
    file_budget(f, f->src->size);
    ckpt_status status = msgpack_read(f->src, visit, &r, err);
    for (size_t i = 0; i < r.depth; i++)
        map_free(r.stack[i].keys);
    window_close(&r.window);
    if (status == CKPT_OK)
        status = add_storages(&r);
    if (status == CKPT_OK) {
        format_set_container(f, r.arrays, NULL);
        f->root = r.root;
        f->producer = STR_LIT("flax");
        status = torch_graph(f, r.root, &st, err);
    }
    fail_add_place(status == CKPT_OK ? NULL : err, 0, STR_LIT("MessagePack"));
    return status;
}

/* begins_text, begins_array - can byte B begin a key, or one of flax's extensions? */
static bool begins_text(unsigned b) { return (b >= 0xa0 && b <= 0xbf) || (b >= 0xd9 && b <= 0xdb); }
static bool begins_extension(unsigned b) { return (b >= 0xc7 && b <= 0xc9) || (b >= 0xd4 && b <= 0xd8); }

/* is_byte_of_flax - is H a single byte, an empty map or a small number, in a file that is called .msgpack? By
 * another name it may as well be what is left of a pickle, a zip or JSON. */
static bool is_byte_of_flax(const char *path, const unsigned char *h, size_t n)
{
    return n == 1 && h[0] <= 0x80 && str_ends(str_c(path), STR_LIT(".msgpack"));
}

bool flax_is_recognized(const char *path, const unsigned char *h, size_t n)
{
    if (n < 2)
        return is_byte_of_flax(path, h, n);
    unsigned skip = h[0] == 0xde || h[0] == 0xdc ? 3 : h[0] == 0xdf || h[0] == 0xdd ? 5 : 1;
    unsigned next = n > skip ? h[skip] : 0;
    bool is_map = (h[0] > 0x80 && h[0] <= 0x8f) || h[0] == 0xde || h[0] == 0xdf;
    bool is_list = (h[0] > 0x90 && h[0] <= 0x9f) || h[0] == 0xdc || h[0] == 0xdd;
    bool number = n > skip && (next <= 0x7f || next == 0xca || next == 0xcb);
    return (is_map && (begins_text(next) || number)) || (is_list && begins_extension(next)) ||
           begins_extension(h[0]);
}

static bool probe(const struct probe *p)
{
    return !p->directory && flax_is_recognized(p->path, p->head, p->nhead);
}

const struct format format_flax = {.name = "flax",
                                   .title = "Flax msgpack",
                                   .suffixes = ".msgpack",
                                   .probe = probe,
                                   .read = read,
                                   .write = flax_write};
