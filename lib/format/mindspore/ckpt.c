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
    size_t nparts, cap;
    uint64_t total; /* bytes of the parts */
};

/* ---------------------------------------------------------------------------- values */

static ckpt_status read_text(struct mindspore *m, uint64_t n, ckpt_str *out)
{
    if (n > MAX_TEXT)
        return fail(m->err, CKPT_ELIMIT, m->reader.pos, "a text of {%" PRIu64 " bytes}; {=%u} are allowed", n,
                    MAX_TEXT);
    const unsigned char *bytes = reader_take(&m->reader, (size_t)n);
    CKPT_TRY(m->reader.status);
    *out = arena_str(m->f->a, str_of((const char *)bytes, (size_t)n));
    return out->ptr ? CKPT_OK : fail_memory(m->err);
}

static ckpt_status add_dim(struct mindspore *m, struct value *v, uint64_t size)
{
    if (!v->shape && !(v->shape = arena_array(m->f->a, MAX_DIMS, sizeof *v->shape)))
        return fail_memory(m->err);
    if (v->ndim == MAX_DIMS || size > INT64_MAX)
        return fail(m->err, CKPT_EFORMAT, m->reader.pos,
                    "dimension %u is {%" PRId64 "}; {=up to %u sizes from 0 on} are allowed", v->ndim,
                    (int64_t)size, MAX_DIMS);
    v->shape[v->ndim++] = size;
    return CKPT_OK;
}

/* read_dims - reads F, one size, or packed ones. */
static ckpt_status read_dims(struct mindspore *m, struct value *v, const struct proto_field *f)
{
    if (f->wire == PROTO_VARINT)
        return add_dim(m, v, f->value);
    uint64_t end, size;
    if (!checked_add(m->reader.pos, f->value, &end))
        return fail(m->err, CKPT_EFORMAT, m->reader.pos, "sizes of {more} than {=2^64 bytes}");
    while (m->reader.pos < end && reader_varint(&m->reader, &size))
        CKPT_TRY(add_dim(m, v, size));
    return m->reader.status;
}

static ckpt_status read_tensor_field(struct mindspore *m, struct value *v, const struct proto_field *f)
{
    if (f->number == 1 && (f->wire == PROTO_VARINT || f->wire == PROTO_BYTES))
        return read_dims(m, v, f);
    if (proto_is(f, 2, PROTO_BYTES))
        return read_text(m, f->value, &v->type);
    if (proto_is(f, 3, PROTO_BYTES))
        v->content = (struct part){m->reader.pos, f->value};
    if (f->wire == PROTO_BYTES && !reader_skip(&m->reader, f->value))
        return m->reader.status;
    return CKPT_OK;
}

/* read_message - calls READ_FIELD with each field of the message of N bytes at the position of m->reader. */
static ckpt_status read_message(struct mindspore *m, struct value *v, uint64_t n,
                                ckpt_status (*read_field)(struct mindspore *m, struct value *v,
                                                          const struct proto_field *f))
{
    struct proto_field f;
    uint64_t at = m->reader.pos, end;
    if (n > reader_left(&m->reader) || !checked_add(at, n, &end))
        return fail(m->err, CKPT_ETRUNCATED, at, "a message of {=%" PRIu64 " bytes}, {%" PRIu64 "} are left",
                    n, reader_left(&m->reader));
    while (m->reader.pos < end) {
        CKPT_TRY(proto_read(&m->reader, &f));
        CKPT_TRY(read_field(m, v, &f));
    }
    if (m->reader.pos == end)
        return CKPT_OK;
    return fail(m->err, CKPT_EFORMAT, at, "a message of {=%" PRIu64 " bytes} whose fields have {%" PRIu64 "}",
                n, m->reader.pos - at);
}

