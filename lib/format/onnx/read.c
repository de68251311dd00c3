/*
 * read.c - reads ONNX models (codec/onnx.h): the initializers of the graph and its subgraphs, and the tensors
 * in attributes of nodes. The model is one protobuf message; values are in it, or in files of its folder.
 *
 *   raw_data     row-major, little-endian; elements of 2, 4 and 6 bits are packed (io/source_unpacked.c)
 *   float_data … typed fields, each for the values of one or more data types (values.c)
 *   external     location: a file of the folder; offset, length: decimal numbers, by default 0 and the size
 *                that dtype and shape take; checksum: SHA-1, not compared
 *
 * The initializers of the main graph have their own names; a sparse one is listed as NAME.values and
 * NAME.indices. All other tensors come after them, with their path in the graph ("node3/then_branch") in a
 * note, and in the name if their own is taken. ir_version, opset_import, … are values; metadata_props are
 * the metadata.
 *
 * Refused, in addition to what codec/onnx.c refuses: values in a field that is not for their data type;
 * values whose length is not what dtype and shape take; files outside of the folder; offsets and lengths that
 * are not decimal; a model of IR version 3 or later without opset_import: its end must be missing.
 */
#include <inttypes.h>

#include "core/check.h"
#include "format/files/path.h"
#include "format/kit.h"
#include "format/onnx/onnx.h"
#include "format/parts/part_files.h"
#include "format/recognize.h"

#define NOTE_MAX 2048u

/* A file of external data. */
struct values_file {
    ckpt_file *file;
    struct storage_extra storage_file;
};

struct onnx_reading {
    ckpt_file *f;
    ckpt_error *err;
    struct kit k;
    bool second_pass; /* the first pass adds the main graph's initializers, the second all other tensors */
    bool needs_second_pass;
    map *file_index; /* location -> index into FILES */
    struct values_file **files;
    size_t nfiles, cap_files;
};

/* Where the values of a tensor are. */
struct stored_values {
    source *src;
    uint64_t offset, nbytes;
    const struct values_file *file; /* NULL: the model */
    bool is_unpacked;               /* SRC has a byte for each element of 2, 4 or 6 bits */
};

/* ------------------------------------------------------------------------------- files */

static ckpt_status open_values(struct onnx_reading *reading, ckpt_str location, struct values_file **out)
{
    ckpt_file *f = reading->f;
    struct values_file *file = ARENA_NEW(f->a, struct values_file);
    CKPT_TRY_ALLOC(file && (file->storage_file.file = arena_str(f->a, location)).ptr, reading->err);
    ckpt_str trusted = name_of(f);
    ckpt_status st = part_file_add(f, trusted.ptr, location, &file->file, reading->err);
    if (st == CKPT_ENOTFOUND)
        error_add_hint(reading->err, "the model has values in other files: put them next to it");
    CKPT_TRY(st);
    CKPT_TRY_ALLOC(map_put(reading->file_index, location, (uint32_t)reading->nfiles, NULL) &&
                       ARENA_PUSH(f->a, reading, files, &file),
                   reading->err);
    *out = file;
    return CKPT_OK;
}

static ckpt_status find_or_open_values(struct onnx_reading *reading, ckpt_str location,
                                       struct values_file **out)
{
    uint32_t i = map_get(reading->file_index, location);
    if (i != MAP_NONE) {
        *out = reading->files[i];
        return CKPT_OK;
    }
    if (!has_folder(reading->f))
        return fail(reading->err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
                    "values in another file, \"%.*s\", of a model that is {no} {=file of a folder}",
                    STR_ARG(location));
    return open_values(reading, location, out);
}

/* read_decimal - reads TEXT, the external data entry KEY of TENSOR, as a number. */
static ckpt_status read_decimal(struct onnx_reading *reading, const struct onnx_tensor *tensor,
                                const char *key, ckpt_str text, uint64_t *out)
{
    if (!text.ptr || str_uint(text, out))
        return CKPT_OK;
    return fail(reading->err, CKPT_EFORMAT, source_pos(reading->f->src, tensor->external_at),
                "the %s of external data is {\"%.*s\"}; {=a decimal number} is allowed", key, STR_ARG(text));
}

