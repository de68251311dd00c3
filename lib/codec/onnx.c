/*
 * onnx.c - reads ONNX models (onnx/onnx.proto), protobuf messages in which tensors can be at any depth:
 *
 *   ModelProto      1 ir_version, 2 producer_name, 3 producer_version, 4 domain, 5 model_version,
 *                   6 doc_string, 7 graph, 8 opset_import, 14 metadata_props, 20 training_info, 25 functions
 *   GraphProto      1 node, 5 initializer, 15 sparse_initializer
 *   FunctionProto   1 name, 7 node
 *   TrainingInfoProto  1 initialization, 2 algorithm: graphs
 *   NodeProto       2 output, 4 op_type, 5 attribute, 7 domain
 *   AttributeProto  1 name, 5 t, 6 g, 10 tensors, 11 graphs, 22 sparse_tensor, 23 sparse_tensors
 *   SparseTensorProto  1 values, 2 indices, 3 dims
 *   TensorProto     1 dims, 2 data_type, 3 segment, 8 name, 9 raw_data, 13 external_data,
 *                   14 data_location (1: EXTERNAL); 4 to 7, 10 and 11 hold values, depending on data_type
 *
 * The name of a tensor in an attribute is its own or, if it has none, the first output of its node, by which
 * other nodes refer to it. Fields that are not listed, or have another wire type, are skipped, as in
 * protobuf.
 *
 * Refused: what protobuf refuses, messages deeper than ONNX_DEPTH, unknown data types, negative sizes, more
 * than ONNX_RANK sizes, segments, several fields of values, keys of external_data that come twice.
 */
#include "codec/onnx.h"

#include <inttypes.h>

#include "codec/protobuf.h"

/* TENSOR and SPARSE are last: they are read at once. Only the kinds before TENSOR have frames. */
enum message { MODEL, GRAPH, FUNCTION, TRAINING, NODE, ATTRIBUTE, TENSOR, SPARSE };

/* A message that is being read. */
struct message_frame {
    enum message kind;
    const char *label;          /* what graph_path calls it: "graph" */
    uint64_t number;            /* number of messages of its kind before it in its parent */
    uint64_t at, end;           /* offsets of its beginning and end */
    uint64_t nchildren[TENSOR]; /* number of messages in it that were read, by their kind */
    ckpt_str name;              /* name of a function or attribute; first output of a node */
    ckpt_str op_type, domain;   /* operator of a node */
    ckpt_str text;              /* of an attribute, if there is a callback for it */
    uint64_t text_at;
};

struct onnx_walk {
    struct onnx *o;
    reader r;
    ckpt_error *err;
    struct message_frame frames[ONNX_DEPTH];
    uint32_t depth;
    uint64_t cut_at; /* where the content begins that was cut off or damaged last, if o->is_cut */
    size_t cap_opsets, cap_properties;
};

