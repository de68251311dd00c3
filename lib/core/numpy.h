/* numpy.h - numpy's dtypes and scalars inside a pickle. */
#ifndef CORE_NUMPY_H
#define CORE_NUMPY_H

#include "core/dtype.h"
#include "core/value.h"

struct numpy_dtype {
    char kind;      /* 'f' 'i' 'u' 'b' 'c', 'S' bytes, 'U' text, 'V' record, 'M' 'm' dates, 'O' objects */
    uint32_t bytes; /* of one element */
    bool big_endian;
};

/* numpy_dtype_of - is V the pickled form of a numpy.dtype, and which? */
bool numpy_dtype_of(const ckpt_value *v, struct numpy_dtype *out);
/* What numpy's pickles make an array or a scalar of. */
struct numpy_array {
    const ckpt_value *shape; /* NULL: a scalar */
    const ckpt_value *dtype, *data;
    bool fortran;
};

/* numpy_array_of - is V a numpy array or scalar, by the function that makes it, and of what? */
bool numpy_array_of(const ckpt_value *v, struct numpy_array *out);
/* numpy_scalar_of - is V a numpy scalar? Its bytes are value_arg(v, 1). */
bool numpy_scalar_of(const ckpt_value *v, struct numpy_dtype *out);
/* numpy_name - "float64", "str_" …; what is not known: "generic". */
const char *numpy_name(const struct numpy_dtype *d);
/* numpy_torch_dtype - torch's dtype of the same elements, or CKPT_DT_NONE. */
ckpt_dtype numpy_torch_dtype(const struct numpy_dtype *d);

/* small_bytes - the bytes that V is, at most CAP of them, into OUT: BYTES,
 * BYTEARRAY, Python 2 str, and _codecs.encode(text, 'latin1'), which is how
 * Python 3 pickles bytes in protocol <= 2. The count, or SIZE_MAX when V is no
 * bytes, too many, or left in the file. */
size_t small_bytes(const ckpt_value *v, unsigned char *out, size_t cap);
/* is_latin1 - does CODEC name that encoding as pickles do? */
bool is_latin1(ckpt_str codec);
/* latin1_text - the node of the text in such a call, which may lie in the file; NULL when V is none. */
const ckpt_value *latin1_text(const ckpt_value *v);
/* latin1_of - that text, where it is in memory; false else. */
bool latin1_of(const ckpt_value *v, ckpt_str *text);

#endif
