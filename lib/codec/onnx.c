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
static uint64_t get_field_offset(const struct onnx_walk *w)
{
    return source_pos(w->o->src, w->o->error_offset);
}

/* skip_damaged_message - if the file may be damaged, skips the remaining bytes of a malformed message, which
 * ends at END. Else returns ST. */
static ckpt_status skip_damaged_message(struct onnx_walk *w, ckpt_status st, uint64_t end,
                                        struct proto_field *f, uint64_t *content_end)
{
    if (!w->o->may_be_damaged || (st != CKPT_ETRUNCATED && st != CKPT_EFORMAT))
        return st;
    w->o->is_cut = true;
    w->cut_at = w->r.pos;
    *f = (struct proto_field){.number = 0};
    *content_end = end;
    w->r.status = CKPT_OK;
    w->r.pos = end;
    return CKPT_OK;
}

/* next_field - sets *F to the next field of a message that ends at END. If it is PROTO_BYTES, the reader is
 * at its content, which ends at *CONTENT_END. */
static ckpt_status next_field(struct onnx_walk *w, uint64_t end, struct proto_field *f, uint64_t *content_end)
{
    w->o->error_offset = w->r.pos;
    ckpt_status st = proto_read(&w->r, f);
    if (st != CKPT_OK)
        return skip_damaged_message(w, st, end, f, content_end);
    uint64_t left = w->r.pos <= end ? end - w->r.pos : 0, n = f->wire == PROTO_BYTES ? f->value : 0;
    if (w->r.pos > end || (n > left && !w->o->may_be_damaged))
        return fail(w->err, end == w->o->src->size ? CKPT_ETRUNCATED : CKPT_EFORMAT, get_field_offset(w),
                    "{a field} of %" PRIu64 " bytes, but {=%" PRIu64 " bytes} are left in its message", n,
                    left);
    if (n > left) {
        w->o->is_cut = true;
        w->cut_at = w->r.pos;
    }
    *content_end = w->r.pos + (n < left ? n : left);
    return CKPT_OK;
}

/* read_text - sets *OUT to the next N bytes, in the arena. */
static ckpt_status read_text(struct onnx_walk *w, uint64_t n, ckpt_str *out)
{
    size_t size;
    uint64_t at = w->r.pos;
    if (!reader_skip(&w->r, n))
        return w->r.status;
    char *text = checked_size(n, &size) ? arena_alloc(w->o->a, size + 1) : NULL;
    CKPT_TRY_ALLOC(text, w->err);
    *out = str_of(text, size);
    return source_read(w->o->src, at, text, size, w->err);
}

/* read_name - reads a name as read_text does, but refuses a long one. */
static ckpt_status read_name(struct onnx_walk *w, uint64_t n, ckpt_str *out)
{
    return n <= ONNX_NAME_MAX ? read_text(w, n, out)
                              : fail(w->err, CKPT_ELIMIT, get_field_offset(w),
                                     "a name of {%" PRIu64 " bytes}; {=%u} are allowed", n, ONNX_NAME_MAX);
}

/* read_pair - reads a message of N bytes: its field 1 is a text, its field 2 a text or a number. */
static ckpt_status read_pair(struct onnx_walk *w, uint64_t n, struct onnx_pair *p)
{
    ckpt_str bytes;
    struct proto_field f;
    uint64_t at = get_field_offset(w);
    CKPT_TRY(read_text(w, n, &bytes));
    cursor c = cursor_of(bytes.ptr, bytes.len, at);
    *p = (struct onnx_pair){STR_LIT(""), STR_LIT(""), 0};
    while (proto_next(&c, &f)) {
        if (proto_is(&f, 1, PROTO_BYTES))
            p->key = proto_text(&f);
        else if (proto_is(&f, 2, PROTO_BYTES))
            p->value = proto_text(&f);
        else if (proto_is(&f, 2, PROTO_VARINT))
            p->number = f.value;
    }
    return c.bad ? fail(w->err, CKPT_EFORMAT, c.pos, "{malformed} {=pair of a key and a value}") : CKPT_OK;
}