/* find_type - returns the data type NUMBER, or NULL. The columns are those of struct onnx_type. */
static const struct onnx_type *find_type(uint64_t number)
{
    static const struct onnx_type types[] = {
        {"UNDEFINED", CKPT_DT_NONE, 0, ONNX_RAW, 0, false},
        {"FLOAT", CKPT_DT_F32, 32, ONNX_FLOATS, 4, false},
        {"UINT8", CKPT_DT_U8, 8, ONNX_INT32S, 1, false},
        {"INT8", CKPT_DT_I8, 8, ONNX_INT32S, 1, false},
        {"UINT16", CKPT_DT_U16, 16, ONNX_INT32S, 2, false},
        {"INT16", CKPT_DT_I16, 16, ONNX_INT32S, 2, false},
        {"INT32", CKPT_DT_I32, 32, ONNX_INT32S, 4, false},
        {"INT64", CKPT_DT_I64, 64, ONNX_INT64S, 8, false},
        {"STRING", CKPT_DT_NAMED, 0, ONNX_STRINGS, 0, false},
        {"BOOL", CKPT_DT_BOOL, 8, ONNX_INT32S, 1, false},
        {"FLOAT16", CKPT_DT_F16, 16, ONNX_INT32S, 2, false},
        {"DOUBLE", CKPT_DT_F64, 64, ONNX_DOUBLES, 8, false},
        {"UINT32", CKPT_DT_U32, 32, ONNX_UINT64S, 4, false},
        {"UINT64", CKPT_DT_U64, 64, ONNX_UINT64S, 8, false},
        {"COMPLEX64", CKPT_DT_C64, 64, ONNX_FLOATS, 4, false},
        {"COMPLEX128", CKPT_DT_C128, 128, ONNX_DOUBLES, 8, false},
        {"BFLOAT16", CKPT_DT_BF16, 16, ONNX_INT32S, 2, false},
        {"FLOAT8E4M3FN", CKPT_DT_F8_E4M3, 8, ONNX_INT32S, 1, false},
        {"FLOAT8E4M3FNUZ", CKPT_DT_F8_E4M3FNUZ, 8, ONNX_INT32S, 1, false},
        {"FLOAT8E5M2", CKPT_DT_F8_E5M2, 8, ONNX_INT32S, 1, false},
        {"FLOAT8E5M2FNUZ", CKPT_DT_F8_E5M2FNUZ, 8, ONNX_INT32S, 1, false},
        {"UINT4", CKPT_DT_U4, 4, ONNX_INT32S, 1, true},
        {"INT4", CKPT_DT_I4, 4, ONNX_INT32S, 1, true},
        {"FLOAT4E2M1", CKPT_DT_F4_E2M1, 4, ONNX_INT32S, 1, true},
        {"FLOAT8E8M0", CKPT_DT_F8_E8M0, 8, ONNX_INT32S, 1, false},
        {"UINT2", CKPT_DT_U2, 2, ONNX_INT32S, 1, true},
        {"INT2", CKPT_DT_I2, 2, ONNX_INT32S, 1, true},
        {"FLOAT6E2M3", CKPT_DT_F6_E2M3_BYTE, 6, ONNX_INT32S, 1, false},
        {"FLOAT6E3M2", CKPT_DT_F6_E3M2_BYTE, 6, ONNX_INT32S, 1, false}};
    return number && number < sizeof types / sizeof *types ? &types[number] : NULL;
}

/* get_field_offset - returns the offset of the field that was read last, for errors. */
static uint64_t get_field_offset(const struct onnx_walk *walk)
{
    return source_pos(walk->o->src, walk->o->error_offset);
}

/* skip_damaged_message - if the file may be damaged, skips the remaining bytes of a malformed message, which
 * ends at END. Else returns ST. */
static ckpt_status skip_damaged_message(struct onnx_walk *walk, ckpt_status st, uint64_t end,
                                        struct proto_field *field, uint64_t *content_end)
{
    if (!walk->o->may_be_damaged || (st != CKPT_ETRUNCATED && st != CKPT_EFORMAT))
        return st;
    walk->o->is_cut = true;
    walk->cut_at = walk->r.pos;
    *field = (struct proto_field){.number = 0};
    *content_end = end;
    walk->r.status = CKPT_OK;
    walk->r.pos = end;
    return CKPT_OK;
}

/* next_field - sets *FIELD to the next field of a message that ends at END. If it is PROTO_BYTES, the reader
 * is at its content, which ends at *CONTENT_END. */
static ckpt_status next_field(struct onnx_walk *walk, uint64_t end, struct proto_field *field,
                              uint64_t *content_end)
{
    walk->o->error_offset = walk->r.pos;
    ckpt_status st = proto_read(&walk->r, field);
    if (st != CKPT_OK)
        return skip_damaged_message(walk, st, end, field, content_end);
    uint64_t left = walk->r.pos <= end ? end - walk->r.pos : 0,
             n = field->wire == PROTO_BYTES ? field->value : 0;
    if (walk->r.pos > end || (n > left && !walk->o->may_be_damaged))
        return fail(
            walk->err, end == walk->o->src->size ? CKPT_ETRUNCATED : CKPT_EFORMAT, get_field_offset(walk),
            "{a field} of %" PRIu64 " bytes, but {=%" PRIu64 " bytes} are left in its message", n, left);
    if (n > left) {
        walk->o->is_cut = true;
        walk->cut_at = walk->r.pos;
    }
    *content_end = walk->r.pos + (n < left ? n : left);
    return CKPT_OK;
}

