/* numpy.c - reads what descriptor.c (arraydescr_reduce) and scalartypes.c.src (gentype_reduce) in
 * numpy/core/src/multiarray write into pickles:
 *
 *   dtype   REDUCE(numpy.dtype, ("f8", False, True)) BUILD((3, "<", …))
 *   scalar  REDUCE(numpy.core.multiarray.scalar, (dtype, bytes)); from numpy 2 on numpy._core.…
 */
#include "core/numpy.h"

#include <stdio.h>

#include "base/utf8.h"

static const struct {
    char kind;
    uint8_t bytes; /* 0: any */
    char code;     /* the type's one-letter code on x86-64; 0: none */
    ckpt_dtype dtype;
    const char *name;
} numpy_types[] = {
    {'f', 2, 'e', CKPT_DT_F16, "float16"},      {'f', 4, 'f', CKPT_DT_F32, "float32"},
    {'f', 8, 'd', CKPT_DT_F64, "float64"},      {'f', 0, 'g', CKPT_DT_NONE, "longdouble"},
    {'i', 1, 'b', CKPT_DT_I8, "int8"},          {'i', 2, 'h', CKPT_DT_I16, "int16"},
    {'i', 4, 'i', CKPT_DT_I32, "int32"},        {'i', 8, 'l', CKPT_DT_I64, "int64"},
    {'u', 1, 'B', CKPT_DT_U8, "uint8"},         {'u', 2, 'H', CKPT_DT_U16, "uint16"},
    {'u', 4, 'I', CKPT_DT_U32, "uint32"},       {'u', 8, 'L', CKPT_DT_U64, "uint64"},
    {'b', 1, '?', CKPT_DT_BOOL, "bool"},        {'c', 8, 'F', CKPT_DT_C64, "complex64"},
    {'c', 16, 'D', CKPT_DT_C128, "complex128"}, {'c', 0, 'G', CKPT_DT_NONE, "clongdouble"},
    {'S', 0, 0, CKPT_DT_NONE, "bytes_"},        {'U', 0, 0, CKPT_DT_NONE, "str_"},
    {'V', 0, 0, CKPT_DT_NONE, "void"},          {'O', 0, 0, CKPT_DT_NONE, "object_"},
    {'M', 0, 0, CKPT_DT_NONE, "datetime64"},    {'m', 0, 0, CKPT_DT_NONE, "timedelta64"},
};

#define NTYPES (sizeof numpy_types / sizeof *numpy_types)

/* ------------------------------------------------------------------ type codes */

/* find_unit - returns the unit of time named TEXT; NULL: there is none. */
static const char *find_unit(ckpt_str text)
{
    static const char *const units[] = {"Y",  "M",  "W",  "D",  "h",  "m", "s",
                                        "ms", "us", "ns", "ps", "fs", "as"};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (str_is(text, units[i]))
            return units[i];
    return NULL;
}

/* take_number - removes the digits that TEXT begins with; *COUNT is their value. False: none, or above
 * INT32_MAX. */
static bool take_number(ckpt_str *text, uint32_t *count)
{
    uint64_t v = 0;
    size_t digits = 0;
    for (; digits < text->len && digits < 10 && text->ptr[digits] >= '0' && text->ptr[digits] <= '9';
         digits++)
        v = v * 10 + (uint64_t)(text->ptr[digits] - '0');
    *text = str_skip(*text, digits);
    *count = (uint32_t)v;
    return digits > 0 && v <= INT32_MAX;
}

/* parse_date - parses TEXT, a date's code without its first letter: "8[25ns]" of "M8[25ns]", "[DTYPE]",
 * "". */
static bool parse_date(ckpt_str text, struct numpy_dtype *dtype)
{
    uint32_t size = 8;
    dtype->bytes = 8;
    dtype->unit_count = 1;
    if (text.len && text.ptr[0] != '[' && (!take_number(&text, &size) || size != 8))
        return false;
    if (text.len == 0)
        return true;
    if (text.len < 3 || text.ptr[0] != '[' || text.ptr[text.len - 1] != ']')
        return false;
    text = str_of(text.ptr + 1, text.len - 2);
    if (str_is(text, "generic"))
        return true;
    if (text.ptr[0] >= '0' && text.ptr[0] <= '9' &&
        (!take_number(&text, &dtype->unit_count) || dtype->unit_count == 0))
        return false;
    dtype->unit = find_unit(text);
    return dtype->unit != NULL;
}

