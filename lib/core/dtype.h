/* dtype.h - the element types; dtype.def has one line for each. */
#ifndef CORE_DTYPE_H
#define CORE_DTYPE_H

#include "base/str.h"

/* DTYPE_COUNT - the number of dtypes of this version, including CKPT_DT_NONE. */
#define DTYPE_COUNT (CKPT_DT_Q2_0 + 1u)

struct dtype_info {
    const char *name;        /* torch's, without "torch." */
    const char *safetensors; /* NULL: safetensors has none */
    const char *storage;     /* torch's class for a storage of it ("FloatStorage"); NULL: none */
    uint16_t block_elems;    /* elements per block, as the shape counts them */
    uint16_t block_bytes;    /* bytes per block; 0: not fixed */
    uint8_t swap_bytes;      /* bytes of the unit that byte order applies to: 4 for complex64 */
    char klass;              /* 'f' float 'i' int 'u' unsigned 'b' bool 'c' complex 'q' quantized
                              * 'p' packed bits or bytes, which are no numbers to torch, 'k' blocks of ggml */
    uint8_t safetensors_dim_factor; /* safetensors' last dimension is torch's times this (float4: 2) */
    uint8_t safetensors_order;      /* position in the order in which safetensors writes dtypes, 0 first */
};

/* dtype_info - returns the line of DT. For CKPT_DT_NONE and unknown values, the name is "" and all other
 * fields are 0. */
const struct dtype_info *dtype_info(ckpt_dtype dt);
ckpt_dtype dtype_by_name(ckpt_str name);        /* torch's name or alias ("long"); optional "torch." */
ckpt_dtype dtype_by_safetensors(ckpt_str name); /* exact */
ckpt_dtype dtype_by_storage(ckpt_str klass);    /* "FloatStorage" …; "UntypedStorage": U8 */
/* dtype_bytes - computes the bytes of ELEMS elements; false: overflow, an incomplete block, no fixed size. */
bool dtype_bytes(ckpt_dtype dt, uint64_t elems, uint64_t *out);

/* dtype_is_float - returns true for floats and ggml's blocks of floats, but not for float8_e8m0fnu. */
static inline bool dtype_is_float(ckpt_dtype dt)
{
    char klass = dtype_info(dt)->klass;
    return (klass == 'f' && dt != CKPT_DT_F8_E8M0) || klass == 'k';
}
/* dtype_has_kernels - returns true if distance_kernel and moments_kernel read stored elements of DT. */
static inline bool dtype_has_kernels(ckpt_dtype dt) { return dt >= CKPT_DT_F64 && dt <= CKPT_DT_BF16; }

#endif
