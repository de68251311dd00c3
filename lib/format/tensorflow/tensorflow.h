/* tensorflow.h - what the readers of TensorFlow's two checkpoint formats share. */
#pragma once

#include "codec/tensorflow.h"
#include "format/format.h"
#include "format/kit.h"

/* tf_describe - sets dtype, shape and size in bytes of TENSOR, a tensor of F; the size is 0 if elements of
 * TYPE have no fixed size. In salvage, refuses a type that no output format can hold. */
ckpt_status tf_describe(const ckpt_file *f, const struct tf_dtype *type, const struct tf_shape *shape,
                        struct kit_tensor *tensor, ckpt_error *err);
