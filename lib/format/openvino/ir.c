/*
 * ir.c - reads models of OpenVINO: an .xml file, which describes the network, and a .bin file of the same
 * name, which has the values of its constants.
 *
 *   <net name="…" version="11">         10 and 11 are read
 *     <layers>
 *       <layer id="0" name="…" type="Const">
 *         <data element_type="f32" shape="7, 5" offset="0" size="140"/>   in the .bin; decimal numbers
 *       <layer name="…" type="Loop">    also If, TensorIterator: a <body>, <else_body> … has <layers>
 *     <rt_info>
 *       <Runtime_version value="…"/>
 *
 * Values are row-major and little-endian; those of 2 and 4 bits are packed, the first one in the least
 * significant bits. Equal constants may share their bytes. An empty one may have a byte. The tensor of a
 * Const is called by its layer; in a body, LAYER/BODY/NAME. If that name is taken, #ID of the layer follows.
 * Element types of 1, 3 and 6 bits, nf4 and string are listed without data.
 *
 * Refused: other versions, XML that codec/xml_scan.c refuses, constants without a description, values of
 * another size than type and shape take.
 *
 * Sources: openvino 2026.4 (serialize), docs "OpenVINO IR format and operation sets".
 */
#include <inttypes.h>

#include "codec/xml_scan.h"
#include "core/check.h"
#include "format/files/folder.h"
#include "format/files/path.h"
#include "format/kit.h"
#include "format/parts/part_files.h"
#include "format/recognize.h"

#define XML_SUFFIX ".xml"
#define BIN_SUFFIX ".bin"
#define MODEL_NAME "openvino_model.xml" /* as optimum-intel calls it, next to those of tokenizers */
#define MAX_RANK   32u

struct element_type {
    const char *name;
    ckpt_dtype dtype; /* NONE: it is not read */
    uint8_t bits;     /* if less than 8, it is packed; 0: those of DTYPE */
};

static const struct element_type element_types[] = {
    {"f64", CKPT_DT_F64, 0},        {"f32", CKPT_DT_F32, 0},        {"f16", CKPT_DT_F16, 0},
    {"bf16", CKPT_DT_BF16, 0},      {"f8e4m3", CKPT_DT_F8_E4M3, 0}, {"f8e5m2", CKPT_DT_F8_E5M2, 0},
    {"f8e8m0", CKPT_DT_F8_E8M0, 0}, {"f4e2m1", CKPT_DT_F4_E2M1, 4}, {"i64", CKPT_DT_I64, 0},
    {"i32", CKPT_DT_I32, 0},        {"i16", CKPT_DT_I16, 0},        {"i8", CKPT_DT_I8, 0},
    {"i4", CKPT_DT_I4, 4},          {"u64", CKPT_DT_U64, 0},        {"u32", CKPT_DT_U32, 0},
    {"u16", CKPT_DT_U16, 0},        {"u8", CKPT_DT_U8, 0},          {"u4", CKPT_DT_U4, 4},
    {"u2", CKPT_DT_U2, 2},          {"boolean", CKPT_DT_BOOL, 0},   {"u1", CKPT_DT_NONE, 1},
    {"u3", CKPT_DT_NONE, 3},        {"u6", CKPT_DT_NONE, 6},        {"nf4", CKPT_DT_NONE, 4},
    {"string", CKPT_DT_NONE, 0},
};

/* An element that is open, with the attributes that matter; .ptr NULL: it has none of that name. */
struct element {
    ckpt_str tag;
    ckpt_str name, type, id, version, value;    /* of a layer, the net, Runtime_version */
    ckpt_str element_type, shape, offset, size; /* of data */
    ckpt_str path; /* of the names in it: those of the layers and bodies around it, with '/' at its end */
    uint64_t at;
    bool has_data; /* a layer of the type Const has its element data */
};

struct ir {
    ckpt_file *f;
    ckpt_error *err;
    struct kit k;
    xml_scan x;
    struct element open[XML_DEPTH]; /* the outermost first */
    unsigned depth;                 /* of the element whose tag was read last */
    ckpt_file *values;              /* the .bin; NULL: not opened yet */
    struct storage_extra values_file;
    ckpt_str net;            /* its name */
    bool values_are_missing; /* which was reported */
};

static const struct element_type *find_type(ckpt_str name)
{
    for (size_t i = 0; i < sizeof element_types / sizeof *element_types; i++)
        if (str_is(name, element_types[i].name))
            return &element_types[i];
    return NULL;
}

/* ----------------------------------------------------------------------------------- values */

/* open_values - opens the .bin, unless that is done. Sets ir->values_are_missing if there is none and that
 * was reported, or does not matter. */
