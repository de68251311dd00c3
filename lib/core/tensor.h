/* tensor.h - the tensors of an open file as bytes: ckpt_tensor_read and
 * ckpt_tensor_stream of ckpt.h, and how whoever opens a stream himself reads. */
#ifndef CORE_TENSOR_H
#define CORE_TENSOR_H

#include "core/file.h"
#include "core/stream.h"

/* tensor_reading - a wrong checksum is an error, or a notice of F if it was told
 * to ignore them. */
struct stream_options tensor_reading(ckpt_file *f);

#endif