/* read_text - sets *OUT to the next COUNT bytes, in the arena. */
static ckpt_status read_text(struct onnx_walk *walk, uint64_t count, ckpt_str *out)
{
    size_t size;
    uint64_t at = walk->r.pos;
    if (!reader_skip(&walk->r, count))
        return walk->r.status;
    char *text = checked_size(count, &size) ? arena_alloc(walk->o->a, size + 1) : NULL;
    CKPT_TRY_ALLOC(text, walk->err);
    *out = str_of(text, size);
    return source_read(walk->o->src, at, text, size, walk->err);
}

/* read_name - reads a name as read_text does, but refuses a long one. */
static ckpt_status read_name(struct onnx_walk *walk, uint64_t count, ckpt_str *out)
{
    return count <= ONNX_NAME_MAX
               ? read_text(walk, count, out)
               : fail(walk->err, CKPT_ELIMIT, get_field_offset(walk),
                      "a name of {%" PRIu64 " bytes}; {=%u} are allowed", count, ONNX_NAME_MAX);
}

/* read_pair - reads a message of COUNT bytes: its field 1 is a text, its field 2 a text or a number. */
static ckpt_status read_pair(struct onnx_walk *walk, uint64_t count, struct onnx_pair *pair)
{
    ckpt_str bytes;
    struct proto_field f;
    uint64_t at = get_field_offset(walk);
    CKPT_TRY(read_text(walk, count, &bytes));
    cursor c = cursor_of(bytes.ptr, bytes.len, at);
    *pair = (struct onnx_pair){STR_LIT(""), STR_LIT(""), 0};
    while (proto_next(&c, &f)) {
        if (proto_is(&f, 1, PROTO_BYTES))
            pair->key = proto_text(&f);
        else if (proto_is(&f, 2, PROTO_BYTES))
            pair->value = proto_text(&f);
        else if (proto_is(&f, 2, PROTO_VARINT))
            pair->number = f.value;
    }
    return c.bad ? fail(walk->err, CKPT_EFORMAT, c.pos, "{malformed} {=pair of a key and a value}") : CKPT_OK;
}

/* add_pair - reads a pair from the next NUMBER bytes, and appends it to LIST. */
static ckpt_status add_pair(struct onnx_walk *walk, uint64_t number, struct onnx_pair **list, size_t *count,
                            size_t *cap)
{
    struct onnx_pair p;
    CKPT_TRY(read_pair(walk, number, &p));
    return arena_push(walk->o->a, list, count, cap, &p, sizeof p) ? CKPT_OK : fail_memory(walk->err);
}

static ckpt_status add_size(struct onnx_walk *walk, uint64_t size, uint64_t *shape, uint64_t *ndim)
{
    if (*ndim == ONNX_RANK)
        return fail(walk->err, CKPT_ELIMIT, get_field_offset(walk), "{more} than {=%u dimensions}",
                    ONNX_RANK);
    if (size > INT64_MAX)
        return fail(walk->err, CKPT_EFORMAT, get_field_offset(walk),
                    "dimension %" PRIu64 " is {%" PRId64 "}; it must be {=0 or more}", *ndim, (int64_t)size);
    shape[(*ndim)++] = size;
    return CKPT_OK;
}

/* add_sizes - appends to SHAPE the sizes in the field FIELD: one, or those packed up to END. */
static ckpt_status add_sizes(struct onnx_walk *walk, const struct proto_field *field, uint64_t end,
                             uint64_t *shape, uint64_t *ndim)
{
    if (field->wire == PROTO_VARINT)
        return add_size(walk, field->value, shape, ndim);
    while (field->wire == PROTO_BYTES && walk->r.pos < end) {
        uint64_t size;
        bool ok = reader_varint(&walk->r, &size);
        CKPT_TRY(walk->r.status);
        if (!ok || walk->r.pos > end)
            return fail(walk->err, CKPT_EFORMAT, get_field_offset(walk), "{malformed} {=dimensions}");
        CKPT_TRY(add_size(walk, size, shape, ndim));
    }
    return CKPT_OK;
}

