/* gguf.h - reads and writes the key-value pairs and tensor infos of GGUF files, in the order of the file. */
#pragma once

#include "base/buf.h"
#include "core/value.h"

#define GGUF_DIMENSIONS 8u     /* most dimensions of a tensor */
#define GGUF_TEXT_MAX   65536u /* most bytes of a text in gguf_pair.bytes */
#define GGUF_KEY_MAX    65535u /* most bytes of a key or name */
#define GGML_NAME_MAX   63u    /* most bytes of a name in ggml, which truncates or refuses longer names */
#define GGML_DIMENSIONS 4u     /* most dimensions of a tensor in ggml */
#define GGUF_DEPTH      16u    /* most levels of nested arrays; ggml refuses any nested array */

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

struct gguf_pair {
    ckpt_str key;
    uint32_t type;         /* enum gguf_type */
    uint32_t element_type; /* type of the elements of an array */
    uint64_t count;        /* number of elements of an array; else 1 */
    uint64_t offset;       /* offset of the pair, which begins with the length of the key */
    uint64_t value_offset; /* offset of a number, of a string's length, or of an array's first element */
    uint64_t value_size;   /* bytes of a number, of a string without its length, or of all elements */
    uint64_t end_offset;   /* offset of the end of the pair */
    /* The bytes of the value, in the byte order of the file, valid until the callback returns. NULL: the
     * value is an array, or a text of more than GGUF_TEXT_MAX bytes, and was skipped. */
    const unsigned char *bytes;
};

struct gguf_tensor {
    ckpt_str name;
    ckpt_dtype dtype;
    uint32_t ndim;
    uint64_t dims[GGUF_DIMENSIONS]; /* innermost first, as in the file */
    uint64_t info_offset;           /* offset of the tensor info, which begins with the name */
    uint64_t nbytes;
    uint64_t offset; /* distance of the data from gguf.data_offset, set after the last tensor info */
};

struct gguf {
    source *src;
    arena *a;            /* arena of keys and names */
    uint64_t max_header; /* most bytes before the data; 0: no limit */
    /* Callbacks, each of which may be NULL. on_text is called with every key and name as soon as it is read,
     * even if reading fails after it. */
    ckpt_status (*on_text)(void *user, ckpt_str text, uint64_t at, const char *what, ckpt_error *err);
    ckpt_status (*on_pair)(void *user, const struct gguf_pair *p, ckpt_error *err);
    ckpt_status (*on_tensor)(void *user, const struct gguf_tensor *t, ckpt_error *err);
    void *user;
    bool big_endian;
    uint32_t version;
    uint64_t npairs, ntensors, alignment, header_end;
    uint64_t data_offset;  /* offset of the tensors' data */
    uint64_t data_end;     /* offset where data and padding should end; may be after the end of the file */
    uint64_t wide_end;     /* the same, if blocks of q8_1 had the size that an older gguf-py gave them */
    uint64_t error_offset; /* offset of an error in SRC, even if SRC is a range of another file */
    /* The first fault that ggml refuses and gguf_read accepts, and its offset in SRC; CKPT_OK: none. */
    ckpt_error ggml_error;
    uint64_t ggml_error_offset;
};

/* gguf_read - reads everything before the data of GGUF->src. CKPT_EUNSUPPORTED: a version that is not
 * supported. */
ckpt_status gguf_read(struct gguf *gguf, ckpt_error *err);
/* gguf_check_end - to be called after gguf_read: fails unless the file ends where the data and their padding
 * end, as ggml requires. */
ckpt_status gguf_check_end(struct gguf *gguf, ckpt_error *err);
/* gguf_find_type - sets *TYPE to the ggml type of DTYPE; false: ggml has no such type. */
bool gguf_find_type(ckpt_dtype dtype, uint32_t *type);
/* gguf_get_width - returns the size of a value of TYPE; 0: a string, an array or an unknown type. */
size_t gguf_get_width(uint32_t type);
/* gguf_get_integer - returns the integer in PAIR->bytes, read as unsigned; 0: PAIR is no integer. */
uint64_t gguf_get_integer(const struct gguf_pair *pair, bool big_endian);
/* gguf_read_value - sets *TEXT to the value of PAIR as a text, and *TYPED to the same value as a node of its
 * type, both in A. If the text is abbreviated, *TYPED is that text. To be called in the callback on_pair
 * of GGUF. */
ckpt_status gguf_read_value(const struct gguf *gguf, const struct gguf_pair *pair, arena *a,
                            ckpt_value **text, ckpt_value **typed, ckpt_error *err);

/* The pairs of a file, which are kept after reading so that edits and copies can write them again. */
struct gguf_file {
    struct gguf header;
    struct gguf_pair *pairs; /* in the order of the file; .bytes is NULL if the value was not kept */
    size_t n, cap;
};

/* gguf_put_pair - appends PAIR, a pair of FROM, to OUT in version 3, little-endian. */
ckpt_status gguf_put_pair(const struct gguf_file *from, const struct gguf_pair *pair, buf *out,
                          ckpt_error *err);
/* gguf_make_pair - sets *OUT to a pair, in A, of KEY and the value of TYPE that TEXT spells. The elements of
 * an array have ELEMENT_TYPE. OUT->bytes is the value as gguf_put_pair appends it. CKPT_EUSAGE: TEXT is no
 * such value. */
ckpt_status gguf_make_pair(arena *a, ckpt_str key, uint32_t type, uint32_t element_type, ckpt_str text,
                           struct gguf_pair *out, ckpt_error *err);
/* gguf_take_type - removes a type suffix from *KEY. ":u32" sets *TYPE to GGUF_U32; ":[u32]", an array, sets
 * *TYPE to GGUF_ARRAY and *ELEMENT_TYPE to GGUF_U32. If there is no such suffix, sets *TYPE to GGUF_U32 for
 * general.alignment, else to GGUF_STRING. */
void gguf_take_type(ckpt_str *key, uint32_t *type, uint32_t *element_type);
/* gguf_round_up - rounds *COUNT up to a multiple of ALIGNMENT; false: overflow. */
bool gguf_round_up(uint64_t *count, uint64_t alignment);
/* gguf_put_tensor - appends the tensor info of TENSOR under NAME with DTYPE, which ggml must have.
 * OFFSET is the distance of its data from the beginning of all data. */
void gguf_put_tensor(buf *out, ckpt_str name, const ckpt_tensor *tensor, ckpt_dtype dtype, uint64_t offset);
