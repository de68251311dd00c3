/*
 * tfjs.c - reads models of TensorFlow.js: model.json, which describes tensors in files next to it.
 *
 *   weightsManifest  a list of groups, each {"paths": [FILE, …], "weights": [WEIGHT, …]}
 *                    the FILEs one after the other are the bytes of the WEIGHTs, without gaps
 *   WEIGHT           {"name", "dtype", "shape"}, and perhaps "group": "optimizer" and "quantization":
 *                    {"dtype": "float16"}, or {"dtype": "uint8" or "uint16", "scale", "min"}
 *
 * Numbers are little-endian, and 4 bytes before each text of a "string" are its length. A quantized tensor
 * is stored in the dtype of "quantization", and read as the numbers code * scale + min of its own dtype, as
 * TensorFlow.js computes them: in double precision, int32 rounded to even. A weight of the group "optimizer"
 * is called optimizer/NAME. Other texts and numbers of model.json are values. The manifest alone, as
 * converters before 1.0 write it, is a list: weights_manifest.json.
 *
 * Refused: a file outside of the folder; other dtypes; a group whose files have more or fewer bytes than its
 * weights. In salvage of such a group, the weights are kept that are certain to be in their place.
 *
 * Sources: tensorflowjs 4.22 (write_weights.py, quantization.py, converters/common.py), tfjs-core
 * src/io/types.ts.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/store.h"
#include "codec/json_scan.h"
#include "core/check.h"
#include "core/convert.h"
#include "core/number.h"
#include "format/files/folder.h"
#include "format/files/path.h"
#include "format/kit.h"
#include "format/parts/part_files.h"
#include "format/recognize.h"
#include "io/reader.h"

#define MODEL_NAME    "model.json"
#define MANIFEST_NAME "weights_manifest.json"
#define MANIFEST_KEY  "weightsManifest"
#define DTYPES        "bool complex64 float16 float32 int32 string uint16 uint8"
#define MAX_DIMS      32u
#define TEXT_LENGTH   4u       /* bytes before a text */
#define SHARD_SIZE    4194304u /* bytes of a file, unless the converter was given another number */

struct tfjs_weight {
    ckpt_str name;
    uint64_t described_at;
    ckpt_dtype dtype, stored; /* STORED: the dtype of the codes, if the weight is quantized; else DTYPE */
    uint32_t ndim;
    uint64_t *shape;
    uint64_t count, offset, nbytes; /* elements; where it is in the bytes of the group */
    double scale, min;              /* if STORED is uint8 or uint16 and not DTYPE */
    bool is_quantized;
};

struct tfjs_shard {
    ckpt_file *file;
    struct storage_extra extra; /* its name */
    uint64_t begin;             /* in the bytes of the group */
};

struct tfjs_group {
    struct tfjs_shard *shards;
    size_t nshards, cap;
    uint64_t size;  /* bytes of all shards */
    source *joined; /* all shards, one after the other; NULL: there is none */
    struct tfjs_weight *weights;
    size_t nweights;
    uint64_t intact; /* bytes from the first on that are certain to be in their place */
};

struct tfjs {
    ckpt_file *f;
    ckpt_error *err;
    struct kit k;
};

/* ------------------------------------------------------------------------------ quantized */

/* convert_codes - sets OUT to the COUNT numbers that the codes IN of a weight stand for, as 4 bytes each. */
static void convert_codes(const void *user, unsigned char *in, size_t count, unsigned char *out)
{
    const struct tfjs_weight *weight = user;
    for (size_t i = 0; i < count; i++) {
        uint32_t code = weight->stored == CKPT_DT_U8 ? in[i] : load_u16le(in + 2 * i), bits;
        double number = code * weight->scale +
                        weight->min; /* not contracted: the flags of the build forbid it */
        float single = (float)number;
        memcpy(&bits, &single, sizeof bits);
        store_u32le(out + 4 * i, weight->dtype == CKPT_DT_I32 ? (uint32_t)(int32_t)rint(number) : bits);
    }
}