/* find_external_values - sets STORED to the NEED bytes of TENSOR, which are in a file of external data. */
static ckpt_status find_external_values(struct onnx_reading *reading, const struct onnx_tensor *tensor,
                                        uint64_t need, struct stored_values *stored)
{
    struct values_file *file = NULL;
    *stored = (struct stored_values){.nbytes = need};
    CKPT_TRY(read_decimal(reading, tensor, "offset", tensor->offset, &stored->offset));
    CKPT_TRY(read_decimal(reading, tensor, "length", tensor->length, &stored->nbytes));
    if (!tensor->location.len)
        return fail(reading->err, CKPT_EFORMAT, source_pos(reading->f->src, tensor->external_at),
                    "external data without a {=location}: it has {none}");
    if (stored->nbytes != need)
        return fail(reading->err, CKPT_EFORMAT, source_pos(reading->f->src, tensor->external_at),
                    "external data of {%" PRIu64 " bytes}; its dtype and shape take {=%" PRIu64 "}",
                    stored->nbytes, need);
    ckpt_status st = find_or_open_values(reading, tensor->location, &file);
    if (st != CKPT_OK && !reading->err->file[0])
        error_add_position(reading->err, source_pos(reading->f->src, tensor->external_at), tensor->name);
    CKPT_TRY(st);
    uint64_t size = file->file->src->size;
    if (range_within(stored->offset, stored->nbytes, size)) {
        stored->src = source_ref(file->file->src);
        stored->file = file;
        return CKPT_OK;
    }
    (void)fail(reading->err, CKPT_ETRUNCATED, stored->offset < size ? stored->offset : size,
               "needs {=%" PRIu64 " bytes} from offset %" PRIu64 " on, the file has {%" PRIu64 "} there",
               stored->nbytes, stored->offset, stored->offset < size ? size - stored->offset : 0);
    error_add_file(reading->err, file->file->path);
    return CKPT_ETRUNCATED;
}

/* ------------------------------------------------------------------------------ values */

/* count_elements - sets *COUNT to the number of elements of TENSOR, and *BYTES to the bytes that they take in
 * raw_data. */
static ckpt_status count_elements(const struct onnx_reading *reading, const struct onnx_tensor *tensor,
                                  uint64_t *count, uint64_t *bytes)
{
    if (!checked_product(tensor->shape, tensor->ndim, count) ||
        !checked_mul(*count, tensor->type->bits, bytes) || !checked_add(*bytes, 7, bytes))
        return fail(reading->err, CKPT_EFORMAT, source_pos(reading->f->src, tensor->at),
                    "{more} bits than {=2^64}");
    *bytes /= 8;
    return CKPT_OK;
}

/* find_typed_values - sets STORED to the COUNT elements of TENSOR, which are in a field for their type, such
 * as float_data. In raw_data they would take RAW bytes. */
static ckpt_status find_typed_values(struct onnx_reading *reading, const struct onnx_tensor *tensor,
                                     uint64_t count, uint64_t raw, struct stored_values *stored)
{
    const struct onnx_type *type = tensor->type;
    source *src = reading->f->src;
    bool is_fixed = type->field == ONNX_FLOATS || type->field == ONNX_DOUBLES;
    if (tensor->field != type->field)
        return fail(reading->err, CKPT_EFORMAT, source_pos(src, tensor->values),
                    "values in {field %d}; those of %s are in {=field %d}", (int)tensor->field, type->name,
                    (int)type->field);
    if (is_fixed && tensor->nfields == 1) {
        *stored = (struct stored_values){
            .src = source_ref(src), .offset = tensor->values, .nbytes = tensor->bytes};
        return CKPT_OK;
    }
    *stored = (struct stored_values){.is_unpacked = type->bits < 8 && !type->holds_packed};
    CKPT_TRY(type->dtype == CKPT_DT_NAMED
                 ? onnx_decode_texts(reading->f->a, src, tensor, count, &stored->src, reading->err)
                 : onnx_decode(reading->f->a, src, tensor, stored->is_unpacked ? count : raw / type->width,
                               &stored->src, reading->err));
    stored->nbytes = stored->src->size;
    return CKPT_OK;
}

/* find_stored_values - sets STORED to the COUNT elements of TENSOR, wherever they are stored. RAW is as in
 * find_typed_values. The caller owns the reference STORED->src. */
