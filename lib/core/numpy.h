/* numpy.h - recognizes numpy's dtypes, arrays and scalars in a value graph. */
#pragma once

#include "core/value.h"

struct numpy_dtype {
    char kind;      /* 'f' 'i' 'u' 'b' 'c', 'S' bytes, 'U' text, 'V' void, 'M' 'm' dates, 'O' objects */
    uint32_t bytes; /* bytes of one element */
    bool big_endian;
    bool record;          /* 'V' with fields */
    uint32_t unit_count;  /* of 'M' and 'm': how many of UNIT, 25 for "25s" */
    const char *unit;     /* "ns"; NULL: generic, or no date */
    const char *extended; /* a type of ml_dtypes, "int4"; else NULL */
};

/* numpy_dtype_of - sets *OUT if VALUE is a pickled numpy.dtype; false: it is not. */
bool numpy_dtype_of(const ckpt_value *value, struct numpy_dtype *out);
/* numpy_dtype_parse - parses CODE as numpy.dtype() does, if it is one type without fields, such as "<f4",
 * "S3", "M8[ns]", "float32" or "f". False: it is none of these. */
bool numpy_dtype_parse(ckpt_str code, struct numpy_dtype *out);
/* numpy_dtype_text - returns DTYPE as dtypes are printed: "float32", "S4", "U2" (characters),
 * "datetime64[ns]", "struct"; lives as long as A. NULL: no memory. */
const char *numpy_dtype_text(arena *a, const struct numpy_dtype *dtype);
/* numpy_swap_bytes - returns the width of the unit that byte order applies to; 1: it does not apply. */
uint8_t numpy_swap_bytes(const struct numpy_dtype *dtype);
/* The components of a pickled array or scalar. */
struct numpy_array {
    const ckpt_value *shape; /* NULL: a scalar */
    const ckpt_value *dtype, *data;
    char order;             /* of the bytes: 'C', 'F', 'K' as AXES has it; 0: one that numpy does not write */
    const ckpt_value *axes; /* of 'K': dimension i of the array is dimension AXES[i] of SHAPE, in C order */
};

/* numpy_array_of - sets *OUT if VALUE calls a function that makes an array or scalar of numpy, or an array of
 * jax, which is pickled as one of numpy; false: it does not. */
bool numpy_array_of(const ckpt_value *value, struct numpy_array *out);
/* numpy_scalar_of - sets *OUT if VALUE is a numpy scalar, whose bytes are value_arg(v, 1); false: it is
 * not. */
bool numpy_scalar_of(const ckpt_value *value, struct numpy_dtype *out);
/* numpy_is_text - returns true if the NBYTES bytes at BYTES are TEXT, ASCII, as numpy keeps it: as UTF-32 in
 * either byte order, with zeros after it. */
bool numpy_is_text(const unsigned char *bytes, size_t nbytes, ckpt_str text);
/* numpy_name - returns "float64", "str_" …; "generic" for an unknown type. */
const char *numpy_name(const struct numpy_dtype *dtype);
/* numpy_known_dtype - returns the dtype with the same elements, or CKPT_DT_NONE. */
ckpt_dtype numpy_known_dtype(const struct numpy_dtype *dtype);

/* numpy_find_void_dtype - finds the dtype that TEXT, void_dtypes of ckpt_limits, gives to elements of BYTES
 * bytes: sets *OUT to its name; NULL: to none. Fails if TEXT is malformed; NULL is valid. */
ckpt_status numpy_find_void_dtype(const char *text, uint32_t bytes, const char **out, ckpt_error *err);

/* copy_small_bytes - copies to OUT the bytes that VALUE stands for. VALUE may be BYTES, BYTEARRAY, a Python 2
 * str, or _codecs.encode(text, 'latin1'), which is how Python 3 pickles bytes in protocol <= 2. Returns their
 * number. SIZE_MAX: VALUE is none of these, or has more than CAP bytes, or its bytes were left in the
 * file. */
size_t copy_small_bytes(const ckpt_value *value, unsigned char *out, size_t cap);
/* is_latin1 - returns true if CODEC is a name of latin1. */
bool is_latin1(ckpt_str codec);
/* latin1_text - returns the node of the text in a call of _codecs.encode(text, 'latin1'), which may be a
 * span; NULL: VALUE is no such call. */
const ckpt_value *latin1_text(const ckpt_value *value);
/* latin1_of - sets *TEXT to the text that latin1_text finds in VALUE; false if there is none, or it is not in
 * memory. */
bool latin1_of(const ckpt_value *value, ckpt_str *text);
