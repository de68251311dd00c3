/*
 * gguf_value.c - reads each key-value pair of GGUF as a value of its type, and as a text, which `ckpt meta`
 * edits and other formats can hold.
 *
 * Arrays of at most SHOWN_ELEMENTS and SHOWN_BYTES are lists. Longer ones, such as the vocabulary of a
 * tokenizer, and arrays of arrays are abbreviated to a text from which the value cannot be read:
 * ["<unk>", "<s>", "</s>", ...] of 32000
 */
#include <inttypes.h>

#include "base/cursor.h"
#include "codec/gguf.h"
#include "codec/json_scan.h"
#include "core/repr.h"

#define SHOWN_ELEMENTS 64u   /* most elements of an array that is not abbreviated */
#define SHOWN_BYTES    4096u /* most bytes of such an array */
#define FIRST_ELEMENTS 3u    /* number of elements in an abbreviated text */

struct element_reader {
    const struct gguf *g;
    cursor c; /* cursor in the first SHOWN_BYTES bytes of the array */
    arena *a;
};

/* make_number - returns a node of the number with BITS and TYPE, and appends its digits to TEXT. */
static ckpt_value *make_number(arena *a, uint32_t type, uint64_t bits, buf *text)
{
    static const uint8_t dtypes[] = {
        [GGUF_U8] = CKPT_DT_U8,   [GGUF_I8] = CKPT_DT_I8,    [GGUF_U16] = CKPT_DT_U16,
        [GGUF_I16] = CKPT_DT_I16, [GGUF_U32] = CKPT_DT_U32,  [GGUF_I32] = CKPT_DT_I32,
        [GGUF_F32] = CKPT_DT_F32, [GGUF_F64] = CKPT_DT_F64,  [GGUF_U64] = CKPT_DT_U64,
        [GGUF_I64] = CKPT_DT_I64, [GGUF_BOOL] = CKPT_DT_BOOL};
    enum repr_width width = type == GGUF_F32 ? REPR_SINGLE : REPR_DOUBLE;
    char digits[REPR_FLOAT_ROOM];
    ckpt_value *v = value_number(a, (ckpt_dtype)dtypes[type], bits);
    if (v && v->type == CKPT_V_BOOL)
        buf_put_cstr(text, v->u.b ? "true" : "false");
    else if (v && v->type == CKPT_V_FLOAT)
        buf_put(text, digits, repr_float(v->u.f, width, digits));
    else if (v && v->type == CKPT_V_INT)
        buf_printf(text, "%" PRId64, v->u.i);
    else
        buf_printf(text, "%" PRIu64, bits);
    return v;
}

/* read_element - returns the next element, of TYPE, and appends it to TEXT, quoted if it is a string.
 * NULL: the first SHOWN_BYTES bytes of the array end inside the element, or out of memory. */
static ckpt_value *read_element(struct element_reader *element_reader, uint32_t type, buf *text)
{
    size_t n = type == GGUF_STRING ? element_reader->g->version == 1 ? 4 : 8 : gguf_get_width(type);
    const unsigned char *b = cursor_take(&element_reader->c, n);
    uint64_t bits = b ? load_number(b, n, element_reader->g->big_endian) : 0;
    if (!b)
        return NULL;
    if (type != GGUF_STRING)
        return make_number(element_reader->a, type, bits, text);
    const unsigned char *s = bits <= SHOWN_BYTES ? cursor_take(&element_reader->c, (size_t)bits) : NULL;
    ckpt_str copy = s ? arena_str(element_reader->a, str_of((const char *)s, (size_t)bits)) : str_of(NULL, 0);
    if (!copy.ptr)
        return NULL;
    json_quote(text, copy);
    return value_str(element_reader->a, copy);
}

/* read_elements - appends the first COUNT elements of PAIR to LIST and TEXT. Returns the number of those it
 * read. */
