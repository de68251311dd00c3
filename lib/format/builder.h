/* builder.h - a checkpoint from tensors that the library makes itself. */
#pragma once

#include "format/format.h"

/* builder_add_source - does what ckpt_builder_add_tensor does, but unless SRC is NULL, the bytes of TENSOR
 * are those of SRC, which has as many as dtype and shape take. BUILDER takes a reference to SRC. */
ckpt_status builder_add_source(ckpt_builder *builder, const char *key, const ckpt_builder_tensor *tensor,
                               source *src, ckpt_error *err);