/* has_size - returns true if numpy has a type of DTYPE's kind and size. */
static bool has_size(const struct numpy_dtype *dtype)
{
    switch (dtype->kind) {
    case 'b': return dtype->bytes == 1;
    case 'i':
    case 'u': return dtype->bytes == 1 || dtype->bytes == 2 || dtype->bytes == 4 || dtype->bytes == 8;
    case 'f':
        return dtype->bytes == 2 || dtype->bytes == 4 || dtype->bytes == 8 || dtype->bytes == 12 ||
               dtype->bytes == 16;
    case 'c': return dtype->bytes == 8 || dtype->bytes == 16 || dtype->bytes == 24 || dtype->bytes == 32;
    default: return dtype->kind == 'S' || dtype->kind == 'V' || dtype->kind == 'O' || dtype->kind == 'U';
    }
}

/* find_by_name - returns the index of the type that has a code letter and whose name (such as "float32") or
 * code letter is TEXT; NTYPES: none. */
static size_t find_by_name(ckpt_str text)
{
    size_t i = 0;
    while (i < NTYPES && !(numpy_types[i].code && (str_is(text, numpy_types[i].name) ||
                                                   (text.len == 1 && text.ptr[0] == numpy_types[i].code))))
        i++;
    return i;
}

bool numpy_dtype_parse(ckpt_str code, struct numpy_dtype *out)
{
    struct numpy_dtype d = {.bytes = 0};
    bool is_bfloat16 = str_is(code, "<V2"); /* numpy saves ml_dtypes.bfloat16 so; a void is "|V2" */
    if (code.len && memchr("<>|=", code.ptr[0], 4)) {
        d.big_endian = code.ptr[0] == '>';
        code = str_skip(code, 1);
    }
    size_t type_index = find_by_name(code);
    bool ok = code.len > 0;
    d.kind = ok ? code.ptr[0] : 0;
    code = str_skip(code, 1);
    if (type_index < NTYPES) {
        d.kind = numpy_types[type_index].kind;
        d.bytes = numpy_types[type_index].bytes ? numpy_types[type_index].bytes : d.kind == 'c' ? 32 : 16;
    } else if (d.kind == 'M' || d.kind == 'm') {
        ok = parse_date(code, &d);
    } else if (d.kind == 'f' && str_is(code, "1")) { /* numpy saves ml_dtypes.float8_e5m2 so */
        d.bytes = 1;
        d.extended = "float8_e5m2";
    } else if (d.kind == 'O') {
        d.bytes = 8;
        ok = code.len == 0 || str_is(code, "8") || str_is(code, "4");
    } else {
        ok = ok && take_number(&code, &d.bytes) && code.len == 0 && has_size(&d);
    }
    if (ok && d.kind == 'U') { /* the size counts characters of 4 bytes */
        ok = d.bytes <= INT32_MAX / 4;
        d.bytes *= ok ? 4u : 1u;
    }
    if (is_bfloat16)
        d.extended = "bfloat16";
    if (ok)
        *out = d;
    return ok;
}

/* is_of_bytes - returns true if each element of INFO takes SIZE bytes. */
static bool is_of_bytes(const struct dtype_info *info, uint64_t size)
{
    return info->block_elems == 1 && info->block_bytes == size && strchr("fiubc", info->klass);
}

#define MAX_DTYPE_NAME 24u /* bytes of a name of a dtype, and ", " */

/* hint_void_dtypes - sets the hint of ERR to the dtypes whose elements take SIZE bytes, if there are any. */
static void hint_void_dtypes(uint64_t size, ckpt_error *err)
{
    char names[sizeof err->hint - 40] = "";
    size_t n = 0;
    for (size_t i = CKPT_DT_NONE + 1; i < DTYPE_COUNT; i++) {
        const struct dtype_info *info = dtype_info((ckpt_dtype)i);
        if (is_of_bytes(info, size) && n + MAX_DTYPE_NAME < sizeof names)
            n += (size_t)snprintf(names + n, sizeof names - n, "%s%s", n ? ", " : "", info->name);
    }
    bool is_cut = n + MAX_DTYPE_NAME >= sizeof names;
    if (n)
        error_add_hint(err, "V%u may be %s%s", (unsigned)size, names, is_cut ? ", …" : "");
    else
        error_add_hint(err, "write it as V1=float8_e4m3fn or V2=bfloat16,V1=int4");
}