static uint64_t read_elements(struct element_reader *element_reader, const struct gguf_pair *pair,
                              uint64_t count, ckpt_value *list, buf *text)
{
    for (uint64_t i = 0; i < count; i++) {
        size_t len_before = text->len;
        if (i)
            buf_put_cstr(text, ", ");
        ckpt_value *v = read_element(element_reader, pair->element_type, text);
        if (!v || !value_append(element_reader->a, list, v)) {
            text->len = len_before;
            return i;
        }
    }
    return count;
}

/* read_array - appends the array PAIR to TEXT, and sets *OUT to its list; to NULL if TEXT abbreviates it. */
static ckpt_status read_array(const struct gguf *gguf, const struct gguf_pair *pair, arena *a,
                              ckpt_value **out, buf *text, ckpt_error *err)
{
    unsigned char bytes[SHOWN_BYTES];
    struct element_reader w = {.g = gguf, .a = a};
    size_t n = pair->value_size < sizeof bytes ? (size_t)pair->value_size : sizeof bytes;
    ckpt_value *list = value_new(a, CKPT_V_LIST, pair->value_offset);
    CKPT_TRY_ALLOC(list, err);
    CKPT_TRY(source_read(gguf->src, pair->value_offset, bytes, n, err));
    w.c = cursor_of(bytes, n, pair->value_offset);
    bool is_complete = pair->count <= SHOWN_ELEMENTS && pair->value_size <= sizeof bytes &&
                       pair->element_type != GGUF_ARRAY;
    uint64_t nshown = pair->element_type == GGUF_ARRAY ? 0 : is_complete ? pair->count : FIRST_ELEMENTS;
    buf_byte(text, '[');
    uint64_t nread = read_elements(&w, pair, nshown < pair->count ? nshown : pair->count, list, text);
    if (is_complete && nread < pair->count)
        return fail_memory(err);
    if (is_complete)
        buf_byte(text, ']');
    else
        buf_printf(text, "%s...] of %" PRIu64, nread ? ", " : "", pair->count);
    *out = is_complete ? list : NULL;
    return CKPT_OK;
}

/* read_scalar - appends the text or number PAIR to TEXT, and sets *OUT to its node, unless PAIR was
 * skipped. */
static ckpt_status read_scalar(const struct gguf *gguf, const struct gguf_pair *pair, arena *a,
                               ckpt_value **out, buf *text, ckpt_error *err)
{
    if (!pair->bytes) {
        buf_printf(text, "%" PRIu64 " bytes of text", pair->value_size);
        return CKPT_OK;
    }
    if (pair->type == GGUF_STRING) {
        ckpt_str copy = arena_str(a, str_of((const char *)pair->bytes, (size_t)pair->value_size));
        buf_put(text, pair->bytes, (size_t)pair->value_size);
        *out = copy.ptr ? value_str(a, copy) : NULL;
    } else {
        *out = make_number(a, pair->type,
                           load_number(pair->bytes, (size_t)pair->value_size, gguf->big_endian), text);
    }
    return *out ? CKPT_OK : fail_memory(err);
}

ckpt_status gguf_read_value(const struct gguf *gguf, const struct gguf_pair *pair, arena *a,
                            ckpt_value **text, ckpt_value **typed, ckpt_error *err)
{
    buf b;
    *typed = NULL;
    buf_init(&b, 8 * GGUF_TEXT_MAX);
    ckpt_status st = (pair->type == GGUF_ARRAY ? read_array : read_scalar)(gguf, pair, a, typed, &b, err);
    ckpt_str copy = buf_ok(&b) ? arena_str(a, buf_view(&b)) : str_of(NULL, 0);
    *text = copy.ptr ? value_str(a, copy) : NULL;
    buf_free(&b);
    if (st != CKPT_OK || !*text)
        return st != CKPT_OK ? st : fail_memory(err);
    if (!*typed)
        (*text)->flags |= VALUE_ABBREVIATED;
    *typed = *typed ? *typed : *text;
    return CKPT_OK;
}
