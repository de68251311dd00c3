/*
 * ckpt.c - reads MindSpore's .ckpt (mindspore/train/checkpoint.proto, serialization.py): a protobuf message.
 *
 *   FIELD DESCRIPTION
 *   1     a value, repeated: 1 tag (its name), 2 tensor, 3 map tensor
 *         of a tensor: 1 dims, repeated; 2 tensor_type, "Float32"; 3 tensor_content, little-endian
 *
 * A parameter of more than 512 MiB is in several values with one tag, one after the other, each with all dims
 * and a part of the content. dims of one 0 are those of a scalar. The type "str" is a text in UTF-32. With
 * crc_check=True, "crc_num" and 10 bytes with a CRC-32 of the file end it.
 *
 * Refused: values that are no tensors, types that are not known, content of another size than dims and type
 * give. Encrypted files begin in another way, and are not recognized.
 */
#include <inttypes.h>

#include "base/utf8.h"
#include "codec/protobuf.h"
#include "core/check.h"
#include "format/kit.h"
#include "format/recognize.h"

#define MAX_DIMS  64u
#define MAX_TEXT  65536u /* bytes of a tag or text */
#define CRC_TAG   "crc_num"
#define CRC_TAIL  17u /* CRC_TAG and the checksum */
#define MAX_PARTS 65536u
#define UTF8_MAX  0x10ffffu

/* The content of one value: bytes of the file. */
struct part {
    uint64_t begin, nbytes;
};

struct value {
    ckpt_str tag, type;
    uint64_t *shape;
    uint32_t ndim;
    struct part content;
    uint64_t described_at;
    bool has_tensor, is_map;
};

struct mindspore {
    ckpt_file *f;
    ckpt_error *err;
    struct kit k;
    reader reader;
    struct value current; /* the parameter whose parts are collected; its tag is NULL before the first one */
    struct part *parts;
    size_t nparts, cap_parts;
    uint64_t total; /* bytes of the parts */
};

/* ---------------------------------------------------------------------------- values */

static ckpt_status read_text(struct mindspore *mindspore, uint64_t count, ckpt_str *out)
{
    if (count > MAX_TEXT)
        return fail(mindspore->err, CKPT_ELIMIT, mindspore->reader.pos,
                    "a text of {%" PRIu64 " bytes}; {=%u} are allowed", count, MAX_TEXT);
    const unsigned char *bytes = reader_take(&mindspore->reader, (size_t)count);
    CKPT_TRY(mindspore->reader.status);
    *out = arena_str(mindspore->f->a, str_of((const char *)bytes, (size_t)count));
    return out->ptr ? CKPT_OK : fail_memory(mindspore->err);
}

static ckpt_status add_dim(struct mindspore *mindspore, struct value *value, uint64_t size)
{
    if (!value->shape && !(value->shape = arena_array(mindspore->f->a, MAX_DIMS, sizeof *value->shape)))
        return fail_memory(mindspore->err);
    if (value->ndim == MAX_DIMS || size > INT64_MAX)
        return fail(mindspore->err, CKPT_EFORMAT, mindspore->reader.pos,
                    "dimension %u is {%" PRId64 "}; {=up to %u sizes from 0 on} are allowed", value->ndim,
                    (int64_t)size, MAX_DIMS);
    value->shape[value->ndim++] = size;
    return CKPT_OK;
}

/* read_dims - reads FIELD, one size, or packed ones. */
static ckpt_status read_dims(struct mindspore *mindspore, struct value *value,
                             const struct proto_field *field)
{
    if (field->wire == PROTO_VARINT)
        return add_dim(mindspore, value, field->value);
    uint64_t end, size;
    if (!checked_add(mindspore->reader.pos, field->value, &end))
        return fail(mindspore->err, CKPT_EFORMAT, mindspore->reader.pos,
                    "sizes of {more} than {=2^64 bytes}");
    while (mindspore->reader.pos < end && reader_varint(&mindspore->reader, &size))
        CKPT_TRY(add_dim(mindspore, value, size));
    return mindspore->reader.status;
}

