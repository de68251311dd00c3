/* safetensors.h - what the files of this folder share. */
#pragma once

#include "format/format.h"

#define SAFETENSORS_MAX_HEADER 100000000u
/* The clients of the Hugging Face Hub refuse a header that is longer. */
#define SAFETENSORS_HUB_HEADER 25000000u

/* The functions write, in_place, undoes and write_metadata of struct format. */
ckpt_status safetensors_write(ckpt_plan *p, const struct write_job *job, ckpt_error *err);
ckpt_status safetensors_in_place(ckpt_plan *p, struct patches *out, ckpt_error *err);
bool safetensors_undoes(const ckpt_file *old, const ckpt_file *current, source *now,
                        const struct patches *undo);
ckpt_status safetensors_write_metadata(ckpt_file *f, struct metadata_job *job, ckpt_error *err);
/* safetensors_put_entry - appends the entry "NAME":{…} of TENSOR as DTYPE with data_offsets [BEGIN,
 * END). */
void safetensors_put_entry(buf *out, ckpt_str name, const ckpt_tensor *tensor, ckpt_dtype dtype,
                           uint64_t begin, uint64_t end);
/* safetensors_put_metadata - appends "__metadata__":{…} with the COUNT pairs in their order. */
void safetensors_put_metadata(buf *out, const struct plan_pair *pairs, size_t count);
/* safetensors_put_pair - appends the pair KEY: TEXT of the metadata, after a comma unless it is the FIRST. */
void safetensors_put_pair(buf *out, ckpt_str key, ckpt_str text, bool first);
/* safetensors_pad_header - appends spaces to the header OUT up to ROOM bytes, the length of the old header. A
 * longer OUT is padded to a multiple of eight if the data MAY_MOVE; else the function fails. */
ckpt_status safetensors_pad_header(buf *out, uint64_t room, bool may_move, ckpt_error *err);
