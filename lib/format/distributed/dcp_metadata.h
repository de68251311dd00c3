/* dcp_metadata.h - the .metadata of a distributed checkpoint of torch, in as few bytes as it can be kept in:
 * a checkpoint of thousands of ranks names a million chunks, which a graph of nodes would hold in gigabytes.
 * */
#ifndef FORMAT_DISTRIBUTED_DCP_METADATA_H
#define FORMAT_DISTRIBUTED_DCP_METADATA_H

#include "base/arena.h"
#include "io/source.h"

/* A value of the pickle: its type in the lowest four bits, above them what it is. */
typedef uint64_t dcp_word;

enum dcp_type {
    DCP_NOTHING, /* there is none */
    DCP_OTHER,   /* what nobody asks for: None, bools, floats, objects of other classes */
    DCP_INT,
    DCP_TEXT,
    DCP_CLASS,
    DCP_SIZES, /* a tuple of integers >= 0 */
    DCP_TUPLE, /* another one */
    DCP_LIST,
    DCP_DICT,
    DCP_OBJECT /* of a class below */
};

/* Classes of torch.distributed, by the fields that are kept of them. */
enum dcp_class {
    DCP_CLASS_OTHER,
    DCP_SIZE,           /* torch.Size */
    DCP_METADATA,       /* state_dict_metadata, planner_data, storage_data */
    DCP_TENSOR,         /* properties, size, chunks */
    DCP_BYTES,          /* BytesStorageMetadata */
    DCP_PROPERTIES,     /* dtype */
    DCP_CHUNK,          /* offsets, sizes */
    DCP_INDEX,          /* fqn, offset */
    DCP_STORED,         /* relative_path, offset, length, transform_descriptors */
    DCP_SHARDED_TENSOR, /* of torch 1.12, which had one file for each tensor and no chunks */
    DCP_CLASSES
};

/* Fields by their place in an object of the class. */
enum { METADATA_TENSORS, METADATA_PATHS, METADATA_STORED, METADATA_FIELDS };
enum { TENSOR_PROPERTIES, TENSOR_SIZE, TENSOR_CHUNKS, TENSOR_FIELDS };
enum { PROPERTIES_DTYPE, PROPERTIES_FIELDS };
enum { CHUNK_OFFSETS, CHUNK_SIZES, CHUNK_FIELDS };
enum { INDEX_FQN, INDEX_OFFSET, INDEX_FIELDS };
enum { STORED_PATH, STORED_OFFSET, STORED_LENGTH, STORED_TRANSFORMS, STORED_FIELDS };

struct dcp_container { /* a list or dict */
    size_t at;         /* its first word */
    uint32_t n, cap;   /* words; a pair takes two */
};

struct dcp_metadata {
    dcp_word *word;
    size_t nwords, cap_words;
    struct dcp_container *container;
    size_t ncontainers, cap_containers;
    ckpt_str *text; /* the characters are in the arena */
    size_t ntexts, cap_texts;
    dcp_word root;
};

/* dcp_metadata_read - all of SRC, texts in A; *OUT is to be freed. MAX: bytes of memory that it may take. */
ckpt_status dcp_metadata_read(arena *a, source *src, uint64_t max, struct dcp_metadata *out, ckpt_error *err);
void dcp_metadata_free(struct dcp_metadata *m);

static inline enum dcp_type dcp_type(dcp_word w) { return (enum dcp_type)(w & 15); }
static inline uint64_t dcp_value(dcp_word w) { return w >> 4; }
/* dcp_int - an integer >= 0; false: W is none. */
static inline bool dcp_int(dcp_word w, uint64_t *out)
{
    *out = dcp_value(w);
    return dcp_type(w) == DCP_INT && (int64_t)w >= 0;
}
bool dcp_text(const struct dcp_metadata *m, dcp_word w, ckpt_str *out);
/* dcp_sizes - the integers of a tuple of such; NULL: W is none. */
const uint64_t *dcp_sizes(const struct dcp_metadata *m, dcp_word w, uint32_t *n);
/* dcp_items - the items of a list, tuple or dict (keys and values in turn), which lie in memory as long as
 * M does; a tuple of integers has none. */
const dcp_word *dcp_elements(const struct dcp_metadata *m, dcp_word w, size_t *n);
bool dcp_is_instance(const struct dcp_metadata *m, dcp_word w, enum dcp_class class);
/* dcp_field - DCP_NOTHING: W is no object of CLASS, or that field was not set. */
dcp_word dcp_field(const struct dcp_metadata *m, dcp_word w, enum dcp_class class, unsigned field);
/* dcp_dtype - the element type that W, a class, is; CKPT_DT_NONE: it is none. */
ckpt_dtype dcp_dtype(dcp_word w);

#endif
