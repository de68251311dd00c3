/* gguf.h - what the files of this folder share. */
#ifndef FORMAT_GGUF_GGUF_H
#define FORMAT_GGUF_GGUF_H

#include "codec/gguf.h"
#include "format/format.h"
#include "format/kit.h"

/* gguf_file - what a file that was read keeps for the writer: the pairs as they stand there. */
struct gguf_file {
    source *src; /* of the file that has the pairs */
    bool big_endian;
    uint32_t version;
    uint64_t alignment;
    struct gguf_pair *pairs; /* in their order; .bytes is NULL */
    size_t n, cap;
};

/* gguf_add_value - the pair P of G as metadata of F: its text, and its value with a type. */
ckpt_status gguf_add_value(ckpt_file *f, const struct gguf *g, const struct gguf_pair *p, ckpt_error *err);

extern const struct format format_gguf;

#endif
