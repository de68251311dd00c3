/*
 * gguf_put.c - writes key-value pairs and tensor infos of GGUF version 3, little-endian. Pairs of a file are
 * copied, value by value if the file is big-endian or of version 1. New pairs are made from texts like those
 * that gguf_value.c makes: the digits of a number, true or false, a JSON list for an array.
 */

#include "base/cursor.h"
#include "base/store.h"
#include "codec/json_scan.h"
#include "codec/pickle_text.h"
#include "codec/gguf.h"
#include "io/reader.h"

#define COPY_CHUNK 65536u

struct pair_copy {
    const struct gguf_file *from;
    reader r;
    buf *out;
};

/* put_bits - appends the least significant COUNT bytes of BITS, little-endian. */
static void put_bits(buf *out, uint64_t bits, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        buf_byte(out, (unsigned char)(bits >> 8 * i));
}

/* copy_number - copies a number of COUNT bytes, and returns it. */
static uint64_t copy_number(struct pair_copy *copy, size_t count)
{
    const unsigned char *b = reader_take(&copy->r, count);
    uint64_t v = b ? load_number(b, count, copy->from->header.big_endian) : 0;
    put_bits(copy->out, v, b ? count : 0);
    return v;
}

/* copy_size - copies a length or count, which has 4 bytes in version 1, and 8 bytes in the output. */
static uint64_t copy_size(struct pair_copy *copy)
{
    bool is_version1 = copy->from->header.version == 1;
    uint64_t n = copy_number(copy, is_version1 ? 4 : 8);
    if (is_version1)
        buf_u32le(copy->out, 0);
    return n;
}

static void copy_bytes(struct pair_copy *copy, uint64_t count)
{
    while (count && !copy->r.status && buf_ok(copy->out)) {
        size_t chunk_len = count < COPY_CHUNK ? (size_t)count : COPY_CHUNK;
        const unsigned char *b = reader_take(&copy->r, chunk_len);
        if (b)
            buf_put(copy->out, b, chunk_len);
        count -= chunk_len;
    }
}

static void copy_scalar(struct pair_copy *copy, uint32_t type)
{
    if (type == GGUF_STRING)
        copy_bytes(copy, copy_size(copy));
    else
        (void)copy_number(copy, gguf_get_width(type));
}

/* copy_value - copies a value of TYPE and all that is in it. left[i] is the number of elements that are still
 * to be copied on level i. */
static void copy_value(struct pair_copy *copy, uint32_t type)
{
    uint32_t types[GGUF_DEPTH + 1] = {type};
    uint64_t left[GGUF_DEPTH + 1] = {1};
    unsigned depth = 0;
    while (!copy->r.status && buf_ok(copy->out)) {
        if (left[depth] == 0) {
            if (!COUNT_DOWN(depth))
                return;
            continue;
        }
        left[depth]--;
        if (types[depth] != GGUF_ARRAY) {
            copy_scalar(copy, types[depth]);
        } else if (depth < GGUF_DEPTH) { /* always true: gguf_read refuses deeper arrays */
            depth++;
            types[depth] = (uint32_t)copy_number(copy, 4);
            left[depth] = copy_size(copy);
        }
    }
}

static ckpt_status copy_pair(const struct gguf_file *from, const struct gguf_pair *pair, buf *out,
                             ckpt_error *err)
{
    struct pair_copy c = {.from = from, .out = out};
    bool is_unchanged = from->header.version > 1 && !from->header.big_endian;
    uint64_t length = from->header.version == 1 ? 4 : 8;
    /* gguf_read read type and count of an array before its first element */
    uint64_t begin = pair->value_offset - (pair->type == GGUF_ARRAY ? 4 + length : 0);
    CKPT_TRY(reader_init(&c.r, from->header.src, begin, pair->end_offset, err));
    if (is_unchanged)
        copy_bytes(&c, pair->end_offset - begin);
    else
        copy_value(&c, pair->type);
    ckpt_status st = c.r.status;
    reader_free(&c.r);
    return st;
}

ckpt_status gguf_put_pair(const struct gguf_file *from, const struct gguf_pair *pair, buf *out,
                          ckpt_error *err)
{
    buf_u64le(out, pair->key.len);
    buf_put_str(out, pair->key);
    buf_u32le(out, pair->type);
    if (!pair->bytes)
        return copy_pair(from, pair, out, err);
    buf_put(out, pair->bytes, (size_t)pair->value_size);
    return CKPT_OK;
}

/* By enum gguf_type: the name of the type, a phrase for its values in messages, and the largest number. The
 * smallest number of a signed type is -max - 1. */
static const struct {
    const char *name, *phrase;
    uint64_t max;
    bool is_signed;
} types[] = {
    [GGUF_U8] = {"u8", "a number from 0 to 255", UINT8_MAX, false},
    [GGUF_I8] = {"i8", "a number from -128 to 127", INT8_MAX, true},
    [GGUF_U16] = {"u16", "a number from 0 to 65535", UINT16_MAX, false},
    [GGUF_I16] = {"i16", "a number from -32768 to 32767", INT16_MAX, true},
    [GGUF_U32] = {"u32", "a number from 0 to 4294967295", UINT32_MAX, false},
    [GGUF_I32] = {"i32", "a number from -2147483648 to 2147483647", INT32_MAX, true},
    [GGUF_F32] = {"f32", "a number", 0, true},
    [GGUF_BOOL] = {"bool", "true or false", 0, false},
    [GGUF_STRING] = {"str", "a text", 0, false},
    [GGUF_ARRAY] = {"array", "a list in JSON", 0, false},
    [GGUF_U64] = {"u64", "a number from 0 to 2^64 - 1", UINT64_MAX, false},
    [GGUF_I64] = {"i64", "a number from -2^63 to 2^63 - 1", INT64_MAX, true},
    [GGUF_F64] = {"f64", "a number", 0, true},
};

