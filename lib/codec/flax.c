/*
 * flax.c - the extensions by which flax/serialization.py adds arrays to MessagePack:
 *   type 1   an array: [shape, name of the dtype, elements in row-major order]
 *   type 2   a complex number: [real, imaginary]
 *   type 3   a NumPy scalar, written as type 1
 *
 * Flax returns an extension of any other type unchanged.
 *
 * Refused: an array of a dtype that Flax cannot read; an array whose elements do not have the size that its
 * dtype and shape give; text that is not UTF-8; a timestamp of a length that MessagePack does not have; an
 * extension of another type whose bytes are an array as in type 1, which Flax would not read as one.
 */
#include "codec/flax.h"

#include <inttypes.h>

#include "base/cursor.h"
#include "base/utf8.h"

#define DTYPE_NAME_MAX 64u
#define HEAD_MAX       128u /* maximum bytes before the elements of an array, for holds_array */

/* parse_dtype - sets *DTYPE to the dtype of NAME, a name or code of NumPy or a name of ml_dtypes, and
 * NUMPY_DTYPE->bytes to the size of an element. If torch lacks the dtype or NAME is a code, *DTYPE is
 * CKPT_DT_NAMED and *NUMPY_DTYPE is NumPy's dtype. False: Flax cannot read it. */
static bool parse_dtype(ckpt_str name, ckpt_dtype *dtype, struct numpy_dtype *numpy_dtype)
{
    const struct dtype_info *info = dtype_info(*dtype = dtype_by_name(name));
    *numpy_dtype = (struct numpy_dtype){.bytes = info->block_bytes};
    if (dtype_is_number(*dtype))
        return true;
    *dtype = CKPT_DT_NAMED;
    if (str_starts(name, STR_LIT("datetime64[")) || str_starts(name, STR_LIT("timedelta64["))) {
        *numpy_dtype = (struct numpy_dtype){.kind = 'M', .bytes = 8};
        return true;
    }
    return numpy_dtype_parse(name, numpy_dtype) && strchr("fiubc", numpy_dtype->kind);
}

const char *flax_dtype_name(const ckpt_tensor *tensor, ckpt_dtype dtype)
{
    struct numpy_dtype d;
    ckpt_dtype parsed;
    const char *name = dtype == CKPT_DT_NAMED ? ckpt_tensor_dtype_name(tensor) : dtype_info(dtype)->name;
    bool is_half_complex = dtype == CKPT_DT_C32 || dtype == CKPT_DT_BC32;
    return !is_half_complex && parse_dtype(str_c(name), &parsed, &d) ? name : NULL;
}

bool flax_size(const uint64_t *shape, uint32_t ndim, uint64_t element_size, uint64_t *nbytes)
{
    uint64_t product = element_size;
    bool fits = true, is_empty = false;
    for (uint32_t i = 0; i < ndim; i++) {
        fits = fits && (shape[i] == 0 || checked_mul(product, shape[i], &product)) && product <= INT64_MAX;
        is_empty = is_empty || shape[i] == 0;
    }
    *nbytes = is_empty ? 0 : product;
    return fits;
}

/* The values in an extension: the outer list, the shape, its sizes, a dtype and bytes. */
struct payload {
    source *src;
    struct msgpack_value values[NPY_DIMENSIONS + 4];
    size_t n; /* number of values in the extension; those that do not fit in VALUES are not kept */
};

static ckpt_status collect_value(void *user, const struct msgpack_value *value, ckpt_error *err)
{
    struct payload *p = user;
    (void)err;
    if (p->n < sizeof p->values / sizeof *p->values)
        p->values[p->n] = *value;
    p->n++;
    return CKPT_OK;
}

/* open_payload - reads the values in the extension VALUE. The caller drops the reference to PAYLOAD->src,
 * which may be NULL. */