/* add_pair - reads a pair from the next N bytes, and appends it to LIST. */
static ckpt_status add_pair(struct onnx_walk *w, uint64_t n, struct onnx_pair **list, size_t *count,
                            size_t *cap)
{
    struct onnx_pair p;
    CKPT_TRY(read_pair(w, n, &p));
    return arena_push(w->o->a, list, count, cap, &p, sizeof p) ? CKPT_OK : fail_memory(w->err);
}

static ckpt_status add_size(struct onnx_walk *w, uint64_t size, uint64_t *shape, uint64_t *ndim)
{
    if (*ndim == ONNX_RANK)
        return fail(w->err, CKPT_ELIMIT, get_field_offset(w), "{more} than {=%u dimensions}", ONNX_RANK);
    if (size > INT64_MAX)
        return fail(w->err, CKPT_EFORMAT, get_field_offset(w),
                    "dimension %" PRIu64 " is {%" PRId64 "}; it must be {=0 or more}", *ndim, (int64_t)size);
    shape[(*ndim)++] = size;
    return CKPT_OK;
}

/* add_sizes - appends to SHAPE the sizes in the field F: one, or those packed up to END. */
static ckpt_status add_sizes(struct onnx_walk *w, const struct proto_field *f, uint64_t end, uint64_t *shape,
                             uint64_t *ndim)
{
    if (f->wire == PROTO_VARINT)
        return add_size(w, f->value, shape, ndim);
    while (f->wire == PROTO_BYTES && w->r.pos < end) {
        uint64_t size;
        bool ok = reader_varint(&w->r, &size);
        CKPT_TRY(w->r.status);
        if (!ok || w->r.pos > end)
            return fail(w->err, CKPT_EFORMAT, get_field_offset(w), "{malformed} {=dimensions}");
        CKPT_TRY(add_size(w, size, shape, ndim));
    }
    return CKPT_OK;
}

/* add_external - reads the next N bytes, an entry of external_data, to T. */
static ckpt_status add_external(struct onnx_walk *w, uint64_t n, struct onnx_tensor *t)
{
    struct onnx_pair p;
    CKPT_TRY(read_pair(w, n, &p));
    ckpt_str *field = str_is(p.key, "location")   ? &t->location
                      : str_is(p.key, "offset")   ? &t->offset
                      : str_is(p.key, "length")   ? &t->length
                      : str_is(p.key, "checksum") ? &t->checksum
                                                  : NULL;
    if (!field)
        return CKPT_OK;
    if (field->ptr)
        return fail(w->err, CKPT_EFORMAT, get_field_offset(w),
                    "\"%.*s\" is there {twice}, {=once} is allowed", STR_ARG(p.key));
    t->external_at = w->o->error_offset;
    *field = p.value;
    return CKPT_OK;
}

/* holds_values - returns true if F is one of enum onnx_field. */
static bool holds_values(const struct proto_field *f)
{
    switch (f->number) {
    case ONNX_FLOATS: return f->wire == PROTO_BYTES || f->wire == PROTO_FIXED32;
    case ONNX_DOUBLES: return f->wire == PROTO_BYTES || f->wire == PROTO_FIXED64;
    case ONNX_INT32S:
    case ONNX_INT64S:
    case ONNX_UINT64S: return f->wire == PROTO_BYTES || f->wire == PROTO_VARINT;
    case ONNX_STRINGS:
    case ONNX_RAW: return f->wire == PROTO_BYTES;
    default: return false;
    }
}

/* add_values - adds the field F, whose content ends at END, to the values of T. */
static ckpt_status add_values(struct onnx_walk *w, const struct proto_field *f, uint64_t end,
                              struct onnx_tensor *t)
{
    enum onnx_field field = (enum onnx_field)f->number;
    /* size in bytes of a number that is not packed; a varint is counted as one byte, its last */
    static const uint8_t widths[] = {[PROTO_VARINT] = 1, [PROTO_FIXED64] = 8, [PROTO_FIXED32] = 4};
    uint64_t begin = f->wire == PROTO_BYTES ? w->r.pos : end - widths[f->wire];
    if (t->field && t->field != field)
        return fail(w->err, CKPT_EFORMAT, get_field_offset(w),
                    "values in {fields %d and %d}; {=one field} is allowed", (int)t->field, (int)field);
    t->field = field;
    t->nfields++;
    t->values = begin;
    if (field == ONNX_RAW) /* only the last raw_data counts, as in protobuf; the file may end in it */
        t->bytes = f->value;
    else
        t->bytes += end - begin;
    return CKPT_OK;
}