/* dequantize - returns a source of the numbers of WEIGHT, whose codes are at AT of CODES; NULL: no memory. */
static source *dequantize(const struct tfjs_weight *weight, source *codes, uint64_t at)
{
    const struct element_converter how = {dtype_info(weight->stored)->block_bytes, 4, convert_codes};
    uint64_t size = weight->count * 4;
    return weight->stored == CKPT_DT_F16 ? convert_source_f32(codes, at, CKPT_DT_F16, false, size)
                                         : source_elements(codes, at, size, &how, weight, sizeof *weight);
}

/* -------------------------------------------------------------------------------- shards */

static ckpt_status open_shard(struct tfjs *tfjs, struct tfjs_group *group, ckpt_str name)
{
    ckpt_str trusted = name_of(tfjs->f);
    struct tfjs_shard *s = arena_append(tfjs->f->a, &group->shards, &group->nshards, &group->cap, sizeof *s);
    CKPT_TRY_ALLOC(s, tfjs->err);
    *s = (struct tfjs_shard){.begin = group->size, .extra.file = name};
    ckpt_status st = part_file_add(tfjs->f, trusted.ptr, name, &s->file, tfjs->err);
    if (st == CKPT_OK && !checked_add(group->size, s->file->src->size, &group->size))
        st = fail(tfjs->err, CKPT_ELIMIT, CKPT_NO_OFFSET, "files of {more} than {=2^64 bytes}");
    if (st != CKPT_OK)
        group->nshards--;
    return st;
}

/* open_shards - opens the files that PATHS names. *COMPLETE: none of them is missing. */
static ckpt_status open_shards(struct tfjs *tfjs, struct tfjs_group *group, const ckpt_value *paths,
                               bool *complete)
{
    *complete = true;
    if (value_count(paths) && !has_folder(tfjs->f))
        return fail(tfjs->err, CKPT_EUNSUPPORTED, value_offset(paths),
                    "weights in other files, of a model that is {no} {=file of a folder}");
    for (uint32_t i = 0; *complete && i < value_count(paths); i++) {
        ckpt_str name;
        if (!value_text(value_item(paths, i), &name))
            return fail(tfjs->err, CKPT_EFORMAT, value_offset(paths),
                        "\"paths\" with {other values} than {=texts}");
        CKPT_TRY_ALLOC((name = arena_str(tfjs->f->a, name)).ptr, tfjs->err);
        ckpt_status st = part_file_explain_missing(
            open_shard(tfjs, group, name), name, "put the files of the weights next to the model", tfjs->err);
        if (st != CKPT_OK && !tfjs->err->file[0])
            error_add_position(tfjs->err, value_offset(value_item(paths, i)), STR_LIT("paths"));
        if (st == CKPT_ENOTFOUND) {
            st = part_file_accept_missing(tfjs->f, tfjs->err);
            *complete = false;
        }
        CKPT_TRY(st);
    }
    return CKPT_OK;
}

/* join_shards - sets group->joined to a source of all bytes of GROUP, which has some. */
static ckpt_status join_shards(struct tfjs *tfjs, struct tfjs_group *group)
{
    uint64_t at;
    arena *a = tfjs->f->a;
    struct piece *pieces = arena_array(a, group->nshards, sizeof *pieces);
    uint64_t *boxes = arena_array(a, 2 * (uint64_t)group->nshards, sizeof *boxes);
    CKPT_TRY_ALLOC(pieces && boxes, tfjs->err);
    for (size_t i = 0; i < group->nshards; i++, boxes += 2) {
        boxes[0] = group->shards[i].begin;
        boxes[1] = group->shards[i].file->src->size;
        pieces[i] = (struct piece){boxes, boxes + 1, NULL, group->shards[i].file->src, 0};
    }
    const struct pieces p = {
        .shape = &group->size, .ndim = 1, .width = 1, .piece = pieces, .n = group->nshards};
    return pieces_source(a, &p, &group->joined, &at, tfjs->err); /* AT is 0: the pieces begin there */
}