static ckpt_status open_values(struct ir *ir)
{
    ckpt_file *f = ir->f;
    ckpt_str name = name_of(f), suffix = STR_LIT(XML_SUFFIX);
    if (ir->values || ir->values_are_missing)
        return CKPT_OK;
    if (!has_folder(f) || !str_ends(name, suffix))
        return fail(ir->err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
                    "values in a .bin file, of a model that is {no} {=file with the suffix .xml}");
    ir->values_file.file = ARENA_CONCAT(f->a, str_of(name.ptr, name.len - suffix.len), STR_LIT(BIN_SUFFIX));
    CKPT_TRY_ALLOC(ir->values_file.file.ptr, ir->err);
    ckpt_status st = part_file_add(f, name.ptr, ir->values_file.file, &ir->values, ir->err);
    if (st != CKPT_ENOTFOUND)
        return st;
    (void)part_file_explain_missing(st, ir->values_file.file, "put it next to the model", ir->err);
    ir->values_are_missing = true;
    return part_file_accept_missing(f, ir->err);
}

/* read_shape - reads TEXT, such as "7, 5", to *SHAPE and *COUNT. */
static ckpt_status read_shape(struct ir *ir, ckpt_str text, uint64_t **shape, uint32_t *count)
{
    *count = 0;
    CKPT_TRY_ALLOC(*shape = arena_array(ir->f->a, MAX_RANK, sizeof **shape), ir->err);
    for (ckpt_str rest = text; rest.len;) {
        size_t comma = str_find(rest, STR_LIT(","), 0);
        ckpt_str size = str_first(rest, comma);
        while (size.len && size.ptr[0] == ' ')
            size = str_skip(size, 1);
        if (*count == MAX_RANK || !str_uint(size, &(*shape)[*count]))
            return fail(ir->err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                        "the shape {\"%.*s\"}; {=up to %u sizes} are allowed", STR_ARG(text), MAX_RANK);
        ++*count;
        rest = comma == SIZE_MAX ? str_of("", 0) : str_skip(rest, comma + 1);
    }
    return CKPT_OK;
}

/* get_number - sets *OUT to the decimal number TEXT, the attribute WHAT. */
static ckpt_status get_number(struct ir *ir, const char *what, ckpt_str text, uint64_t *out)
{
    return str_uint(text, out)
               ? CKPT_OK
               : fail(ir->err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                      "the %s is {\"%.*s\"}; {=a decimal number} is allowed", what, STR_ARG(text));
}

/* count_stored - sets *COUNT to the elements of TENSOR, and *NUMBER to the bytes that they take in the
 * .bin. */
static ckpt_status count_stored(struct ir *ir, const struct element_type *type, const ckpt_tensor *tensor,
                                uint64_t *count, uint64_t *number)
{
    uint64_t bits = type->bits ? type->bits : 8 * (uint64_t)dtype_info(type->dtype)->block_bytes;
    if (!checked_product(tensor->shape, tensor->ndim, count) || !checked_mul(*count, bits, number) ||
        !checked_add(*number, 7, number))
        return fail(ir->err, CKPT_EFORMAT, CKPT_NO_OFFSET, "{more} bits than {=2^64}");
    *number /= 8;
    return CKPT_OK;
}

/* unpack_values - makes TENSOR, whose COUNT elements are packed in the NUMBER bytes at tensor->src_offset of
 * the .bin, one of a byte for each. *OUT gets the reference. */
static ckpt_status unpack_values(struct ir *ir, unsigned bits, uint64_t count, uint64_t number,
                                 struct kit_tensor *tensor, source **out)
{
    source *packed;
    CKPT_TRY(source_slice(ir->values->src, tensor->src_offset, number, &packed, ir->err));
    ckpt_status st = source_unpacked(packed, count, bits, out, ir->err);
    source_unref(packed);
    CKPT_TRY(st);
    tensor->src = *out;
    tensor->src_offset = 0;
    return CKPT_OK;
}

