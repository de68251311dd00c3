/*
 * paddle.c - reads .pdparams, .pdopt and other files that paddle.save pickles
 * (python/paddle/framework/io.py). Tensors are NumPy arrays in them, in one of two ways:
 *
 *   a state dict       {name: array, …, "StructuredToParameterName@@": {name: name of the parameter}}
 *   any other object   tuple((name of the parameter, array)) for a tensor; other arrays are NumPy arrays
 *
 * paddle.static.save, and paddle.save of arrays, write arrays only. Such a file looks like any pickle of
 * NumPy arrays, so it is recognized by its suffix: .pdparams or .pdopt. Protocols 2 and 3 cut large arrays of
 * a state dict:
 *
 *   "UnpackBigParamInfor@@": {name: {"OriginShape": sizes, "slices": [key of a flat array, …]}}
 *
 * numpy has no bfloat16 and Paddle no uint16: an array of uint16 is a tensor of bfloat16.
 */
#include "format/pickle/paddle.h"

#include <inttypes.h>

#include "core/numpy.h"
#include "core/pieces.h"
#include "format/graph/numpy.h"

#define NAMES_KEY  "StructuredToParameterName@@"
#define SLICES_KEY "UnpackBigParamInfor@@"

struct paddle_tensor {
    const ckpt_value *array;   /* the call that makes the array; NULL: a parameter in slices */
    const ckpt_value *shape;   /* the sizes of a parameter in slices */
    const ckpt_value **slices; /* the arrays that such a parameter is cut into */
    uint32_t nslices;
    ckpt_str parameter; /* name of the parameter; empty: unknown */
};

static bool is_number_array(const ckpt_value *value)
{
    struct numpy_array a;
    struct numpy_dtype d;
    return value && numpy_array_of(value, &a) && a.shape && numpy_dtype_of(a.dtype, &d) && d.kind != 'O';
}

/* find_pair - returns the pair (name, array) that VALUE, a call of tuple(), makes; NULL: VALUE is no such
 * call. */
static const ckpt_value *find_pair(const ckpt_value *value)
{
    bool is_tuple = value_calls(value, "builtins", "tuple", 1) ||
                    value_calls(value, "__builtin__", "tuple", 1);
    const ckpt_value *pair = is_tuple ? value_arg(value, 0) : NULL;
    ckpt_str name;
    return pair && pair->type == CKPT_V_TUPLE && value_count(pair) == 2 &&
                   value_text(value_item(pair, 0), &name) && is_number_array(value_item(pair, 1))
               ? pair
               : NULL;
}

static bool has_pairs(const struct pickle_facts *facts)
{
    for (size_t i = 0; i < facts->ncalls; i++)
        if (find_pair(facts->calls[i]))
            return true;
    return false;
}

/* ------------------------------------------------------------------------- tensors */

static struct paddle_tensor *add_tensor(struct paddle_pickle *paddle, ckpt_value *node)
{
    struct paddle_tensor *added = arena_append(paddle->f->a, &paddle->tensors, &paddle->ntensors,
                                               &paddle->cap, sizeof *added);
    if (!added)
        return NULL;
    *added = (struct paddle_tensor){.array = NULL};
    value_become_tensor(node);
    node->u.i = added - paddle->tensors;
    return added;
}

/* make_tensor - turns VALUE, a call in the graph, into a tensor. PAIR is the (name, array) pair that it
 * makes; NULL: VALUE is the array itself, and a copy of the call is kept. */
static ckpt_status make_tensor(struct paddle_pickle *paddle, ckpt_value *value, const ckpt_value *pair,
                               ckpt_error *err)
{
    const ckpt_value *array = value_item(pair, 1);
    if (!pair) {
        ckpt_value *call = value_call(paddle->f->a, value_call_kind_of(value), value->u.call.callable,
                                      value->u.call.args, value_offset(value));
        CKPT_TRY_ALLOC(call, err);
        ((struct value_object *)(void *)call)->extra = value_extra_of(value);
        array = call;
    }
    struct paddle_tensor *tensor = add_tensor(paddle, value);
    CKPT_TRY_ALLOC(tensor, err);
    tensor->array = array;
    (void)value_text(value_item(pair, 0), &tensor->parameter);
    return CKPT_OK;
}

static bool is_array_or_dtype(const ckpt_value *value)
{
    struct numpy_dtype d;
    return is_number_array(value) || numpy_dtype_of(value, &d);
}

/* make_tensors - makes tensors of all pairs if IN_PAIRS, else of all arrays. Removes the calls of tensors,
 * arrays and dtypes from FACTS. */
