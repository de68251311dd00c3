/* graph.h - finds the tensors in the value graph of a torch pickle, their storages and names. Also declares
 * what other files and folders use of torch's other readers. */
#ifndef FORMAT_TORCH_GRAPH_H
#define FORMAT_TORCH_GRAPH_H

#include "codec/tar.h"
#include "core/file.h"

/* A persistent id that names a storage, as torch/serialization.py writes it:
 * ('storage', class, key, location, numel[, view_metadata]). */
struct torch_pid {
    ckpt_str klass; /* "FloatStorage" */
    ckpt_dtype dtype;
    ckpt_str key, location;
    char digits[24]; /* holds the text of KEY if the pickle has it as a number, see torch_pid_copy_key */
    uint64_t numel;  /* elements of dtype; bytes for UntypedStorage */
    bool has_view;   /* the id names a view of the storage; only in legacy streams */
    uint64_t view_offset, view_numel; /* in elements */
};

struct graph;
struct tensor_description;

/* What torch_walk_graph needs of the file that holds the graph: callbacks, and where the pickle is. */
struct torch_graph_input {
    void *user;
    /* find_storage - sets S->src (takes a reference), off, nbytes, CRC … for the storage PID. It is
     * called once per key. The caller checks that NBYTES is enough for numel. SRC stays NULL if the storage
     * has no bytes (location "meta"). */
    ckpt_status (*find_storage)(void *user, const struct torch_pid *pid, struct storage *s, ckpt_error *err);
    /* describe_node - if VALUE is a tensor that is described outside of the graph (a persistent id of the tar
     * format, a TENSOR node of a folder of files), sets dtype, shape, stride, storage and storage_offset of
     * ROW and returns true. May be NULL. */
    bool (*describe_node)(void *user, const ckpt_value *value, struct row *row);
    /* describe_tensor - fills *M for the TENSOR node V. NULL: describe_node does that. */
    ckpt_status (*describe_tensor)(void *user, struct graph *g, const ckpt_value *v,
                                   struct tensor_description *m);
    bool big_endian;
    bool has_text_keys;     /* the keys of all mappings are text: an int key was written as text, too */
    source *pickle;         /* node offsets are relative to its start; may be NULL */
    uint64_t pickle_offset; /* of the pickle in the file, for errors if the pickle is compressed; 0: none */
    ckpt_str pickle_name;   /* in errors */
};

/* torch_walk_graph - adds every tensor and leaf reachable from ROOT to F, in document order. Persistent ids
 * of equal keys are one storage. */
ckpt_status torch_walk_graph(ckpt_file *f, ckpt_value *root, const struct torch_graph_input *input,
                             ckpt_error *err);

/* torch_read_pickle - fills F from SRC, a file of one pickle, in which joblib may have put arrays. SRC must
 * live as long as F. */
ckpt_status torch_read_pickle(ckpt_file *f, source *src, ckpt_error *err);

/* torch_add_unreferenced_storages - adds to F the storages that its pickles name but no row refers to: those
 * of generators, device meshes, objects of unknown classes. */
ckpt_status torch_add_unreferenced_storages(ckpt_file *f, const struct torch_graph_input *input,
                                            ckpt_error *err);

/* A module whose parameters and buffers are still to be added to a state dict. */
struct torch_module {
    const ckpt_value *object;
    ckpt_str prefix; /* "layer1.0.", which its keys in the state dict begin with; empty for the root */
    uint32_t depth;  /* 0 for the root */
};

struct torch_modules {
    struct torch_module *modules;
    size_t n, cap;
};

/* torch_push_submodule - appends OBJECT, the submodule NAME of PARENT, to LIST, which is allocated in A. */
ckpt_status torch_push_submodule(arena *a, struct torch_modules *list, const struct torch_module *parent,
                                 ckpt_str name, const ckpt_value *object, ckpt_error *err);
