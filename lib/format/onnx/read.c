/*
 * read.c - reads ONNX models (codec/onnx.h): the initializers of the graph and its subgraphs, and the tensors
 * in attributes of nodes. The model is one protobuf message; values are in it, or in files of its folder.
 *
 *   raw_data     row-major, little-endian; elements of 2, 4 and 6 bits packed (values.c)
 *   float_data … by type (values.c)
 *   external     location: a file of the folder; offset, length: decimal numbers, by default 0 and the size
 *                of dtype and shape; checksum: SHA-1, not compared
 *
 * The initializers of the main graph have their own names; a sparse one is listed as NAME.values and
 * NAME.indices. All other tensors come after them, with their place ("node3/then_branch") in a note, and in
 * the name if their own is taken. ir_version, opset_import, … are values, metadata_props the metadata.
 *
 * Refused, in addition to what codec/onnx.c refuses: values in a field that is not for their data type, or
 * whose length is not what dtype and shape take; files outside of the folder; offsets and lengths that are
 * not decimal; a model of IR version 3 or later without opset_import, which shows that its end is missing.
 */
#include <inttypes.h>

#include "base/buf.h"
#include "base/checked.h"
#include "core/check.h"
#include "format/distributed/part_files.h"
#include "format/kit.h"
#include "format/onnx/onnx.h"
#include "format/recognize.h"

#define NOTE_MAX 2048u

/* A file of external data. */
struct values_file {
    ckpt_file *file;
    struct storage_extra in;
};

struct onnx_reading {
    ckpt_file *f;
    ckpt_error *err;
    struct kit k;
    bool elsewhere; /* this pass reads the tensors that are not initializers of the main graph */
    bool has_any_elsewhere;
    map *file_of; /* location -> index of file */
    struct values_file **file;
    size_t nfiles, cap;
};

/* Where the values of a tensor are. */
struct stored_values {
    source *src;
    uint64_t at, bytes;
    const struct values_file *in; /* NULL: the model */
    bool is_unpacked;             /* SRC has a byte for each element of 2, 4 or 6 bits */
};

/* ------------------------------------------------------------------------------- files */

static ckpt_status open_values(struct onnx_reading *r, ckpt_str location, struct values_file **out)
{
    ckpt_file *f = r->f;
    struct values_file *one = ARENA_NEW(f->a, struct values_file);
    if (!one || !(one->in.file = arena_str(f->a, location)).ptr)
        return fail_memory(r->err);
    ckpt_str trusted = str_after_last(str_c(f->path), '/');
    ckpt_status st = part_file_add(f, trusted.ptr, location, &one->file, r->err);
    if (st == CKPT_ENOTFOUND)
        error_add_hint(r->err, "the model has values in other files: put them next to it");
    CKPT_TRY(st);
    if (!map_put(r->file_of, location, (uint32_t)r->nfiles, NULL) ||
        !arena_push(f->a, &r->file, &r->nfiles, &r->cap, &one, sizeof one))
        return fail_memory(r->err);
    *out = one;
    return CKPT_OK;
}

/* find_values - sets *OUT to the file at LOCATION, which is opened the first time. */
static ckpt_status find_values(struct onnx_reading *r, ckpt_str location, struct values_file **out)
{
    uint32_t i = map_get(r->file_of, location);
    if (i != MAP_NONE) {
        *out = r->file[i];
        return CKPT_OK;
    }
    if (!source_file_named(r->f->src))
        return fail(r->err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
                    "values in another file, \"%.*s\", of a model that is {no} {=file of a folder}",
                    STR_ARG(location));
    return open_values(r, location, out);
}

/* read_decimal - reads TEXT, the external data entry KEY of T, as a number. */
static ckpt_status read_decimal(struct onnx_reading *r, const struct onnx_tensor *t, const char *key,
                                ckpt_str text, uint64_t *out)
{
    if (!text.ptr || str_uint(text, out))
        return CKPT_OK;
    return fail(r->err, CKPT_EFORMAT, source_pos(r->f->src, t->external_at),
                "the %s of external data is {\"%.*s\"}; {=a decimal number} is allowed", key, STR_ARG(text));
}

