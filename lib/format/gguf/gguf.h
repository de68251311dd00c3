/* gguf.h - what the files of this folder share. */
#ifndef FORMAT_GGUF_GGUF_H
#define FORMAT_GGUF_GGUF_H

#include "base/buf.h"
#include "codec/gguf.h"
#include "format/format.h"
#include "format/kit.h"

/* gguf_file - what a file that was read keeps for the writer: the pairs as they stand there. */
struct gguf_file {
    source *src; /* of the file that has the pairs */
    bool big_endian;
    uint32_t version;
    uint64_t alignment;
    uint64_t ntensors;         /* in SRC */
    uint64_t header_end, data; /* offsets: after the last tensor's entry, and where the data begin */
    struct gguf_pair *pairs;   /* in their order; .bytes is NULL where the value is in SRC */
    size_t n, cap;
};

/* gguf_add_value - the pair P of G as metadata of F: its text, and its value with a type. */
ckpt_status gguf_add_value(ckpt_file *f, const struct gguf *g, const struct gguf_pair *p, ckpt_error *err);

/* gguf_pair_put - appends P, of K, to OUT as version 3 has it, little-endian. */
ckpt_status gguf_pair_put(const struct gguf_file *k, const struct gguf_pair *p, buf *out, ckpt_error *err);
/* gguf_pair_make - *OUT is KEY with the value that TEXT is for TYPE, and ELEMENT if that is an array, in A;
 * its .bytes are all of the value as gguf_pair_put appends it. CKPT_EUSAGE: TEXT is no such value. */
ckpt_status gguf_pair_make(arena *a, ckpt_str key, uint32_t type, uint32_t element, ckpt_str text,
                           struct gguf_pair *out, ckpt_error *err);
/* gguf_fill_up - *N to the next multiple of ALIGNMENT; false: there is none. */
bool gguf_fill_up(uint64_t *n, uint64_t alignment);
/* gguf_put_tensor - appends the entry of T as NAME of DTYPE, which ggml has, with its data at BEGIN. */
void gguf_put_tensor(buf *b, ckpt_str name, const ckpt_tensor *t, ckpt_dtype dtype, uint64_t begin);
/* gguf_check_name - fails if NAME, of T, is none that ggml reads; OWN: T may have had such a name in its
 * GGUF. */
ckpt_status gguf_check_name(ckpt_str name, const ckpt_tensor *t, bool own, ckpt_error *err);
/* gguf_in_place, gguf_undoes, gguf_write_metadata, gguf_write - those of the format. */
ckpt_status gguf_in_place(ckpt_plan *p, struct patches *out, ckpt_error *err);
bool gguf_undoes(const ckpt_file *was, const ckpt_file *is, source *now, const struct patches *undo);
ckpt_status gguf_write_metadata(ckpt_file *f, struct metadata_job *job, ckpt_error *err);
ckpt_status gguf_write(ckpt_plan *p, const struct write_job *job, ckpt_error *err);

extern const struct format format_gguf;

#endif
