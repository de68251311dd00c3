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

#include "base/checked.h"
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
#define TEXT_LENGTH   4u /* bytes before a text */
#define AT_ONCE       1024u
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

/* The numbers that codes stand for, each as 4 bytes. */
struct dequantized_source {
    source s;
    source *codes;
    uint64_t at; /* of the first code */
    ckpt_dtype stored, dtype;
    double scale, min;
};

static void store_dequantized(const struct dequantized_source *d, double code, unsigned char out[4])
{
    double number = code * d->scale + d->min; /* never contracted: the flags of the build forbid it */
    float f = (float)number;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    store_u32le(out, d->dtype == CKPT_DT_I32 ? (uint32_t)(int32_t)rint(number) : bits);
}

static ckpt_status dequantized_read(source *s, uint64_t off, void *to, size_t n, ckpt_error *err)
{
    const struct dequantized_source *d = (const struct dequantized_source *)s;
    const size_t width = dtype_info(d->stored)->block_bytes;
    unsigned char *out = to, stored[AT_ONCE * 2], number[4];
    double code[AT_ONCE];
    while (n) {
        uint64_t first = off / 4, left = s->size / 4 - first;
        size_t skip = (size_t)(off % 4), count = left < AT_ONCE ? (size_t)left : AT_ONCE;
        count = count < n / 4 + 2 ? count : n / 4 + 2;
        CKPT_TRY(source_read(d->codes, d->at + first * width, stored, count * width, err));
        number_decode(d->stored, stored, count, code);
        for (size_t i = 0; i < count && n; i++, skip = 0) {
            size_t take = 4 - skip < n ? 4 - skip : n;
            store_dequantized(d, code[i], number);
            memcpy(out, number + skip, take);
            out += take;
            off += take;
            n -= take;
        }
    }
    return CKPT_OK;
}

static void dequantized_close(source *s)
{
    source_unref(((struct dequantized_source *)s)->codes);
    free(s);
}

static const struct source_ops dequantized_ops = {.read_at = dequantized_read, .close = dequantized_close};

/* dequantize - returns a source of the numbers of W, whose codes are at AT of CODES; NULL: no memory. */
static source *dequantize(const struct tfjs_weight *w, source *codes, uint64_t at)
{
    uint64_t size = w->count * 4;
    if (w->stored == CKPT_DT_F16)
        return convert_source_f32(codes, at, CKPT_DT_F16, false, size);
    struct dequantized_source *d = calloc(1, sizeof *d);
    if (!d)
        return NULL;
    *d = (struct dequantized_source){.codes = source_ref(codes),
                                     .at = at,
                                     .stored = w->stored,
                                     .dtype = w->dtype,
                                     .scale = w->scale,
                                     .min = w->min};
    d->s = (source){.ops = &dequantized_ops, .size = size, .position = CKPT_NO_OFFSET, .refs = 1};
    return &d->s;
}

/* -------------------------------------------------------------------------------- shards */

static ckpt_status open_shard(struct tfjs *m, struct tfjs_group *g, ckpt_str name)
{
    ckpt_str trusted = name_of(m->f);
    struct tfjs_shard *s = arena_append(m->f->a, &g->shards, &g->nshards, &g->cap, sizeof *s);
    CKPT_TRY_ALLOC(s, m->err);
    *s = (struct tfjs_shard){.begin = g->size, .extra.file = name};
    ckpt_status st = part_file_add(m->f, trusted.ptr, name, &s->file, m->err);
    if (st == CKPT_OK && !checked_add(g->size, s->file->src->size, &g->size))
        st = fail(m->err, CKPT_ELIMIT, CKPT_NO_OFFSET, "files of {more} than {=2^64 bytes}");
    if (st != CKPT_OK)
        g->nshards--;
    return st;
}