/* find_external - sets S to the NEED bytes of T, which are in a file of external data. */
static ckpt_status find_external(struct onnx_reading *r, const struct onnx_tensor *t, uint64_t need,
                                 struct stored_values *s)
{
    struct values_file *file = NULL;
    *s = (struct stored_values){.bytes = need};
    CKPT_TRY(read_decimal(r, t, "offset", t->offset, &s->at));
    CKPT_TRY(read_decimal(r, t, "length", t->length, &s->bytes));
    if (!t->location.len)
        return fail(r->err, CKPT_EFORMAT, source_pos(r->f->src, t->external_at),
                    "external data at {no} {=location}");
    if (s->bytes != need)
        return fail(r->err, CKPT_EFORMAT, source_pos(r->f->src, t->external_at),
                    "external data of {%" PRIu64 " bytes}; its dtype and shape take {=%" PRIu64 "}", s->bytes,
                    need);
    ckpt_status st = find_values(r, t->location, &file);
    if (st != CKPT_OK && !r->err->file[0])
        error_add_position(r->err, source_pos(r->f->src, t->external_at), t->name);
    CKPT_TRY(st);
    uint64_t size = file->file->src->size;
    if (range_within(s->at, s->bytes, size)) {
        s->src = source_ref(file->file->src);
        s->in = file;
        return CKPT_OK;
    }
    (void)fail(r->err, CKPT_ETRUNCATED, s->at < size ? s->at : size,
               "needs {=%" PRIu64 " bytes} from offset %" PRIu64 " on, the file has {%" PRIu64 "} there",
               s->bytes, s->at, s->at < size ? size - s->at : 0);
    error_add_file(r->err, file->file->path);
    return CKPT_ETRUNCATED;
}

/* ------------------------------------------------------------------------------ values */

/* count_elements - sets *N to the number of elements of T, and *BYTES to the bytes that they take in
 * raw_data. */
static ckpt_status count_elements(const struct onnx_reading *r, const struct onnx_tensor *t, uint64_t *n,
                                  uint64_t *bytes)
{
    if (!checked_product(t->shape, t->ndim, n) || !checked_mul(*n, t->type->bits, bytes) ||
        !checked_add(*bytes, 7, bytes))
        return fail(r->err, CKPT_EFORMAT, source_pos(r->f->src, t->at), "{more} bits than {=2^64}");
    *bytes /= 8;
    return CKPT_OK;
}

/* find_typed - sets S to the N elements of T, which are in a field for their type, such as float_data. In
 * raw_data they would take RAW bytes. */
static ckpt_status find_typed(struct onnx_reading *r, const struct onnx_tensor *t, uint64_t n, uint64_t raw,
                              struct stored_values *s)
{
    const struct onnx_type *type = t->type;
    source *src = r->f->src;
    bool is_fixed = type->field == ONNX_FLOATS || type->field == ONNX_DOUBLES;
    if (t->field != type->field)
        return fail(r->err, CKPT_EFORMAT, source_pos(src, t->values),
                    "values in {field %d}; those of %s are in {=field %d}", (int)t->field, type->name,
                    (int)type->field);
    if (is_fixed && t->nfields == 1) {
        *s = (struct stored_values){.src = source_ref(src), .at = t->values, .bytes = t->bytes};
        return CKPT_OK;
    }
    *s = (struct stored_values){.is_unpacked = type->bits < 8 && !type->packs};
    CKPT_TRY(type->dtype == CKPT_DT_NP
                 ? onnx_decode_texts(r->f->a, src, t, n, &s->src, r->err)
                 : onnx_decode(r->f->a, src, t, s->is_unpacked ? n : raw / type->width, &s->src, r->err));
    s->bytes = s->src->size;
    return CKPT_OK;
}

/* find_stored - sets S to the N elements of T, wherever they are stored. RAW is as in find_typed. The caller
 * owns the reference S->src. */