static ckpt_status open_payload(struct flax_input *in, const struct msgpack_value *value,
                                struct payload *payload)
{
    *payload = (struct payload){0};
    CKPT_TRY(source_slice(in->f->src, value->data, value->n, &payload->src, in->err));
    return msgpack_read(payload->src, collect_value, payload, in->err);
}

/* fail_payload - fails because value INDEX of the payload is WHAT. */
static ckpt_status fail_payload(struct flax_input *in, const struct payload *payload, size_t index,
                                const char *what)
{
    return fail(in->err, CKPT_EFORMAT, source_pos(payload->src, payload->values[index].at),
                "{%s}, where {=[shape, dtype, bytes]} was expected", what);
}

/* check_payload - fails unless the values of PAYLOAD are [shape, dtype, bytes]. */
static ckpt_status check_payload(struct flax_input *in, const struct payload *payload)
{
    const struct msgpack_value *v = payload->values;
    if (v[0].kind != MSGPACK_ARRAY || v[0].count != 3)
        return fail_payload(in, payload, 0, "no list of three");
    if (v[1].kind != MSGPACK_ARRAY || v[1].count > NPY_DIMENSIONS)
        return fail_payload(in, payload, 1, "no shape");
    size_t i = 2, dtype_index = 2 + (size_t)v[1].count;
    for (; i < dtype_index; i++)
        if (v[i].kind != MSGPACK_UINT && (v[i].kind != MSGPACK_INT || v[i].bits > INT64_MAX))
            return fail_payload(in, payload, i, "an invalid dimension");
    if ((v[i].kind != MSGPACK_TEXT && v[i].kind != MSGPACK_BYTES) || !v[i].n || v[i].n > DTYPE_NAME_MAX)
        return fail_payload(in, payload, i, "no dtype");
    return v[i + 1].kind == MSGPACK_BYTES ? CKPT_OK : fail_payload(in, payload, i + 1, "no bytes");
}

/* set_dtype - sets the dtype of ARRAY to that of NAME, and *ELEMENT_SIZE to the size of an element. */
static ckpt_status set_dtype(struct flax_input *in, const struct msgpack_value *value, ckpt_str name,
                             struct flax_array *array, uint64_t *element_size)
{
    struct numpy_dtype d;
    if (!parse_dtype(name, &array->dtype, &d))
        return fail(in->err, CKPT_EFORMAT, value->at,
                    "an array of dtype {\"%.*s\"}; {=a dtype that flax reads} was expected", STR_ARG(name));
    *element_size = d.bytes;
    if (array->dtype != CKPT_DT_NAMED)
        return CKPT_OK;
    bool is_date = d.kind == 'M';
    array->swap = d.big_endian && numpy_swap_bytes(&d) > 1 ? numpy_swap_bytes(&d) : 0;
    array->dtype = is_date ? CKPT_DT_NONE : numpy_known_dtype(&d);
    if (array->dtype != CKPT_DT_NONE)
        return CKPT_OK;
    array->dtype = CKPT_DT_NAMED;
    array->name = is_date ? arena_str(in->f->a, name).ptr : numpy_dtype_text(in->f->a, &d);
    return array->name ? CKPT_OK : fail_memory(in->err);
}