/* add_external - reads the next COUNT bytes, an entry of external_data, to TENSOR. */
static ckpt_status add_external(struct onnx_walk *walk, uint64_t count, struct onnx_tensor *tensor)
{
    struct onnx_pair p;
    CKPT_TRY(read_pair(walk, count, &p));
    ckpt_str *field = str_is(p.key, "location")   ? &tensor->location
                      : str_is(p.key, "offset")   ? &tensor->offset
                      : str_is(p.key, "length")   ? &tensor->length
                      : str_is(p.key, "checksum") ? &tensor->checksum
                                                  : NULL;
    if (!field)
        return CKPT_OK;
    if (field->ptr)
        return fail(walk->err, CKPT_EFORMAT, get_field_offset(walk),
                    "\"%.*s\" is there {twice}, {=once} is allowed", STR_ARG(p.key));
    tensor->external_at = walk->o->error_offset;
    *field = p.value;
    return CKPT_OK;
}

/* holds_values - returns true if FIELD is one of enum onnx_field. */
static bool holds_values(const struct proto_field *field)
{
    switch (field->number) {
    case ONNX_FLOATS: return field->wire == PROTO_BYTES || field->wire == PROTO_FIXED32;
    case ONNX_DOUBLES: return field->wire == PROTO_BYTES || field->wire == PROTO_FIXED64;
    case ONNX_INT32S:
    case ONNX_INT64S:
    case ONNX_UINT64S: return field->wire == PROTO_BYTES || field->wire == PROTO_VARINT;
    case ONNX_STRINGS:
    case ONNX_RAW: return field->wire == PROTO_BYTES;
    default: return false;
    }
}

/* add_values - adds the field PROTO_FIELD, whose content ends at END, to the values of TENSOR. */
static ckpt_status add_values(struct onnx_walk *walk, const struct proto_field *proto_field, uint64_t end,
                              struct onnx_tensor *tensor)
{
    enum onnx_field field = (enum onnx_field)proto_field->number;
    /* size in bytes of a number that is not packed; a varint is counted as one byte, its last */
    static const uint8_t widths[] = {[PROTO_VARINT] = 1, [PROTO_FIXED64] = 8, [PROTO_FIXED32] = 4};
    uint64_t begin = proto_field->wire == PROTO_BYTES ? walk->r.pos : end - widths[proto_field->wire];
    if (tensor->field && tensor->field != field)
        return fail(walk->err, CKPT_EFORMAT, get_field_offset(walk),
                    "values in {fields %d and %d}; {=one field} is allowed", (int)tensor->field, (int)field);
    tensor->field = field;
    tensor->nfields++;
    tensor->values = begin;
    if (field == ONNX_RAW) /* only the last raw_data counts, as in protobuf; the file may end in it */
        tensor->bytes = proto_field->value;
    else
        tensor->bytes += end - begin;
    return CKPT_OK;
}

/* take_tensor_field - reads the field FIELD of TENSOR; the content of FIELD ends at END. */
static ckpt_status take_tensor_field(struct onnx_walk *walk, const struct proto_field *field, uint64_t end,
                                     struct onnx_tensor *tensor)
{
    uint64_t ndim = tensor->ndim, n = end - walk->r.pos;
    if (holds_values(field))
        return add_values(walk, field, end, tensor);
    if (field->number == 1) {
        CKPT_TRY(add_sizes(walk, field, end, tensor->shape, &ndim));
        tensor->ndim = (uint32_t)ndim;
    }
    if (proto_is(field, 2, PROTO_VARINT) && !(tensor->type = find_type(field->value)))
        return fail(walk->err, CKPT_EUNSUPPORTED, get_field_offset(walk),
                    "the data type {%" PRIu64 "}; {=1 to 28} are known", field->value);
    if (proto_is(field, 3, PROTO_BYTES))
        return fail(walk->err, CKPT_EUNSUPPORTED, get_field_offset(walk),
                    "{a segment} of a tensor; {=whole tensors} are read");
    if (proto_is(field, 8, PROTO_BYTES))
        return read_name(walk, n, &tensor->name);
    if (proto_is(field, 13, PROTO_BYTES))
        return add_external(walk, n, tensor);
    if (proto_is(field, 14, PROTO_VARINT))
        tensor->is_external = field->value == 1;
    return CKPT_OK;
}