/* torch_put_entry - adds V to the state dict DICT under the key PREFIX + NAME. False: no memory. */
bool torch_put_entry(arena *a, ckpt_value *dict, ckpt_str prefix, ckpt_str name, ckpt_value *v);

/* torch_find_unrecoverable_objects - adds a lost row for each object that is no tensor and holds a lost
 * storage. Sets f->row_lost of the tensors that are lost with such an object. The array f->row_lost does not
 * grow: it has no entries for the added rows. */
ckpt_status torch_find_unrecoverable_objects(ckpt_file *f, ckpt_error *err);

/* torch_open_bytes - opens the bytes object that V, a node of F, makes when it is loaded; see
 * graph_open_bytes. Sets *OUT to NULL if V makes no bytes object. */
ckpt_status torch_open_bytes(ckpt_file *f, const ckpt_value *v, source **out, ckpt_error *err);

/* torch_read_legacy_storage - reads BYTES, the argument of torch.storage._load_from_bytes: a legacy stream
 * whose main pickle is one storage. Sets src (takes a reference), off, dtype, numel, nbytes and location
 * of S. */
ckpt_status torch_read_legacy_storage(ckpt_file *f, source *bytes, struct storage *s, ckpt_error *err);

/* In the members "storages" and "tensors" of torch 0.1's tar archives, each pickle is followed by a count and
 * by numbers: the elements of the storage; or the sizes, strides and storage offset of the tensor. */
struct torch_tar_numbers {
    uint64_t count;          /* of elements, or of dimensions */
    uint64_t offset, nbytes; /* the position of the numbers in the member */
};

/* torch_tar_find - finds the regular file NAME among the N members in LIST; NULL: there is none. */
const struct tar_entry *torch_tar_find(const struct tar_entry *list, size_t n, const char *name);
/* torch_tar_read_numbers - fills *OUT for the pickle that ends at POS of the member SRC. V, its value,
 * describes a tensor if IS_TENSOR, else a storage. Fails if the member ends before the numbers do.
 * Fields of *OUT that cannot be read or do not fit 64 bits are 0. */
ckpt_status torch_tar_read_numbers(source *src, const ckpt_value *v, bool is_tensor, uint64_t pos,
                                   struct torch_tar_numbers *out, ckpt_error *err);

/* torch_pid_parse - parses the PERSID node V; its id may be a text (protocol 0). False: it is no storage. */
bool torch_pid_parse(const ckpt_value *v, struct torch_pid *out);
/* torch_storage_bytes - sets *OUT to the size in bytes of a storage of NUMEL elements of DTYPE. For packed
 * quantized elements (QUInt4x2Storage) NUMEL counts bytes. False: it does not fit 64 bits. */
bool torch_storage_bytes(ckpt_dtype dtype, uint64_t numel, uint64_t *out);
/* torch_pid_copy_key - if the key of PID is in pid->digits, copies it to A, where it outlives PID. */
ckpt_status torch_pid_copy_key(arena *a, struct torch_pid *pid, ckpt_error *err);

/* torch_get_part_offset - sets *OFFSET to where a component of row ROW of F begins in the tensor of this row:
 * an index for each dimension, in A. COMPONENT is 0 for a DTensor, or the number of a local shard of a
 * ShardedTensor; COMPONENT_ROW is its row. Refuses placements other than shards and replicas, and a component
 * whose size is not the one that its placement gives it. */
ckpt_status torch_get_part_offset(arena *a, const ckpt_file *f, uint32_t row, uint32_t component,
                                  uint32_t component_row, const uint64_t **offset, ckpt_error *err);
/* torch_count_shard_ranks - returns how many ranks hold row ROW, a DTensor or ShardedTensor; 0: unknown. */
uint64_t torch_count_shard_ranks(const ckpt_file *f, uint32_t row);
/* torch_note_missing_ranks - adds a notice to F if F has the shards of only one of several ranks. */
void torch_note_missing_ranks(ckpt_file *f);

#endif
