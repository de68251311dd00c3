/* onnx.h - sources that convert values of a TensorProto to whole elements, one after the other. */
#pragma once

#include "codec/onnx.h"

/* onnx_decode - sets *OUT to a source, in A, of the COUNT numbers of TENSOR, which SRC has in a typed field
 * such as float_data. */
ckpt_status onnx_decode(arena *a, source *src, const struct onnx_tensor *tensor, uint64_t count, source **out,
                        ckpt_error *err);
/* onnx_decode_texts - sets *OUT to a source, in A, of the COUNT texts of string_data: the length of each in 8
 * bytes, then its bytes. */
ckpt_status onnx_decode_texts(arena *a, source *src, const struct onnx_tensor *tensor, uint64_t count,
                              source **out, ckpt_error *err);