/* find_shard - returns the shard that has all COUNT bytes of GROUP from BEGIN on; NULL: none has. */
static const struct tfjs_shard *find_shard(const struct tfjs_group *group, uint64_t begin, uint64_t count)
{
    for (size_t i = 0; i < group->nshards; i++)
        if (begin >= group->shards[i].begin &&
            range_within(begin - group->shards[i].begin, count, group->shards[i].file->src->size))
            return &group->shards[i];
    return NULL;
}

/* ------------------------------------------------------------------------------- weights */

static bool read_number(const ckpt_value *value, double *out)
{
    int64_t i;
    if (value && value->type == CKPT_V_FLOAT)
        *out = value->u.f;
    else if (value_integer(value, &i))
        *out = (double)i;
    else
        return false;
    return isfinite(*out);
}

/* find_dtype - returns the dtype called NAME if it is one of WORDS, else CKPT_DT_NONE. */
static ckpt_dtype find_dtype(const ckpt_value *name, const char *words)
{
    ckpt_str text;
    if (!value_text(name, &text) || !str_matches_word(text, words, str_eq))
        return CKPT_DT_NONE;
    return str_is(text, "string") ? CKPT_DT_NAMED : dtype_by_name(text);
}

/* fits_dtype - returns true if all numbers that the codes of WEIGHT may stand for fit its dtype. */
static bool fits_dtype(const struct tfjs_weight *weight)
{
    double last = (weight->stored == CKPT_DT_U8 ? 255.0 : 65535.0) * weight->scale + weight->min;
    return weight->dtype == CKPT_DT_F32 ||
           (fmin(weight->min, last) >= (double)INT32_MIN && fmax(weight->min, last) <= (double)INT32_MAX);
}

static ckpt_status read_quantization(struct tfjs *tfjs, struct tfjs_weight *weight, const ckpt_value *value)
{
    weight->is_quantized = true;
    weight->stored = find_dtype(value_get(value, "dtype"), "float16 uint16 uint8");
    bool is_affine = weight->stored == CKPT_DT_U8 || weight->stored == CKPT_DT_U16;
    bool has_numbers = !is_affine || (read_number(value_get(value, "scale"), &weight->scale) &&
                                      read_number(value_get(value, "min"), &weight->min));
    bool has_dtype = weight->dtype == CKPT_DT_F32 || (is_affine && weight->dtype == CKPT_DT_I32);
    if (weight->stored == CKPT_DT_NONE || !has_numbers || !has_dtype)
        return fail(tfjs->err, CKPT_EUNSUPPORTED, value_offset(value),
                    "a quantization that is {not one} of {=float16, or uint8 or uint16 with scale and min}");
    return !is_affine || fits_dtype(weight) ? CKPT_OK
                                            : fail(tfjs->err, CKPT_EFORMAT, value_offset(value),
                                                   "a scale that makes {larger numbers} than {=int32}");
}

static ckpt_status read_shape(struct tfjs *tfjs, struct tfjs_weight *weight, const ckpt_value *value)
{
    weight->ndim = value_count(value);
    if (!value || value->type != CKPT_V_LIST || weight->ndim > MAX_DIMS)
        return fail(tfjs->err, CKPT_EFORMAT, weight->described_at, "{no} shape, {=a list of up to %u sizes}",
                    MAX_DIMS);
    CKPT_TRY_ALLOC(weight->shape = arena_array(tfjs->f->a, weight->ndim, sizeof *weight->shape), tfjs->err);
    for (uint32_t i = 0; i < weight->ndim; i++)
        if (!value_size(value_item(value, i), &weight->shape[i]))
            return fail(tfjs->err, CKPT_EFORMAT, value_offset(value),
                        "dimension %u is {not} {=an integer from 0 on}", i);
    return CKPT_OK;
}