/* read_tensor - reads the TensorProto up to END to TENSOR, except for graph_path. */
static ckpt_status read_tensor(struct onnx_walk *walk, uint64_t end, struct onnx_tensor *tensor)
{
    struct proto_field f;
    uint64_t content_end, error_at = 0;
    ckpt_status st = CKPT_OK;
    ckpt_error first_error; /* first error in the fields of TENSOR, at ERROR_AT */
    *tensor = (struct onnx_tensor){.name = STR_LIT(""), .at = walk->r.pos, .end = end};
    while (walk->r.pos < end) {
        CKPT_TRY(next_field(walk, end, &f, &content_end));
        if (proto_is(&f, 8, PROTO_BYTES) && walk->o->is_cut && walk->cut_at == walk->r.pos) {
            walk->r.pos = end; /* a part of the name is no name */
            break;
        }
        if (st == CKPT_OK && (st = take_tensor_field(walk, &f, content_end, tensor)) != CKPT_OK) {
            first_error = *walk->err;
            error_at = walk->o->error_offset;
        }
        if (st != CKPT_OK && proto_is(&f, 8, PROTO_BYTES)) /* the name, which the error needs, may follow */
            CKPT_TRY(read_name(walk, content_end - walk->r.pos, &tensor->name));
        CKPT_TRY(walk->r.status);
        walk->r.pos = content_end;
    }
    if (st != CKPT_OK) {
        *walk->err = first_error;
        walk->o->error_offset = error_at;
        return st;
    }
    if (walk->o->is_cut && walk->cut_at >= tensor->at && !tensor->name.len)
        return fail(walk->err, CKPT_ETRUNCATED, source_pos(walk->o->src, tensor->at),
                    "it is {cut off} before its name");
    return tensor->type ? CKPT_OK
                        : fail(walk->err, CKPT_EFORMAT, source_pos(walk->o->src, tensor->at),
                               "a tensor has {no} {=data type}");
}

/* make_graph_path - returns the labels of the messages that are being read, except the main graph, joined by
 * slashes: "node3/then_branch". */
static ckpt_str make_graph_path(const struct onnx_walk *walk)
{
    char number[STR_NUMBER_MAX];
    ckpt_str text = STR_LIT("");
    for (uint32_t i = walk->depth > 1 && walk->frames[1].kind == GRAPH ? 2 : 1; text.ptr && i < walk->depth;
         i++) {
        const struct message_frame *f = &walk->frames[i];
        const char *slash = text.len ? "/" : "";
        if (f->kind == ATTRIBUTE || f->kind == FUNCTION)
            text = ARENA_CONCAT(walk->o->a, text, str_c(slash), str_c(f->label), f->name);
        else if (f->kind != GRAPH || walk->frames[i - 1].kind != ATTRIBUTE)
            text = ARENA_CONCAT(walk->o->a, text, str_c(slash), str_c(f->label),
                                f->kind == GRAPH ? STR_LIT("") : format_number(f->number, number));
        else if (f->number)
            text = ARENA_CONCAT(walk->o->a, text, STR_LIT("["), format_number(f->number, number),
                                STR_LIT("]"));
    }
    return text;
}

/* report_tensor - calls the callback for TENSOR, which is in the message of the last frame. */
static ckpt_status report_tensor(struct onnx_walk *walk, struct onnx_tensor *tensor)
{
    const struct message_frame *parent = &walk->frames[walk->depth - 1];
    tensor->graph_path = make_graph_path(walk);
    CKPT_TRY_ALLOC(tensor->graph_path.ptr, walk->err);
    if (!tensor->name.len && parent->kind == ATTRIBUTE)
        tensor->name = walk->frames[walk->depth - 2].name;
    return walk->o->on_tensor ? walk->o->on_tensor(walk->o->user, tensor, walk->err) : CKPT_OK;
}

/* report_fault - reports ST, the error of a tensor called NAME, to the callback for faults, if there is
 * one. */
static ckpt_status report_fault(struct onnx_walk *walk, ckpt_status st, ckpt_str name)
{
    error_add_position(walk->err, CKPT_NO_OFFSET, name.len ? name : STR_LIT("tensor"));
    return walk->r.status == CKPT_OK && walk->o->on_fault ? walk->o->on_fault(walk->o->user, st, walk->err)
                                                          : st;
}

/* read_sparse - reads the SparseTensorProto up to END: its values to TENSOR[0], its indices to TENSOR[1],
 * both under the name of the values. */
