/*
 * npy.c - reads the headers of NumPy's .npy files (numpy/lib/format.py):
 *   0  6  93 "NUMPY"
 *   6  2  version: 1.0, 2.0 or 3.0
 *   8  2  length of the header; 4 bytes from version 2 on
 *   …     the header: a Python dict with descr, fortran_order, shape; Latin-1, from version 3 on UTF-8
 *   …     the elements; an array of objects has one pickle instead
 *
 * The header is an expression, which NumPy evaluates. npy_read, by which a scan decides what it may skip,
 * accepts only the form that NumPy itself writes; npy_read_array accepts every literal that numpy.load does.
 * descr is a type code, several with commas between them, or a list of fields: (name, type[, shape]), where
 * type is a type code or a list of fields, and name may be (title, name).
 *
 * Refused: other versions, other keys, values of other types, a code that numpy does not have, more than
 * NPY_DIMENSIONS sizes, elements of more than 2^31 bytes, sizes whose product does not fit 63 bits.
 */
#include "codec/npy.h"

#include <inttypes.h>

#include "base/cursor.h"
#include "base/utf8.h"

#define MAX_SIMPLE_HEADER 65536u

/* take_number - sets *COUNT to the decimal number with which *TEXT begins, and skips it; false: there is
 * none. */
static bool take_number(ckpt_str *text, uint64_t *count)
{
    size_t digits = 0;
    for (*count = 0; text->len && text->ptr[0] >= '0' && text->ptr[0] <= '9';
         *text = str_skip(*text, 1), digits++)
        if (!checked_mul(*count, 10, count) || !checked_add(*count, (uint64_t)(text->ptr[0] - '0'), count))
            return false;
    return digits > 0;
}

/* take_text - skips TEXT; false: *NAME does not begin with it. */
static bool take_text(ckpt_str *name, const char *text)
{
    if (!str_starts(*name, str_c(text)))
        return false;
    *name = str_skip(*name, strlen(text));
    return true;
}

/* take_type - skips a type code such as '<f4' in *TEXT, and sets *SIZE to the bytes of an element. */
static bool take_type(ckpt_str *text, uint64_t *size)
{
    if (text->len && strchr("<>|=", text->ptr[0]))
        *text = str_skip(*text, 1);
    if (!text->len || !text->ptr[0] || !strchr("?biufcSUVmM", text->ptr[0]))
        return false;
    bool is_unicode = text->ptr[0] == 'U'; /* a character has four bytes */
    *text = str_skip(*text, 1);
    if (!take_number(text, size))
        return false;
    if (take_text(text, "["))
        while (text->len && text->ptr[0] != ']' && text->ptr[0] != '\'')
            *text = str_skip(*text, 1);
    (void)take_text(text, "]");
    return !is_unicode || checked_mul(*size, 4, size);
}

/* take_shape - sets the shape of NPY from *TEXT. NPY->nbytes is first the size of one element, then of
 * all. */
static bool take_shape(ckpt_str *text, struct npy *npy)
{
    uint64_t n;
    while (take_number(text, &n)) {
        if (npy->ndim == NPY_DIMENSIONS)
            return false;
        npy->shape[npy->ndim++] = n;
        if (!checked_mul(npy->nbytes, n, &npy->nbytes))
            npy->nbytes = UINT64_MAX;
        (void)(take_text(text, ", ") || take_text(text, ","));
    }
    return take_text(text, "), }") || take_text(text, ")}");
}

/* read_simple_header - returns true, and sets NPY, if TEXT is the header of an array of one simple type. */
static bool read_simple_header(ckpt_str text, struct npy *npy)
{
    if (!take_text(&text, "{'descr': '"))
        return false;
    npy->descr = text;
    if (!take_type(&text, &npy->nbytes))
        return false;
    npy->descr.len -= text.len;
    if (!take_text(&text, "', 'fortran_order': "))
        return false;
    npy->fortran_order = take_text(&text, "True");
    if (!(npy->fortran_order || take_text(&text, "False")) || !take_text(&text, ", 'shape': (") ||
        !take_shape(&text, npy))
        return false;
    while (take_text(&text, " "))
        ;
    return take_text(&text, "\n") && text.len == 0;
}