static ckpt_status read_weight(struct tfjs *tfjs, const ckpt_value *value, struct tfjs_weight *weight)
{
    ckpt_str name, group;
    const ckpt_value *quantization = value_get(value, "quantization");
    *weight = (struct tfjs_weight){.described_at = value_offset(value),
                                   .dtype = find_dtype(value_get(value, "dtype"), DTYPES)};
    if (!value_text(value_get(value, "name"), &name))
        return fail(tfjs->err, CKPT_EFORMAT, value_offset(value), "a weight with {no} {=name}");
    bool is_state = value_text(value_get(value, "group"), &group) && str_is(group, "optimizer");
    weight->name = ARENA_CONCAT(tfjs->f->a, str_c(is_state ? "optimizer/" : ""), name);
    CKPT_TRY_ALLOC(weight->name.ptr, tfjs->err);
    weight->stored = weight->dtype;
    ckpt_status st = weight->dtype != CKPT_DT_NONE ? read_shape(tfjs, weight, value_get(value, "shape"))
                                                   : fail(tfjs->err, CKPT_EUNSUPPORTED, value_offset(value),
                                                          "{no dtype that is known}; {=" DTYPES "} are read");
    if (st == CKPT_OK && quantization && quantization->type != CKPT_V_NONE)
        st = read_quantization(tfjs, weight, quantization);
    if (st != CKPT_OK)
        error_add_position(tfjs->err, value_offset(value), weight->name);
    return st;
}

/* measure_texts - sets weight->nbytes to what the texts of WEIGHT take. They must be in GROUP. */
static ckpt_status measure_texts(struct tfjs *tfjs, const struct tfjs_group *group,
                                 struct tfjs_weight *weight)
{
    reader r;
    uint64_t left = group->size - weight->offset;
    if (weight->count > left / TEXT_LENGTH || !group->joined)
        return weight->count ? fail(tfjs->err, CKPT_ETRUNCATED, weight->described_at,
                                    "{=%" PRIu64 " texts}, the files have {%" PRIu64 " bytes} there",
                                    weight->count, left)
                             : CKPT_OK;
    CKPT_TRY(reader_init(&r, group->joined, weight->offset, group->size, tfjs->err));
    for (uint64_t i = 0; i < weight->count && !r.status; i++)
        (void)reader_skip(&r, reader_u32(&r));
    ckpt_status st = r.status;
    weight->nbytes = r.pos - weight->offset;
    reader_free(&r);
    return st;
}

/* measure_weight - sets the count and nbytes of WEIGHT, whose offset is set. */
static ckpt_status measure_weight(struct tfjs *tfjs, const struct tfjs_group *group,
                                  struct tfjs_weight *weight)
{
    uint64_t size;
    const ckpt_dtype dtype = weight->dtype == CKPT_DT_NAMED ? CKPT_DT_U8 : weight->stored;
    if (!checked_product(weight->shape, weight->ndim, &weight->count) ||
        !checked_mul(weight->count, 4, &size) || !dtype_bytes(dtype, weight->count, &weight->nbytes))
        return fail(tfjs->err, CKPT_EFORMAT, weight->described_at, "a shape of {more} bytes than {=2^64}");
    return weight->dtype == CKPT_DT_NAMED ? measure_texts(tfjs, group, weight) : CKPT_OK;
}

/* read_weights - reads the descriptions LIST, and sets *END to the bytes that all weights take. */
static ckpt_status read_weights(struct tfjs *tfjs, struct tfjs_group *group, const ckpt_value *list,
                                uint64_t *end)
{
    *end = 0;
    CKPT_TRY_ALLOC(group->weights = arena_array(tfjs->f->a, value_count(list), sizeof *group->weights),
                   tfjs->err);
    for (; group->nweights < value_count(list); group->nweights++) {
        struct tfjs_weight *w = &group->weights[group->nweights];
        CKPT_TRY(read_weight(tfjs, value_item(list, (uint32_t)group->nweights), w));
        w->offset = *end;
        ckpt_status st = measure_weight(tfjs, group, w);
        if (st == CKPT_OK && !checked_add(*end, w->nbytes, end))
            st = fail(tfjs->err, CKPT_EFORMAT, w->described_at, "weights of {more} than {=2^64 bytes}");
        if (st != CKPT_OK)
            error_add_position(tfjs->err, w->described_at, w->name);
        CKPT_TRY(st);
    }
    return CKPT_OK;
}

/* --------------------------------------------------------------------------------- groups */

