/* tensor.h - the tensors of an open file as bytes: ckpt_tensor_read and
 * ckpt_tensor_stream of ckpt.h, and how whoever opens a stream himself reads. */
#ifndef CORE_TENSOR_H
#define CORE_TENSOR_H

#include "core/file.h"
#include "core/stream.h"

/* tensor_reading - a wrong checksum is an error, or a notice of F if it was told
 * to ignore them. */
struct stream_options tensor_reading(ckpt_file *f);
/* tensor_failed - ERR is about row I of F. Returns ST. */
ckpt_status tensor_failed(const ckpt_file *f, uint32_t i, ckpt_status st, ckpt_error *err);
/* tensor_part - ckpt_tensor_stream for a part as stream_open_part reads it; *CRC is
 * stream_crc's. */
ckpt_status tensor_part(ckpt_file *f, uint32_t i, uint64_t first, uint64_t count, uint32_t *crc,
                        int (*take)(void *user, const void *bytes, size_t n), void *user, ckpt_error *err);

#endif
