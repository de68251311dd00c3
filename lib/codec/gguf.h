/* gguf.h - the pairs and tensors of a GGUF file, in the order in which they stand. */
#ifndef CODEC_GGUF_H
#define CODEC_GGUF_H

#include "base/arena.h"
#include "core/dtype.h"
#include "io/source.h"

#define GGUF_DIMENSIONS 8u     /* that are read; ggml has 4 */
#define GGUF_TEXT_MAX   65536u /* bytes of a text that is passed on as such */
#define GGUF_KEY_MAX    65535u
#define GGML_NAME_MAX   63u /* of ggml; longer names are cut or refused */
#define GGML_DIMENSIONS 4u
#define GGUF_DEPTH      16u /* of arrays in arrays, which ggml refuses */

/* The types of values (gguf.h of ggml). */
enum gguf_type {
    GGUF_U8,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64
};

/* A key and where its value is. */
struct gguf_pair {
    ckpt_str key;
    uint32_t type;    /* enum gguf_type */
    uint32_t element; /* of an array: the type of its elements */
    uint64_t count;   /* of an array: its elements; else 1 */
    uint64_t at;      /* offset of all of it: of the length of its key */
    uint64_t value;   /* offset: of a string, its length; of an array, its first element */
    uint64_t nvalue;  /* bytes there, of a string those of its text alone */
    uint64_t end;     /* offset after all of it */
    /* The bytes of a value that is no array, in the order of the file, until the callback returns; NULL: a
     * text of more than GGUF_TEXT_MAX bytes. */
    const unsigned char *bytes;
};

struct gguf_tensor {
    ckpt_str name;
    ckpt_dtype dtype;
    uint32_t ndim;
    uint64_t dims[GGUF_DIMENSIONS]; /* innermost first, as they stand */
    uint64_t entry;                 /* offset of its name */
    uint64_t nbytes;
    uint64_t offset; /* in the data: from gguf.data on, which is known when all are read */
};

struct gguf {
    source *src;
    arena *a;            /* keys and names */
    uint64_t max_header; /* bytes before the data; 0: any number */
    /* What is called for each; NULL: nothing. TEXT gets each key and name as soon as it is read, whatever
     * becomes of the rest. */
    ckpt_status (*text)(void *user, ckpt_str text, uint64_t at, const char *what, ckpt_error *err);
    ckpt_status (*pair)(void *user, const struct gguf_pair *p, ckpt_error *err);
    ckpt_status (*tensor)(void *user, const struct gguf_tensor *t, ckpt_error *err);
    void *user;
    bool big_endian;
    uint32_t version;
    uint64_t npairs, ntensors, alignment;
    uint64_t header_end;
    uint64_t data; /* where the data of the tensors begin … */
    uint64_t end;  /* … and where they have to end, each filled up; maybe after the file */
    uint64_t at;   /* where it fails, in SRC: also of one that is packed in another file */
    ckpt_error
        beyond; /* the first thing that ggml refuses and that is read all the same; status CKPT_OK: none */
    uint64_t beyond_at;
};

/* gguf_read - reads all of G->src before the data. CKPT_EUNSUPPORTED: a version that is not read. */
ckpt_status gguf_read(struct gguf *g, ckpt_error *err);
/* gguf_check_end - after gguf_read: do the data end where the file does, as ggml demands? */
ckpt_status gguf_check_end(struct gguf *g, ckpt_error *err);
/* gguf_type_of - *TYPE: what ggml calls DTYPE; false: it has no such type. */
bool gguf_type_of(ckpt_dtype dtype, uint32_t *type);
/* gguf_value_bytes - the size of a value of TYPE that is neither a string nor an array. */
uint64_t gguf_value_bytes(uint32_t type);

#endif