/* find_values - sets the bytes of TENSOR to those that DATA describes. *OWN gets a reference, or NULL. */
static ckpt_status find_values(struct ir *ir, const struct element *data, const struct element_type *type,
                               struct kit_tensor *tensor, source **own)
{
    uint64_t size = 0, count = 0, n = 0;
    *own = NULL;
    CKPT_TRY(get_number(ir, "offset", data->offset, &tensor->src_offset));
    CKPT_TRY(get_number(ir, "size", data->size, &size));
    CKPT_TRY(count_stored(ir, type, &tensor->t, &count, &n));
    if (n != size && count)
        return fail(ir->err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                    "{%" PRIu64 " bytes}; its type and shape take {=%" PRIu64 "}", size, n);
    CKPT_TRY(open_values(ir));
    if (!ir->values)
        return fail(ir->err, CKPT_ETRUNCATED, CKPT_NO_OFFSET, "{no file} {=%s}", ir->values_file.file.ptr);
    tensor->src = ir->values->src;
    tensor->src_file = &ir->values_file;
    tensor->key = arena_printf(ir->f->a, "%" PRIu64 "+%" PRIu64 " %s", tensor->src_offset, size, type->name);
    CKPT_TRY_ALLOC(tensor->key.ptr, ir->err);
    bool is_packed = type->bits && range_within(tensor->src_offset, n, ir->values->src->size);
    return is_packed ? unpack_values(ir, type->bits, count, n, tensor, own) : CKPT_OK;
}

/* ------------------------------------------------------------------------------------ layers */

/* make_name - returns the name of the tensor of LAYER. .ptr NULL: no memory. */
static ckpt_str make_name(const struct ir *ir, const struct element *layer)
{
    arena *a = ir->f->a;
    ckpt_str name = ARENA_CONCAT(a, layer->path, layer->name);
    bool is_taken = name.ptr && map_get(ir->k.names, name) != MAP_NONE;
    return is_taken ? ARENA_CONCAT(a, name, STR_LIT("#"), layer->id) : name;
}

static ckpt_status describe(struct ir *ir, const struct element *data, struct kit_tensor *tensor,
                            source **own)
{
    const struct element_type *type = find_type(data->element_type);
    uint64_t *shape;
    uint32_t ndim;
    CKPT_TRY(read_shape(ir, data->shape, &shape, &ndim));
    tensor->t.ndim = ndim;
    tensor->t.shape = shape;
    if (!type)
        return fail(ir->err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
                    "the element type {\"%.*s\"}; {=those of OpenVINO 2026} are known",
                    STR_ARG(data->element_type));
    tensor->t.dtype = (uint16_t)type->dtype;
    if (type->dtype != CKPT_DT_NONE)
        return find_values(ir, data, type, tensor, own);
    tensor->t.dtype = CKPT_DT_NAMED;
    tensor->t.dtype_name = type->name;
    tensor->t.note = STR_LIT("the values of this type are not read");
    return CKPT_OK;
}

/* add_constant - adds the tensor that DATA, an element in the Const LAYER, describes. */
static ckpt_status add_constant(struct ir *ir, const struct element *layer, const struct element *data)
{
    source *own = NULL;
    struct kit_tensor t = {.name = make_name(ir, layer), .described_at = data->at, .nbytes = KIT_AS_NEEDED};
    CKPT_TRY_ALLOC(t.name.ptr, ir->err);
    if (!layer->name.len)
        return fail(ir->err, CKPT_EFORMAT, layer->at, "a layer with {no} {=name}");
    ckpt_status st = describe(ir, data, &t, &own);
    if (st == CKPT_ETRUNCATED && ir->values_are_missing && ir->f->check)
        return CKPT_OK; /* reported once */
    st = st == CKPT_OK ? kit_add_tensor(&ir->k, &t) : kit_add_faulty(&ir->k, &t, st);
    source_unref(own);
    return st;
}

/* take_root - checks the outermost element. */
static ckpt_status take_root(struct ir *ir, const struct element *net)
{
    ir->net = net->name;
    if (str_is(net->version, "10") || str_is(net->version, "11"))
        return CKPT_OK;
    return fail(ir->err, CKPT_EUNSUPPORTED, net->at,
                "a model of version {\"%.*s\"}; {=10 and 11} are read\n"
                "convert it again with OpenVINO 2022.1 or later: ovc",
                STR_ARG(net->version));
}

/* end_attributes - handles the innermost element, of which all attributes were read. */
static ckpt_status end_attributes(struct ir *ir)
{
    struct element *e = &ir->open[ir->depth - 1], *outer = ir->depth > 1 ? e - 1 : NULL;
    if (!outer)
        return take_root(ir, e);
    if (str_is(e->tag, "data") && str_is(outer->tag, "layer") && str_is(outer->type, "Const")) {
        outer->has_data = true;
        return add_constant(ir, outer, e);
    }
    bool is_version = ir->depth == 3 && str_is(e->tag, "Runtime_version") && e->value.len;
    if (is_version && !(ir->f->producer = ARENA_CONCAT(ir->f->a, STR_LIT("OpenVINO "), e->value)).ptr)
        return fail_memory(ir->err);
    return CKPT_OK;
}

