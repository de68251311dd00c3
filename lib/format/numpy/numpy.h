/* numpy.h - declarations for the readers and writers of .npy and .npz. */
#pragma once

#include "codec/npy.h"
#include "format/format.h"
#include "format/kit.h"

/* numpy_describe - sets *TENSOR to dtype, shape and data of the array at OFFSET of SRC, and *END to the
 * offset after it. The caller sets the name. CKPT_EUNSUPPORTED: it is an array of objects, of which only
 * dtype and shape are set. */
ckpt_status numpy_describe(ckpt_file *f, source *src, uint64_t offset, struct kit_tensor *tensor,
                           uint64_t *end, ckpt_error *err);

bool numpy_has_dtype(const ckpt_tensor *tensor);
ckpt_status npy_write(ckpt_plan *p, const struct write_job *job, ckpt_error *err);
ckpt_status npz_write(ckpt_plan *p, const struct write_job *job, ckpt_error *err);