/* take_tensor_field - reads the field F of T; the content of F ends at END. */
static ckpt_status take_tensor_field(struct onnx_walk *w, const struct proto_field *f, uint64_t end,
                                     struct onnx_tensor *t)
{
    uint64_t ndim = t->ndim, n = end - w->r.pos;
    if (holds_values(f))
        return add_values(w, f, end, t);
    if (f->number == 1) {
        CKPT_TRY(add_sizes(w, f, end, t->shape, &ndim));
        t->ndim = (uint32_t)ndim;
    }
    if (proto_is(f, 2, PROTO_VARINT) && !(t->type = find_type(f->value)))
        return fail(w->err, CKPT_EUNSUPPORTED, get_field_offset(w),
                    "the data type {%" PRIu64 "}; {=1 to 28} are known", f->value);
    if (proto_is(f, 3, PROTO_BYTES))
        return fail(w->err, CKPT_EUNSUPPORTED, get_field_offset(w),
                    "{a segment} of a tensor; {=whole tensors} are read");
    if (proto_is(f, 8, PROTO_BYTES))
        return read_name(w, n, &t->name);
    if (proto_is(f, 13, PROTO_BYTES))
        return add_external(w, n, t);
    if (proto_is(f, 14, PROTO_VARINT))
        t->is_external = f->value == 1;
    return CKPT_OK;
}

/* read_tensor - reads the TensorProto up to END to T, except for graph_path. */
static ckpt_status read_tensor(struct onnx_walk *w, uint64_t end, struct onnx_tensor *t)
{
    struct proto_field f;
    uint64_t content_end, error_at = 0;
    ckpt_status st = CKPT_OK;
    ckpt_error first_error; /* first error in the fields of T, at ERROR_AT */
    *t = (struct onnx_tensor){.name = STR_LIT(""), .at = w->r.pos, .end = end};
    while (w->r.pos < end) {
        CKPT_TRY(next_field(w, end, &f, &content_end));
        if (proto_is(&f, 8, PROTO_BYTES) && w->o->is_cut && w->cut_at == w->r.pos) {
            w->r.pos = end; /* a part of the name is no name */
            break;
        }
        if (st == CKPT_OK && (st = take_tensor_field(w, &f, content_end, t)) != CKPT_OK) {
            first_error = *w->err;
            error_at = w->o->error_offset;
        }
        if (st != CKPT_OK && proto_is(&f, 8, PROTO_BYTES)) /* the name, which the error needs, may follow */
            CKPT_TRY(read_name(w, content_end - w->r.pos, &t->name));
        CKPT_TRY(w->r.status);
        w->r.pos = content_end;
    }
    if (st != CKPT_OK) {
        *w->err = first_error;
        w->o->error_offset = error_at;
        return st;
    }
    if (w->o->is_cut && w->cut_at >= t->at && !t->name.len)
        return fail(w->err, CKPT_ETRUNCATED, source_pos(w->o->src, t->at), "it is {cut off} before its name");
    return t->type
               ? CKPT_OK
               : fail(w->err, CKPT_EFORMAT, source_pos(w->o->src, t->at), "a tensor has {no} {=data type}");
}

/* make_graph_path - returns the labels of the messages that are being read, except the main graph, joined by
 * slashes: "node3/then_branch". */
static ckpt_str make_graph_path(const struct onnx_walk *w)
{
    char number[STR_NUMBER_MAX];
    ckpt_str text = STR_LIT("");
    for (uint32_t i = w->depth > 1 && w->frames[1].kind == GRAPH ? 2 : 1; text.ptr && i < w->depth; i++) {
        const struct message_frame *f = &w->frames[i];
        const char *slash = text.len ? "/" : "";
        if (f->kind == ATTRIBUTE || f->kind == FUNCTION)
            text = ARENA_CONCAT(w->o->a, text, str_c(slash), str_c(f->label), f->name);
        else if (f->kind != GRAPH || w->frames[i - 1].kind != ATTRIBUTE)
            text = ARENA_CONCAT(w->o->a, text, str_c(slash), str_c(f->label),
                                f->kind == GRAPH ? STR_LIT("") : format_number(f->number, number));
        else if (f->number)
            text = ARENA_CONCAT(w->o->a, text, STR_LIT("["), format_number(f->number, number), STR_LIT("]"));
    }
    return text;
}