static ckpt_status read_tensor_field(struct mindspore *mindspore, struct value *value,
                                     const struct proto_field *field)
{
    if (field->number == 1 && (field->wire == PROTO_VARINT || field->wire == PROTO_BYTES))
        return read_dims(mindspore, value, field);
    if (proto_is(field, 2, PROTO_BYTES))
        return read_text(mindspore, field->value, &value->type);
    if (proto_is(field, 3, PROTO_BYTES))
        value->content = (struct part){mindspore->reader.pos, field->value};
    if (field->wire == PROTO_BYTES && !reader_skip(&mindspore->reader, field->value))
        return mindspore->reader.status;
    return CKPT_OK;
}

/* read_message - calls READ_FIELD with each field of the message of COUNT bytes at the position of
 * mindspore->reader. */
static ckpt_status read_message(struct mindspore *mindspore, struct value *value, uint64_t count,
                                ckpt_status (*read_field)(struct mindspore *mindspore, struct value *value,
                                                          const struct proto_field *f))
{
    struct proto_field f;
    uint64_t at = mindspore->reader.pos, end;
    if (count > reader_left(&mindspore->reader) || !checked_add(at, count, &end))
        return fail(mindspore->err, CKPT_ETRUNCATED, at,
                    "a message of {=%" PRIu64 " bytes}, {%" PRIu64 "} are left", count,
                    reader_left(&mindspore->reader));
    while (mindspore->reader.pos < end) {
        CKPT_TRY(proto_read(&mindspore->reader, &f));
        CKPT_TRY(read_field(mindspore, value, &f));
    }
    if (mindspore->reader.pos == end)
        return CKPT_OK;
    return fail(mindspore->err, CKPT_EFORMAT, at,
                "a message of {=%" PRIu64 " bytes} whose fields have {%" PRIu64 "}", count,
                mindspore->reader.pos - at);
}

static ckpt_status read_value_field(struct mindspore *mindspore, struct value *value,
                                    const struct proto_field *field)
{
    if (proto_is(field, 1, PROTO_BYTES))
        return read_text(mindspore, field->value, &value->tag);
    if (proto_is(field, 2, PROTO_BYTES)) {
        value->has_tensor = true;
        return read_message(mindspore, value, field->value, read_tensor_field);
    }
    value->is_map = value->is_map || field->number == 3;
    if (field->wire == PROTO_BYTES && !reader_skip(&mindspore->reader, field->value))
        return mindspore->reader.status;
    return CKPT_OK;
}

/* ------------------------------------------------------------------------- parameters */

/* find_dtype - returns the dtype of NAME, such as "BFloat16"; CKPT_DT_NONE: there is none. */
static ckpt_dtype find_dtype(ckpt_str name)
{
    char lower[16];
    for (size_t i = 0; i < name.len && i < sizeof lower; i++)
        lower[i] = (char)(name.ptr[i] >= 'A' && name.ptr[i] <= 'Z' ? name.ptr[i] + 'a' - 'A' : name.ptr[i]);
    ckpt_dtype found = name.len <= sizeof lower ? dtype_by_name(str_of(lower, name.len)) : CKPT_DT_NONE;
    return dtype_is_number(found) ? found : CKPT_DT_NONE;
}

/* add_text - adds the value of the type "str", whose characters have 4 bytes each. */
static ckpt_status add_text(struct mindspore *mindspore)
{
    unsigned char content[MAX_TEXT];
    const uint64_t at = mindspore->current.described_at, n = mindspore->total;
    size_t used = 0;
    if (mindspore->nparts != 1 || n > sizeof content || n % 4)
        return fail(mindspore->err, CKPT_EFORMAT, at,
                    "a text of {%" PRIu64 " bytes}; {=up to %u, 4 for each character}, were expected", n,
                    MAX_TEXT);
    char *text = arena_alloc(mindspore->f->a, (size_t)n + 1); /* MAX_TEXT; UTF-8 has at most 4 bytes, too */
    CKPT_TRY_ALLOC(text, mindspore->err);
    CKPT_TRY(source_read(mindspore->f->src, mindspore->parts[0].begin, content, (size_t)n, mindspore->err));
    for (size_t i = 0; i < n; i += 4) {
        uint32_t character = load_u32le(content + i);
        if (character > UTF8_MAX)
            return fail(mindspore->err, CKPT_EFORMAT, at, "the character {%" PRIu32 "}; {=%u} is the last",
                        character, UTF8_MAX);
        used += utf8_put(character, text + used);
    }
    return kit_add_value(&mindspore->k, mindspore->current.tag,
                         value_str(mindspore->f->a, str_of(text, used)));
}

