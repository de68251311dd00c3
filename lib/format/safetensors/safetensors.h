/* safetensors.h - what the two halves of the format share. */
#ifndef FORMAT_SAFETENSORS_SAFETENSORS_H
#define FORMAT_SAFETENSORS_SAFETENSORS_H

#include "base/buf.h"
#include "format/format.h"

#define SAFETENSORS_MAX_HEADER 100000000u
/* Beyond this the Hub's own clients refuse to parse a header. */
#define SAFETENSORS_HUB_HEADER 25000000u

/* What a header has of one tensor. */
struct header_entry {
    ckpt_str name;       /* NUL-terminated */
    uint64_t pos;        /* of the entry, in the file */
    uint64_t begin, end; /* of its bytes, from the first byte of the data on */
    uint64_t *shape;
    uint32_t ndim;
    uint16_t dtype;
    bool bad; /* its fault was reported; there is no row of it */
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
/* safetensors_entry - "NAME":{…} of T as DTYPE, whose data lie from BEGIN to END. */
void safetensors_entry(buf *out, ckpt_str name, const ckpt_tensor *t, ckpt_dtype dtype, uint64_t begin,
                       uint64_t end);
/* safetensors_metadata - "__metadata__":{…} of the pairs in their order. */
void safetensors_metadata(buf *out, const struct plan_pair *pairs, size_t n);

#endif