/* open_shards - opens the files that PATHS names. *COMPLETE: none of them is missing. */
static ckpt_status open_shards(struct tfjs *m, struct tfjs_group *g, const ckpt_value *paths, bool *complete)
{
    *complete = true;
    if (value_count(paths) && !has_folder(m->f))
        return fail(m->err, CKPT_EUNSUPPORTED, value_offset(paths),
                    "weights in other files, of a model that is {no} {=file of a folder}");
    for (uint32_t i = 0; *complete && i < value_count(paths); i++) {
        ckpt_str name;
        if (!value_text(value_item(paths, i), &name))
            return fail(m->err, CKPT_EFORMAT, value_offset(paths),
                        "\"paths\" with {other values} than {=texts}");
        CKPT_TRY_ALLOC((name = arena_str(m->f->a, name)).ptr, m->err);
        ckpt_status st = part_file_explain_missing(open_shard(m, g, name), name,
                                                   "put the files of the weights next to the model", m->err);
        if (st != CKPT_OK && !m->err->file[0])
            error_add_position(m->err, value_offset(value_item(paths, i)), STR_LIT("paths"));
        if (st == CKPT_ENOTFOUND) {
            st = part_file_accept_missing(m->f, m->err);
            *complete = false;
        }
        CKPT_TRY(st);
    }
    return CKPT_OK;
}

/* join_shards - sets g->joined to a source of all bytes of G, which has some. */
static ckpt_status join_shards(struct tfjs *m, struct tfjs_group *g)
{
    uint64_t at;
    arena *a = m->f->a;
    struct piece *pieces = arena_array(a, g->nshards, sizeof *pieces);
    uint64_t *boxes = arena_array(a, 2 * (uint64_t)g->nshards, sizeof *boxes);
    CKPT_TRY_ALLOC(pieces && boxes, m->err);
    for (size_t i = 0; i < g->nshards; i++, boxes += 2) {
        boxes[0] = g->shards[i].begin;
        boxes[1] = g->shards[i].file->src->size;
        pieces[i] = (struct piece){boxes, boxes + 1, NULL, g->shards[i].file->src, 0};
    }
    const struct pieces p = {.shape = &g->size, .ndim = 1, .width = 1, .piece = pieces, .n = g->nshards};
    return pieces_source(a, &p, &g->joined, &at, m->err); /* AT is 0: the pieces begin there */
}

/* find_shard - returns the shard that has all N bytes of G from BEGIN on; NULL: none has. */
static const struct tfjs_shard *find_shard(const struct tfjs_group *g, uint64_t begin, uint64_t n)
{
    for (size_t i = 0; i < g->nshards; i++)
        if (begin >= g->shards[i].begin &&
            range_within(begin - g->shards[i].begin, n, g->shards[i].file->src->size))
            return &g->shards[i];
    return NULL;
}

/* ------------------------------------------------------------------------------- weights */

