/* gguf.h - what the files of this folder share. */
#pragma once

#include "codec/gguf.h"
#include "format/format.h"
#include "format/kit.h"

#define GGUF_ALIGNMENT 32u /* unless the pair general.alignment has a different one */

/* gguf_check_name - fails if ggml cannot read NAME, the name that TENSOR is to have. FROM_GGUF: TENSOR comes
 * from a GGUF; NAME may then be no UTF-8, and may be too long if the present name of TENSOR is too long. */
ckpt_status gguf_check_name(ckpt_str name, const ckpt_tensor *tensor, bool from_gguf, ckpt_error *err);
/* gguf_in_place, gguf_undoes, gguf_write_metadata, gguf_write - in_place, undoes, write_metadata and write of
 * struct format. */
ckpt_status gguf_in_place(ckpt_plan *p, struct patches *out, ckpt_error *err);
bool gguf_undoes(const ckpt_file *old, const ckpt_file *current, source *now, const struct patches *undo);
ckpt_status gguf_write_metadata(ckpt_file *f, struct metadata_job *job, ckpt_error *err);
ckpt_status gguf_write(ckpt_plan *p, const struct write_job *job, ckpt_error *err);
