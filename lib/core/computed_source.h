/* computed_source.h - the bytes of a tensor whose numbers are computed from those of other tensors when they
 * are read: in doubles, and rounded once, to the nearest number of the dtype, ties to even. Memory is that of
 * a few thousand numbers, whatever the sizes are. Any number of threads may read the source, from any byte
 * on.
 *
 * A user fills in a struct computed. Its function `compute` may read any numbers of any input, as that of a
 * product of matrices does, with read_numbers. The numbers must not depend on FIRST, COUNT or the thread:
 * else the bytes would depend on how they are read. */
#pragma once

#include <stdatomic.h>

#include "core/convert.h"
#include "io/source.h"

/* The numbers of a tensor, in row-major order. An element is one number; a complex one is two, (re, im). */
struct computed {
    ckpt_dtype dtype; /* of the tensor, for which computed_has_dtype is true */
    uint64_t numbers; /* computed_count of its elements */
    uint32_t at_once; /* a call of compute is for numbers between two multiples of this */
    size_t scratch;   /* bytes that compute needs besides OUT */
    /* compute - sets OUT to the COUNT numbers from number FIRST on. SCRATCH has how->scratch bytes, aligned
     * for any type. Several threads call it at the same time. */
    ckpt_status (*compute)(const struct computed *how, uint64_t first, size_t count, double *out,
                           void *scratch, ckpt_error *err);
    /* store - sets OUT to the COUNT elements from number FIRST on, the same bytes as compute and the
     * rounding make. NULL: compute is called. */
    ckpt_status (*store)(const struct computed *how, uint64_t first, size_t count, unsigned char *out,
                         ckpt_error *err);
    void *user;                /* for compute; outlives the source */
    void (*close)(void *user); /* frees USER when the source is closed, or cannot be made; may be NULL */
    source *const *inputs;     /* NINPUTS of them, mostly of row_source.h, for compute */
    size_t ninputs;            /* at least one */
    /* is_overflow - becomes true if a finite number overflows DTYPE; outlives the source. May be NULL. */
    atomic_bool *is_overflow;
};

/* computed_has_dtype - returns true if numbers can be rounded to DT: float64, float32, float16, bfloat16, the
 * 8-bit floats of conversion_init, complex128, complex64, complex32. */
bool computed_has_dtype(ckpt_dtype dt);
/* computed_count - sets *NUMBERS to how many ELEMENTS elements of DT have; false: overflow. */
bool computed_count(ckpt_dtype dt, uint64_t elements, uint64_t *numbers);
/* computed_source - returns the source of the tensor that HOW describes; it keeps a copy of HOW and takes
 * over the references to the inputs, even on failure. Each NaN becomes the same quiet NaN, without sign and
 * payload, because those of a computed NaN depend on the processor. What overflows becomes what Tensor.to
 * makes of it (core/convert.c). NULL: no memory. */
source *computed_source(const struct computed *how);

/* computed_round - rounds COUNT NUMBERS, which it overwrites, to OUT as such a source does. ROUNDING: made by
 * conversion_init_once. Returns true if a finite number overflows. */
bool computed_round(const struct conversion *rounding, double *numbers, size_t count, unsigned char *out);

/* read_numbers - reads COUNT numbers from number FIRST of SRC, a row_source of elements of DT, as doubles:
 * exact but for 64-bit integers above 2^53. DT is a number, dtype_is_number. */
ckpt_status read_numbers(source *src, ckpt_dtype dt, uint64_t first, size_t count, double *out,
                         ckpt_error *err);