/* take_array - describes in *ARRAY the array in PAYLOAD, the payload of VALUE. */
static ckpt_status take_array(struct flax_input *in, const struct msgpack_value *value,
                              const struct payload *payload, struct flax_array *array)
{
    char name[DTYPE_NAME_MAX];
    uint64_t element_size = 0, nbytes;
    CKPT_TRY(check_payload(in, payload));
    array->ndim = (uint32_t)payload->values[1].count;
    const struct msgpack_value *dtype = &payload->values[2 + array->ndim];
    const struct msgpack_value *bytes = dtype + 1;
    array->is_scalar = value->type == FLAX_SCALAR;
    array->at = value->data + bytes->data;
    array->nbytes = bytes->n;
    CKPT_TRY_ALLOC(array->shape = arena_array(in->f->a, array->ndim, sizeof *array->shape), in->err);
    for (uint32_t i = 0; i < array->ndim; i++)
        array->shape[i] = payload->values[2 + i].bits; /* check_payload: an integer */
    CKPT_TRY(source_read(payload->src, dtype->data, name, (size_t)dtype->n, in->err));
    CKPT_TRY(set_dtype(in, value, str_of(name, (size_t)dtype->n), array, &element_size));
    bool fits = flax_size(array->shape, array->ndim, element_size, &nbytes);
    if (fits && nbytes == array->nbytes)
        return CKPT_OK;
    return fail(in->err, CKPT_EFORMAT, source_pos(payload->src, bytes->data),
                "an array of {%" PRIu64 " bytes}; its dtype and shape take {=%s%" PRIu64 "}", array->nbytes,
                fits ? "" : "more than ", nbytes);
}

ckpt_status flax_read_array(struct flax_input *in, const struct msgpack_value *value, struct flax_array *out)
{
    struct payload p;
    *out = (struct flax_array){0};
    ckpt_status st = open_payload(in, value, &p);
    CKPT_THEN(st, take_array(in, value, &p, out));
    source_unref(p.src);
    return st;
}

void flax_put_array(buf *out, const ckpt_tensor *tensor, const char *dtype, uint64_t nbytes, bool is_scalar)
{
    buf head; /* everything before the elements */
    buf_init(&head, SIZE_MAX / 2);
    msgpack_put_array(&head, 3);
    msgpack_put_array(&head, tensor->ndim);
    for (uint32_t k = 0; k < tensor->ndim; k++)
        msgpack_put_uint(&head, tensor->shape[k]);
    msgpack_put_text(&head, str_c(dtype));
    msgpack_put_bytes(&head, nbytes);
    out->failed = out->failed || !buf_ok(&head);
    msgpack_put_ext(out, is_scalar ? FLAX_SCALAR : FLAX_ARRAY, head.len + nbytes);
    buf_put_str(out, buf_view(&head));
    buf_free(&head);
}

static bool is_number(const struct msgpack_value *value)
{
    return value->kind == MSGPACK_FLOAT || value->kind == MSGPACK_UINT || value->kind == MSGPACK_INT;
}

/* make_float - returns VALUE, a number, as a node of type FLOAT. */
static ckpt_value *make_float(arena *a, const struct msgpack_value *value)
{
    if (value->kind == MSGPACK_FLOAT)
        return value_number(a, value->width == 4 ? CKPT_DT_F32 : CKPT_DT_F64, value->bits);
    return value_float(a, value->kind == MSGPACK_UINT ? (double)value->bits : (double)(int64_t)value->bits);
}

static ckpt_status read_complex(struct flax_input *in, const struct msgpack_value *value, ckpt_value **out)
{
    arena *a = in->f->a;
    struct payload p;
    ckpt_status st = open_payload(in, value, &p);
    if (st == CKPT_OK && (p.values[0].kind != MSGPACK_ARRAY || p.values[0].count != 2 ||
                          !is_number(&p.values[1]) || !is_number(&p.values[2])))
        st = fail(in->err, CKPT_EFORMAT, value->at,
                  "{no complex number}, where {=[real, imaginary]} was expected");
    source_unref(p.src);
    CKPT_TRY(st);
    ckpt_value *parts[2] = {make_float(a, &p.values[1]), make_float(a, &p.values[2])};
    ckpt_value *args = parts[0] && parts[1] ? value_tuple(a, 2, parts) : NULL;
    ckpt_value *complex = value_global(a, STR_LIT("builtins"), STR_LIT("complex"), value->at);
    *out = args && complex ? value_call(a, CALL_REDUCE, complex, args, value->at) : NULL;
    return *out ? CKPT_OK : fail_memory(in->err);
}