static ckpt_status make_tensors(struct paddle_pickle *paddle, struct pickle_facts *facts, bool in_pairs,
                                ckpt_error *err)
{
    size_t left = 0;
    for (size_t i = 0; i < facts->ncalls; i++) {
        ckpt_value *v = facts->calls[i];
        const ckpt_value *pair = in_pairs ? find_pair(v) : NULL;
        if (in_pairs ? pair != NULL : is_number_array(v))
            CKPT_TRY(make_tensor(paddle, v, pair, err));
        else if (!is_array_or_dtype(v))
            facts->calls[left++] = v;
    }
    facts->ncalls = left;
    return CKPT_OK;
}

/* ------------------------------------------------------------------- state dicts */

static ckpt_value *remove_entry(ckpt_value *dict, const char *key)
{
    ckpt_value *v = value_get(dict, key);
    uint32_t left = 0;
    ckpt_str text;
    for (uint32_t i = 0; v && i < dict->u.dict.n; i++)
        if (!value_text(dict->u.dict.pairs[i].key, &text) || !str_is(text, key))
            dict->u.dict.pairs[left++] = dict->u.dict.pairs[i];
    if (v)
        dict->u.dict.n = left;
    return v;
}

struct state_dict {
    struct paddle_pickle *paddle;
    ckpt_value *root;
    map *keys; /* of the root, before parameters in slices were added */
    uint32_t nkeys;
    bool *is_slice; /* by entry: the array is a slice of a larger parameter */
    source *src;
    ckpt_error *err;
};

static uint32_t find_tensor_entry(const struct state_dict *dict, const ckpt_value *key)
{
    ckpt_str text;
    uint32_t i = value_text(key, &text) ? map_get(dict->keys, text) : MAP_NONE;
    return i != MAP_NONE && dict->root->u.dict.pairs[i].val->type == CKPT_V_TENSOR ? i : MAP_NONE;
}

static struct paddle_tensor *get_tensor(const struct state_dict *dict, uint32_t entry)
{
    return &dict->paddle->tensors[dict->root->u.dict.pairs[entry].val->u.i];
}

static void name_tensors(const struct state_dict *dict, const ckpt_value *names)
{
    uint32_t n;
    const value_pair *pairs = value_pairs(names, &n);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t entry = find_tensor_entry(dict, pairs[i].key);
        if (entry != MAP_NONE)
            (void)value_text(pairs[i].val, &get_tensor(dict, entry)->parameter);
    }
}

/* take_slices - makes the entries with the keys SLICES the slices of TENSOR, and sets their is_slice. */
static ckpt_status take_slices(const struct state_dict *dict, struct paddle_tensor *tensor,
                               const ckpt_value *slices)
{
    tensor->nslices = value_count(slices);
    tensor->slices = arena_array(dict->paddle->f->a, tensor->nslices, sizeof *tensor->slices);
    CKPT_TRY_ALLOC(tensor->slices, dict->err);
    for (uint32_t i = 0; i < tensor->nslices; i++) {
        uint32_t entry = find_tensor_entry(dict, value_item(slices, i));
        if (entry == MAP_NONE)
            return fail(dict->err, CKPT_EFORMAT, source_pos(dict->src, value_offset(slices)),
                        "slice {%" PRIu32 "} of {=%" PRIu32 "} is no array of the file", i, tensor->nslices);
        tensor->slices[i] = get_tensor(dict, entry)->array;
        dict->is_slice[entry] = true;
    }
    return CKPT_OK;
}

/* join_slices - adds KEY to the root, with the parameter whose slices INFO lists. */
static ckpt_status join_slices(const struct state_dict *dict, ckpt_value *key, const ckpt_value *info)
{
    ckpt_str name;
    const ckpt_value *slices = value_get(info, "slices");
    struct paddle_tensor tensor = {.shape = value_get(info, "OriginShape")};
    if (!tensor.shape || !value_is_sequence(slices) || !value_count(slices))
        return fail(dict->err, CKPT_EFORMAT, source_pos(dict->src, value_offset(info)),
                    "a parameter in slices {without OriginShape or slices}; {=both} are needed");
    if (!value_text(key, &name) || map_get(dict->keys, name) != MAP_NONE)
        return fail(dict->err, CKPT_EFORMAT, source_pos(dict->src, value_offset(key)),
                    "a parameter {both in slices and in one array}; {=one of both} is allowed");
    CKPT_TRY(take_slices(dict, &tensor, slices));
    ckpt_value *node = value_new(dict->paddle->f->a, CKPT_V_TENSOR, 0);
    struct paddle_tensor *big = node ? add_tensor(dict->paddle, node) : NULL;
    CKPT_TRY_ALLOC(big && value_put(dict->paddle->f->a, dict->root, key, node), dict->err);
    *big = tensor;
    return CKPT_OK;
}

