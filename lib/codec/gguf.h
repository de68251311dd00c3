/* gguf.h - reads and writes the key-value pairs and tensor infos of GGUF files, in the order of the file. */
#ifndef CODEC_GGUF_H
#define CODEC_GGUF_H

#include "base/arena.h"
#include "base/buf.h"
#include "core/dtype.h"
#include "core/value.h"
#include "io/source.h"

#define GGUF_DIMENSIONS 8u     /* at most; ggml allows 4 */
#define GGUF_TEXT_MAX   65536u /* bytes of a text that gguf_pair.bytes may have */
#define GGUF_KEY_MAX    65535u
#define GGML_NAME_MAX   63u /* bytes; ggml cuts or refuses longer names */
#define GGML_DIMENSIONS 4u
#define GGUF_DEPTH      16u /* of nested arrays, which ggml refuses */

/* The types of values (enum gguf_type of ggml). */
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

/* A key-value pair. */
struct gguf_pair {
    ckpt_str key;
    uint32_t type;    /* enum gguf_type */
    uint32_t element; /* of an array: the type of its elements */
    uint64_t count;   /* of an array: its elements; else 1 */
    uint64_t at;      /* offset of the pair, which begins with the length of the key */
    uint64_t value;   /* offset: of a string, its length; of an array, its first element */
    uint64_t nvalue;  /* bytes of the value; of a string, of its text alone */
    uint64_t end;     /* offset after the pair */
    /* The bytes of a value that is no array, in the byte order of the file, valid until the callback returns.
     * NULL: a text of more than GGUF_TEXT_MAX bytes. */
    const unsigned char *bytes;
};

struct gguf_tensor {
    ckpt_str name;
    ckpt_dtype dtype;
    uint32_t ndim;
    uint64_t dims[GGUF_DIMENSIONS]; /* innermost first, as in the file */
    uint64_t entry;                 /* offset of its name */
    uint64_t nbytes;
    uint64_t offset; /* from gguf.data, which is set after all tensor infos are read */
};

struct gguf {
    source *src;
    arena *a;            /* for keys and names */
    uint64_t max_header; /* bytes before the data; 0: any number */
    /* Callbacks, each of which may be NULL. TEXT gets every key and name as soon as it is read, even if
     * reading fails after it. */
    ckpt_status (*text)(void *user, ckpt_str text, uint64_t at, const char *what, ckpt_error *err);
    ckpt_status (*pair)(void *user, const struct gguf_pair *p, ckpt_error *err);
    ckpt_status (*tensor)(void *user, const struct gguf_tensor *t, ckpt_error *err);
    void *user;
    bool big_endian;
    uint32_t version;
    uint64_t npairs, ntensors, alignment;
    uint64_t header_end;
    uint64_t data; /* offset where the data of the tensors begin */
    uint64_t end;  /* offset where the data have to end, with padding; may be after the end of the file */
    uint64_t at;   /* offset of an error in SRC, even if SRC is part of another file */
    /* The first thing that ggml refuses although it can be read, and its offset; status CKPT_OK: none. */
    ckpt_error ggml_error;
    uint64_t ggml_error_at;
};

/* gguf_read - reads everything before the data of G->src. CKPT_EUNSUPPORTED: a version that is not
 * supported. */
ckpt_status gguf_read(struct gguf *g, ckpt_error *err);
/* gguf_check_end - after gguf_read: fails unless the data end where the file ends, which ggml requires. */
ckpt_status gguf_check_end(struct gguf *g, ckpt_error *err);
/* gguf_find_type - sets *TYPE to the ggml type of DTYPE; false: ggml has no such type. */
bool gguf_find_type(ckpt_dtype dtype, uint32_t *type);
/* gguf_get_width - returns the size of a value of TYPE, which is neither string nor array. */
size_t gguf_get_width(uint32_t type);
/* gguf_get_integer - returns the integer in P->bytes, read as unsigned; 0: P is no integer. */
uint64_t gguf_get_integer(const struct gguf_pair *p, bool big_endian);
/* gguf_read_value - in a callback of G: sets *TEXT to the value of P as a text, and *TYPED to it as a value
 * of its type, both in A. They are the same node if the text is abbreviated. */
ckpt_status gguf_read_value(const struct gguf *g, const struct gguf_pair *p, arena *a, ckpt_value **text,
                            ckpt_value **typed, ckpt_error *err);

/* The pairs of a file, kept after reading so that edits and copies can write them again. */
struct gguf_file {
    struct gguf header;
    struct gguf_pair *pairs; /* in the order of the file; .bytes is NULL if the value was left there */
    size_t n, cap;
};

/* gguf_put_pair - appends P, a pair of FROM, to OUT as a version 3 file has it, little-endian. */
ckpt_status gguf_put_pair(const struct gguf_file *from, const struct gguf_pair *p, buf *out, ckpt_error *err);
/* gguf_make_pair - sets *OUT to a pair, in A, of KEY and the value of TYPE that TEXT spells; elements of
 * an array have type ELEMENT. Its bytes are those that gguf_put_pair appends. CKPT_EUSAGE: TEXT is no such
 * value. */
ckpt_status gguf_make_pair(arena *a, ckpt_str key, uint32_t type, uint32_t element, ckpt_str text,
                           struct gguf_pair *out, ckpt_error *err);
/* gguf_take_type - cuts a suffix ":TYPE", or ":[TYPE]" of an array, off *KEY
 * (general.quantization_version:u32) and sets *TYPE and *ELEMENT to it; without a suffix, *TYPE is
 * GGUF_STRING. */
void gguf_take_type(ckpt_str *key, uint32_t *type, uint32_t *element);
/* gguf_round_up - rounds *N up to a multiple of ALIGNMENT; false: overflow. */
bool gguf_round_up(uint64_t *n, uint64_t alignment);
/* gguf_put_tensor - appends the tensor info of T under NAME with DTYPE, which ggml must have. BEGIN is the
 * offset of its data. */
void gguf_put_tensor(buf *b, ckpt_str name, const ckpt_tensor *t, ckpt_dtype dtype, uint64_t begin);

#endif
