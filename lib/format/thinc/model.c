/*
 * model.c - reads models of thinc, as to_bytes and to_disk write them, also in pipelines of spaCy: one value
 * of MessagePack.
 *
 *   {"nodes": [{"index", "name", …}, …], "attrs": […], "params": [{NAME: ARRAY or nil, …}, …],
 *    "shims": [[…], …]}    each list has an item for each node
 *   ARRAY  {"nd": true, "type": "<f4", "kind": "", "shape": [2, 3], "data": bytes}, as msgpack_numpy writes
 *          it: row-major; its keys may be bytes
 *
 * The parameter NAME of a node is called INDEX.NODE.NAME. A parameter that is nil was not initialized, and is
 * not listed. Attributes are left out. A shim holds a model of another library, which is not read: a notice
 * counts these.
 *
 * Refused: what MessagePack refuses, other types of numpy, another number of params than of nodes, a node
 * without name or with another index than its place, more than VALUES_MAX values.
 *
 * Source: thinc 9.1 (model.py), srsly 2 (_msgpack_api.py).
 */
#include <inttypes.h>
#include <stdlib.h>

#include "codec/msgpack.h"
#include "core/numpy.h"
#include "format/kit.h"
#include "format/recognize.h"

#define VALUES_MAX ((size_t)1 << 20)
#define TEXT_MAX   4096u
#define MAX_DIMS   64u

struct thinc {
    ckpt_file *f;
    ckpt_error *err;
    struct kit k;
    struct msgpack_value *values; /* of the file, containers before their contents */
    size_t n, cap;
};

static ckpt_status collect(void *user, const struct msgpack_value *value, ckpt_error *err)
{
    struct thinc *t = user;
    if (t->n == VALUES_MAX)
        return fail(err, CKPT_ELIMIT, value->at, "{more} than {=%zu values} of MessagePack", VALUES_MAX);
    return arena_push(NULL, &t->values, &t->n, &t->cap, value, sizeof *value) ? CKPT_OK : fail_memory(err);
}

/* skip_value - returns the index after value INDEX and its contents, which msgpack_read has found
 * complete. */
static size_t skip_value(const struct thinc *thinc, size_t index)
{
    for (uint64_t left = 1; left; left--, index++) {
        const struct msgpack_value *v = &thinc->values[index];
        uint64_t contents = v->kind == MSGPACK_ARRAY ? v->count : v->kind == MSGPACK_MAP ? 2 * v->count : 0;
        left += contents;
    }
    return index;
}

/* read_text - sets *OUT to value INDEX, a TEXT or BYTES; an empty text if it is neither, or longer than
 * TEXT_MAX. */
static ckpt_status read_text(const struct thinc *thinc, size_t index, ckpt_str *out)
{
    const struct msgpack_value *v = &thinc->values[index];
    size_t n = (v->kind == MSGPACK_TEXT || v->kind == MSGPACK_BYTES) && v->n <= TEXT_MAX ? (size_t)v->n : 0;
    char *text = arena_alloc(thinc->f->a, n + 1);
    CKPT_TRY_ALLOC(text, thinc->err);
    *out = str_of(text, n);
    return source_read(thinc->f->src, v->data, text, n, thinc->err);
}

/* find_key - sets *OUT to the index of the value of KEY in the map INDEX; 0: it has none, or INDEX is no
 * map. */
static ckpt_status find_key(const struct thinc *thinc, size_t index, const char *key, size_t *out)
{
    const struct msgpack_value *pairs = &thinc->values[index++];
    *out = 0;
    for (uint64_t k = 0; pairs->kind == MSGPACK_MAP && k < pairs->count; k++) {
        ckpt_str text;
        bool may_match = thinc->values[index].n == strlen(key);
        if (may_match)
            CKPT_TRY(read_text(thinc, index, &text));
        index = skip_value(thinc, index);
        if (may_match && str_is(text, key))
            *out = index;
        index = skip_value(thinc, index);
    }
    return CKPT_OK;
}