/* report_tensor - calls the callback for T, which is in the message of the last frame. */
static ckpt_status report_tensor(struct onnx_walk *w, struct onnx_tensor *t)
{
    const struct message_frame *parent = &w->frames[w->depth - 1];
    t->graph_path = make_graph_path(w);
    CKPT_TRY_ALLOC(t->graph_path.ptr, w->err);
    if (!t->name.len && parent->kind == ATTRIBUTE)
        t->name = w->frames[w->depth - 2].name;
    return w->o->on_tensor ? w->o->on_tensor(w->o->user, t, w->err) : CKPT_OK;
}

/* report_fault - reports ST, the error of a tensor called NAME, to the callback for faults, if there is
 * one. */
static ckpt_status report_fault(struct onnx_walk *w, ckpt_status st, ckpt_str name)
{
    error_add_position(w->err, CKPT_NO_OFFSET, name.len ? name : STR_LIT("tensor"));
    return w->r.status == CKPT_OK && w->o->on_fault ? w->o->on_fault(w->o->user, st, w->err) : st;
}

/* read_sparse - reads the SparseTensorProto up to END: its values to T[0], its indices to T[1], both under
 * the name of the values. */
static ckpt_status read_sparse(struct onnx_walk *w, uint64_t end, struct onnx_tensor t[2])
{
    uint64_t content_end, ndim = 0, shape[ONNX_RANK];
    struct proto_field f;
    while (w->r.pos < end) {
        CKPT_TRY(next_field(w, end, &f, &content_end));
        if (proto_is(&f, 1, PROTO_BYTES) || proto_is(&f, 2, PROTO_BYTES))
            CKPT_TRY(read_tensor(w, content_end, &t[f.number - 1]));
        else if (f.number == 3)
            CKPT_TRY(add_sizes(w, &f, content_end, shape, &ndim));
        w->r.pos = content_end;
    }
    if (!t[0].type || !t[1].type)
        return fail(w->err, CKPT_EFORMAT, get_field_offset(w),
                    "a sparse tensor without {%s}; {=both} are needed", t[0].type ? "indices" : "values");
    t[0].component = ONNX_SPARSE_VALUES;
    t[0].sparse_ndim = ndim;
    memcpy(t[0].sparse_shape, shape, (size_t)ndim * sizeof *shape);
    t[1].component = ONNX_SPARSE_INDICES;
    t[1].name = t[0].name;
    return CKPT_OK;
}

/* take_tensor - reads the tensor of KIND, TENSOR or SPARSE, up to END, and passes it to the callback. */
static ckpt_status take_tensor(struct onnx_walk *w, enum message kind, uint64_t end)
{
    struct onnx_tensor t[2] = {{.name = STR_LIT("")}};
    ckpt_status st = kind == TENSOR ? read_tensor(w, end, &t[0]) : read_sparse(w, end, t);
    if (st != CKPT_OK)
        return report_fault(w, st, t[0].name);
    CKPT_TRY(report_tensor(w, &t[0]));
    return kind == SPARSE ? report_tensor(w, &t[1]) : CKPT_OK;
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
                                                      const struct proto_field *f)
{
    for (size_t i = 0; f->wire == PROTO_BYTES && i < sizeof message_fields / sizeof *message_fields; i++)
        if (message_fields[i].parent == parent->kind && message_fields[i].number == f->number)
            return &message_fields[i];
    return NULL;
}

/* enter_message - begins the message up to END, which is field C of the last frame. Reads it at once if it
 * is a tensor. */
static ckpt_status enter_message(struct onnx_walk *w, const struct message_field *c, uint64_t end)
{
    if (c->kind == TENSOR || c->kind == SPARSE)
        return take_tensor(w, (enum message)c->kind, end);
    if (w->depth == ONNX_DEPTH)
        return fail(w->err, CKPT_ELIMIT, get_field_offset(w), "messages are nested {deeper} than {=%u}",
                    ONNX_DEPTH);
    uint64_t *number = &w->frames[w->depth - 1].nchildren[c->kind];
    w->frames[w->depth++] = (struct message_frame){.kind = (enum message)c->kind,
                                                   .label = c->label,
                                                   .number = (*number)++,
                                                   .at = w->r.pos,
                                                   .end = end,
                                                   .name = STR_LIT(""),
                                                   .op_type = STR_LIT(""),
                                                   .text = STR_LIT(""),
                                                   .domain = STR_LIT("")};
    return CKPT_OK;
}