/* make_texts - sets *OUT to a source of the texts of WEIGHT, which are at AT of SRC, in the form of
 * tensor_is_string. */
static ckpt_status make_texts(struct tfjs *tfjs, const struct tfjs_weight *weight, source *src, uint64_t at,
                              source **out)
{
    reader r;
    uint64_t size, longer = (8 - TEXT_LENGTH) * weight->count;
    size_t room;
    CKPT_TRY_ALLOC(checked_add(weight->nbytes, longer, &size) && checked_size(size, &room), tfjs->err);
    unsigned char *bytes = arena_alloc(tfjs->f->a, room), *to = bytes;
    CKPT_TRY_ALLOC(bytes, tfjs->err);
    CKPT_TRY(reader_init(&r, src, at, at + weight->nbytes, tfjs->err));
    for (uint64_t i = 0; i < weight->count && !r.status; i++) {
        uint32_t n = reader_u32(&r);
        uint64_t text = r.pos;
        store_u64le(to, n);
        if (reader_skip(&r, n))
            r.status = source_read(src, text, to + 8, n, tfjs->err);
        to += 8 + (size_t)n; /* the lengths are those that measure_texts read */
    }
    ckpt_status st = r.status;
    reader_free(&r);
    CKPT_TRY(st);
    *out = source_mem(bytes, room, CKPT_NO_OFFSET);
    return *out ? CKPT_OK : fail_memory(tfjs->err);
}

/* find_values - sets the source of TENSOR to that of WEIGHT. *OWN gets a reference that the caller drops. */
static ckpt_status find_values(struct tfjs *tfjs, const struct tfjs_group *group,
                               const struct tfjs_weight *weight, struct kit_tensor *tensor, source **own)
{
    const struct tfjs_shard *shard = find_shard(group, weight->offset, weight->nbytes);
    tensor->nbytes = weight->nbytes;
    source *stored = shard           ? source_ref(shard->file->src)
                     : group->joined ? source_ref(group->joined)
                                     : source_mem("", 0, CKPT_NO_OFFSET);
    tensor->src_offset = shard ? weight->offset - shard->begin : weight->offset;
    tensor->src_file = shard ? &shard->extra : NULL;
    *own = stored;
    if (!stored || (!weight->is_quantized && weight->dtype != CKPT_DT_NAMED)) {
        tensor->src = stored;
        return stored ? CKPT_OK : fail_memory(tfjs->err);
    }
    *own = weight->is_quantized ? dequantize(weight, stored, tensor->src_offset) : NULL;
    ckpt_status st = weight->is_quantized ? *own ? CKPT_OK : fail_memory(tfjs->err)
                                          : make_texts(tfjs, weight, stored, tensor->src_offset, own);
    source_unref(stored);
    tensor->src_offset = 0;
    tensor->src = *own;
    tensor->nbytes = *own ? (*own)->size : 0;
    return st;
}

static ckpt_status make_note(struct tfjs *tfjs, const struct tfjs_weight *weight, ckpt_str *note)
{
    if (!weight->is_quantized)
        return CKPT_OK;
    *note = arena_printf(tfjs->f->a, "stored as %s", ckpt_dtype_name(weight->stored));
    return note->ptr ? CKPT_OK : fail_memory(tfjs->err);
}

static ckpt_status add_weight(struct tfjs *tfjs, const struct tfjs_group *group,
                              const struct tfjs_weight *weight)
{
    source *own = NULL;
    struct kit_tensor t = {.name = weight->name, .described_at = weight->described_at};
    t.t.dtype = (uint16_t)weight->dtype;
    t.t.dtype_name = weight->dtype == CKPT_DT_NAMED ? "string" : NULL;
    t.t.ndim = weight->ndim;
    t.t.shape = weight->shape;
    CKPT_TRY(make_note(tfjs, weight, &t.t.note));
    if (!range_within(weight->offset, weight->nbytes, group->intact))
        return kit_add_faulty(&tfjs->k, &t,
                              fail(tfjs->err, CKPT_ETRUNCATED, weight->described_at,
                                   "needs {=%" PRIu64 " bytes} of a group, of which {%" PRIu64
                                   "} are certain to be in their place",
                                   size_add(weight->offset, weight->nbytes), group->intact));
    ckpt_status st = find_values(tfjs, group, weight, &t, &own);
    if (st == CKPT_OK && weight->dtype == CKPT_DT_NAMED)
        t.t.nbytes = t.nbytes;
    st = st == CKPT_OK ? kit_add_tensor(&tfjs->k, &t) : kit_add_faulty(&tfjs->k, &t, st);
    source_unref(own);
    return st;
}