/* find_list - does what find_key does, and fails unless the value is an array. */
static ckpt_status find_list(const struct thinc *thinc, size_t index, const char *key, size_t *out)
{
    CKPT_TRY(find_key(thinc, index, key, out));
    if (*out && thinc->values[*out].kind == MSGPACK_ARRAY)
        return CKPT_OK;
    return fail(thinc->err, CKPT_EFORMAT, thinc->values[index].at, "{no} array {=\"%s\"}", key);
}

/* ---------------------------------------------------------------------------------- arrays */

static ckpt_status read_dtype(const struct thinc *thinc, size_t index, struct kit_tensor *out)
{
    ckpt_str type;
    struct numpy_dtype numpy = {.kind = 0};
    CKPT_TRY(read_text(thinc, index, &type));
    bool known = numpy_dtype_parse(type, &numpy);
    out->t.dtype = (uint16_t)(known ? numpy_known_dtype(&numpy) : CKPT_DT_NONE);
    out->big_endian = numpy.big_endian;
    if (out->t.dtype != CKPT_DT_NONE)
        return CKPT_OK;
    return fail(thinc->err, CKPT_EUNSUPPORTED, thinc->values[index].at,
                "the type {\"%.*s\"}; {=numbers of numpy} are read", STR_ARG(type));
}

static ckpt_status read_shape(const struct thinc *thinc, size_t index, struct kit_tensor *out)
{
    const struct msgpack_value *list = &thinc->values[index];
    bool ok = list->kind == MSGPACK_ARRAY && list->count <= MAX_DIMS;
    uint64_t *shape = ok ? arena_array(thinc->f->a, list->count, sizeof *shape) : NULL;
    if (ok && !shape)
        return fail_memory(thinc->err);
    for (uint32_t k = 0; ok && k < list->count; k++) {
        ok = list[k + 1].kind == MSGPACK_UINT;
        shape[k] = list[k + 1].bits;
    }
    out->t.ndim = ok ? (uint32_t)list->count : 0;
    out->t.shape = shape;
    return ok ? CKPT_OK
              : fail(thinc->err, CKPT_EFORMAT, list->at,
                     "a shape that is {not} {=an array of up to %u sizes}", MAX_DIMS);
}

/* add_array - adds the array INDEX as NAME. */
static ckpt_status add_array(struct thinc *thinc, size_t index, ckpt_str name)
{
    struct kit_tensor out = {.name = name, .described_at = thinc->values[index].at, .src = thinc->f->src};
    size_t type, shape, data;
    CKPT_TRY(find_key(thinc, index, "type", &type));
    CKPT_TRY(find_key(thinc, index, "shape", &shape));
    CKPT_TRY(find_key(thinc, index, "data", &data));
    ckpt_status st = type && shape && data && thinc->values[data].kind == MSGPACK_BYTES
                         ? read_dtype(thinc, type, &out)
                         : fail(thinc->err, CKPT_EFORMAT, thinc->values[index].at,
                                "{no array} with {=type, shape and data}");
    CKPT_THEN(st, read_shape(thinc, shape, &out));
    if (st != CKPT_OK)
        return kit_add_faulty(&thinc->k, &out, st);
    out.src_offset = thinc->values[data].data;
    out.nbytes = thinc->values[data].n;
    return kit_add_tensor(&thinc->k, &out);
}

/* read_node_name - sets *OUT to the name of node NUMBER, the map POSITION. */
static ckpt_status read_node_name(const struct thinc *thinc, size_t position, uint64_t number, ckpt_str *out)
{
    size_t index, name;
    CKPT_TRY(find_key(thinc, position, "index", &index));
    CKPT_TRY(find_key(thinc, position, "name", &name));
    if (!name || !index || thinc->values[index].kind != MSGPACK_UINT || thinc->values[index].bits != number)
        return fail(thinc->err, CKPT_EFORMAT, thinc->values[position].at,
                    "{no} node with a name and {=the index %" PRIu64 "}", number);
    return read_text(thinc, name, out);
}