ckpt_status npy_read(source *src, arena *a, struct npy *out, ckpt_error *err)
{
    unsigned char head[12];
    *out = (struct npy){.version = 0};
    CKPT_TRY(source_read(src, 0, head, sizeof head, err));
    out->version = head[6];
    uint64_t header_at = out->version < 2 ? 10 : 12;
    uint64_t n = out->version < 2 ? load_u16le(head + 8) : load_u32le(head + 8);
    uint64_t available = src->size - header_at;
    if (n > available)
        return fail(err, CKPT_EFORMAT, source_pos(src, 8),
                    "a header of {%" PRIu64 " bytes}, but the file has {=%" PRIu64 "} there", n, available);
    if (n > MAX_SIMPLE_HEADER)
        return fail(err, CKPT_EFORMAT, source_pos(src, 8),
                    "a header of {%" PRIu64 " bytes}; {=at most %u} are allowed, of which numpy reads 10000",
                    n, MAX_SIMPLE_HEADER);
    char *text = arena_alloc(a, (size_t)n + 1);
    CKPT_TRY_ALLOC(text, err);
    CKPT_TRY(source_read(src, header_at, text, (size_t)n, err));
    out->data_offset = header_at + n;
    struct npy x = *out;
    if (read_simple_header(str_of(text, (size_t)n), &x)) {
        *out = x;
        out->is_simple = true;
    }
    return CKPT_OK;
}

/* read_header - sets *TEXT to the header of the array at OFFSET of SRC, in UTF-8, and *DATA_OFFSET to the
 * offset of its elements. */
static ckpt_status read_header(source *src, uint64_t offset, arena *a, ckpt_str *text, uint64_t *data_offset,
                               ckpt_error *err)
{
    unsigned char head[12] = {0};
    CKPT_TRY(source_read(src, offset, head, 8, err));
    unsigned version = head[6];
    size_t prefix_size = version < 2 ? 10 : 12; /* bytes before the header */
    uint64_t length_at = offset + 8, text_at = offset + prefix_size;
    if (memcmp(head, NPY_MAGIC, NPY_MAGIC_SIZE) != 0 || version < 1 || version > 3 || head[7] != 0)
        return fail(err, CKPT_EFORMAT, source_pos(src, offset + 6),
                    "an array of version {%u.%u}; {=1.0, 2.0 and 3.0} are known", version, head[7]);
    CKPT_TRY(source_read(src, offset, head, prefix_size, err));
    uint64_t n = version < 2 ? load_u16le(head + 8) : load_u32le(head + 8);
    uint64_t left = src->size - text_at;
    if (n > left)
        return fail(err, CKPT_ETRUNCATED, source_pos(src, length_at),
                    "a header of {=%" PRIu64 " bytes}, but {%" PRIu64 "} follow", n, left);
    if (n > NPY_MAX_HEADER)
        return fail(err, CKPT_ELIMIT, source_pos(src, length_at),
                    "a header of {%" PRIu64 " bytes}; the limit is {=%u}", n, NPY_MAX_HEADER);
    unsigned char *bytes = arena_alloc(a, (size_t)n);
    char *utf8 = version < 3 ? arena_alloc(a, 2 * (size_t)n) : (char *)bytes;
    CKPT_TRY_ALLOC(bytes && utf8, err);
    CKPT_TRY(source_read(src, text_at, bytes, (size_t)n, err));
    size_t len = version < 3 ? 0 : (size_t)n;
    for (size_t i = 0; version < 3 && i < n; i++) /* from Latin-1 */
        len += utf8_put(bytes[i], utf8 + len);
    *text = str_of(utf8, len);
    *data_offset = text_at + n;
    if (!utf8_check(*text, false, NULL))
        return fail(err, CKPT_EFORMAT, source_pos(src, text_at), "a header that is {not} {=UTF-8}");
    return CKPT_OK;
}

/* A list of fields whose sizes are being added up. */
struct fields {
    const ckpt_value *list;
    uint32_t next;  /* index of the next field */
    uint64_t times; /* how many times the list occurs in an element: the product of the shapes around it */
};