/* count_intact - returns how many bytes of GROUP, which has fewer than its weights take, are certain to be in
 * their place. The converter makes all files of a group but the last equally large: the place of a file is
 * certain if those before it are equally large, and not just one of a size that may be what is left of it. */
static uint64_t count_intact(const struct tfjs_group *group)
{
    uint64_t first = group->nshards ? group->shards[0].file->src->size : 0, intact = first;
    size_t n = group->nshards > 0; /* of equally large files */
    for (size_t i = 0; i < group->nshards; i++)
        if (group->shards[i].file->src->size > first)
            return first;
    while (n < group->nshards && group->shards[n].file->src->size == first)
        n++;
    for (size_t i = 1; i <= n && i < group->nshards && (n > 1 || first == SHARD_SIZE); i++)
        intact += group->shards[i].file->src->size;
    return intact;
}

/* check_size - fails unless the files of GROUP have the END bytes that its weights take. In salvage, sets
 * group->intact instead. */
static ckpt_status check_size(struct tfjs *tfjs, struct tfjs_group *group, uint64_t end,
                              const ckpt_value *paths, bool complete)
{
    group->intact = group->size;
    if (group->size == end && complete)
        return CKPT_OK;
    group->intact = group->size > end ? 0 : count_intact(group);
    if (tfjs->f->salvage || !complete)
        return CKPT_OK;
    return fail(tfjs->err, group->size < end ? CKPT_ETRUNCATED : CKPT_EFORMAT, value_offset(paths),
                "the files of a group have {%" PRIu64 " bytes}, its weights take {=%" PRIu64 "}", group->size,
                end);
}

static ckpt_status add_group(struct tfjs *tfjs, struct tfjs_group *group, const ckpt_value *value)
{
    const ckpt_value *paths = value_get(value, "paths"), *weights = value_get(value, "weights");
    bool complete = false;
    uint64_t end = 0;
    if (!paths || paths->type != CKPT_V_LIST || !weights || weights->type != CKPT_V_LIST)
        return fail(tfjs->err, CKPT_EFORMAT, value_offset(value),
                    "a group with {no} lists {=paths and weights}");
    CKPT_TRY(open_shards(tfjs, group, paths, &complete));
    if (group->size)
        CKPT_TRY(join_shards(tfjs, group));
    CKPT_TRY(read_weights(tfjs, group, weights, &end));
    CKPT_TRY(check_size(tfjs, group, end, paths, complete));
    if (!complete && !tfjs->f->salvage)
        return CKPT_OK; /* `verify` reported it */
    for (size_t i = 0; i < group->nweights; i++)
        CKPT_TRY(add_weight(tfjs, group, &group->weights[i]));
    return CKPT_OK;
}

static ckpt_status read_group(struct tfjs *tfjs, uint32_t number, const ckpt_value *value)
{
    struct tfjs_group g = {.size = 0};
    ckpt_status st = add_group(tfjs, &g, value);
    source_unref(g.joined);
    if (st == CKPT_OK)
        return st;
    if (!tfjs->err->file[0])
        error_add_position(tfjs->err, value_offset(value), STR_LIT(MANIFEST_KEY));
    char name[40];
    (void)snprintf(name, sizeof name, "group %" PRIu32, number);
    return file_report_lost(tfjs->f, st, str_c(name), tfjs->err);
}

/* ---------------------------------------------------------------------------------- model */