/* add_params - adds the parameters in the map INDEX of node NUMBER, whose map is NODE. */
static ckpt_status add_params(struct thinc *thinc, size_t index, size_t node, uint64_t number)
{
    const struct msgpack_value *pairs = &thinc->values[index];
    ckpt_str node_name, param;
    char digits[STR_NUMBER_MAX];
    CKPT_TRY(read_node_name(thinc, node, number, &node_name));
    if (pairs->kind != MSGPACK_MAP)
        return fail(thinc->err, CKPT_EFORMAT, pairs->at, "parameters of a node that are {no} {=map}");
    ckpt_str prefix = format_number(number, digits);
    index++;
    for (uint64_t k = 0; k < pairs->count; k++) {
        CKPT_TRY(read_text(thinc, index, &param));
        index = skip_value(thinc, index);
        ckpt_str full = ARENA_CONCAT(thinc->f->a, prefix, STR_LIT("."), node_name, STR_LIT("."), param);
        CKPT_TRY_ALLOC(full.ptr, thinc->err);
        if (thinc->values[index].kind != MSGPACK_NIL)
            CKPT_TRY(add_array(thinc, index, full));
        index = skip_value(thinc, index);
    }
    return CKPT_OK;
}

/* note_shims - adds a notice if the lists in the array INDEX, one for each node, are not all empty. */
static void note_shims(const struct thinc *thinc, size_t index)
{
    const struct msgpack_value *list = &thinc->values[index++];
    uint64_t n = 0;
    for (uint64_t k = 0; list->kind == MSGPACK_ARRAY && k < list->count;
         k++, index = skip_value(thinc, index))
        n += thinc->values[index].kind == MSGPACK_ARRAY && thinc->values[index].count;
    if (n)
        file_notice(thinc->f, "%" PRIu64 " node%s of another library, which %s not read", n,
                    n == 1 ? " is a model" : "s are models", n == 1 ? "is" : "are");
    thinc->f->leaves_out = thinc->f->leaves_out || n;
}

static ckpt_status read_nodes(struct thinc *thinc)
{
    size_t nodes, params, shims;
    CKPT_TRY(find_list(thinc, 0, "nodes", &nodes));
    CKPT_TRY(find_list(thinc, 0, "params", &params));
    CKPT_TRY(find_key(thinc, 0, "shims", &shims));
    uint64_t n = thinc->values[nodes].count;
    if (thinc->values[params].count != n)
        return fail(thinc->err, CKPT_EFORMAT, thinc->values[params].at,
                    "params of {%" PRIu64 " nodes}; there are {=%" PRIu64 "}", thinc->values[params].count,
                    n);
    if (shims)
        note_shims(thinc, shims);
    nodes++;
    params++;
    for (uint64_t i = 0; i < n; i++) {
        CKPT_TRY(add_params(thinc, params, nodes, i));
        nodes = skip_value(thinc, nodes);
        params = skip_value(thinc, params);
    }
    return CKPT_OK;
}

static ckpt_status read(ckpt_file *f, ckpt_error *err)
{
    struct thinc t = {.f = f, .err = err};
    f->producer = STR_LIT("thinc");
    ckpt_status st = msgpack_read(f->src, collect, &t, err);
    CKPT_THEN(st, kit_begin(&t.k, f, value_new(f->a, CKPT_V_DICT, 0), err));
    CKPT_THEN(st, kit_end(&t.k, read_nodes(&t)));
    free(t.values);
    return position_if_failed(st, CKPT_NO_OFFSET, STR_LIT("MessagePack"), err);
}

static bool probe(const struct probe *this_probe) { return recognize_as(this_probe, SIGN_THINC); }

const struct format format_thinc = {
    .name = "thinc", .title = "thinc model", .suffixes = ".bin", .flat = true, .probe = probe, .read = read};
