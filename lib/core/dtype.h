/* dtype.h - the element types; dtype.def has one line for each. */
#pragma once

#include "base/checked.h"
#include "base/str.h"

enum dtype_line {
    DTYPE_LINE_NONE,
#define DTYPE(id, ...) DTYPE_LINE_##id,
#include "core/dtype.def"
#undef DTYPE
    DTYPE_LINES
};
/* DTYPE_COUNT - the number of dtypes of this version, including CKPT_DT_NONE. */
#define DTYPE_COUNT ((unsigned)DTYPE_LINES)

/* Which bit patterns of a small float are NaN. */
enum dtype_nan {
    NAN_NEVER,     /* none: all numbers are finite */
    NAN_END,       /* all bits set; the sign does not matter */
    NAN_IEEE,      /* all bits of the exponent set, as in IEEE 754, which also has infinities */
    NAN_MINUS_ZERO /* the sign alone; there is no -0 */
};

struct dtype_info {
    const char *name;               /* torch's, without "torch." */
    char safetensors[12];           /* zeros after it; empty: safetensors has none */
    const char *storage;            /* torch's class for a storage of it ("FloatStorage"); NULL: none */
    bool torch_has;                 /* torch has the dtype */
    bool python_has_storage;        /* STORAGE is a class in Python; others are only written by C++ */
    uint16_t block_elems;           /* elements per block, as the shape counts them */
    uint16_t block_bytes;           /* bytes per block; 0: not fixed */
    uint8_t swap_bytes;             /* bytes of the unit that byte order applies to: 4 for complex64 */
    char klass;                     /* 'f' float 'i' int 'u' unsigned 'b' bool 'c' complex 'q' quantized
                              * 'p' packed bits or bytes, which are no numbers to torch, 'k' blocks of ggml */
    uint8_t safetensors_dim_factor; /* safetensors' last dimension is torch's times this (float4: 2) */
    uint8_t safetensors_order;      /* position in the order in which safetensors writes dtypes, 0 first */
    uint16_t number;                /* dtype of its numbers, if each were stored alone: F32 of complex64 */
    bool is_small;                  /* a float of at most eight bits, or an integer of fewer; only then: */
    uint8_t exponent_bits;          /* of a float */
    uint8_t value_bits;             /* of the mantissa of a float, or of the integer */
    uint8_t bias;                   /* of the exponent */
    uint8_t nan;                    /* enum dtype_nan */
};

extern const struct dtype_info dtype_lines[DTYPE_COUNT];
/* dtype_info - returns the line of DT. For CKPT_DT_NONE and unknown values, the name is "" and all other
 * fields are 0. */
static inline const struct dtype_info *dtype_info(ckpt_dtype dt)
{
    return &dtype_lines[(size_t)dt < DTYPE_COUNT ? dt : CKPT_DT_NONE];
}
ckpt_dtype dtype_by_name(ckpt_str name);        /* torch's name or alias ("long"); optional "torch." */
ckpt_dtype dtype_by_safetensors(ckpt_str name); /* exact */
/* dtype_by_safetensors8 - as dtype_by_safetensors, of a name of less than eight bytes: NAME has them, the
 * first in its lowest bits, and zeros. */
ckpt_dtype dtype_by_safetensors8(uint64_t name);
ckpt_dtype dtype_by_storage(ckpt_str klass); /* "FloatStorage" …; "UntypedStorage": U8 */
/* dtype_bytes - computes the bytes of ELEMS elements; false: overflow, an incomplete block, no fixed size. */
static inline bool dtype_bytes(ckpt_dtype dt, uint64_t elems, uint64_t *out)
{
    const struct dtype_info *d = dtype_info(dt);
    if (d->block_bytes == 0)
        return false;
    if (d->block_elems > 1) { /* rarely true: most calls avoid the two divisions, which are slow */
        if (elems % d->block_elems != 0)
            return false;
        elems /= d->block_elems;
    }
    return checked_mul(elems, d->block_bytes, out);
}

/* dtype_is_float - returns true for floats and ggml's blocks of floats, but not for float8_e8m0fnu. */
static inline bool dtype_is_float(ckpt_dtype dt)
{
    char klass = dtype_info(dt)->klass;
    return (klass == 'f' && dt != CKPT_DT_F8_E8M0) || klass == 'k';
}
/* dtype_is_number - returns true if each element is a number of its own, of at least one byte. */
static inline bool dtype_is_number(ckpt_dtype dt)
{
    return dt != CKPT_DT_NONE && strchr("fiubc", dtype_info(dt)->klass);
}
/* dtype_is_foreign - returns true if DT is of neither torch nor safetensors. */
static inline bool dtype_is_foreign(ckpt_dtype dt)
{
    return dt != CKPT_DT_NONE && !dtype_info(dt)->torch_has && !dtype_info(dt)->safetensors[0];
}
/* dtype_has_kernels - returns true if distance_kernel and moments_kernel read stored elements of DT. */
static inline bool dtype_has_kernels(ckpt_dtype dt) { return dt >= CKPT_DT_F64 && dt <= CKPT_DT_BF16; }