/* multiply_by_shape - multiplies *TIMES by the sizes in SHAPE: a tuple of integers, one integer, or NULL for
 * no sizes. False: SHAPE is anything else, or the product is too large. */
static bool multiply_by_shape(const ckpt_value *shape, uint64_t *times)
{
    bool is_tuple = shape && shape->type == CKPT_V_TUPLE;
    uint32_t n = is_tuple ? value_count(shape) : shape != NULL;
    for (uint32_t i = 0; i < n; i++) {
        const ckpt_value *v = is_tuple ? value_item(shape, i) : shape;
        int64_t size;
        if (v->type != CKPT_V_INT || !value_integer(v, &size) || size < 0 ||
            !checked_mul(*times, (uint64_t)size, times))
            return false;
    }
    return true;
}

/* is_field_name - returns true if VALUE is a name or (title, name). */
static bool is_field_name(const ckpt_value *value)
{
    ckpt_str name;
    bool has_title = value && value->type == CKPT_V_TUPLE && value_count(value) == 2;
    return value_text(has_title ? value_item(value, 1) : value, &name);
}

/* add_type - adds the size of TIMES elements of the simple type CODE to ARRAY; false: no type code, or too
 * large. */
static bool add_type(ckpt_str code, uint64_t times, struct npy_array *array)
{
    struct numpy_dtype d;
    uint64_t n;
    if (!numpy_dtype_parse(code, &d) || !checked_mul(times, d.bytes, &n) || n > INT32_MAX)
        return false;
    array->holds_objects |= d.kind == 'O';
    array->dtype.bytes += (uint32_t)n;
    return array->dtype.bytes <= INT32_MAX;
}

/* add_fields - adds the sizes of all fields in LIST to ARRAY; false: it is no list of fields. */
static bool add_fields(const ckpt_value *list, struct npy_array *array)
{
    struct fields open[LITERAL_MAX_DEPTH] = {{list, 0, 1}};
    for (uint32_t depth = 1; depth;) {
        struct fields *f = &open[depth - 1];
        const ckpt_value *field = value_item(f->list, f->next++), *type = value_item(field, 1);
        uint64_t times = f->times;
        ckpt_str code;
        if (!field) {
            depth--;
            continue;
        }
        uint32_t n = field->type == CKPT_V_TUPLE ? value_count(field) : 0;
        if ((n != 2 && n != 3) || !is_field_name(value_item(field, 0)) ||
            !multiply_by_shape(value_item(field, 2), &times))
            return false;
        if (type->type == CKPT_V_LIST && depth < LITERAL_MAX_DEPTH)
            open[depth++] = (struct fields){type, 0, times};
        else if (!value_text(type, &code) || !add_type(code, times, array))
            return false;
    }
    return true;
}

/* add_codes - adds the sizes of CODES, which commas separate, to ARRAY; false: one is no type code. */
static bool add_codes(ckpt_str codes, struct npy_array *array)
{
    bool ok = true;
    while (ok && codes.len) {
        size_t comma = str_find(codes, STR_LIT(","), 0), n = comma < codes.len ? comma : codes.len;
        ok = add_type(str_of(codes.ptr, n), 1, array);
        codes = str_skip(codes, n + 1);
        while (codes.len && codes.ptr[0] == ' ')
            codes = str_skip(codes, 1);
    }
    return ok;
}

/* read_descr - sets the dtype of ARRAY to DESCR; false: DESCR is no dtype. */
static bool read_descr(const ckpt_value *descr, struct npy_array *array)
{
    ckpt_str code;
    bool is_text = value_text(descr, &code);
    if (is_text && numpy_dtype_parse(code, &array->dtype)) {
        array->holds_objects = array->dtype.kind == 'O';
        return true;
    }
    array->dtype = (struct numpy_dtype){.kind = 'V'};
    if (is_text)
        return (array->dtype.record = str_find(code, STR_LIT(","), 0) != SIZE_MAX) && add_codes(code, array);
    if (descr->type != CKPT_V_LIST)
        return false;
    array->dtype.record = value_count(descr) > 0;
    return add_fields(descr, array);
}

/* read_shape - reads the sizes, and computes the bytes of all elements. The product of the sizes that are not
 * 0 must fit 63 bits, as in numpy. */