/* join_all_slices - adds to the root the parameters that BIG describes, and removes their slices from it. */
static ckpt_status join_all_slices(struct state_dict *dict, const ckpt_value *big)
{
    uint32_t n, left = 0;
    const value_pair *pairs = value_pairs(big, &n);
    dict->is_slice = arena_array(dict->paddle->f->a, dict->nkeys, sizeof *dict->is_slice);
    CKPT_TRY_ALLOC(dict->is_slice, dict->err);
    for (uint32_t i = 0; i < n; i++) {
        ckpt_status st = join_slices(dict, pairs[i].key, pairs[i].val);
        ckpt_str name;
        if (st != CKPT_OK && value_text(pairs[i].key, &name))
            error_add_where(dict->err, "%.*s", STR_ARG(name));
        CKPT_TRY(st);
    }
    for (uint32_t i = 0; i < dict->root->u.dict.n; i++)
        if (i >= dict->nkeys || !dict->is_slice[i])
            dict->root->u.dict.pairs[left++] = dict->root->u.dict.pairs[i];
    dict->root->u.dict.n = left;
    return CKPT_OK;
}

/* read_state_dict - takes both tables out of ROOT and applies them to its other entries. */
static ckpt_status read_state_dict(struct paddle_pickle *paddle, ckpt_value *root, source *src,
                                   ckpt_error *err)
{
    const ckpt_value *names = remove_entry(root, NAMES_KEY), *big = remove_entry(root, SLICES_KEY);
    struct state_dict dict = {.paddle = paddle, .root = root, .src = src, .err = err};
    dict.keys = value_index_keys(root);
    dict.nkeys = value_count(root);
    CKPT_TRY_ALLOC(dict.keys, err);
    name_tensors(&dict, names);
    ckpt_status st = big ? join_all_slices(&dict, big) : CKPT_OK;
    map_free(dict.keys);
    return st;
}

ckpt_status paddle_make_tensors(struct paddle_pickle *paddle, ckpt_file *f, struct pickle_facts *facts,
                                source *src, ckpt_error *err)
{
    ckpt_value *root = f->root;
    bool in_pairs = has_pairs(facts), is_dict = root->type == CKPT_V_DICT;
    bool has_tables = is_dict && (value_get(root, NAMES_KEY) || value_get(root, SLICES_KEY));
    bool has_suffix = str_matches_word(str_c(f->path), ".pdparams .pdopt", str_ends_any_case);
    *paddle = (struct paddle_pickle){.f = f, .is_paddle = in_pairs || has_tables || has_suffix};
    if (paddle->is_paddle)
        CKPT_TRY(make_tensors(paddle, facts, in_pairs, err));
    return has_tables ? read_state_dict(paddle, root, src, err) : CKPT_OK;
}

/* -------------------------------------------------------------------- descriptions */

static ckpt_dtype paddle_dtype(ckpt_dtype dtype) { return dtype == CKPT_DT_U16 ? CKPT_DT_BF16 : dtype; }

static ckpt_status describe_array(struct graph *graph, const ckpt_value *value,
                                  struct tensor_description *description)
{
    CKPT_TRY(graph_describe_numpy(graph, value, description));
    ckpt_tensor *t = &description->row.t;
    t->kind = CKPT_DENSE;
    t->dtype = (uint16_t)paddle_dtype((ckpt_dtype)t->dtype);
    graph->f->table.storages[t->storage].dtype = (uint8_t)t->dtype;
    return CKPT_OK;
}

/* open_slices - sets PIECE to the bytes of the slices of TENSOR, BOX to two numbers for each slice (begin and
 * size), *DTYPE to the dtype of the slices, and adds their number of elements to *TOTAL. The caller releases
 * the sources. */