/* add_values - adds the texts and numbers of MODEL, such as "generatedBy". */
static ckpt_status add_values(struct tfjs *tfjs, const ckpt_value *model)
{
    uint32_t n = 0;
    const value_pair *pairs = value_pairs(model, &n);
    for (uint32_t i = 0; i < n; i++) {
        ckpt_str key;
        bool is_container = pairs[i].val->type == CKPT_V_DICT || pairs[i].val->type == CKPT_V_LIST;
        if (is_container || pairs[i].val->type == CKPT_V_NONE || !value_text(pairs[i].key, &key))
            continue;
        CKPT_TRY_ALLOC((key = arena_str(tfjs->f->a, key)).ptr, tfjs->err);
        CKPT_TRY(kit_add_other_value(&tfjs->k, key, pairs[i].val));
    }
    return CKPT_OK;
}

static ckpt_status read_model(struct tfjs *tfjs, const ckpt_value *model)
{
    const ckpt_value *manifest = model->type == CKPT_V_LIST ? model : value_get(model, MANIFEST_KEY);
    ckpt_str by;
    if (!manifest || manifest->type != CKPT_V_LIST)
        return fail(tfjs->err, CKPT_EFORMAT, value_offset(model), "{no} list {=\"" MANIFEST_KEY "\"}");
    for (uint32_t i = 0; i < value_count(manifest); i++)
        CKPT_TRY(read_group(tfjs, i, value_item(manifest, i)));
    tfjs->f->producer = value_text(value_get(model, "convertedBy"), &by) ||
                                value_text(value_get(model, "generatedBy"), &by)
                            ? arena_str(tfjs->f->a, by)
                            : STR_LIT("TensorFlow.js");
    return tfjs->f->producer.ptr ? add_values(tfjs, model) : fail_memory(tfjs->err);
}

static ckpt_status read_file(ckpt_file *f, ckpt_error *err)
{
    struct tfjs m = {.f = f, .err = err};
    ckpt_str text;
    ckpt_value *model;
    CKPT_TRY_ALLOC(part_file_set_folder(f), err);
    CKPT_TRY(kit_read_metadata(f, f->src, 0, f->src->size, &text, err));
    CKPT_TRY(json_read_value(text, 0, f->a, &model, err));
    CKPT_TRY(kit_begin(&m.k, f, value_new(f->a, CKPT_V_DICT, 0), err));
    return kit_end(&m.k, read_model(&m, model));
}

static ckpt_status read(ckpt_file *f, ckpt_error *err)
{
    const struct probe *p = f->opening->probe;
    if (p->is_folder)
        return part_file_replace_folder(f, str_c(f->path),
                                        str_c(probe_has(p, MODEL_NAME) ? MODEL_NAME : MANIFEST_NAME), err);
    ckpt_status st = read_file(f, err);
    if (st != CKPT_OK)
        error_add_position(err, CKPT_NO_OFFSET, STR_LIT("model"));
    return st;
}

/* is_manifest - returns true if PROBE is called weights_manifest.json and begins as a list of groups. */
static bool is_manifest(const struct probe *probe)
{
    ckpt_str name = str_after_last(str_c(probe->path), '/');
    return (str_is(name, MANIFEST_NAME) || str_ends(name, STR_LIT("!" MANIFEST_NAME))) &&
           str_starts(recognize_skip_space(probe_head(probe)), STR_LIT("["));
}

static bool probe(const struct probe *this_probe)
{
    ckpt_error ignored;
    if (!this_probe->is_folder)
        return recognize_tfjs(this_probe) || is_manifest(this_probe);
    struct probe model = {.path = MODEL_NAME};
    if (!probe_has(this_probe, MODEL_NAME))
        return probe_has(this_probe, MANIFEST_NAME);
    model.src = probe_open(this_probe, MODEL_NAME);
    bool found = model.src && recognize_fill(&model, MODEL_NAME, model.src, &ignored) == CKPT_OK &&
                 recognize_tfjs(&model);
    source_unref(model.src);
    return found;
}

const struct format format_tfjs = {
    .name = "tfjs", .title = "TensorFlow.js model", .flat = true, .probe = probe, .read = read};
