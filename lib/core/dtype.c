/* dtype.c - looks up the element types of dtype.def by each of their names. */
#include "core/dtype.h"

#include "base/checked.h"
#include "base/cursor.h"

const struct dtype_info dtype_lines[DTYPE_COUNT] = {
    [CKPT_DT_NONE] = {.name = ""},
#define PYTHON(class)                     class "Storage", true, true
#define CPP(class)                        class "Storage", true, false
#define UNNAMED                           NULL, true, false
#define LACKS                             NULL, false, false
#define SMALL(exponent, value, bias, nan) true, exponent, value, bias, NAN_##nan
#define BITS(value)                       true, 0, value, 0, 0
#define WIDE                              false, 0, 0, 0, 0
#define DTYPE(id, name, safetensors, storage, elems, bytes, swap, klass, dim_factor, order, number, small)   \
    [CKPT_DT_##id] = {name,       safetensors, storage,          elems, bytes, swap, klass,                  \
                      dim_factor, order,       CKPT_DT_##number, small},
#include "core/dtype.def"
};

#undef DTYPE
#define DTYPE(id, ...) _Static_assert((int)CKPT_DT_##id == (int)DTYPE_LINE_##id, "ckpt.h has another order");
#include "core/dtype.def"

static const struct {
    const char *name;
    ckpt_dtype dtype;
} aliases[] = {
    {"double", CKPT_DT_F64}, {"float", CKPT_DT_F32},  {"half", CKPT_DT_F16},
    {"long", CKPT_DT_I64},   {"int", CKPT_DT_I32},    {"short", CKPT_DT_I16},
    {"chalf", CKPT_DT_C32},  {"cfloat", CKPT_DT_C64}, {"cdouble", CKPT_DT_C128},
};

/* CKPT_DT_NAMED stands for many numpy types, so no name means it. */
ckpt_dtype dtype_by_name(ckpt_str name)
{
    if (str_starts(name, STR_LIT("torch.")))
        name = str_skip(name, 6);
    for (size_t i = CKPT_DT_NONE + 1; i < DTYPE_COUNT; i++)
        if (i != CKPT_DT_NAMED && str_is(name, dtype_lines[i].name))
            return (ckpt_dtype)i;
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        if (str_is(name, aliases[i].name))
            return aliases[i].dtype;
    return CKPT_DT_NONE;
}

ckpt_dtype dtype_by_safetensors(ckpt_str name)
{
    for (size_t i = CKPT_DT_NONE + 1; name.len && i < DTYPE_COUNT; i++)
        if (str_is(name, dtype_lines[i].safetensors))
            return (ckpt_dtype)i;
    return CKPT_DT_NONE;
}

ckpt_dtype dtype_by_safetensors8(uint64_t name)
{
    for (size_t i = CKPT_DT_NONE + 1; name && i < DTYPE_COUNT; i++)
        if (load_u64le((const unsigned char *)dtype_lines[i].safetensors) == name)
            return (ckpt_dtype)i;
    return CKPT_DT_NONE;
}

ckpt_dtype dtype_by_storage(ckpt_str klass)
{
    if (str_is(klass, "UntypedStorage") || str_is(klass, "_UntypedStorage"))
        return CKPT_DT_U8;
    if (klass.len == 0)
        return CKPT_DT_NONE;
    for (size_t i = CKPT_DT_NONE + 1; i < DTYPE_COUNT; i++)
        if (dtype_lines[i].storage && dtype_lines[i].storage[0] == klass.ptr[0] &&
            str_is(klass, dtype_lines[i].storage))
            return (ckpt_dtype)i;
    return CKPT_DT_NONE;
}

const char *ckpt_dtype_name(ckpt_dtype dtype) { return dtype_info(dtype)->name; }

ckpt_dtype ckpt_dtype_parse(ckpt_str name)
{
    char upper[16]; /* NAME in capitals, as safetensors writes it */
    ckpt_dtype dt = dtype_by_name(name);
    if (dt != CKPT_DT_NONE || name.len > sizeof upper)
        return dt;
    size_t n = 0;
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i] >= 'a' && name.ptr[i] <= 'z' ? (char)(name.ptr[i] - 'a' + 'A') : name.ptr[i];
        if (i != 1 || c != 'P' || upper[0] != 'F') /* leaves out the P of fp16, so that it means F16 */
            upper[n++] = c;
    }
    return dtype_by_safetensors(str_of(upper, n));
}

unsigned ckpt_dtype_bits(ckpt_dtype dtype)
{
    const struct dtype_info *d = dtype_info(dtype);
    return d->block_elems ? d->block_bytes * 8u / d->block_elems : 0;
}