/* join_parts - sets TENSOR to the bytes of all parts; *JOINED to a reference to their source, or NULL. */
static ckpt_status join_parts(struct mindspore *mindspore, struct kit_tensor *tensor, source **joined)
{
    *joined = NULL;
    tensor->src = mindspore->f->src;
    tensor->src_offset = mindspore->parts[0].begin;
    tensor->nbytes = mindspore->total;
    if (mindspore->nparts == 1)
        return CKPT_OK;
    struct piece *piece = arena_array(mindspore->f->a, mindspore->nparts, sizeof *piece);
    uint64_t *box = arena_array(mindspore->f->a, 2 * (uint64_t)mindspore->nparts, sizeof *box);
    uint64_t at = 0;
    CKPT_TRY_ALLOC(piece && box, mindspore->err);
    for (size_t i = 0; i < mindspore->nparts; i++, at = box[0] + box[1], box += 2) {
        box[0] = at;
        box[1] = mindspore->parts[i].nbytes;
        piece[i] = (struct piece){box, box + 1, NULL, mindspore->f->src, mindspore->parts[i].begin};
    }
    const struct pieces p = {
        .shape = &mindspore->total, .ndim = 1, .width = 1, .piece = piece, .n = mindspore->nparts};
    CKPT_TRY(pieces_source(mindspore->f->a, &p, joined, &tensor->src_offset, mindspore->err));
    tensor->src = *joined;
    return CKPT_OK;
}

/* add_parameter - adds the parameter whose parts were collected. */
static ckpt_status add_parameter(struct mindspore *mindspore)
{
    const struct value *v = &mindspore->current;
    bool is_scalar = v->ndim == 1 && v->shape[0] == 0 && mindspore->total;
    source *joined;
    if (!v->tag.ptr)
        return CKPT_OK;
    if (str_is(v->type, "str"))
        return add_text(mindspore);
    struct kit_tensor t = {.name = v->tag, .described_at = v->described_at};
    t.t.ndim = is_scalar ? 0 : v->ndim;
    t.t.shape = v->shape;
    t.t.dtype = (uint16_t)find_dtype(v->type);
    if (t.t.dtype == CKPT_DT_NONE)
        return kit_add_faulty(&mindspore->k, &t,
                              fail(mindspore->err, CKPT_EUNSUPPORTED, v->described_at,
                                   "the type {\"%.*s\"}; {=those of NumPy and BFloat16} are read",
                                   STR_ARG(v->type)));
    ckpt_status st = join_parts(mindspore, &t, &joined);
    st = st == CKPT_OK ? kit_add_tensor(&mindspore->k, &t) : kit_add_faulty(&mindspore->k, &t, st);
    source_unref(joined);
    return st;
}

/* take_value - collects VALUE: as a part of the current parameter if it has its tag, else as a new one. */
static ckpt_status take_value(struct mindspore *mindspore, const struct value *value)
{
    bool is_new = !mindspore->current.tag.ptr || !str_eq(mindspore->current.tag, value->tag);
    if (!value->has_tensor || !value->tag.ptr)
        return fail(mindspore->err, value->is_map ? CKPT_EUNSUPPORTED : CKPT_EFORMAT, value->described_at,
                    "{%s}; {=a tensor with a tag} was expected",
                    value->is_map ? "a map tensor" : "no tensor");
    if (is_new) {
        CKPT_TRY(add_parameter(mindspore));
        mindspore->current = *value;
        mindspore->nparts = 0;
        mindspore->total = 0;
    }
    if (mindspore->nparts == MAX_PARTS ||
        !checked_add(mindspore->total, value->content.nbytes, &mindspore->total))
        return fail(mindspore->err, CKPT_ELIMIT, value->described_at,
                    "a parameter in {more} than {=%u parts}", MAX_PARTS);
    return ARENA_PUSH(mindspore->f->a, mindspore, parts, &value->content) ? CKPT_OK
                                                                          : fail_memory(mindspore->err);
}

static ckpt_status read_value(struct mindspore *mindspore, struct value *value)
{
    struct proto_field f;
    CKPT_TRY(proto_read(&mindspore->reader, &f));
    if (!proto_is(&f, 1, PROTO_BYTES))
        return fail(mindspore->err, CKPT_EFORMAT, value->described_at,
                    "field {%" PRIu64 "}; {=1, a value}, was expected", f.number);
    CKPT_TRY(read_message(mindspore, value, f.value, read_value_field));
    return take_value(mindspore, value);
}