static ckpt_status open_element(struct ir *ir)
{
    ir->depth = ir->x.depth;
    struct element *e = &ir->open[ir->depth - 1];
    const struct element *outer = ir->depth > 1 ? e - 1 : NULL;
    *e = (struct element){.tag = ir->x.name, .at = ir->x.event_at, .path = outer ? outer->path : STR_LIT("")};
    if (outer && str_is(outer->tag, "layer") && str_ends(e->tag, STR_LIT("body")))
        e->path = ARENA_CONCAT(ir->f->a, outer->path, outer->name, STR_LIT("/"), e->tag, STR_LIT("/"));
    return e->path.ptr ? CKPT_OK : fail_memory(ir->err);
}

static void take_attribute(struct ir *ir)
{
    struct element *e = &ir->open[ir->depth - 1];
    const struct {
        const char *name;
        ckpt_str *to;
    } known[] = {{"name", &e->name},       {"type", &e->type},     {"id", &e->id},
                 {"version", &e->version}, {"value", &e->value},   {"element_type", &e->element_type},
                 {"shape", &e->shape},     {"offset", &e->offset}, {"size", &e->size}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (str_is(ir->x.name, known[i].name))
            *known[i].to = ir->x.value;
}

/* end_element - refuses a Const that ended without values. */
static ckpt_status end_element(struct ir *ir)
{
    const struct element *e = &ir->open[ir->x.depth];
    if (!str_is(e->tag, "layer") || !str_is(e->type, "Const") || e->has_data)
        return CKPT_OK;
    (void)fail(ir->err, CKPT_EFORMAT, e->at, "a constant with {no} {=data}");
    return file_report_lost(ir->f, CKPT_EFORMAT, e->name, ir->err);
}

static ckpt_status read_elements(struct ir *ir)
{
    enum xml_event e;
    bool in_tag = false; /* the attributes of the innermost element are being read */
    while ((e = xml_next(&ir->x)) != XML_END) {
        if (e == XML_ERROR)
            return ir->err->status;
        if (e == XML_ATTRIBUTE) {
            take_attribute(ir);
            continue;
        }
        if (in_tag)
            CKPT_TRY(end_attributes(ir));
        in_tag = e == XML_OPEN;
        CKPT_TRY(in_tag ? open_element(ir) : end_element(ir));
    }
    return ir->net.len ? kit_add_other_value(&ir->k, STR_LIT("name"), value_str(ir->f->a, ir->net)) : CKPT_OK;
}

/* ------------------------------------------------------------------------------------- model */

/* find_model - returns the name of the model in the folder PROBE: the only .xml with a .bin of the same name,
 * or openvino_model.xml. Empty: there is none, or there are several. */
static ckpt_str find_model(const struct probe *probe)
{
    ckpt_str found = str_of("", 0), suffix = STR_LIT(XML_SUFFIX);
    size_t n = 0;
    if (probe_has(probe, MODEL_NAME))
        return STR_LIT(MODEL_NAME);
    for (size_t i = 0; i < probe->nnames; i++) {
        char values[256];
        ckpt_str name = probe->names[i];
        if (!str_ends(name, suffix) || name.len >= sizeof values)
            continue;
        memcpy(values, name.ptr, name.len + 1);
        memcpy(values + name.len - suffix.len, BIN_SUFFIX, suffix.len);
        if (probe_has(probe, values) && n++ == 0)
            found = name;
    }
    return n == 1 ? found : str_of("", 0);
}

static bool probe(const struct probe *this_probe)
{
    return this_probe->is_folder ? find_model(this_probe).len > 0 : recognize_as(this_probe, SIGN_OPENVINO);
}

static ckpt_status read(ckpt_file *f, ckpt_error *err)
{
    ckpt_str text;
    if (f->opening->probe->is_folder)
        return part_file_replace_folder(f, str_c(f->path), find_model(f->opening->probe), err);
    struct ir *r = ARENA_NEW(f->a, struct ir);
    CKPT_TRY_ALLOC(r && part_file_set_folder(f), err);
    *r = (struct ir){.f = f, .err = err};
    f->producer = STR_LIT("OpenVINO");
    CKPT_TRY(kit_read_metadata(f, f->src, 0, f->src->size, &text, err));
    xml_init(&r->x, text, f->a, err);
    CKPT_TRY(kit_begin(&r->k, f, value_new(f->a, CKPT_V_DICT, 0), err));
    return position_if_failed(kit_end(&r->k, read_elements(r)), CKPT_NO_OFFSET, STR_LIT("model"), err);
}

const struct format format_openvino = {
    .name = "openvino", .title = "OpenVINO model", .flat = true, .probe = probe, .read = read};