static ckpt_status read_sparse(struct onnx_walk *walk, uint64_t end, struct onnx_tensor tensor[2])
{
    uint64_t content_end, ndim = 0, shape[ONNX_RANK];
    struct proto_field f;
    while (walk->r.pos < end) {
        CKPT_TRY(next_field(walk, end, &f, &content_end));
        if (proto_is(&f, 1, PROTO_BYTES) || proto_is(&f, 2, PROTO_BYTES))
            CKPT_TRY(read_tensor(walk, content_end, &tensor[f.number - 1]));
        else if (f.number == 3)
            CKPT_TRY(add_sizes(walk, &f, content_end, shape, &ndim));
        walk->r.pos = content_end;
    }
    if (!tensor[0].type || !tensor[1].type)
        return fail(walk->err, CKPT_EFORMAT, get_field_offset(walk),
                    "a sparse tensor without {%s}; {=both} are needed",
                    tensor[0].type ? "indices" : "values");
    tensor[0].component = ONNX_SPARSE_VALUES;
    tensor[0].sparse_ndim = ndim;
    memcpy(tensor[0].sparse_shape, shape, (size_t)ndim * sizeof *shape);
    tensor[1].component = ONNX_SPARSE_INDICES;
    tensor[1].name = tensor[0].name;
    return CKPT_OK;
}

/* take_tensor - reads the tensor of KIND, TENSOR or SPARSE, up to END, and passes it to the callback. */
static ckpt_status take_tensor(struct onnx_walk *walk, enum message kind, uint64_t end)
{
    struct onnx_tensor t[2] = {{.name = STR_LIT("")}};
    ckpt_status st = kind == TENSOR ? read_tensor(walk, end, &t[0]) : read_sparse(walk, end, t);
    if (st != CKPT_OK)
        return report_fault(walk, st, t[0].name);
    CKPT_TRY(report_tensor(walk, &t[0]));
    return kind == SPARSE ? report_tensor(walk, &t[1]) : CKPT_OK;
}

/* The fields that are messages: the kind of the parent, the number of the field, the kind of the message. */
static const struct message_field {
    uint8_t parent, number, kind;
    const char *label; /* what graph_path calls the message */
} message_fields[] = {{MODEL, 7, GRAPH, "graph"},
                      {MODEL, 20, TRAINING, "training"},
                      {MODEL, 25, FUNCTION, "function "},
                      {TRAINING, 1, GRAPH, "initialization"},
                      {TRAINING, 2, GRAPH, "algorithm"},
                      {FUNCTION, 7, NODE, "node"},
                      {GRAPH, 1, NODE, "node"},
                      {GRAPH, 5, TENSOR, ""},
                      {GRAPH, 15, SPARSE, ""},
                      {NODE, 5, ATTRIBUTE, ""},
                      {ATTRIBUTE, 5, TENSOR, ""},
                      {ATTRIBUTE, 6, GRAPH, ""},
                      {ATTRIBUTE, 10, TENSOR, ""},
                      {ATTRIBUTE, 11, GRAPH, ""},
                      {ATTRIBUTE, 22, SPARSE, ""},
                      {ATTRIBUTE, 23, SPARSE, ""}};

static const struct message_field *find_message_field(const struct message_frame *parent,
                                                      const struct proto_field *field)
{
    for (size_t i = 0; field->wire == PROTO_BYTES && i < sizeof message_fields / sizeof *message_fields; i++)
        if (message_fields[i].parent == parent->kind && message_fields[i].number == field->number)
            return &message_fields[i];
    return NULL;
}

/* enter_message - begins the message up to END, which is field FIELD of the last frame. Reads it at once if
 * it is a tensor. */
static ckpt_status enter_message(struct onnx_walk *walk, const struct message_field *field, uint64_t end)
{
    if (field->kind == TENSOR || field->kind == SPARSE)
        return take_tensor(walk, (enum message)field->kind, end);
    if (walk->depth == ONNX_DEPTH)
        return fail(walk->err, CKPT_ELIMIT, get_field_offset(walk), "messages are nested {deeper} than {=%u}",
                    ONNX_DEPTH);
    uint64_t *number = &walk->frames[walk->depth - 1].nchildren[field->kind];
    walk->frames[walk->depth++] = (struct message_frame){.kind = (enum message)field->kind,
                                                         .label = field->label,
                                                         .number = (*number)++,
                                                         .at = walk->r.pos,
                                                         .end = end,
                                                         .name = STR_LIT(""),
                                                         .op_type = STR_LIT(""),
                                                         .text = STR_LIT(""),
                                                         .domain = STR_LIT("")};
    return CKPT_OK;
}

