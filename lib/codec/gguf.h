/* gguf.h - the pairs and tensors of a GGUF file, in the order in which they stand. */
#ifndef CODEC_GGUF_H
#define CODEC_GGUF_H

#include "base/arena.h"
#include "io/source.h"

#define GGUF_DIMENSIONS 4u

enum gguf_type { GGUF_U32 = 4, GGUF_BOOL = 7, GGUF_STRING = 8, GGUF_ARRAY = 9 };

/* A key and where its value is. */
struct gguf_pair {
    ckpt_str key;
    uint32_t type;    /* gguf.h of ggml has the numbers; below 13 */
    uint32_t element; /* of an array: the type of its elements */
    uint64_t count;   /* of an array: its elements; else 1 */
    uint64_t value;   /* offset: of a string, its length; of an array, its first element */
    uint64_t nvalue;  /* bytes there, of a string those of its text alone */
};

struct gguf_tensor {
    ckpt_str name;
    uint32_t type; /* of ggml */
    uint32_t ndim;
    uint64_t dims[GGUF_DIMENSIONS]; /* innermost first, as they stand */
    uint64_t elements, nbytes;
    uint64_t offset; /* in the data: from gguf.data on, which is known when all are read */
};

struct gguf {
    source *src;
    arena *a; /* keys and names */
    /* What is called for each; NULL: nothing. TEXT gets each key and name as soon as it is read, whatever
     * becomes of the rest. */
    ckpt_status (*text)(void *user, ckpt_str text, uint64_t at, const char *what, ckpt_error *err);
    ckpt_status (*pair)(void *user, const struct gguf_pair *p, ckpt_error *err);
    ckpt_status (*tensor)(void *user, const struct gguf_tensor *t, ckpt_error *err);
    void *user;
    uint32_t version;
    uint64_t npairs, ntensors, alignment;
    uint64_t data; /* where the data of the tensors begin */
    uint64_t at;   /* where it fails, in SRC: also of one that is packed in another file */
};

/* gguf_read - reads all of G->src. CKPT_EUNSUPPORTED: a version that is not read. */
ckpt_status gguf_read(struct gguf *g, ckpt_error *err);
/* gguf_block - how many elements a block of a type of ggml has, and how many bytes; false: there is no such
 * type. */
bool gguf_block(uint32_t type, uint64_t *elements, uint64_t *bytes);

#endif