static ckpt_status read_value_field(struct mindspore *m, struct value *v, const struct proto_field *f)
{
    if (proto_is(f, 1, PROTO_BYTES))
        return read_text(m, f->value, &v->tag);
    if (proto_is(f, 2, PROTO_BYTES)) {
        v->has_tensor = true;
        return read_message(m, v, f->value, read_tensor_field);
    }
    v->is_map = v->is_map || f->number == 3;
    if (f->wire == PROTO_BYTES && !reader_skip(&m->reader, f->value))
        return m->reader.status;
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
static ckpt_status add_text(struct mindspore *m)
{
    unsigned char content[MAX_TEXT];
    const uint64_t at = m->current.described_at, n = m->total;
    size_t used = 0;
    if (m->nparts != 1 || n > sizeof content || n % 4)
        return fail(m->err, CKPT_EFORMAT, at,
                    "a text of {%" PRIu64 " bytes}; {=up to %u, 4 for each character}, were expected", n,
                    MAX_TEXT);
    char *text = arena_alloc(m->f->a, (size_t)n + 1); /* MAX_TEXT; UTF-8 has at most 4 bytes, too */
    CKPT_TRY_ALLOC(text, m->err);
    CKPT_TRY(source_read(m->f->src, m->parts[0].begin, content, (size_t)n, m->err));
    for (size_t i = 0; i < n; i += 4) {
        uint32_t character = load_u32le(content + i);
        if (character > UTF8_MAX)
            return fail(m->err, CKPT_EFORMAT, at, "the character {%" PRIu32 "}; {=%u} is the last", character,
                        UTF8_MAX);
        used += utf8_put(character, text + used);
    }
    return kit_add_value(&m->k, m->current.tag, value_str(m->f->a, str_of(text, used)));
}

/* join_parts - sets T to the bytes of all parts; *JOINED to a reference to their source, or NULL. */
static ckpt_status join_parts(struct mindspore *m, struct kit_tensor *t, source **joined)
{
    *joined = NULL;
    t->src = m->f->src;
    t->src_offset = m->parts[0].begin;
    t->nbytes = m->total;
    if (m->nparts == 1)
        return CKPT_OK;
    struct piece *piece = arena_array(m->f->a, m->nparts, sizeof *piece);
    uint64_t *box = arena_array(m->f->a, 2 * (uint64_t)m->nparts, sizeof *box);
    uint64_t at = 0;
    CKPT_TRY_ALLOC(piece && box, m->err);
    for (size_t i = 0; i < m->nparts; i++, at = box[0] + box[1], box += 2) {
        box[0] = at;
        box[1] = m->parts[i].nbytes;
        piece[i] = (struct piece){box, box + 1, NULL, m->f->src, m->parts[i].begin};
    }
    const struct pieces p = {.shape = &m->total, .ndim = 1, .width = 1, .piece = piece, .n = m->nparts};
    CKPT_TRY(pieces_source(m->f->a, &p, joined, &t->src_offset, m->err));
    t->src = *joined;
    return CKPT_OK;
}

/* add_parameter - adds the parameter whose parts were collected. */
static ckpt_status add_parameter(struct mindspore *m)
{
    const struct value *v = &m->current;
    bool is_scalar = v->ndim == 1 && v->shape[0] == 0 && m->total;
    source *joined;
    if (!v->tag.ptr)
        return CKPT_OK;
    if (str_is(v->type, "str"))
        return add_text(m);
    struct kit_tensor t = {.name = v->tag, .described_at = v->described_at};
    t.t.ndim = is_scalar ? 0 : v->ndim;
    t.t.shape = v->shape;
    t.t.dtype = (uint16_t)find_dtype(v->type);
    if (t.t.dtype == CKPT_DT_NONE)
        return kit_add_faulty(&m->k, &t,
                              fail(m->err, CKPT_EUNSUPPORTED, v->described_at,
                                   "the type {\"%.*s\"}; {=those of NumPy and BFloat16} are read",
                                   STR_ARG(v->type)));
    ckpt_status st = join_parts(m, &t, &joined);
    st = st == CKPT_OK ? kit_add_tensor(&m->k, &t) : kit_add_faulty(&m->k, &t, st);
    source_unref(joined);
    return st;
}

/* take_value - collects V: as a part of the current parameter if it has its tag, else as a new one. */
static ckpt_status take_value(struct mindspore *m, const struct value *v)
{
    bool is_new = !m->current.tag.ptr || !str_eq(m->current.tag, v->tag);
    if (!v->has_tensor || !v->tag.ptr)
        return fail(m->err, v->is_map ? CKPT_EUNSUPPORTED : CKPT_EFORMAT, v->described_at,
                    "{%s}; {=a tensor with a tag} was expected", v->is_map ? "a map tensor" : "no tensor");
    if (is_new) {
        CKPT_TRY(add_parameter(m));
        m->current = *v;
        m->nparts = 0;
        m->total = 0;
    }
    if (m->nparts == MAX_PARTS || !checked_add(m->total, v->content.nbytes, &m->total))
        return fail(m->err, CKPT_ELIMIT, v->described_at, "a parameter in {more} than {=%u parts}",
                    MAX_PARTS);
    return arena_push(m->f->a, &m->parts, &m->nparts, &m->cap, &v->content, sizeof v->content)
               ? CKPT_OK
               : fail_memory(m->err);
}

static ckpt_status read_value(struct mindspore *m, struct value *v)
{
    struct proto_field f;
    CKPT_TRY(proto_read(&m->reader, &f));
    if (!proto_is(&f, 1, PROTO_BYTES))
        return fail(m->err, CKPT_EFORMAT, v->described_at, "field {%" PRIu64 "}; {=1, a value}, was expected",
                    f.number);
    CKPT_TRY(read_message(m, v, f.value, read_value_field));
    return take_value(m, v);
}

/* add_faulty - adds the parameters of which a part was read, as far as ST, a fault at V, allows it. */
static ckpt_status add_faulty(struct mindspore *m, const struct value *v, ckpt_status st)
{
    const ckpt_error why = *m->err;
    struct kit_tensor t = {.name = v->tag, .described_at = v->described_at};
    bool is_part = v->tag.ptr && m->current.tag.ptr && str_eq(v->tag, m->current.tag);
    if (!check_is_fault(st) || (!m->f->check && !m->f->salvage))
        return st;
    CKPT_TRY(add_parameter(m));
    m->current.tag.ptr = NULL;
    *m->err = why;
    return is_part ? file_report_fault(m->f, st, m->err) : kit_add_faulty(&m->k, &t, st);
}

static ckpt_status read_values(struct mindspore *m)
{
    ckpt_status st = CKPT_OK;
    while (st == CKPT_OK && reader_left(&m->reader)) {
        struct value v = {.described_at = m->reader.pos};
        st = read_value(m, &v);
        if (st != CKPT_OK)
            return add_faulty(m, &v, st);
    }
    return m->reader.status != CKPT_OK ? m->reader.status : add_parameter(m);
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

static bool probe(const struct probe *p) { return recognize_as(p, SIGN_MINDSPORE); }

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
    if (st == CKPT_OK)
        st = kit_end(&m.k, read_values(&m));
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
