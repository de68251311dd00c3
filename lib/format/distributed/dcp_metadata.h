/* dcp_metadata.h - reads the .metadata of a distributed checkpoint of torch into little memory: a checkpoint
 * of thousands of ranks lists a million chunks, which a graph of ckpt_value nodes would hold in gigabytes. */
#pragma once

#include "io/source.h"

/* A value of the pickle. The lowest four bits are its dcp_type, the others an integer, a class, or an index
 * into an array of dcp_metadata. In an object, the index is followed by four bits for its dcp_class. */
typedef uint64_t dcp_word;

enum dcp_type {
    DCP_NOTHING, /* no value */
    DCP_OTHER,   /* a value that is not kept: None, bool, float, an object of a class not listed below */
    DCP_INT,
    DCP_TEXT,
    DCP_CLASS,
    DCP_SIZES,      /* a tuple of integers >= 0 */
    DCP_SIZES_ARGS, /* a tuple of one DCP_SIZES, as torch.Size is called with */
    DCP_TUPLE,      /* any other tuple */
    DCP_LIST,
    DCP_DICT,
    DCP_OBJECT /* an object of a dcp_class */
};

/* Classes of torch.distributed, with the fields that are kept. */
enum dcp_class {
    DCP_CLASS_OTHER,
    DCP_SIZE,           /* torch.Size, whose instances are DCP_SIZES */
    DCP_METADATA,       /* Metadata: state_dict_metadata, planner_data, storage_data */
    DCP_TENSOR,         /* TensorStorageMetadata: properties, size, chunks */
    DCP_BYTES,          /* BytesStorageMetadata */
    DCP_PROPERTIES,     /* TensorProperties: dtype */
    DCP_CHUNK,          /* ChunkStorageMetadata: offsets, sizes */
    DCP_INDEX,          /* MetadataIndex: fqn, offset */
    DCP_STORAGE_INFO,   /* _StorageInfo: relative_path, offset, length, transform_descriptors */
    DCP_SHARDED_TENSOR, /* ShardedTensorStorageMetadata of torch 1.12, which is not read */
    DCP_CLASSES
};

/* Indices of the fields in an object. */
enum { METADATA_TENSORS, METADATA_PLANNER_DATA, METADATA_STORAGE_DATA, METADATA_FIELDS };
enum { TENSOR_PROPERTIES, TENSOR_SIZE, TENSOR_CHUNKS, TENSOR_FIELDS };
enum { PROPERTIES_DTYPE, PROPERTIES_FIELDS };
enum { CHUNK_OFFSETS, CHUNK_SIZES, CHUNK_FIELDS };
enum { INDEX_FQN, INDEX_OFFSET, INDEX_FIELDS };
enum { INFO_PATH, INFO_OFFSET, INFO_LENGTH, INFO_TRANSFORMS, INFO_FIELDS };

/* A list or dict. */
struct dcp_container {
    size_t first_word;          /* index of its first word */
    uint32_t nwords, cap_words; /* in words: a pair of a dict takes two, key and value */
};

/* The values of one metadata file. */
struct dcp_metadata {
    dcp_word *words; /* elements of lists and dicts, and fields of objects */
    size_t nwords, cap_words;
    dcp_word *tuples; /* of each tuple, the number of its elements and these */
    size_t ntuples, cap_tuples;
    struct dcp_container *containers;
    size_t ncontainers, cap_containers;
    ckpt_str *texts; /* the characters are in the arena */
    size_t ntexts, cap_texts;
    dcp_word root;
};

/* dcp_metadata_read - reads SRC into *OUT, which the caller frees, and its texts into A. The arrays
 * of *OUT, the stack and the memo together take at most MAX bytes of memory. */
ckpt_status dcp_metadata_read(arena *a, source *src, uint64_t max, struct dcp_metadata *out, ckpt_error *err);
void dcp_metadata_free(struct dcp_metadata *meta);
/* dcp_metadata_keep_tuples - frees the lists, dicts and objects of META: only texts and tuples remain. */
void dcp_metadata_keep_tuples(struct dcp_metadata *meta);

static inline enum dcp_type dcp_type(dcp_word word) { return (enum dcp_type)(word & 15); }
static inline uint64_t dcp_value(dcp_word word) { return word >> 4; }
/* dcp_int - sets *OUT to the integer WORD. False: WORD is not an integer >= 0. */
static inline bool dcp_int(dcp_word word, uint64_t *out)
{
    *out = dcp_value(word);
    return dcp_type(word) == DCP_INT && (int64_t)word >= 0;
}
/* dcp_text - sets *OUT to the text WORD. False: WORD is not text. */
bool dcp_text(const struct dcp_metadata *meta, dcp_word word, ckpt_str *out);
/* dcp_sizes - returns the *COUNT integers of the tuple WORD. NULL: WORD is not DCP_SIZES. */
const uint64_t *dcp_sizes(const struct dcp_metadata *meta, dcp_word word, uint32_t *count);
/* dcp_elements - returns the *COUNT items of the list or tuple WORD, or the *COUNT words of the dict WORD, in
 * which each key is followed by its value. They are valid until META is freed. Returns NULL and sets *COUNT
 * to 0 for other values, also for DCP_SIZES. */
const dcp_word *dcp_elements(const struct dcp_metadata *meta, dcp_word word, size_t *count);
static inline bool dcp_is_instance(dcp_word word, enum dcp_class class)
{
    return dcp_type(word) == DCP_OBJECT && (dcp_value(word) & 15) == class;
}
/* dcp_field - returns FIELD of the object WORD; DCP_NOTHING if WORD is not of CLASS or has no such field. */
dcp_word dcp_field(const struct dcp_metadata *meta, dcp_word word, enum dcp_class class, unsigned field);
/* dcp_dtype - returns the dtype that WORD is, such as torch.float32, or CKPT_DT_NONE. */
ckpt_dtype dcp_dtype(dcp_word word);