static ckpt_status fail_void_dtype(const char *text, uint64_t size, ckpt_error *err)
{
    ckpt_status st = fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET,
                          "{\"%s\"} is no list of {=sizes, each with a dtype of that size}", text);
    hint_void_dtypes(size, err);
    return st;
}

ckpt_status numpy_find_void_dtype(const char *text, uint32_t bytes, const char **out, ckpt_error *err)
{
    ckpt_str rest = text ? str_c(text) : str_of("", 0);
    *out = NULL;
    while (rest.len) {
        size_t comma = str_find(rest, STR_LIT(","), 0), equals = str_find(rest, STR_LIT("="), 0);
        ckpt_str pair = str_of(rest.ptr, comma < rest.len ? comma : rest.len);
        uint64_t size = 0;
        bool ok = equals < pair.len && pair.ptr[0] == 'V' &&
                  str_uint(str_of(pair.ptr + 1, equals - 1), &size);
        ckpt_str name = str_skip(pair, ok ? equals + 1 : pair.len);
        const struct dtype_info *info = dtype_info(ckpt_dtype_parse(name));
        if (!ok || !is_of_bytes(info, size))
            return fail_void_dtype(text, ok ? size : 0, err);
        if (size == bytes && *out && strcmp(*out, info->name) != 0)
            return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "{\"%s\"} gives V%u two dtypes", text,
                        (unsigned)bytes);
        if (size == bytes)
            *out = info->name;
        rest = str_skip(rest, pair.len + 1);
    }
    return CKPT_OK;
}

/* --------------------------------------------------------------------- pickles */

/* find_extended - returns the name of VALUE if VALUE is a class of ml_dtypes, else NULL. */
static const char *find_extended(const ckpt_value *value)
{
    ckpt_str name, list = STR_LIT("bfloat16 float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz "
                                  "float8_e8m0fnu float8_e4m3 float8_e3m4 float8_e4m3b11fnuz float4_e2m1fn "
                                  "float6_e2m3fn float6_e3m2fn int1 int2 int4 uint1 uint2 uint4");
    if (!str_is(value_module(value), "ml_dtypes"))
        return NULL;
    while ((name = str_take_until(&list, ' ')).len)
        if (str_eq(value_name(value), name))
            return dtype_info(dtype_by_name(name))->name;
    return NULL;
}

/* set_unit - sets the unit of a date from the last item of its STATE: ({}, (b"ns", 25, 1, 1)) is 25 ns.
 * False: the item has no known unit. */
static bool set_unit(struct numpy_dtype *dtype, const ckpt_value *state)
{
    const ckpt_value *last = value_item(state, 8), *unit = value_item(last, 1);
    unsigned char text[8];
    int64_t count;
    if (!last)
        return true;
    size_t n = copy_small_bytes(value_item(unit, 0), text, sizeof text);
    ckpt_str name = str_of((const char *)text, n == SIZE_MAX ? 0 : n);
    if (str_is(name, "generic"))
        return true;
    dtype->unit = find_unit(name);
    if (!dtype->unit || !value_integer(value_item(unit, 1), &count) || count < 1 || count > INT32_MAX)
        return false;
    dtype->unit_count = (uint32_t)count;
    return true;
}

/* read_record_size - sets *BYTES to the size of an item of VALUE, a dtype whose type is numpy's class record,
 * as of a recarray: its state has it. False: it is none. */
static bool read_record_size(const ckpt_value *value, uint32_t *bytes)
{
    const ckpt_value *type = value_arg(value, 0);
    int64_t size;
    if ((!value_is_global(type, "numpy", "record") && !value_is_global(type, "numpy.rec", "record") &&
         !value_is_global(type, "numpy.core.records", "record")) ||
        !value_integer(value_item(value_state(value), 5), &size) || size < 0 || size > INT32_MAX)
        return false;
    *bytes = (uint32_t)size;
    return true;
}