static ckpt_status find_stored_values(struct onnx_reading *reading, const struct onnx_tensor *tensor,
                                      uint64_t count, uint64_t raw, struct stored_values *stored)
{
    source *src = reading->f->src;
    *stored = (struct stored_values){.nbytes = 0};
    if (tensor->type->dtype == CKPT_DT_NAMED && (tensor->is_external || tensor->field == ONNX_RAW))
        return fail(reading->err, CKPT_EFORMAT, source_pos(src, tensor->at),
                    "texts as {raw data}; {=string_data} has them");
    if (tensor->is_external)
        return find_external_values(reading, tensor, raw, stored);
    if (tensor->field == ONNX_RAW || (count == 0 && tensor->field == 0)) {
        *stored = (struct stored_values){
            .src = source_ref(src), .offset = tensor->values, .nbytes = tensor->bytes};
        return CKPT_OK;
    }
    if (tensor->field)
        return find_typed_values(reading, tensor, count, raw, stored);
    return fail(reading->err, CKPT_EFORMAT, source_pos(src, tensor->at),
                "{no values}; its dtype and shape take {=%" PRIu64 " bytes}", raw);
}

/* unpack_values - replaces STORED, the COUNT elements of TENSOR packed in RAW bytes, by a source that has a
 * byte for each element. */
static ckpt_status unpack_values(struct onnx_reading *reading, const struct onnx_tensor *tensor,
                                 uint64_t count, uint64_t raw, struct stored_values *stored)
{
    source *packed, *out;
    if (stored->nbytes != raw)
        return fail(reading->err, CKPT_EFORMAT, source_pos(stored->src, stored->offset),
                    "{%" PRIu64 " bytes}, its dtype and shape take {=%" PRIu64 "}", stored->nbytes, raw);
    CKPT_TRY(source_slice(stored->src, stored->offset, raw, &packed, reading->err));
    ckpt_status st = source_unpacked(packed, count, tensor->type->bits, &out, reading->err);
    source_unref(packed);
    CKPT_TRY(st);
    source_unref(stored->src);
    *stored = (struct stored_values){.src = out, .nbytes = count, .file = stored->file};
    return CKPT_OK;
}

/* ----------------------------------------------------------------------------- tensors */

/* make_name - returns the name for TENSOR: its own, with ".values" or ".indices" for a part of a sparse
 * tensor. If that is empty or taken and TENSOR is not in the main graph, the path of TENSOR
 * ("node3/then_branch") comes before it, and if the result is taken, "#" and a number after it. */
static ckpt_str make_name(struct onnx_reading *reading, const struct onnx_tensor *tensor)
{
    arena *a = reading->f->a;
    ckpt_str name = tensor->name;
    if (tensor->component)
        name = ARENA_CONCAT(a, name, str_c(tensor->component == ONNX_SPARSE_VALUES ? ".values" : ".indices"));
    if (!tensor->graph_path.len || !name.ptr || (name.len && map_get(reading->k.names, name) == MAP_NONE))
        return name;
    name = ARENA_CONCAT(a, tensor->graph_path, str_c(name.len ? "/" : ""), name);
    if (!name.ptr || map_get(reading->k.names, name) == MAP_NONE)
        return name;
    char number[STR_NUMBER_MAX];
    return ARENA_CONCAT(a, name, STR_LIT("#"), format_number(reading->f->table.nrows, number));
}

/* make_note - sets *NOTE to a text about where TENSOR is, the sparse tensor that it is a part of, and its
 * checksum. */
static ckpt_status make_note(struct onnx_reading *reading, const struct onnx_tensor *tensor, ckpt_str *note)
{
    buf b;
    buf_init(&b, NOTE_MAX);
    if (tensor->graph_path.len < NOTE_MAX / 2)
        buf_put_str(&b, tensor->graph_path);
    if (tensor->component)
        buf_put_cstr(&b, b.len ? ", of a sparse tensor" : "of a sparse tensor");
    for (uint64_t i = 0; i < tensor->sparse_ndim; i++)
        buf_printf(&b, "%s%" PRIu64, i ? ", " : " of shape [", tensor->sparse_shape[i]);
    if (tensor->sparse_ndim)
        buf_put_cstr(&b, "]");
    if (tensor->checksum.len) {
        buf_put_cstr(&b, b.len ? ", SHA-1 " : "SHA-1 ");
        buf_put_str(&b, str_first(tensor->checksum, 200));
    }
    *note = arena_str(reading->f->a, buf_view(&b));
    bool ok = note->ptr && buf_ok(&b);
    buf_free(&b);
    return ok ? CKPT_OK : fail_memory(reading->err);
}