static bool read_number(const ckpt_value *v, double *out)
{
    int64_t i;
    if (v && v->type == CKPT_V_FLOAT)
        *out = v->u.f;
    else if (value_integer(v, &i))
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

/* fits_dtype - returns true if all numbers that the codes of W may stand for fit its dtype. */
static bool fits_dtype(const struct tfjs_weight *w)
{
    double last = (w->stored == CKPT_DT_U8 ? 255.0 : 65535.0) * w->scale + w->min;
    return w->dtype == CKPT_DT_F32 ||
           (fmin(w->min, last) >= (double)INT32_MIN && fmax(w->min, last) <= (double)INT32_MAX);
}

static ckpt_status read_quantization(struct tfjs *m, struct tfjs_weight *w, const ckpt_value *v)
{
    w->is_quantized = true;
    w->stored = find_dtype(value_get(v, "dtype"), "float16 uint16 uint8");
    bool is_affine = w->stored == CKPT_DT_U8 || w->stored == CKPT_DT_U16;
    bool has_numbers = !is_affine || (read_number(value_get(v, "scale"), &w->scale) &&
                                      read_number(value_get(v, "min"), &w->min));
    bool has_dtype = w->dtype == CKPT_DT_F32 || (is_affine && w->dtype == CKPT_DT_I32);
    if (w->stored == CKPT_DT_NONE || !has_numbers || !has_dtype)
        return fail(m->err, CKPT_EUNSUPPORTED, value_offset(v),
                    "a quantization that is {not one} of {=float16, or uint8 or uint16 with scale and min}");
    return !is_affine || fits_dtype(w) ? CKPT_OK
                                       : fail(m->err, CKPT_EFORMAT, value_offset(v),
                                              "a scale that makes {larger numbers} than {=int32}");
}

static ckpt_status read_shape(struct tfjs *m, struct tfjs_weight *w, const ckpt_value *v)
{
    w->ndim = value_count(v);
    if (!v || v->type != CKPT_V_LIST || w->ndim > MAX_DIMS)
        return fail(m->err, CKPT_EFORMAT, w->described_at, "{no} shape, {=a list of up to %u sizes}",
                    MAX_DIMS);
    CKPT_TRY_ALLOC(w->shape = arena_array(m->f->a, w->ndim, sizeof *w->shape), m->err);
    for (uint32_t i = 0; i < w->ndim; i++)
        if (!value_size(value_item(v, i), &w->shape[i]))
            return fail(m->err, CKPT_EFORMAT, value_offset(v),
                        "dimension %u is {not} {=an integer from 0 on}", i);
    return CKPT_OK;
}

static ckpt_status read_weight(struct tfjs *m, const ckpt_value *v, struct tfjs_weight *w)
{
    ckpt_str name, group;
    const ckpt_value *quantization = value_get(v, "quantization");
    *w = (struct tfjs_weight){.described_at = value_offset(v),
                              .dtype = find_dtype(value_get(v, "dtype"), DTYPES)};
    if (!value_text(value_get(v, "name"), &name))
        return fail(m->err, CKPT_EFORMAT, value_offset(v), "a weight with {no} {=name}");
    bool is_state = value_text(value_get(v, "group"), &group) && str_is(group, "optimizer");
    w->name = ARENA_CONCAT(m->f->a, str_c(is_state ? "optimizer/" : ""), name);
    CKPT_TRY_ALLOC(w->name.ptr, m->err);
    w->stored = w->dtype;
    ckpt_status st = w->dtype != CKPT_DT_NONE ? read_shape(m, w, value_get(v, "shape"))
                                              : fail(m->err, CKPT_EUNSUPPORTED, value_offset(v),
                                                     "{no dtype that is known}; {=" DTYPES "} are read");
    if (st == CKPT_OK && quantization && quantization->type != CKPT_V_NONE)
        st = read_quantization(m, w, quantization);
    if (st != CKPT_OK)
        error_add_position(m->err, value_offset(v), w->name);
    return st;
}

/* measure_texts - sets w->nbytes to what the texts of W take. They must be in G. */
static ckpt_status measure_texts(struct tfjs *m, const struct tfjs_group *g, struct tfjs_weight *w)
{
    reader r;
    uint64_t left = g->size - w->offset;
    if (w->count > left / TEXT_LENGTH || !g->joined)
        return w->count
                   ? fail(m->err, CKPT_ETRUNCATED, w->described_at,
                          "{=%" PRIu64 " texts}, the files have {%" PRIu64 " bytes} there", w->count, left)
                   : CKPT_OK;
    CKPT_TRY(reader_init(&r, g->joined, w->offset, g->size, m->err));
    for (uint64_t i = 0; i < w->count && !r.status; i++)
        (void)reader_skip(&r, reader_u32(&r));
    ckpt_status st = r.status;
    w->nbytes = r.pos - w->offset;
    reader_free(&r);
    return st;
}

/* measure_weight - sets the count and nbytes of W, whose offset is set. */
static ckpt_status measure_weight(struct tfjs *m, const struct tfjs_group *g, struct tfjs_weight *w)
{
    uint64_t size;
    const ckpt_dtype dtype = w->dtype == CKPT_DT_NAMED ? CKPT_DT_U8 : w->stored;
    if (!checked_product(w->shape, w->ndim, &w->count) || !checked_mul(w->count, 4, &size) ||
        !dtype_bytes(dtype, w->count, &w->nbytes))
        return fail(m->err, CKPT_EFORMAT, w->described_at, "a shape of {more} bytes than {=2^64}");
    return w->dtype == CKPT_DT_NAMED ? measure_texts(m, g, w) : CKPT_OK;
}

/* read_weights - reads the descriptions LIST, and sets *END to the bytes that all weights take. */
static ckpt_status read_weights(struct tfjs *m, struct tfjs_group *g, const ckpt_value *list, uint64_t *end)
{
    *end = 0;
    CKPT_TRY_ALLOC(g->weights = arena_array(m->f->a, value_count(list), sizeof *g->weights), m->err);
    for (; g->nweights < value_count(list); g->nweights++) {
        struct tfjs_weight *w = &g->weights[g->nweights];
        CKPT_TRY(read_weight(m, value_item(list, (uint32_t)g->nweights), w));
        w->offset = *end;
        ckpt_status st = measure_weight(m, g, w);
        if (st == CKPT_OK && !checked_add(*end, w->nbytes, end))
            st = fail(m->err, CKPT_EFORMAT, w->described_at, "weights of {more} than {=2^64 bytes}");
        if (st != CKPT_OK)
            error_add_position(m->err, w->described_at, w->name);
        CKPT_TRY(st);
    }
    return CKPT_OK;
}

/* --------------------------------------------------------------------------------- groups */

/* make_texts - sets *OUT to a source of the texts of W, which are at AT of SRC, in the form of
 * tensor_is_string. */
static ckpt_status make_texts(struct tfjs *m, const struct tfjs_weight *w, source *src, uint64_t at,
                              source **out)
{
    reader r;
    uint64_t size, longer = (8 - TEXT_LENGTH) * w->count;
    size_t room;
    CKPT_TRY_ALLOC(checked_add(w->nbytes, longer, &size) && checked_size(size, &room), m->err);
    unsigned char *bytes = arena_alloc(m->f->a, room), *to = bytes;
    CKPT_TRY_ALLOC(bytes, m->err);
    CKPT_TRY(reader_init(&r, src, at, at + w->nbytes, m->err));
    for (uint64_t i = 0; i < w->count && !r.status; i++) {
        uint32_t n = reader_u32(&r);
        uint64_t text = r.pos;
        store_u64le(to, n);
        if (reader_skip(&r, n))
            r.status = source_read(src, text, to + 8, n, m->err);
        to += 8 + (size_t)n; /* the lengths are those that measure_texts read */
    }
    ckpt_status st = r.status;
    reader_free(&r);
    CKPT_TRY(st);
    *out = source_mem(bytes, room, CKPT_NO_OFFSET);
    return *out ? CKPT_OK : fail_memory(m->err);
}

/* find_values - sets the source of T to that of W. *OWN gets a reference that the caller drops. */
static ckpt_status find_values(struct tfjs *m, const struct tfjs_group *g, const struct tfjs_weight *w,
                               struct kit_tensor *t, source **own)
{
    const struct tfjs_shard *shard = find_shard(g, w->offset, w->nbytes);
    t->nbytes = w->nbytes;
    source *stored = shard       ? source_ref(shard->file->src)
                     : g->joined ? source_ref(g->joined)
                                 : source_mem("", 0, CKPT_NO_OFFSET);
    t->src_offset = shard ? w->offset - shard->begin : w->offset;
    t->src_file = shard ? &shard->extra : NULL;
    *own = stored;
    if (!stored || (!w->is_quantized && w->dtype != CKPT_DT_NAMED)) {
        t->src = stored;
        return stored ? CKPT_OK : fail_memory(m->err);
    }
    *own = w->is_quantized ? dequantize(w, stored, t->src_offset) : NULL;
    ckpt_status st = w->is_quantized ? *own ? CKPT_OK : fail_memory(m->err)
                                     : make_texts(m, w, stored, t->src_offset, own);
    source_unref(stored);
    t->src_offset = 0;
    t->src = *own;
    t->nbytes = *own ? (*own)->size : 0;
    return st;
}

static ckpt_status make_note(struct tfjs *m, const struct tfjs_weight *w, ckpt_str *note)
{
    if (!w->is_quantized)
        return CKPT_OK;
    *note = arena_printf(m->f->a, "stored as %s", ckpt_dtype_name(w->stored));
    return note->ptr ? CKPT_OK : fail_memory(m->err);
}

static ckpt_status add_weight(struct tfjs *m, const struct tfjs_group *g, const struct tfjs_weight *w)
{
    source *own = NULL;
    struct kit_tensor t = {.name = w->name, .described_at = w->described_at};
    t.t.dtype = (uint16_t)w->dtype;
    t.t.dtype_name = w->dtype == CKPT_DT_NAMED ? "string" : NULL;
    t.t.ndim = w->ndim;
    t.t.shape = w->shape;
    CKPT_TRY(make_note(m, w, &t.t.note));
    if (!range_within(w->offset, w->nbytes, g->intact))
        return kit_add_faulty(&m->k, &t,
                              fail(m->err, CKPT_ETRUNCATED, w->described_at,
                                   "needs {=%" PRIu64 " bytes} of a group, of which {%" PRIu64
                                   "} are certain to be in their place",
                                   size_add(w->offset, w->nbytes), g->intact));
    ckpt_status st = find_values(m, g, w, &t, &own);
    if (st == CKPT_OK && w->dtype == CKPT_DT_NAMED)
        t.t.nbytes = t.nbytes;
    st = st == CKPT_OK ? kit_add_tensor(&m->k, &t) : kit_add_faulty(&m->k, &t, st);
    source_unref(own);
    return st;
}

/* count_intact - returns how many bytes of G, which has fewer than its weights take, are certain to be in
 * their place. The converter makes all files of a group but the last equally large: the place of a file is
 * certain if those before it are equally large, and not just one of a size that may be what is left of it. */
static uint64_t count_intact(const struct tfjs_group *g)
{
    uint64_t first = g->nshards ? g->shards[0].file->src->size : 0, intact = first;
    size_t n = g->nshards > 0; /* of equally large files */
    for (size_t i = 0; i < g->nshards; i++)
        if (g->shards[i].file->src->size > first)
            return first;
    while (n < g->nshards && g->shards[n].file->src->size == first)
        n++;
    for (size_t i = 1; i <= n && i < g->nshards && (n > 1 || first == SHARD_SIZE); i++)
        intact += g->shards[i].file->src->size;
    return intact;
}

/* check_size - fails unless the files of G have the END bytes that its weights take. In salvage, sets
 * g->intact instead. */
static ckpt_status check_size(struct tfjs *m, struct tfjs_group *g, uint64_t end, const ckpt_value *paths,
                              bool complete)
{
    g->intact = g->size;
    if (g->size == end && complete)
        return CKPT_OK;
    g->intact = g->size > end ? 0 : count_intact(g);
    if (m->f->salvage || !complete)
        return CKPT_OK;
    return fail(m->err, g->size < end ? CKPT_ETRUNCATED : CKPT_EFORMAT, value_offset(paths),
                "the files of a group have {%" PRIu64 " bytes}, its weights take {=%" PRIu64 "}", g->size,
                end);
}

static ckpt_status add_group(struct tfjs *m, struct tfjs_group *g, const ckpt_value *v)
{
    const ckpt_value *paths = value_get(v, "paths"), *weights = value_get(v, "weights");
    bool complete = false;
    uint64_t end = 0;
    if (!paths || paths->type != CKPT_V_LIST || !weights || weights->type != CKPT_V_LIST)
        return fail(m->err, CKPT_EFORMAT, value_offset(v), "a group with {no} lists {=paths and weights}");
    CKPT_TRY(open_shards(m, g, paths, &complete));
    if (g->size)
        CKPT_TRY(join_shards(m, g));
    CKPT_TRY(read_weights(m, g, weights, &end));
    CKPT_TRY(check_size(m, g, end, paths, complete));
    if (!complete && !m->f->salvage)
        return CKPT_OK; /* `verify` reported it */
    for (size_t i = 0; i < g->nweights; i++)
        CKPT_TRY(add_weight(m, g, &g->weights[i]));
    return CKPT_OK;
}

static ckpt_status read_group(struct tfjs *m, uint32_t number, const ckpt_value *v)
{
    struct tfjs_group g = {.size = 0};
    ckpt_status st = add_group(m, &g, v);
    source_unref(g.joined);
    if (st == CKPT_OK)
        return st;
    if (!m->err->file[0])
        error_add_position(m->err, value_offset(v), STR_LIT(MANIFEST_KEY));
    char name[40];
    (void)snprintf(name, sizeof name, "group %" PRIu32, number);
    return file_report_lost(m->f, st, str_c(name), m->err);
}

/* ---------------------------------------------------------------------------------- model */

/* add_values - adds the texts and numbers of MODEL, such as "generatedBy". */
static ckpt_status add_values(struct tfjs *m, const ckpt_value *model)
{
    uint32_t n = 0;
    const value_pair *pairs = value_pairs(model, &n);
    for (uint32_t i = 0; i < n; i++) {
        ckpt_str key;
        bool is_container = pairs[i].val->type == CKPT_V_DICT || pairs[i].val->type == CKPT_V_LIST;
        if (is_container || pairs[i].val->type == CKPT_V_NONE || !value_text(pairs[i].key, &key))
            continue;
        CKPT_TRY_ALLOC((key = arena_str(m->f->a, key)).ptr, m->err);
        CKPT_TRY(kit_add_other_value(&m->k, key, pairs[i].val));
    }
    return CKPT_OK;
}

static ckpt_status read_model(struct tfjs *m, const ckpt_value *model)
{
    const ckpt_value *manifest = model->type == CKPT_V_LIST ? model : value_get(model, MANIFEST_KEY);
    ckpt_str by;
    if (!manifest || manifest->type != CKPT_V_LIST)
        return fail(m->err, CKPT_EFORMAT, value_offset(model), "{no} list {=\"" MANIFEST_KEY "\"}");
    for (uint32_t i = 0; i < value_count(manifest); i++)
        CKPT_TRY(read_group(m, i, value_item(manifest, i)));
    m->f->producer = value_text(value_get(model, "convertedBy"), &by) ||
                             value_text(value_get(model, "generatedBy"), &by)
                         ? arena_str(m->f->a, by)
                         : STR_LIT("TensorFlow.js");
    return m->f->producer.ptr ? add_values(m, model) : fail_memory(m->err);
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

/* is_manifest - returns true if P is called weights_manifest.json and begins as a list of groups. */
static bool is_manifest(const struct probe *p)
{
    ckpt_str name = str_after_last(str_c(p->path), '/');
    return (str_is(name, MANIFEST_NAME) || str_ends(name, STR_LIT("!" MANIFEST_NAME))) &&
           str_starts(recognize_skip_space(probe_head(p)), STR_LIT("["));
}

static bool probe(const struct probe *p)
{
    ckpt_error ignored;
    if (!p->is_folder)
        return recognize_tfjs(p) || is_manifest(p);
    struct probe model = {.path = MODEL_NAME};
    if (!probe_has(p, MODEL_NAME))
        return probe_has(p, MANIFEST_NAME);
    model.src = probe_open(p, MODEL_NAME);
    bool found = model.src && recognize_fill(&model, MODEL_NAME, model.src, &ignored) == CKPT_OK &&
                 recognize_tfjs(&model);
    source_unref(model.src);
    return found;
}

const struct format format_tfjs = {
    .name = "tfjs", .title = "TensorFlow.js model", .flat = true, .probe = probe, .read = read};
