/* tensor.h - ckpt_tensor_read and ckpt_tensor_stream of ckpt.h, and the stream options and errors for
 * other readers of a file's tensors. */
#pragma once

#include "core/file.h"
#include "core/stream.h"

/* tensor_stream_options - returns options by which a wrong checksum is an error, or a notice of F if F
 * ignores checksums. */
struct stream_options tensor_stream_options(ckpt_file *f);
/* name_tensor_if_failed - returns ST; unless it is CKPT_OK, adds the name of tensor INDEX and the path of F
 * to ERR. */
ckpt_status name_tensor_if_failed(const ckpt_file *f, uint32_t index, ckpt_status st, ckpt_error *err);
/* tensor_stream_range - passes elements [FIRST, FIRST + COUNT) to TAKE; sets *CRC to their stream_crc. */
ckpt_status tensor_stream_range(ckpt_file *f, uint32_t index, uint64_t first, uint64_t count, uint32_t *crc,
                                int (*take)(void *user, const void *bytes, size_t n), void *user,
                                ckpt_error *err);