void gguf_take_type(ckpt_str *key, uint32_t *type, uint32_t *element_type)
{
    size_t colon = key->len;
    *type = str_is(*key, "general.alignment") ? GGUF_U32 : GGUF_STRING;
    while (colon > 0 && key->ptr[colon - 1] != ':')
        colon--;
    if (colon < 2)
        return;
    ckpt_str name = str_skip(*key, colon);
    bool is_array = name.len > 2 && name.ptr[0] == '[' && name.ptr[name.len - 1] == ']';
    if (is_array)
        name = str_of(name.ptr + 1, name.len - 2);
    for (uint32_t i = 0; i < sizeof types / sizeof *types; i++)
        if (i != GGUF_ARRAY && str_is(name, types[i].name)) {
            *type = is_array ? GGUF_ARRAY : i;
            *element_type = i;
            key->len = colon - 1;
        }
}

static bool put_float(buf *out, uint32_t type, ckpt_str text)
{
    double d;
    uint64_t bits;
    uint32_t single_bits;
    if (!pickle_text_float(text, &d))
        return false;
    float f = (float)d;
    memcpy(&bits, &d, sizeof bits);
    memcpy(&single_bits, &f, sizeof single_bits);
    put_bits(out, type == GGUF_F32 ? single_bits : bits, gguf_get_width(type));
    return true;
}

MODULO static bool put_integer(buf *out, uint32_t type, ckpt_str text)
{
    uint64_t v;
    bool is_negative = types[type].is_signed && text.len && text.ptr[0] == '-';
    if (!str_uint(is_negative ? str_skip(text, 1) : text, &v) ||
        v > types[type].max + is_negative) /* max of a signed type is below 2^63 */
        return false;
    put_bits(out, is_negative ? 0 - v : v, gguf_get_width(type));
    return true;
}

/* put_scalar - appends TEXT as a value of TYPE, which is no array; false: TEXT is no such value. */
static bool put_scalar(buf *out, uint32_t type, ckpt_str text)
{
    bool is_true = str_is(text, "true");
    switch (type) {
    case GGUF_STRING:
        buf_u64le(out, text.len);
        buf_put_str(out, text);
        return true;
    case GGUF_BOOL: buf_byte(out, is_true); return is_true || str_is(text, "false");
    case GGUF_F32:
    case GGUF_F64: return put_float(out, type, text);
    default: return put_integer(out, type, text);
    }
}

/* put_element - appends the value that SCAN has read with event EVENT; false: it is not of TYPE. */
static bool put_element(buf *out, uint32_t type, json_scan *scan, enum json_event event)
{
    if (event == JSON_TRUE || event == JSON_FALSE)
        return type == GGUF_BOOL &&
               put_scalar(out, type, event == JSON_TRUE ? STR_LIT("true") : STR_LIT("false"));
    bool is_text = event == JSON_STRING && type == GGUF_STRING;
    bool is_number = event == JSON_NUMBER && type != GGUF_STRING && type != GGUF_BOOL;
    return (is_text || is_number) && put_scalar(out, type, scan->str);
}

/* put_array - appends TEXT, a list in JSON, as an array of ELEMENT_TYPE; false: TEXT is no such list. */
static bool put_array(arena *a, buf *out, uint32_t element_type, ckpt_str text)
{
    ckpt_error ignored;
    json_scan j;
    uint64_t n = 0;
    size_t count_at;
    json_init(&j, text, 0, a, &ignored);
    if (element_type == GGUF_ARRAY || json_next(&j) != JSON_ARRAY)
        return false;
    buf_u32le(out, element_type);
    count_at = out->len;
    buf_u64le(out, 0); /* the count, which is set at the end */
    for (enum json_event e; (e = json_next(&j)) != JSON_ARRAY_END; n++)
        if (e == JSON_ERROR || e == JSON_END || !put_element(out, element_type, &j, e))
            return false;
    if (buf_ok(out))
        store_u64le(out->data + count_at, n);
    return json_next(&j) == JSON_END;
}

ckpt_status gguf_make_pair(arena *a, ckpt_str key, uint32_t type, uint32_t element_type, ckpt_str text,
                           struct gguf_pair *out, ckpt_error *err)
{
    bool is_array = type == GGUF_ARRAY;
    ckpt_status st = CKPT_OK;
    buf b;
    buf_init(&b, SIZE_MAX / 2);
    *out = (struct gguf_pair){.key = arena_str(a, key), .type = type, .element_type = element_type};
    if (!(is_array ? put_array(a, &b, element_type, text) : put_scalar(&b, type, text)))
        st = fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "%.*s: {%.*s} is not {=%s%s}", STR_ARG(key),
                  STR_ARG(text), types[type].phrase, is_array ? " with elements of its type" : "");
    ckpt_str bytes = arena_str(a, buf_view(&b));
    out->bytes = (const unsigned char *)bytes.ptr;
    out->value_size = bytes.len;
    if (st == CKPT_OK && (!buf_ok(&b) || !out->bytes || !out->key.ptr))
        st = fail_memory(err);
    buf_free(&b);
    return st;
}

void gguf_put_tensor(buf *out, ckpt_str name, const ckpt_tensor *tensor, ckpt_dtype dtype, uint64_t offset)
{
    uint32_t type = 0;
    (void)gguf_find_type(dtype, &type);
    buf_u64le(out, name.len);
    buf_put_str(out, name);
    buf_u32le(out, tensor->ndim);
    for (uint32_t i = tensor->ndim; COUNT_DOWN(i);)
        buf_u64le(out, tensor->shape[i]);
    buf_u32le(out, type);
    buf_u64le(out, offset);
}