static ckpt_status find_stored(struct onnx_reading *r, const struct onnx_tensor *t, uint64_t n, uint64_t raw,
                               struct stored_values *s)
{
    source *src = r->f->src;
    *s = (struct stored_values){.bytes = 0};
    if (t->type->dtype == CKPT_DT_NP && (t->is_external || t->field == ONNX_RAW))
        return fail(r->err, CKPT_EFORMAT, source_pos(src, t->at),
                    "texts as {raw data}; {=string_data} has them");
    if (t->is_external)
        return find_external(r, t, raw, s);
    if (t->field == ONNX_RAW || (n == 0 && t->field == 0)) {
        *s = (struct stored_values){.src = source_ref(src), .at = t->values, .bytes = t->bytes};
        return CKPT_OK;
    }
    if (t->field)
        return find_typed(r, t, n, raw, s);
    return fail(r->err, CKPT_EFORMAT, source_pos(src, t->at),
                "{no values}; its dtype and shape take {=%" PRIu64 " bytes}", raw);
}

/* unpack - replaces S, the N elements of T packed in RAW bytes, by a source that has a byte for each. */
static ckpt_status unpack(struct onnx_reading *r, const struct onnx_tensor *t, uint64_t n, uint64_t raw,
                          struct stored_values *s)
{
    source *packed, *out;
    if (s->bytes != raw)
        return fail(r->err, CKPT_EFORMAT, source_pos(s->src, s->at),
                    "{%" PRIu64 " bytes}, its dtype and shape take {=%" PRIu64 "}", s->bytes, raw);
    CKPT_TRY(source_slice(s->src, s->at, raw, &packed, r->err));
    ckpt_status st = onnx_unpack(packed, n, t->type->bits, &out, r->err);
    source_unref(packed);
    CKPT_TRY(st);
    source_unref(s->src);
    *s = (struct stored_values){.src = out, .bytes = n, .in = s->in};
    return CKPT_OK;
}

/* ----------------------------------------------------------------------------- tensors */

/* make_name - returns the name for T: its own, with ".values" or ".indices" for a part of a sparse tensor. If
 * that is empty or taken and T is not in the main graph, begins with the place of T ("node3/then_branch"). */
static ckpt_str make_name(struct onnx_reading *r, const struct onnx_tensor *t)
{
    arena *a = r->f->a;
    ckpt_str name = t->name;
    if (t->component)
        name = arena_printf(a, t->component == ONNX_SPARSE_VALUES ? "%.*s.values" : "%.*s.indices",
                            (int)name.len, name.ptr);
    if (!t->graph_path.len || !name.ptr || (name.len && map_get(r->k.names, name) == MAP_NONE))
        return name;
    name = arena_printf(a, "%.*s%s%.*s", (int)t->graph_path.len, t->graph_path.ptr, name.len ? "/" : "",
                        (int)name.len, name.ptr);
    if (!name.ptr || map_get(r->k.names, name) == MAP_NONE)
        return name;
    return arena_printf(a, "%.*s#%zu", (int)name.len, name.ptr, r->f->table.nrows);
}

/* make_note - sets *NOTE to a text about where T is, the sparse tensor that it is a part of, and its
 * checksum. */
static ckpt_status make_note(struct onnx_reading *r, const struct onnx_tensor *t, ckpt_str *note)
{
    buf b;
    buf_init(&b, NOTE_MAX);
    if (t->graph_path.len < NOTE_MAX / 2)
        buf_str(&b, t->graph_path);
    if (t->component)
        buf_text(&b, b.len ? ", of a sparse tensor" : "of a sparse tensor");
    for (uint64_t i = 0; i < t->sparse_ndim; i++)
        buf_printf(&b, "%s%" PRIu64, i ? ", " : " of shape [", t->sparse_shape[i]);
    if (t->sparse_ndim)
        buf_text(&b, "]");
    if (t->checksum.len)
        buf_printf(&b, "%sSHA-1 %.*s", b.len ? ", " : "", STR_ARG(t->checksum));
    *note = arena_str(r->f->a, buf_view(&b));
    bool ok = note->ptr && buf_ok(&b);
    buf_free(&b);
    return ok ? CKPT_OK : fail_memory(r->err);
}