/* read_bytes - sets *OUT to a node of TYPE with the bytes of VALUE. */
static ckpt_status read_bytes(struct flax_input *in, const struct msgpack_value *value, ckpt_value_type type,
                              ckpt_value **out)
{
    ckpt_file *f = in->f;
    if (value->n > f->limits.max_header)
        return fail(in->err, CKPT_ELIMIT, source_pos(f->src, value->at),
                    "a value of {%" PRIu64 " bytes}; the limit is {=%" PRIu64 "}", value->n,
                    f->limits.max_header);
    char *bytes = arena_alloc(f->a, (size_t)value->n + 1);
    CKPT_TRY_ALLOC(bytes, in->err);
    CKPT_TRY(window_read(&in->window, f->src, value->data, bytes, (size_t)value->n, in->err));
    bytes[value->n] = 0;
    ckpt_str s = str_of(bytes, (size_t)value->n);
    if (type == CKPT_V_STR && !utf8_check(s, false, NULL))
        return fail(in->err, CKPT_EFORMAT, source_pos(f->src, value->data), "a text that is {not} {=UTF-8}");
    *out = type == CKPT_V_STR ? value_str(f->a, s) : value_new(f->a, type, value->at);
    if (*out && type != CKPT_V_STR)
        (*out)->u.str = s;
    return *out ? CKPT_OK : fail_memory(in->err);
}

/* holds_array - returns true if BYTES, of an extension of an unknown type, end as an array does: with the
 * length of its elements, and the elements. Such an extension is an array whose type is damaged. */
static bool holds_array(ckpt_str bytes)
{
    const unsigned char *b = (const unsigned char *)bytes.ptr;
    for (size_t i = 0; i < bytes.len && i < HEAD_MAX; i++) {
        /* c4, c5 and c6 begin a byte string; its length follows in 1, 2 or 4 bytes */
        size_t width = b[i] >= 0xc4 && b[i] <= 0xc6 ? (size_t)1 << (b[i] - 0xc4) : 0, n = 0;
        if (!width || bytes.len - i - 1 < width)
            continue;
        for (size_t k = 1; k <= width; k++)
            n = n << 8 | b[i + k];
        if (n == bytes.len - i - 1 - width)
            return true;
    }
    return false;
}

static ckpt_status read_extension(struct flax_input *in, const struct msgpack_value *value, ckpt_value **out)
{
    if (value->type == FLAX_COMPLEX)
        return read_complex(in, value, out);
    if (value->type == FLAX_TIMESTAMP && value->n != 4 && value->n != 8 && value->n != 12)
        return fail(in->err, CKPT_EFORMAT, value->at,
                    "a timestamp of {%llu bytes}; {=4, 8 or 12} are allowed", (unsigned long long)value->n);
    ckpt_value *pair[2] = {value_int(in->f->a, value->type), NULL};
    CKPT_TRY(read_bytes(in, value, CKPT_V_BYTES, &pair[1]));
    if (holds_array(pair[1]->u.str))
        return fail(in->err, CKPT_EFORMAT, value->at,
                    "an array in an extension of {type %d}; arrays are of {=type 1 or 3}", value->type);
    *out = pair[0] ? value_tuple(in->f->a, 2, pair) : NULL;
    return *out ? CKPT_OK : fail_memory(in->err);
}

ckpt_status flax_read_value(struct flax_input *in, const struct msgpack_value *value, ckpt_value **out)
{
    arena *a = in->f->a;
    switch (value->kind) {
    case MSGPACK_TEXT: return read_bytes(in, value, CKPT_V_STR, out);
    case MSGPACK_BYTES: return read_bytes(in, value, CKPT_V_BYTES, out);
    case MSGPACK_EXT: return read_extension(in, value, out);
    case MSGPACK_NIL: *out = value_new(a, CKPT_V_NONE, value->at); break;
    case MSGPACK_BOOL: *out = value_bool(a, value->bits != 0); break;
    case MSGPACK_FLOAT: *out = make_float(a, value); break;
    case MSGPACK_INT: *out = value_int(a, (int64_t)value->bits); break;
    default: *out = value_uint(a, value->bits); break;
    }
    return *out ? CKPT_OK : fail_memory(in->err);
}

