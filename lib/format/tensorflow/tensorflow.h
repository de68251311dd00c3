/* tensorflow.h - what the readers of TensorFlow's two formats of checkpoints share. */
#ifndef FORMAT_TENSORFLOW_H
#define FORMAT_TENSORFLOW_H

#include "codec/tensorflow.h"
#include "format/format.h"
#include "format/kit.h"

/* tf_describe - sets dtype, shape and size of T, a tensor of F, but for types whose size is not fixed. In
 * salvage it refuses a type that no format has that is written. */
ckpt_status tf_describe(const ckpt_file *f, const struct tf_dtype *type, const struct tf_shape *shape,
                        struct kit_tensor *t, ckpt_error *err);

#endif