/* add_stored_tensor - adds TENSOR as OUT. It has COUNT elements, which take RAW bytes in raw_data. */
static ckpt_status add_stored_tensor(struct onnx_reading *reading, const struct onnx_tensor *tensor,
                                     uint64_t count, uint64_t raw, struct kit_tensor *out)
{
    struct stored_values stored = {.nbytes = 0};
    ckpt_error why;
    ckpt_status st = find_stored_values(reading, tensor, count, raw, &stored);
    if (st == CKPT_OK && tensor->type->bits % 8 && !stored.is_unpacked)
        st = unpack_values(reading, tensor, count, raw, &stored);
    if (st != CKPT_OK) {
        source_unref(stored.src);
        stored.src = NULL;
        error_add_position(reading->err, CKPT_NO_OFFSET, out->name);
        why = *reading->err;
        why.where[0] = 0; /* the row has that name already */
        if (reading->f->salvage && (check_is_fault(st) || st == CKPT_ENOTFOUND || st == CKPT_EIO))
            out->lost = &why;
        else
            CKPT_TRY(file_report_fault(reading->f, st, reading->err));
    }
    out->src = stored.src;
    out->src_offset = stored.offset;
    out->nbytes = out->t.nbytes = stored.nbytes;
    out->src_file = stored.file ? &stored.file->storage_file : NULL;
    st = kit_add_tensor(&reading->k, out);
    source_unref(stored.src);
    return st;
}

static ckpt_status take_fault(void *user, ckpt_status st, ckpt_error *err)
{
    struct onnx_reading *r = user;
    return r->second_pass && check_is_fault(st) ? CKPT_OK /* the first pass reported it */
                                                : file_report_lost(r->f, st, str_c(err->where), err);
}

static ckpt_status take_tensor(void *user, const struct onnx_tensor *tensor, ckpt_error *err)
{
    struct onnx_reading *r = user;
    bool is_text = tensor->type->dtype == CKPT_DT_NAMED;
    if ((tensor->graph_path.len != 0) != r->second_pass) {
        r->needs_second_pass |= tensor->graph_path.len != 0;
        return CKPT_OK;
    }
    struct kit_tensor out = {.name = make_name(r, tensor), .described_at = source_pos(r->f->src, tensor->at)};
    uint64_t n = 0, raw = 0;
    CKPT_TRY_ALLOC(out.name.ptr, err);
    ckpt_status st = count_elements(r, tensor, &n, &raw);
    if (st != CKPT_OK) {
        error_add_position(err, CKPT_NO_OFFSET, out.name);
        return file_report_lost(r->f, st, str_c(err->where), err);
    }
    CKPT_TRY(make_note(r, tensor, &out.t.note));
    out.t.dtype = (uint16_t)tensor->type->dtype;
    out.t.dtype_name = is_text ? "string" : NULL;
    out.t.ndim = tensor->ndim;
    out.t.shape = tensor->shape;
    return add_stored_tensor(r, tensor, n, raw, &out);
}

/* --------------------------------------------------------------------------- the model */

static ckpt_status add_text(struct onnx_reading *reading, const char *name, ckpt_str text)
{
    return text.len ? kit_add_other_value(&reading->k, str_c(name), value_str(reading->f->a, text)) : CKPT_OK;
}

static ckpt_status add_number(struct onnx_reading *reading, const char *name, uint64_t number)
{
    return number ? kit_add_other_value(&reading->k, str_c(name), value_int(reading->f->a, (int64_t)number))
                  : CKPT_OK;
}

/* add_opsets - adds the opset versions by domain. The domain "" is another name of "ai.onnx". */
static ckpt_status add_opsets(struct onnx_reading *reading, const struct onnx *model)
{
    struct kit k;
    ckpt_status st = CKPT_OK;
    if (!model->nopsets || map_get(reading->k.names, STR_LIT("opset_import")) != MAP_NONE)
        return CKPT_OK;
    CKPT_TRY(kit_begin_mapping(&k, &reading->k, STR_LIT("opset_import")));
    for (size_t i = 0; st == CKPT_OK && i < model->nopsets; i++) {
        ckpt_str domain = model->opsets[i].key.len ? model->opsets[i].key : STR_LIT("ai.onnx");
        if (map_get(k.names, domain) == MAP_NONE)
            st = kit_add_value(&k, domain, value_int(reading->f->a, (int64_t)model->opsets[i].number));
    }
    return kit_end(&k, st);
}