static ckpt_status open_slices(struct graph *graph, const struct paddle_tensor *tensor,
                               struct numpy_dtype *dtype, struct piece *piece, uint64_t *box, uint64_t *total)
{
    for (uint32_t i = 0; i < tensor->nslices; i++) {
        struct numpy_array a;
        struct numpy_dtype slice_dtype;
        bool readable = numpy_array_of(tensor->slices[i], &a) && numpy_dtype_of(a.dtype, &slice_dtype);
        if (readable && i == 0)
            *dtype = slice_dtype;
        if (!readable || a.order != 'C' || slice_dtype.kind != dtype->kind ||
            slice_dtype.bytes != dtype->bytes || !slice_dtype.bytes || slice_dtype.big_endian)
            return graph_fail(graph, tensor->slices[i], "slice {%" PRIu32 "} is not {=an array like slice 0}",
                              i);
        CKPT_TRY(graph_open_bytes(graph, a.data, &piece[i].src));
        if (!piece[i].src || piece[i].src->size % dtype->bytes)
            return graph_fail(graph, tensor->slices[i],
                              "slice {%" PRIu32 "} is not {=an array of whole elements}", i);
        box[2 * (size_t)i] = *total;
        box[2 * (size_t)i + 1] = piece[i].src->size / dtype->bytes;
        piece[i].offset = &box[2 * (size_t)i];
        piece[i].size = &box[2 * (size_t)i + 1];
        *total += box[2 * (size_t)i + 1];
    }
    return CKPT_OK;
}

/* add_slices - adds the storage of TENSOR, whose row is ROW: the TOTAL elements of the slices PIECE. Sets the
 * shape and the storage of ROW. */
static ckpt_status add_slices(struct graph *graph, const struct paddle_tensor *tensor,
                              const struct piece *piece, uint64_t total, ckpt_tensor *row)
{
    uint64_t elements;
    const uint64_t *shape;
    struct storage s = {.dtype = (uint8_t)row->dtype};
    struct pieces p = {.shape = &total, .ndim = 1, .piece = piece, .n = tensor->nslices};
    p.width = dtype_info((ckpt_dtype)row->dtype)->block_bytes;
    CKPT_TRY(graph_read_sizes(graph, tensor->shape, "OriginShape", &row->ndim, &shape));
    row->shape = shape;
    if (!checked_product(shape, row->ndim, &elements))
        elements = UINT64_MAX;
    if (elements != total)
        return graph_fail(graph, tensor->shape,
                          "slices of {%" PRIu64 " elements}, OriginShape has {=%" PRIu64 "}", total,
                          elements);
    s.nbytes = total * p.width;
    s.key = arena_printf(graph->f->a, "slices@%" PRIu64, value_offset(tensor->shape));
    CKPT_TRY_ALLOC(s.key.ptr, graph->err);
    CKPT_TRY(pieces_source(graph->f->a, &p, &s.src, &s.off, graph->err));
    row->has_shape = row->has_data = true;
    return table_add_storage(&graph->f->table, &s, &row->storage, graph->err);
}

/* describe_slices - describes TENSOR, which is stored in slices, as a tensor with one storage. */
static ckpt_status describe_slices(struct graph *graph, const struct paddle_tensor *tensor, ckpt_tensor *row)
{
    uint64_t total = 0, *box = arena_array(graph->f->a, 2 * (uint64_t)tensor->nslices, sizeof *box);
    struct piece *piece = arena_array(graph->f->a, tensor->nslices, sizeof *piece);
    struct numpy_dtype d = {.kind = 0};
    CKPT_TRY_ALLOC(piece && box, graph->err);
    ckpt_status st = open_slices(graph, tensor, &d, piece, box, &total);
    row->dtype = (uint16_t)paddle_dtype(numpy_known_dtype(&d));
    if (st == CKPT_OK && row->dtype == CKPT_DT_NONE)
        st = graph_fail(graph, tensor->slices[0], "slices of {a dtype} that is not among {=those of torch}");
    CKPT_THEN(st, add_slices(graph, tensor, piece, total, row));
    for (uint32_t i = 0; i < tensor->nslices; i++)
        source_unref(piece[i].src);
    return st;
}

ckpt_status paddle_describe(void *user, struct graph *graph, const ckpt_value *value,
                            struct tensor_description *description)
{
    const struct paddle_pickle *paddle = user;
    const struct paddle_tensor *tensor = &paddle->tensors[value->u.i];
    CKPT_TRY(tensor->array ? describe_array(graph, tensor->array, description)
                           : describe_slices(graph, tensor, &description->row.t));
    if (tensor->parameter.len && !description->row.t.note.len &&
        !(description->row.t.note = ARENA_CONCAT(graph->f->a, STR_LIT("parameter "), tensor->parameter)).ptr)
        return fail_memory(graph->err);
    description->is_tensor = true;
    return CKPT_OK;
}