/* add_stored - adds T as X. It has N elements, which take RAW bytes in raw_data. */
static ckpt_status add_stored(struct onnx_reading *r, const struct onnx_tensor *t, uint64_t n, uint64_t raw,
                              struct kit_tensor *x)
{
    struct stored_values s = {.bytes = 0};
    ckpt_error why;
    ckpt_status st = find_stored(r, t, n, raw, &s);
    if (st == CKPT_OK && t->type->bits % 8 && !s.is_unpacked)
        st = unpack(r, t, n, raw, &s);
    if (st != CKPT_OK) {
        source_unref(s.src);
        s.src = NULL;
        error_add_position(r->err, CKPT_NO_OFFSET, x->name);
        why = *r->err;
        why.where[0] = 0; /* the row has its name */
        if (r->f->salvage && (check_is_fault(st) || st == CKPT_ENOTFOUND || st == CKPT_EIO))
            x->lost = &why;
        else
            CKPT_TRY(file_report_fault(r->f, st, r->err));
    }
    x->src = s.src;
    x->at = s.at;
    x->nbytes = x->t.nbytes = s.bytes;
    x->in = s.in ? &s.in->in : NULL;
    st = kit_add_tensor(&r->k, x);
    source_unref(s.src);
    return st;
}

static ckpt_status take_fault(void *user, ckpt_status st, ckpt_error *err)
{
    struct onnx_reading *r = user;
    return r->elsewhere && check_is_fault(st) ? CKPT_OK /* reported the first time */
                                              : file_lose(r->f, st, str_c(err->where), err);
}

static ckpt_status take_tensor(void *user, const struct onnx_tensor *t, ckpt_error *err)
{
    struct onnx_reading *r = user;
    bool is_text = t->type->dtype == CKPT_DT_NP;
    if ((t->graph_path.len != 0) != r->elsewhere) {
        r->has_any_elsewhere |= t->graph_path.len != 0;
        return CKPT_OK;
    }
    struct kit_tensor x = {.name = make_name(r, t), .entry = source_pos(r->f->src, t->at)};
    uint64_t n = 0, raw = 0;
    if (!x.name.ptr)
        return fail_memory(err);
    ckpt_status st = count_elements(r, t, &n, &raw);
    if (st != CKPT_OK) {
        error_add_position(err, CKPT_NO_OFFSET, x.name);
        return file_lose(r->f, st, str_c(err->where), err);
    }
    CKPT_TRY(make_note(r, t, &x.t.note));
    x.t.dtype = (uint16_t)t->type->dtype;
    x.t.dtype_name = is_text ? "string" : NULL;
    x.t.ndim = t->ndim;
    x.t.shape = t->shape;
    return add_stored(r, t, n, raw, &x);
}

/* --------------------------------------------------------------------------- the model */

/* add_value - adds V as NAME, unless a tensor has that name. */
static ckpt_status add_value(struct onnx_reading *r, const char *name, ckpt_value *v)
{
    if (map_get(r->k.names, str_c(name)) == MAP_NONE)
        return kit_add_value(&r->k, str_c(name), v);
    file_notice(r->f, "\"%s\" is a tensor, too: the model's %s is left out", name, name);
    return CKPT_OK;
}

static ckpt_status add_text(struct onnx_reading *r, const char *name, ckpt_str text)
{
    return text.len ? add_value(r, name, value_str(r->f->a, text)) : CKPT_OK;
}

static ckpt_status add_number(struct onnx_reading *r, const char *name, uint64_t number)
{
    return number ? add_value(r, name, value_int(r->f->a, (int64_t)number)) : CKPT_OK;
}

/* add_opsets - adds the opset versions by domain. The domain "" is another name of "ai.onnx". */
static ckpt_status add_opsets(struct onnx_reading *r, const struct onnx *o)
{
    struct kit k;
    ckpt_status st = CKPT_OK;
    if (!o->nopsets || map_get(r->k.names, STR_LIT("opset_import")) != MAP_NONE)
        return CKPT_OK;
    CKPT_TRY(kit_begin_mapping(&k, &r->k, STR_LIT("opset_import")));
    for (size_t i = 0; st == CKPT_OK && i < o->nopsets; i++) {
        ckpt_str domain = o->opset[i].key.len ? o->opset[i].key : STR_LIT("ai.onnx");
        if (map_get(k.names, domain) == MAP_NONE)
            st = kit_add_value(&k, domain, value_int(r->f->a, (int64_t)o->opset[i].number));
    }
    return kit_end(&k, st);
}

