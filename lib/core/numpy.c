/* numpy.c - the forms of numpy/core/src/multiarray/descriptor.c
 * (arraydescr_reduce) and scalartypes.c.src (gentype_reduce):
 *
 *   dtype   REDUCE(numpy.dtype, ("f8", False, True)) BUILD((3, "<", …))
 *   scalar  REDUCE(numpy.core.multiarray.scalar, (dtype, bytes)); numpy 2:
 *           numpy._core
 */
#include "core/numpy.h"

#include "base/utf8.h"

bool numpy_dtype_of(const ckpt_value *v, struct numpy_dtype *out)
{
    ckpt_str code, order;
    uint64_t size;
    if (!value_calls(v, "numpy", "dtype", 1) || !value_text(value_arg(v, 0), &code))
        return false;
    if (code.len && memchr("<>|=", code.ptr[0], 4))
        code = str_skip(code, 1);
    struct numpy_dtype d = {0, 0, false};
    if (code.len == 0)
        return false;
    d.kind = code.ptr[0];
    /* Dates and objects have no size in their type code. */
    bool sized = code.len <= 9 && str_uint(str_skip(code, 1), &size);
    d.bytes = sized ? (uint32_t)size : 8;
    if (d.kind == 'U') /* the size counts characters of 4 bytes */
        d.bytes *= 4;
    const ckpt_value *state = value_state(v);
    if (state && state->type != CKPT_V_TUPLE) /* numpy accepts only a tuple */
        return false;
    d.big_endian = value_text(value_item(state, 1), &order) && str_is(order, ">");
    *out = d;
    return true;
}

/* is_numpy_function - is GLOBAL numpy's function NAME, in any module that has had it? */
static bool is_numpy_function(const ckpt_value *global, const char *name)
{
    static const char *const modules[] = {"numpy.core.multiarray", "numpy._core.multiarray",
                                          "numpy.core.numeric", "numpy._core.numeric"};
    for (size_t i = 0; i < sizeof modules / sizeof *modules; i++)
        if (value_is_global(global, modules[i], name))
            return true;
    return false;
}

static bool is_true(const ckpt_value *v)
{
    int64_t i;
    return value_integer(v, &i) && i != 0;
}

bool numpy_array_of(const ckpt_value *v, struct numpy_array *out)
{
    if (v->type != CKPT_V_CALL)
        return false;
    const ckpt_value *fn = v->u.call.callable, *state = value_state(v);
    ckpt_str order;
    if (is_numpy_function(fn, "_reconstruct") && state && state->type == CKPT_V_TUPLE &&
        value_count(state) >= 5)
        *out = (struct numpy_array){value_item(state, 1), value_item(state, 2), value_item(state, 4),
                                    is_true(value_item(state, 3))};
    else if (is_numpy_function(fn, "_frombuffer") && value_nargs(v) >= 4)
        *out = (struct numpy_array){value_arg(v, 2), value_arg(v, 1), value_arg(v, 0),
                                    value_text(value_arg(v, 3), &order) && str_is(order, "F")};
    else if (is_numpy_function(fn, "scalar") && value_nargs(v) >= 2)
        *out = (struct numpy_array){NULL, value_arg(v, 0), value_arg(v, 1), false};
    else
        return false;
    return true;
}

bool numpy_scalar_of(const ckpt_value *v, struct numpy_dtype *out)
{
    return (value_calls(v, "numpy.core.multiarray", "scalar", 2) ||
            value_calls(v, "numpy._core.multiarray", "scalar", 2)) &&
           numpy_dtype_of(value_arg(v, 0), out);
}

static const struct {
    char kind;
    uint8_t bytes; /* 0: any */
    ckpt_dtype dtype;
    const char *name;
} numpy_types[] = {
    {'f', 2, CKPT_DT_F16, "float16"},      {'f', 4, CKPT_DT_F32, "float32"},
    {'f', 8, CKPT_DT_F64, "float64"},      {'f', 0, CKPT_DT_NONE, "longdouble"},
    {'i', 1, CKPT_DT_I8, "int8"},          {'i', 2, CKPT_DT_I16, "int16"},
    {'i', 4, CKPT_DT_I32, "int32"},        {'i', 8, CKPT_DT_I64, "int64"},
    {'u', 1, CKPT_DT_U8, "uint8"},         {'u', 2, CKPT_DT_U16, "uint16"},
    {'u', 4, CKPT_DT_U32, "uint32"},       {'u', 8, CKPT_DT_U64, "uint64"},
    {'b', 1, CKPT_DT_BOOL, "bool"},        {'c', 8, CKPT_DT_C64, "complex64"},
    {'c', 16, CKPT_DT_C128, "complex128"}, {'c', 0, CKPT_DT_NONE, "clongdouble"},
    {'S', 0, CKPT_DT_NONE, "bytes_"},      {'U', 0, CKPT_DT_NONE, "str_"},
    {'V', 0, CKPT_DT_NONE, "void"},        {'O', 0, CKPT_DT_NONE, "object_"},
    {'M', 0, CKPT_DT_NONE, "datetime64"},  {'m', 0, CKPT_DT_NONE, "timedelta64"},
};

static size_t find_type(const struct numpy_dtype *d)
{
    size_t i = 0;
    while (i < sizeof numpy_types / sizeof *numpy_types &&
           (numpy_types[i].kind != d->kind || (numpy_types[i].bytes && numpy_types[i].bytes != d->bytes)))
        i++;
    return i;
}

const char *numpy_name(const struct numpy_dtype *d)
{
    size_t i = find_type(d);
    return i < sizeof numpy_types / sizeof *numpy_types ? numpy_types[i].name : "generic";
}

ckpt_dtype numpy_torch_dtype(const struct numpy_dtype *d)
{
    size_t i = find_type(d);
    return i < sizeof numpy_types / sizeof *numpy_types ? numpy_types[i].dtype : CKPT_DT_NONE;
}

bool is_latin1(ckpt_str codec) { return str_is(codec, "latin1") || str_is(codec, "latin-1"); }

const ckpt_value *latin1_text(const ckpt_value *v)
{
    ckpt_str codec;
    bool call = value_calls(v, "_codecs", "encode", 2) && value_text(value_arg(v, 1), &codec) &&
                is_latin1(codec);
    const ckpt_value *text = call ? value_arg(v, 0) : NULL;
    return text && (text->type == CKPT_V_STR || text->type == CKPT_V_STR8) ? text : NULL;
}

bool latin1_of(const ckpt_value *v, ckpt_str *text) { return value_text(latin1_text(v), text); }

size_t small_bytes(const ckpt_value *v, unsigned char *out, size_t cap)
{
    ckpt_str s;
    if (latin1_of(v, &s)) {
        uint64_t n;
        bool fits = s.len / 2 <= cap && utf8_check(s, false, &n) && n <= cap;
        return fits ? utf8_latin1(s, out) : SIZE_MAX;
    }
    bool bytes = v && (v->type == CKPT_V_BYTES || v->type == CKPT_V_BYTEARRAY || v->type == CKPT_V_STR8);
    if (!bytes || v->flags & VALUE_SPAN || v->u.str.len > cap)
        return SIZE_MAX;
    if (v->u.str.len)
        memcpy(out, v->u.str.ptr, v->u.str.len);
    return v->u.str.len;
}