static ckpt_status read_shape(const ckpt_value *shape, struct npy_array *array, uint64_t pos, ckpt_error *err)
{
    uint64_t product = array->dtype.bytes ? array->dtype.bytes : 1;
    bool is_empty = array->dtype.bytes == 0;
    char shown[64];
    if (shape->type != CKPT_V_TUPLE) {
        value_text_or_type(shape, 8, shown, sizeof shown);
        return fail(err, CKPT_EFORMAT, pos, "the shape {%s} is not {=a tuple}", shown);
    }
    if (value_count(shape) > NPY_DIMENSIONS)
        return fail(err, CKPT_EFORMAT, pos, "a shape of {%u} sizes; numpy has {=at most %u}",
                    value_count(shape), NPY_DIMENSIONS);
    for (array->ndim = 0; array->ndim < value_count(shape); array->ndim++) {
        const ckpt_value *v = value_item(shape, array->ndim);
        int64_t n;
        if (v->type != CKPT_V_INT || !value_integer(v, &n) || n < 0) {
            value_text_or_type(v, 8, shown, sizeof shown);
            return fail(err, CKPT_EFORMAT, pos, "the size {%s} in its shape is not {=a non-negative integer}",
                        shown);
        }
        array->shape[array->ndim] = (uint64_t)n;
        is_empty |= n == 0;
        if (n && (!checked_mul(product, (uint64_t)n, &product) || product > INT64_MAX))
            return fail(err, CKPT_EFORMAT, pos, "{the product} of its sizes does not fit {=63 bits}");
    }
    array->nbytes = is_empty ? 0 : product;
    return CKPT_OK;
}

/* has_exact_keys - returns true if HEADER has the three keys of a header and no others. If a key comes twice,
 * the last counts, as in Python. */
static bool has_exact_keys(const ckpt_value *header)
{
    static const char *const names[] = {"descr", "fortran_order", "shape"};
    uint32_t n;
    const value_pair *pairs = value_pairs(header, &n);
    bool ok = header->type == CKPT_V_DICT;
    for (size_t i = 0; ok && i < 3; i++)
        ok = value_get(header, names[i]) != NULL;
    for (uint32_t k = 0; ok && k < n; k++) {
        ckpt_str key;
        ok = value_text(pairs[k].key, &key) &&
             (str_is(key, names[0]) || str_is(key, names[1]) || str_is(key, names[2]));
    }
    return ok;
}

ckpt_status npy_read_array(source *src, uint64_t offset, arena *a, struct npy_array *out, ckpt_error *err)
{
    ckpt_str text;
    ckpt_value *header;
    char shown[256];
    *out = (struct npy_array){.ndim = 0};
    CKPT_TRY(read_header(src, offset, a, &text, &out->data_offset, err));
    uint64_t pos = source_pos(src, offset + 8);
    CKPT_TRY(literal_read(a, text, pos, &header, err));
    if (!has_exact_keys(header))
        return fail(
            err, CKPT_EFORMAT, pos,
            "the header is {%s%s}; it must be {=a dict with only the keys descr, fortran_order and shape}",
            header->type == CKPT_V_DICT ? "" : "of type ",
            header->type == CKPT_V_DICT ? "a dict with other keys"
                                        : ckpt_value_type_name(header, shown, sizeof shown));
    const ckpt_value *descr = value_get(header, "descr"), *order = value_get(header, "fortran_order");
    if (order->type != CKPT_V_BOOL) {
        value_text_or_type(order, 8, shown, sizeof shown);
        return fail(err, CKPT_EFORMAT, pos, "fortran_order is {%s}; {=True or False} is allowed", shown);
    }
    out->fortran_order = order->u.b;
    value_text_or_type(descr, 64, shown, sizeof shown);
    if (!read_descr(descr, out))
        return fail(err, CKPT_EFORMAT, pos, "descr {%s} is not {=a dtype of numpy}", shown);
    if (out->dtype.record && !(out->fields = arena_str(a, str_c(shown))).ptr)
        return fail_memory(err);
    return read_shape(value_get(header, "shape"), out, pos, err);
}