/* put_property - adds P to the metadata, unless they have its key already. */
static ckpt_status put_property(struct onnx_reading *r, map *keys, const struct onnx_pair *p)
{
    uint32_t before;
    ckpt_value *key = value_str(r->f->a, p->key), *v = value_str(r->f->a, p->value);
    if (!key || !v || !map_put(keys, p->key, 0, &before))
        return fail_memory(r->err);
    if (before == MAP_NONE && key->type == CKPT_V_STR && v->type == CKPT_V_STR)
        return value_put(r->f->a, r->f->metadata, key, v) ? CKPT_OK : fail_memory(r->err);
    file_notice(r->f, "the property \"%.*s\" is left out: it is %s", STR_ARG(p->key),
                before != MAP_NONE ? "a duplicate" : "not UTF-8");
    return CKPT_OK;
}

static ckpt_status add_properties(struct onnx_reading *r, const struct onnx *o)
{
    map *keys = o->nproperties ? map_new(16) : NULL;
    ckpt_status st = CKPT_OK;
    if (!o->nproperties)
        return CKPT_OK;
    r->f->metadata = value_new(r->f->a, CKPT_V_DICT, 0);
    if (!keys || !r->f->metadata)
        st = fail_memory(r->err);
    for (size_t i = 0; st == CKPT_OK && i < o->nproperties; i++)
        st = put_property(r, keys, &o->property[i]);
    map_free(keys);
    return st;
}

static ckpt_status add_model(struct onnx_reading *r, const struct onnx *o)
{
    ckpt_file *f = r->f;
    f->producer = arena_printf(f->a, o->producer_version.len ? "%.*s %.*s" : "%.*s", (int)o->producer.len,
                               o->producer.ptr, (int)o->producer_version.len, o->producer_version.ptr);
    if (!f->producer.ptr)
        return fail_memory(r->err);
    CKPT_TRY(add_number(r, "ir_version", o->ir_version));
    CKPT_TRY(add_text(r, "producer_name", o->producer));
    CKPT_TRY(add_text(r, "producer_version", o->producer_version));
    CKPT_TRY(add_text(r, "domain", o->domain));
    CKPT_TRY(add_number(r, "model_version", o->model_version));
    CKPT_TRY(add_text(r, "doc_string", o->doc));
    CKPT_TRY(add_opsets(r, o));
    return add_properties(r, o);
}

static ckpt_status read_model(struct onnx_reading *r)
{
    ckpt_file *f = r->f;
    struct onnx o = {.src = f->src,
                     .a = f->a,
                     .may_be_damaged = f->salvage,
                     .tensor = take_tensor,
                     .fault = take_fault,
                     .user = r},
                again = o;
    CKPT_TRY(onnx_read(&o, r->err));
    if (o.ir_version >= 3 && !o.nopsets) {
        ckpt_status st = fail(r->err, CKPT_EFORMAT, source_pos(f->src, o.at), "{no} {=opset_import}");
        CKPT_TRY(f->salvage ? CKPT_OK : file_report_fault(f, st, r->err));
    }
    r->elsewhere = true;
    if (r->has_any_elsewhere)
        CKPT_TRY(onnx_read(&again, r->err));
    return add_model(r, &o);
}

static bool probe(const struct probe *p) { return !p->directory && recognize_as(p, SIGN_ONNX); }

static ckpt_status read(ckpt_file *f, ckpt_error *err)
{
    struct onnx_reading r = {.f = f, .err = err, .file_of = map_new(16)};
    file_budget(f, f->src->size);
    if (!r.file_of || !part_file_set_folder(f)) {
        map_free(r.file_of);
        return fail_memory(err);
    }
    ckpt_status st = kit_begin(&r.k, f, value_new(f->a, CKPT_V_DICT, 0), err);
    if (st == CKPT_OK)
        st = kit_end(&r.k, read_model(&r));
    map_free(r.file_of);
    error_add_position(st == CKPT_OK ? NULL : err, CKPT_NO_OFFSET, STR_LIT("model"));
    return st;
}

const struct format format_onnx = {
    .name = "onnx", .title = "ONNX", .flat = true, .probe = probe, .read = read};