bool numpy_dtype_of(const ckpt_value *value, struct numpy_dtype *out)
{
    ckpt_str code, order;
    struct numpy_dtype d = {.kind = 'V'};
    if (!value_calls(value, "numpy", "dtype", 1))
        return false;
    d.extended = find_extended(value_arg(value, 0));
    if (d.extended)
        d.bytes = strcmp(d.extended, "bfloat16") == 0 ? 2 : 1;
    else if (!read_record_size(value, &d.bytes) &&
             (!value_text(value_arg(value, 0), &code) || !numpy_dtype_parse(code, &d)))
        return false;
    const ckpt_value *state = value_state(value);
    if (state && state->type != CKPT_V_TUPLE) /* numpy accepts only a tuple */
        return false;
    d.big_endian = value_text(value_item(state, 1), &order) && str_is(order, ">");
    const ckpt_value *fields = value_item(state, 3);
    d.record = d.kind == 'V' && !d.extended && fields && fields->type != CKPT_V_NONE;
    bool is_date = d.kind == 'M' || d.kind == 'm';
    if (is_date && !set_unit(&d, state))
        return false;
    *out = d;
    return true;
}

/* is_numpy_function - returns true if GLOBAL is numpy's function NAME, in any of the modules that had it. */
static bool is_numpy_function(const ckpt_value *global, const char *name)
{
    static const char *const modules[] = {"numpy.core.multiarray", "numpy._core.multiarray",
                                          "numpy.core.numeric", "numpy._core.numeric"};
    for (size_t i = 0; i < sizeof modules / sizeof *modules; i++)
        if (value_is_global(global, modules[i], name))
            return true;
    return false;
}

static bool is_true(const ckpt_value *value)
{
    int64_t i;
    return value_integer(value, &i) && i != 0;
}

/* order_of - returns the order that ORDER, an argument of _frombuffer, names; 0: none of them. */
static char order_of(const ckpt_value *order)
{
    ckpt_str name;
    if (!value_text(order, &name))
        return order->type == CKPT_V_NONE ? 'C' : 0;
    return name.len == 1 && strchr("CFK", name.ptr[0]) ? name.ptr[0] : 0;
}

/* find_array_state - returns the state (version, shape, dtype, Fortran order, data) of the array that VALUE
 * makes: the one that BUILD gives it, or that of an array of jax; NULL: VALUE makes none by such a state. */
static const ckpt_value *find_array_state(const ckpt_value *value)
{
    const ckpt_value *fn = value->u.call.callable, *state = value_state(value);
    bool is_jax = value_calls(value, "jax._src.array", "_reconstruct_array", 3) ||
                  value_calls(value, "jax._src.device_array", "reconstruct_device_array", 3) ||
                  value_calls(value, "jax.interpreters.xla", "reconstruct_device_array", 3);
    if (is_jax) { /* (numpy's _reconstruct, its arguments, the state, …) */
        fn = value_arg(value, 0);
        state = value_arg(value, 2);
    }
    bool has_state = is_numpy_function(fn, "_reconstruct") && state && state->type == CKPT_V_TUPLE &&
                     value_count(state) >= 5;
    return has_state ? state : NULL;
}

bool numpy_array_of(const ckpt_value *value, struct numpy_array *out)
{
    if (value->type != CKPT_V_CALL)
        return false;
    const ckpt_value *fn = value->u.call.callable, *state = find_array_state(value);
    if (state)
        *out = (struct numpy_array){value_item(state, 1), value_item(state, 2), value_item(state, 4),
                                    is_true(value_item(state, 3)) ? 'F' : 'C', NULL};
    else if (is_numpy_function(fn, "_frombuffer") && value_nargs(value) >= 4)
        *out = (struct numpy_array){value_arg(value, 2), value_arg(value, 1), value_arg(value, 0),
                                    order_of(value_arg(value, 3)), value_arg(value, 4)};
    else if (is_numpy_function(fn, "scalar") && value_nargs(value) >= 2)
        *out = (struct numpy_array){NULL, value_arg(value, 0), value_arg(value, 1), 'C', NULL};
    else
        return false;
    return true;
}

bool numpy_scalar_of(const ckpt_value *value, struct numpy_dtype *out)
{
    return (value_calls(value, "numpy.core.multiarray", "scalar", 2) ||
            value_calls(value, "numpy._core.multiarray", "scalar", 2)) &&
           numpy_dtype_of(value_arg(value, 0), out);
}

