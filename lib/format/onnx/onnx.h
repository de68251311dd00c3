/* onnx.h - the bytes of ONNX tensors that are not stored as they are handed out. */
#ifndef FORMAT_ONNX_ONNX_H
#define FORMAT_ONNX_ONNX_H

#include "codec/onnx.h"

/* onnx_unpack - *OUT has the COUNT elements of SRC, of BITS bits each, in a byte each. */
ckpt_status onnx_unpack(source *src, uint64_t count, unsigned bits, source **out, ckpt_error *err);
/* onnx_decode - *OUT has the COUNT numbers of T, which stand in SRC by type, as raw data would hold them, in
 * A. */
ckpt_status onnx_decode(arena *a, source *src, const struct onnx_tensor *t, uint64_t count, source **out,
                        ckpt_error *err);
/* onnx_decode_texts - the same for COUNT texts: the length of each, 8 bytes, and its bytes. */
ckpt_status onnx_decode_texts(arena *a, source *src, const struct onnx_tensor *t, uint64_t count,
                              source **out, ckpt_error *err);

#endif
