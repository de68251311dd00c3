/* gguf.h - the pairs and tensors of a GGUF file, in the order in which they stand: read, and written. */
#ifndef CODEC_GGUF_H
#define CODEC_GGUF_H

#include "base/arena.h"
#include "base/buf.h"
#include "core/dtype.h"
#include "core/value.h"
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
/* gguf_pair_number - the whole number that P is, whose bytes are there, without its sign; 0: it is none. */
uint64_t gguf_pair_number(const struct gguf_pair *p, bool big_endian);
/* gguf_value - P of G, in its callback, as *TEXT, and as *TYPED, a value of its type; both are one where the
 * text is abbreviated. They are in A. */
ckpt_status gguf_value(const struct gguf *g, const struct gguf_pair *p, arena *a, ckpt_value **text,
                       ckpt_value **typed, ckpt_error *err);

/* A file that was read, as far as the pairs and tensors of another one are made of it. */
struct gguf_file {
    struct gguf header;
    struct gguf_pair *pairs; /* in their order; .bytes is NULL where the value is in the file */
    size_t n, cap;
};

/* gguf_pair_put - appends P, of K, to OUT as version 3 has it, little-endian. */
ckpt_status gguf_pair_put(const struct gguf_file *k, const struct gguf_pair *p, buf *out, ckpt_error *err);
/* gguf_pair_make - *OUT is KEY with the value that TEXT is for TYPE, and ELEMENT if that is an array, in A;
 * its .bytes are all of the value as gguf_pair_put appends it. CKPT_EUSAGE: TEXT is no such value. */
ckpt_status gguf_pair_make(arena *a, ckpt_str key, uint32_t type, uint32_t element, ckpt_str text,
                           struct gguf_pair *out, ckpt_error *err);
/* gguf_take_type - cuts ":TYPE", or ":[TYPE]" of an array, off *KEY (general.quantization_version:u32), for
 * gguf_pair_make; without one it is a text. */
void gguf_take_type(ckpt_str *key, uint32_t *type, uint32_t *element);
/* gguf_fill_up - *N to the next multiple of ALIGNMENT; false: there is none. */
bool gguf_fill_up(uint64_t *n, uint64_t alignment);
/* gguf_put_tensor - appends the entry of T as NAME of DTYPE, which ggml has, with its data at BEGIN. */
void gguf_put_tensor(buf *b, ckpt_str name, const ckpt_tensor *t, ckpt_dtype dtype, uint64_t begin);

#endif