/* put_property - adds PAIR to the metadata, unless they have its key already. */
static ckpt_status put_property(struct onnx_reading *reading, map *keys, const struct onnx_pair *pair)
{
    uint32_t before;
    ckpt_value *key = value_str(reading->f->a, pair->key), *v = value_str(reading->f->a, pair->value);
    CKPT_TRY_ALLOC(key && v && map_put(keys, pair->key, 0, &before), reading->err);
    if (before == MAP_NONE && key->type == CKPT_V_STR && v->type == CKPT_V_STR)
        return value_put(reading->f->a, reading->f->metadata, key, v) ? CKPT_OK : fail_memory(reading->err);
    file_notice(reading->f, "the property \"%.*s\" is left out: it is %s", STR_ARG(pair->key),
                before != MAP_NONE ? "a duplicate" : "not UTF-8");
    return CKPT_OK;
}

static ckpt_status add_properties(struct onnx_reading *reading, const struct onnx *model)
{
    map *keys = model->nproperties ? map_new(16) : NULL;
    ckpt_status st = CKPT_OK;
    if (!model->nproperties)
        return CKPT_OK;
    reading->f->metadata = value_new(reading->f->a, CKPT_V_DICT, 0);
    if (!keys || !reading->f->metadata)
        st = fail_memory(reading->err);
    for (size_t i = 0; st == CKPT_OK && i < model->nproperties; i++)
        st = put_property(reading, keys, &model->properties[i]);
    map_free(keys);
    return st;
}

static ckpt_status add_model(struct onnx_reading *reading, const struct onnx *model)
{
    ckpt_file *f = reading->f;
    f->producer = ARENA_CONCAT(f->a, model->producer, str_c(model->producer_version.len ? " " : ""),
                               model->producer_version);
    CKPT_TRY_ALLOC(f->producer.ptr, reading->err);
    CKPT_TRY(add_number(reading, "ir_version", model->ir_version));
    CKPT_TRY(add_text(reading, "producer_name", model->producer));
    CKPT_TRY(add_text(reading, "producer_version", model->producer_version));
    CKPT_TRY(add_text(reading, "domain", model->domain));
    CKPT_TRY(add_number(reading, "model_version", model->model_version));
    CKPT_TRY(add_text(reading, "doc_string", model->doc));
    CKPT_TRY(add_opsets(reading, model));
    return add_properties(reading, model);
}

static ckpt_status read_model(struct onnx_reading *reading)
{
    ckpt_file *f = reading->f;
    struct onnx model = {.src = f->src,
                         .a = f->a,
                         .may_be_damaged = f->salvage,
                         .on_tensor = take_tensor,
                         .on_fault = take_fault,
                         .user = reading},
                again = model;
    CKPT_TRY(onnx_read(&model, reading->err));
    if (model.is_cut)
        file_note_loss(f, "a part of the model is cut off or damaged: the tensors in it are lost");
    if (model.ir_version >= 3 && !model.nopsets) {
        ckpt_status st = fail(reading->err, CKPT_EFORMAT, source_pos(f->src, model.error_offset),
                              "{no} {=opset_import}");
        CKPT_TRY(f->salvage ? CKPT_OK : file_report_fault(f, st, reading->err));
    }
    reading->second_pass = true;
    if (reading->needs_second_pass)
        CKPT_TRY(onnx_read(&again, reading->err));
    return add_model(reading, &model);
}

static bool probe(const struct probe *this_probe) { return recognize_as(this_probe, SIGN_ONNX); }

static ckpt_status read(ckpt_file *f, ckpt_error *err)
{
    struct onnx_reading r = {.f = f, .err = err, .file_index = map_new(16)};
    file_raise_budget(f, f->src->size);
    if (!r.file_index || !part_file_set_folder(f)) {
        map_free(r.file_index);
        return fail_memory(err);
    }
    ckpt_status st = kit_begin(&r.k, f, value_new(f->a, CKPT_V_DICT, 0), err);
    CKPT_THEN(st, kit_end(&r.k, read_model(&r)));
    map_free(r.file_index);
    error_add_position(st == CKPT_OK ? NULL : err, CKPT_NO_OFFSET, STR_LIT("model"));
    return st;
}

const struct format format_onnx = {
    .name = "onnx", .title = "ONNX", .flat = true, .probe = probe, .read = read};
