/* flax.h - reads and writes the values, except maps and lists, that Flax (flax/serialization.py) keeps in
 * MessagePack. Arrays, NumPy scalars and complex numbers are extensions. Values that are neither arrays nor
 * NumPy scalars become nodes of the value graph. */
#pragma once

#include "codec/msgpack.h"
#include "codec/npy.h"
#include "core/file.h"
#include "io/window.h"

/* Types of extensions: MessagePack's own, then Flax's. */
enum { FLAX_TIMESTAMP = -1, FLAX_ARRAY = 1, FLAX_COMPLEX = 2, FLAX_SCALAR = 3 };

struct flax_array {
    ckpt_dtype dtype;
    const char *name; /* name of the dtype if DTYPE is CKPT_DT_NAMED: "datetime64[ns]" */
    uint8_t swap;     /* as swap_width of struct storage */
    bool is_scalar;   /* true for a NumPy scalar */
    uint32_t ndim;
    uint64_t *shape;
    uint64_t at, nbytes; /* offset and size of the elements in the file */
};

/* A file whose values are being read. */
struct flax_input {
    ckpt_file *f;
    ckpt_error *err;
    struct window window; /* for texts and bytes; closed by the caller */
};

/* flax_read_array - reads VALUE, an extension of type FLAX_ARRAY or FLAX_SCALAR, to *OUT, whose shape and
 * name are in the arena of the file. Refuses a dtype that Flax cannot read, and elements that do not have the
 * size that dtype and shape give. */
ckpt_status flax_read_array(struct flax_input *in, const struct msgpack_value *value, struct flax_array *out);
/* flax_read_value - sets *OUT to a node of VALUE, which is neither an array nor a container. A complex number
 * becomes a call of complex(). An extension of a type that Flax lacks becomes a tuple (type, bytes). */
ckpt_status flax_read_value(struct flax_input *in, const struct msgpack_value *value, ckpt_value **out);
/* flax_put_value - appends VALUE, a node as flax_read_value makes it. */
void flax_put_value(buf *out, const ckpt_value *value);
/* flax_put_array - appends the beginning of an array that has the shape of TENSOR. The caller then appends
 * the NBYTES bytes of its elements. */
void flax_put_array(buf *out, const ckpt_tensor *tensor, const char *dtype, uint64_t nbytes, bool is_scalar);
/* flax_dtype_name - returns the name that Flax has for the dtype of TENSOR after a conversion to DTYPE; NULL:
 * Flax has no such dtype. */
const char *flax_dtype_name(const ckpt_tensor *tensor, ckpt_dtype dtype);
/* flax_size - sets *NBYTES to the size of an array of SHAPE whose elements have ELEMENT_SIZE bytes. Returns
 * false if the product of ELEMENT_SIZE and all nonzero dimensions is above NumPy's limit, 2^63 - 1. */
bool flax_size(const uint64_t *shape, uint32_t ndim, uint64_t element_size, uint64_t *nbytes);
/* flax_is_recognized - returns true if the NBYTES bytes of HEAD begin an extension, a list whose first item
 * is an extension, or a map whose first key is a text, a small number or a float. If PATH ends in .msgpack, a
 * single byte is recognized, too: an empty map or a small number. */
bool flax_is_recognized(const char *path, const unsigned char *head, size_t nbytes);