static ckpt_status leave_message(struct onnx_walk *w)
{
    const struct message_frame *f = &w->frames[--w->depth];
    if (f->kind == ATTRIBUTE && f->text.len && w->o->on_attribute)
        return w->o->on_attribute(w->o->user, f->name, f->text, source_pos(w->o->src, f->text_at), w->err);
    return f->kind == NODE && w->o->on_node
               ? w->o->on_node(w->o->user, f->domain, f->op_type, source_pos(w->o->src, f->at), w->err)
               : CKPT_OK;
}

/* take_model_field - reads the field F of the model; the content of F has N bytes. */
static ckpt_status take_model_field(struct onnx_walk *w, const struct proto_field *f, uint64_t n)
{
    struct onnx *o = w->o;
    if (f->wire == PROTO_VARINT) {
        o->ir_version = f->number == 1 ? f->value : o->ir_version;
        o->model_version = f->number == 5 ? f->value : o->model_version;
        return CKPT_OK;
    }
    switch (f->wire == PROTO_BYTES ? f->number : 0) {
    case 2: return read_text(w, n, &o->producer);
    case 3: return read_text(w, n, &o->producer_version);
    case 4: return read_text(w, n, &o->domain);
    case 6: return read_text(w, n, &o->doc);
    case 8: return add_pair(w, n, &o->opsets, &o->nopsets, &w->cap_opsets);
    case 14: return add_pair(w, n, &o->properties, &o->nproperties, &w->cap_properties);
    default: return CKPT_OK;
    }
}

/* take_name - if F is the name of the message FRAME, or op_type or domain of a node, reads its N bytes. */
static ckpt_status take_name(struct onnx_walk *w, const struct proto_field *f, uint64_t n,
                             struct message_frame *frame)
{
    bool is_name = f->number == 1 && (frame->kind == FUNCTION || frame->kind == ATTRIBUTE);
    if (f->wire != PROTO_BYTES)
        return CKPT_OK;
    if (is_name || (frame->kind == NODE && f->number == 2 && !frame->name.len))
        return read_name(w, n, &frame->name);
    if (frame->kind == NODE && w->o->on_node && (f->number == 4 || f->number == 7))
        return read_name(w, n, f->number == 4 ? &frame->op_type : &frame->domain);
    if (frame->kind == ATTRIBUTE && w->o->on_attribute && f->number == 4 && n <= ONNX_NAME_MAX) {
        frame->text_at = w->r.pos;
        return read_text(w, n, &frame->text);
    }
    return CKPT_OK;
}

static ckpt_status read_next(struct onnx_walk *w)
{
    struct message_frame *frame = &w->frames[w->depth - 1];
    struct proto_field f;
    uint64_t content_end;
    if (w->r.pos >= frame->end)
        return leave_message(w);
    CKPT_TRY(next_field(w, frame->end, &f, &content_end));
    const struct message_field *c = find_message_field(frame, &f);
    uint64_t n = content_end - w->r.pos;
    if (c) {
        CKPT_TRY(enter_message(w, c, content_end));
        if (c->kind != TENSOR && c->kind != SPARSE)
            return CKPT_OK;
    } else {
        CKPT_TRY(frame->kind == MODEL ? take_model_field(w, &f, n) : take_name(w, &f, n, frame));
    }
    w->r.pos = content_end;
    return CKPT_OK;
}

ckpt_status onnx_read(struct onnx *o, ckpt_error *err)
{
    struct onnx_walk *w = arena_alloc(o->a, sizeof *w);
    CKPT_TRY_ALLOC(w, err);
    w->o = o;
    w->err = err;
    o->producer = o->producer_version = o->domain = o->doc = STR_LIT("");
    w->frames[w->depth++] = (struct message_frame){.kind = MODEL, .label = "", .end = o->src->size};
    ckpt_status st = reader_init(&w->r, o->src, 0, o->src->size, err);
    while (st == CKPT_OK && w->depth)
        st = read_next(w);
    reader_free(&w->r);
    return st;
}
