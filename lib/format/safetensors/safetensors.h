/* safetensors.h - what the two halves of the format share. */
#ifndef FORMAT_SAFETENSORS_SAFETENSORS_H
#define FORMAT_SAFETENSORS_SAFETENSORS_H

#include "base/buf.h"
#include "core/compact.h"
#include "format/format.h"

#define SAFETENSORS_MAX_HEADER 100000000u
/* Beyond this the Hub's own clients refuse to parse a header. */
#define SAFETENSORS_HUB_HEADER 25000000u

/* safetensors_place - where the entry of X is in F's file. */
static inline uint64_t safetensors_place(const ckpt_file *f, const struct compact_row *x)
{
    return source_pos(f->src, 8 + (uint64_t)x->at); /* bounded: by the header's length */
}
/* safetensors_expand - safetensors/rows.c: ckpt_file's expand. */
ckpt_status safetensors_expand(ckpt_file *f, ckpt_error *err);
/* safetensors_write - safetensors/write.c: the format's write. */
ckpt_status safetensors_write(ckpt_plan *p, const struct write_job *job, ckpt_error *err);
/* safetensors_is_copy - safetensors/copy.c: does P, which was to change names, come to the file that was
 * read? */
bool safetensors_is_copy(const ckpt_plan *p);
/* safetensors_copy - that file to OUT. */
ckpt_status safetensors_copy(ckpt_plan *p, const ckpt_write_options *o, sink *out, ckpt_error *err);
/* safetensors_in_place - safetensors/in_place.c: the format's in_place. */
ckpt_status safetensors_in_place(ckpt_plan *p, struct patches *out, ckpt_error *err);
/* safetensors_undoes - safetensors/in_place.c: the format's undoes. */
bool safetensors_undoes(const ckpt_file *was, const ckpt_file *is, source *now, const struct patches *undo);
/* safetensors_entry - "NAME":{…} of T as DTYPE, whose data lie from BEGIN to END. */
void safetensors_entry(buf *out, ckpt_str name, const ckpt_tensor *t, ckpt_dtype dtype, uint64_t begin,
                       uint64_t end);
/* safetensors_metadata - "__metadata__":{…} of the pairs in their order. */
void safetensors_metadata(buf *out, const struct plan_pair *pairs, size_t n);

#endif
