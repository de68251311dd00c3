/* safetensors.h - what the files of the format share. */
#ifndef FORMAT_SAFETENSORS_SAFETENSORS_H
#define FORMAT_SAFETENSORS_SAFETENSORS_H

#include "base/buf.h"
#include "format/format.h"

#define SAFETENSORS_MAX_HEADER 100000000u
/* Beyond this the Hub's own clients refuse to parse a header. */
#define SAFETENSORS_HUB_HEADER 25000000u

/* The entry of one tensor in a header. */
struct header_entry {
    ckpt_str name;       /* NUL-terminated */
    uint64_t pos;        /* file offset of the entry */
    uint64_t begin, end; /* its bytes, as offsets in the data */
    uint64_t *shape;
    uint32_t ndim;
    uint16_t dtype;
    bool bad; /* its fault was reported; it gets no row */
};

/* safetensors_add_rows - safetensors/rows.c: a row, a storage and a node of F for each of N entries, sorted
 * and checked, whose names and shapes live as long as F. */
ckpt_status safetensors_add_rows(ckpt_file *f, const struct header_entry *entries, size_t n, ckpt_error *err);
/* safetensors_write - safetensors/write.c: the format's write. */
ckpt_status safetensors_write(ckpt_plan *p, const struct write_job *job, ckpt_error *err);
/* safetensors_in_place - safetensors/in_place.c: the format's in_place. */
ckpt_status safetensors_in_place(ckpt_plan *p, struct patches *out, ckpt_error *err);
/* safetensors_undoes - safetensors/in_place.c: the format's undoes. */
bool safetensors_undoes(const ckpt_file *was, const ckpt_file *is, source *now, const struct patches *undo);
/* safetensors_write_metadata - safetensors/metadata.c: the format's write_metadata. */
ckpt_status safetensors_write_metadata(ckpt_file *f, struct metadata_job *job, ckpt_error *err);
/* safetensors_entry - writes "NAME":{…} for T as DTYPE, whose data are [BEGIN, END). */
void safetensors_entry(buf *out, ckpt_str name, const ckpt_tensor *t, ckpt_dtype dtype, uint64_t begin,
                       uint64_t end);
/* safetensors_metadata - writes "__metadata__":{…} with the pairs in their order. */
void safetensors_metadata(buf *out, const struct plan_pair *pairs, size_t n);

#endif