static void put_complex(buf *out, const ckpt_value *value)
{
    msgpack_put_ext(out, FLAX_COMPLEX, 19); /* bytes: 1 for the list, 9 for each number */
    msgpack_put_array(out, 2);
    msgpack_put_float(out, value_arg(value, 0)->u.f);
    msgpack_put_float(out, value_arg(value, 1)->u.f);
}

void flax_put_value(buf *out, const ckpt_value *value)
{
    ckpt_str s = value->type == CKPT_V_TUPLE ? value_item(value, 1)->u.str : value->u.str;
    switch (value->type) {
    case CKPT_V_STR: msgpack_put_text(out, s); break;
    case CKPT_V_BYTES:
        msgpack_put_bytes(out, s.len);
        buf_put_str(out, s);
        break;
    case CKPT_V_TUPLE:
        msgpack_put_ext(out, (int)value_item(value, 0)->u.i, s.len);
        buf_put_str(out, s);
        break;
    case CKPT_V_BOOL: msgpack_put_bool(out, value->u.b); break;
    case CKPT_V_INT: msgpack_put_int(out, value->u.i); break;
    case CKPT_V_BIGINT: msgpack_put_uint(out, load_u64le((const unsigned char *)s.ptr)); break;
    case CKPT_V_FLOAT: msgpack_put_float(out, value->u.f); break;
    case CKPT_V_CALL: put_complex(out, value); break;
    default: msgpack_put_nil(out); break;
    }
}

/* The first bytes of values; msgpack.c lists all of them. */
static bool begins_text(unsigned bits)
{
    return (bits >= 0xa0 && bits <= 0xbf) || (bits >= 0xd9 && bits <= 0xdb);
}
static bool begins_extension(unsigned bits)
{
    return (bits >= 0xc7 && bits <= 0xc9) || (bits >= 0xd4 && bits <= 0xd8);
}

/* is_number_key - returns true if the key at byte AT of HEAD is a number. Files of other kinds begin so, too:
 * without the suffix .msgpack, its value must have items. */
static bool is_number_key(const char *path, const unsigned char *head, size_t nbytes, size_t at)
{
    unsigned key = nbytes > at ? head[at] : 0xc1; /* which begins nothing */
    size_t size = key <= 0x7f ? 1 : key == 0xca ? 5 : key == 0xcb ? 9 : 0;
    if (!size || str_ends(str_c(path), STR_LIT(".msgpack")))
        return size > 0;
    unsigned value = nbytes - at > size ? head[at + size] : 0xc1;
    return (value >= 0x80 && value <= 0x9f) || (value >= 0xdc && value <= 0xdf) || begins_extension(value);
}

bool flax_is_recognized(const char *path, const unsigned char *head, size_t nbytes)
{
    if (nbytes < 2) /* without the suffix .msgpack, a single byte may be a truncated pickle, zip or JSON */
        return nbytes == 1 && head[0] <= 0x80 && str_ends(str_c(path), STR_LIT(".msgpack"));
    unsigned b = head[0], count_size = b == 0xdc || b == 0xde ? 2 : b == 0xdd || b == 0xdf ? 4 : 0;
    unsigned item = nbytes > 1 + count_size ? head[1 + count_size]
                                            : 0; /* first byte of the first item or key */
    bool is_map = (b > 0x80 && b <= 0x8f) || b == 0xde || b == 0xdf;
    bool is_list = (b > 0x90 && b <= 0x9f) || b == 0xdc || b == 0xdd;
    bool is_key = begins_text(item) || is_number_key(path, head, nbytes, 1 + count_size);
    return (is_map && is_key) || (is_list && begins_extension(item)) || begins_extension(b);
}