bool numpy_is_text(const unsigned char *bytes, size_t nbytes, ckpt_str text)
{
    bool little = nbytes / 4 >= text.len, big = little;
    for (size_t i = 0; i < nbytes && (little || big); i++) {
        unsigned char c = i / 4 < text.len ? (unsigned char)text.ptr[i / 4] : 0;
        little = little && bytes[i] == (i % 4 == 0 ? c : 0);
        big = big && bytes[i] == (i % 4 == 3 ? c : 0);
    }
    return little || big;
}

static size_t find_type(const struct numpy_dtype *dtype)
{
    size_t i = 0;
    while (i < NTYPES && (numpy_types[i].kind != dtype->kind ||
                          (numpy_types[i].bytes && numpy_types[i].bytes != dtype->bytes)))
        i++;
    return i;
}

const char *numpy_name(const struct numpy_dtype *dtype)
{
    size_t i = find_type(dtype);
    return dtype->extended ? dtype->extended : i < NTYPES ? numpy_types[i].name : "generic";
}

ckpt_dtype numpy_known_dtype(const struct numpy_dtype *dtype)
{
    size_t i = find_type(dtype);
    if (dtype->extended)
        return dtype_by_name(str_c(dtype->extended));
    return i < NTYPES ? numpy_types[i].dtype : CKPT_DT_NONE;
}

uint8_t numpy_swap_bytes(const struct numpy_dtype *dtype)
{
    if (dtype->kind == 'U')
        return 4;
    if (dtype->kind == 'S' || dtype->kind == 'O' || (dtype->kind == 'V' && !dtype->extended) ||
        dtype->bytes > 32)
        return 1;
    return (uint8_t)(dtype->kind == 'c' ? dtype->bytes / 2 : dtype->bytes);
}

const char *numpy_dtype_text(arena *a, const struct numpy_dtype *dtype)
{
    ckpt_dtype known = numpy_known_dtype(dtype);
    if (dtype->extended || known != CKPT_DT_NONE)
        return dtype->extended ? dtype->extended : dtype_info(known)->name;
    if (dtype->record || dtype->kind == 'O')
        return dtype->record ? "struct" : "object";
    if (dtype->kind == 'f' || dtype->kind == 'c')
        return arena_printf(a, "%s%u", dtype->kind == 'f' ? "float" : "complex", dtype->bytes * 8).ptr;
    if (dtype->kind != 'M' && dtype->kind != 'm')
        return arena_printf(a, "%c%u", dtype->kind, dtype->kind == 'U' ? dtype->bytes / 4 : dtype->bytes).ptr;
    const char *name = dtype->kind == 'M' ? "datetime64" : "timedelta64";
    if (!dtype->unit)
        return name;
    return dtype->unit_count > 1 ? arena_printf(a, "%s[%u%s]", name, dtype->unit_count, dtype->unit).ptr
                                 : arena_printf(a, "%s[%s]", name, dtype->unit).ptr;
}

bool is_latin1(ckpt_str codec) { return str_is(codec, "latin1") || str_is(codec, "latin-1"); }

const ckpt_value *latin1_text(const ckpt_value *value)
{
    ckpt_str codec;
    bool encodes = value_calls(value, "_codecs", "encode", 2) && value_text(value_arg(value, 1), &codec) &&
                   is_latin1(codec);
    const ckpt_value *text = encodes ? value_arg(value, 0) : NULL;
    return text && (text->type == CKPT_V_STR || text->type == CKPT_V_STR8) ? text : NULL;
}

bool latin1_of(const ckpt_value *value, ckpt_str *text) { return value_text(latin1_text(value), text); }

size_t copy_small_bytes(const ckpt_value *value, unsigned char *out, size_t cap)
{
    ckpt_str text;
    if (latin1_of(value, &text)) {
        uint64_t count; /* characters, of at most two bytes each: if LEN / 2 > CAP, they are too many */
        bool fits = text.len / 2 <= cap && utf8_check(text, false, &count) && count <= cap;
        return fits ? utf8_latin1(text, out) : SIZE_MAX;
    }
    bool is_bytes = value && (value->type == CKPT_V_BYTES || value->type == CKPT_V_BYTEARRAY ||
                              value->type == CKPT_V_STR8);
    if (!is_bytes || value->flags & VALUE_SPAN || value->u.str.len > cap)
        return SIZE_MAX;
    if (value->u.str.len)
        memcpy(out, value->u.str.ptr, value->u.str.len);
    return value->u.str.len;
}
