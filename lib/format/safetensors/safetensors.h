/* safetensors.h - what the files of this folder share. */
#ifndef FORMAT_SAFETENSORS_SAFETENSORS_H
#define FORMAT_SAFETENSORS_SAFETENSORS_H

#include "base/buf.h"
#include "format/format.h"

#define SAFETENSORS_MAX_HEADER 100000000u
/* The clients of the Hugging Face Hub refuse a header that is longer. */
#define SAFETENSORS_HUB_HEADER 25000000u

/* The entry of one tensor in a header. */
struct header_entry {
    ckpt_str name;       /* NUL-terminated */
    uint64_t pos;        /* file offset of the entry */
    uint64_t begin, end; /* data_offsets: where its bytes begin and end in the data */
    uint64_t *shape;
    uint32_t ndim;
    uint16_t dtype;
    bool bad; /* its fault was reported, and it gets no row */
};

/* safetensors_add_rows - adds a row, a storage and a node to F for each of the N entries, which are sorted
 * and checked, and whose names and shapes live as long as F. */
ckpt_status safetensors_add_rows(ckpt_file *f, const struct header_entry *entries, size_t n, ckpt_error *err);
/* safetensors_write - safetensors/write.c: the write of the format. */
ckpt_status safetensors_write(ckpt_plan *p, const struct write_job *job, ckpt_error *err);
/* safetensors_in_place - safetensors/in_place.c: the in_place of the format. */
ckpt_status safetensors_in_place(ckpt_plan *p, struct patches *out, ckpt_error *err);
/* safetensors_undoes - safetensors/in_place.c: the undoes of the format. */
bool safetensors_undoes(const ckpt_file *was, const ckpt_file *is, source *now, const struct patches *undo);
/* safetensors_write_metadata - safetensors/metadata.c: the write_metadata of the format. */
ckpt_status safetensors_write_metadata(ckpt_file *f, struct metadata_job *job, ckpt_error *err);
/* safetensors_put_entry - appends the entry "NAME":{…} of T as DTYPE with data_offsets [BEGIN, END). */
void safetensors_put_entry(buf *out, ckpt_str name, const ckpt_tensor *t, ckpt_dtype dtype, uint64_t begin,
                           uint64_t end);
/* safetensors_put_metadata - appends "__metadata__":{…} with the N pairs in their order. */
void safetensors_put_metadata(buf *out, const struct plan_pair *pairs, size_t n);

#endif
