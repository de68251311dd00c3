/* flax.h - what the files of this folder share. */
#ifndef FORMAT_FLAX_FLAX_H
#define FORMAT_FLAX_FLAX_H

#include "codec/npy.h"
#include "format/format.h"

#define FLAX_DEPTH   1000u /* containers in each other; flax itself fails somewhere above 600 */
#define FLAX_CHUNKED "__msgpack_chunked_array__"

/* Types of extensions: MessagePack's own, then flax's. */
enum { FLAX_TIMESTAMP = -1, FLAX_ARRAY = 1, FLAX_COMPLEX = 2, FLAX_SCALAR = 3 };

extern const struct format format_flax;
/* flax_is_scalar - is V, a node of type TENSOR of F, a scalar of numpy, which is no array? */
bool flax_is_scalar(const ckpt_file *f, const ckpt_value *v);
/* flax_size - the size of an array of SHAPE, whose elements have WIDTH bytes. False: more than numpy allows,
 * 2^63 - 1 even where one size is 0. */
bool flax_size(const uint64_t *shape, uint32_t ndim, uint64_t width, uint64_t *nbytes);
/* flax_is_recognized - do the N bytes of HEAD begin a map whose first key is a text or a small number, an
 * array of flax, or a list that begins with one? Nothing else is recognized, but for a single byte where PATH
 * is that of a .msgpack. */
bool flax_is_recognized(const char *path, const unsigned char *head, size_t n);
/* flax_write - the format's write. */
ckpt_status flax_write(ckpt_plan *p, const struct write_job *job, ckpt_error *err);

#endif