/* add_faulty - adds the parameters of which a part was read, as far as ST, a fault at VALUE, allows it. */
static ckpt_status add_faulty(struct mindspore *mindspore, const struct value *value, ckpt_status st)
{
    const ckpt_error why = *mindspore->err;
    struct kit_tensor t = {.name = value->tag, .described_at = value->described_at};
    bool is_part = value->tag.ptr && mindspore->current.tag.ptr && str_eq(value->tag, mindspore->current.tag);
    if (!check_is_fault(st) || (!mindspore->f->check && !mindspore->f->salvage))
        return st;
    CKPT_TRY(add_parameter(mindspore));
    mindspore->current.tag.ptr = NULL;
    *mindspore->err = why;
    return is_part ? file_report_fault(mindspore->f, st, mindspore->err)
                   : kit_add_faulty(&mindspore->k, &t, st);
}

static ckpt_status read_values(struct mindspore *mindspore)
{
    ckpt_status st = CKPT_OK;
    while (st == CKPT_OK && reader_left(&mindspore->reader)) {
        struct value v = {.described_at = mindspore->reader.pos};
        st = read_value(mindspore, &v);
        if (st != CKPT_OK)
            return add_faulty(mindspore, &v, st);
    }
    return mindspore->reader.status != CKPT_OK ? mindspore->reader.status : add_parameter(mindspore);
}

/* ------------------------------------------------------------------------------- all */

/* find_end - sets *END to the end of the values, before the checksum of the file if it has one, and compares
 * that if the data are verified or salvaged: if it is wrong, nothing shows which tensors are intact. */
static ckpt_status find_end(ckpt_file *f, uint64_t *end, ckpt_error *err)
{
    unsigned char tail[CRC_TAIL];
    uint32_t crc = 0, stored;
    *end = f->src->size;
    if (f->src->size < sizeof tail)
        return CKPT_OK;
    CKPT_TRY(source_read(f->src, f->src->size - sizeof tail, tail, sizeof tail, err));
    if (memcmp(tail, CRC_TAG, strlen(CRC_TAG)) != 0)
        return CKPT_OK;
    *end -= sizeof tail;
    if (!f->check && !f->salvage)
        return CKPT_OK;
    stored = (uint32_t)tail[13] << 24 | (uint32_t)tail[14] << 16 | (uint32_t)tail[15] << 8 | tail[16];
    CKPT_TRY(source_crc(f->src, 0, *end, CRC_32, &crc, err));
    if (crc == stored) {
        f->whole_checksum = true;
        check_count(f->check, 1, *end);
        return CKPT_OK;
    }
    ckpt_status st = fail(err, CKPT_ECHECKSUM, source_pos(f->src, *end),
                          "the CRC-32 of the values is {%08" PRIx32 "}, stored is {=%08" PRIx32 "}", crc,
                          stored);
    return file_report_fault(f, st, err);
}

static bool probe(const struct probe *this_probe) { return recognize_as(this_probe, SIGN_MINDSPORE); }

static ckpt_status read(ckpt_file *f, ckpt_error *err)
{
    struct mindspore m = {.f = f, .err = err};
    uint64_t end;
    file_raise_budget(f, f->src->size);
    f->producer = STR_LIT("mindspore.save_checkpoint");
    CKPT_TRY(find_end(f, &end, err));
    if (f->salvage && !f->whole_checksum)
        file_notice(
            f,
            "the file does not record how many tensors it has: if it ends between two of them, the missing "
            "ones are not detected");
    CKPT_TRY(reader_init(&m.reader, f->src, 0, end, err));
    ckpt_status st = kit_begin(&m.k, f, value_new(f->a, CKPT_V_DICT, 0), err);
    CKPT_THEN(st, kit_end(&m.k, read_values(&m)));
    reader_free(&m.reader);
    error_add_position(st == CKPT_OK ? NULL : err, 0, STR_LIT("values"));
    return st;
}

const struct format format_mindspore = {.name = "mindspore",
                                        .title = "MindSpore checkpoint",
                                        .suffixes = ".ckpt",
                                        .flat = true,
                                        .probe = probe,
                                        .read = read};