static ckpt_status leave_message(struct onnx_walk *walk)
{
    const struct message_frame *f = &walk->frames[--walk->depth];
    if (f->kind == ATTRIBUTE && f->text.len && walk->o->on_attribute)
        return walk->o->on_attribute(walk->o->user, f->name, f->text, source_pos(walk->o->src, f->text_at),
                                     walk->err);
    return f->kind == NODE && walk->o->on_node ? walk->o->on_node(walk->o->user, f->domain, f->op_type,
                                                                  source_pos(walk->o->src, f->at), walk->err)
                                               : CKPT_OK;
}

/* take_model_field - reads the field FIELD of the model; the content of FIELD has COUNT bytes. */
static ckpt_status take_model_field(struct onnx_walk *walk, const struct proto_field *field, uint64_t count)
{
    struct onnx *o = walk->o;
    if (field->wire == PROTO_VARINT) {
        o->ir_version = field->number == 1 ? field->value : o->ir_version;
        o->model_version = field->number == 5 ? field->value : o->model_version;
        return CKPT_OK;
    }
    switch (field->wire == PROTO_BYTES ? field->number : 0) {
    case 2: return read_text(walk, count, &o->producer);
    case 3: return read_text(walk, count, &o->producer_version);
    case 4: return read_text(walk, count, &o->domain);
    case 6: return read_text(walk, count, &o->doc);
    case 8: return add_pair(walk, count, &o->opsets, &o->nopsets, &walk->cap_opsets);
    case 14: return add_pair(walk, count, &o->properties, &o->nproperties, &walk->cap_properties);
    default: return CKPT_OK;
    }
}

/* take_name - if FIELD is the name of the message FRAME, or op_type or domain of a node, reads its COUNT
 * bytes. */
static ckpt_status take_name(struct onnx_walk *walk, const struct proto_field *field, uint64_t count,
                             struct message_frame *frame)
{
    bool is_name = field->number == 1 && (frame->kind == FUNCTION || frame->kind == ATTRIBUTE);
    if (field->wire != PROTO_BYTES)
        return CKPT_OK;
    if (is_name || (frame->kind == NODE && field->number == 2 && !frame->name.len))
        return read_name(walk, count, &frame->name);
    if (frame->kind == NODE && walk->o->on_node && (field->number == 4 || field->number == 7))
        return read_name(walk, count, field->number == 4 ? &frame->op_type : &frame->domain);
    if (frame->kind == ATTRIBUTE && walk->o->on_attribute && field->number == 4 && count <= ONNX_NAME_MAX) {
        frame->text_at = walk->r.pos;
        return read_text(walk, count, &frame->text);
    }
    return CKPT_OK;
}

static ckpt_status read_next(struct onnx_walk *walk)
{
    struct message_frame *frame = &walk->frames[walk->depth - 1];
    struct proto_field f;
    uint64_t content_end;
    if (walk->r.pos >= frame->end)
        return leave_message(walk);
    CKPT_TRY(next_field(walk, frame->end, &f, &content_end));
    const struct message_field *c = find_message_field(frame, &f);
    uint64_t n = content_end - walk->r.pos;
    if (c) {
        CKPT_TRY(enter_message(walk, c, content_end));
        if (c->kind != TENSOR && c->kind != SPARSE)
            return CKPT_OK;
    } else {
        CKPT_TRY(frame->kind == MODEL ? take_model_field(walk, &f, n) : take_name(walk, &f, n, frame));
    }
    walk->r.pos = content_end;
    return CKPT_OK;
}

ckpt_status onnx_read(struct onnx *onnx, ckpt_error *err)
{
    struct onnx_walk *w = arena_alloc(onnx->a, sizeof *w);
    CKPT_TRY_ALLOC(w, err);
    w->o = onnx;
    w->err = err;
    onnx->producer = onnx->producer_version = onnx->domain = onnx->doc = STR_LIT("");
    w->frames[w->depth++] = (struct message_frame){.kind = MODEL, .label = "", .end = onnx->src->size};
    ckpt_status st = reader_init(&w->r, onnx->src, 0, onnx->src->size, err);
    while (st == CKPT_OK && w->depth)
        st = read_next(w);
    reader_free(&w->r);
    return st;
}
