/* persistent_id.h - the storages that a graph names: by persistent ids, or as bytes objects. */
#pragma once

#include "format/graph/graph.h"

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

/* torch_pid_parse - parses the PERSID node VALUE; its id may be a text (protocol 0). False: it is no
 * storage. */
bool torch_pid_parse(const ckpt_value *value, struct torch_pid *out);
/* torch_pid_copy_key - if the key of PID is in pid->digits, copies it to A, where it outlives PID. */
ckpt_status torch_pid_copy_key(arena *a, struct torch_pid *pid, ckpt_error *err);
/* torch_storage_bytes - sets *OUT to the size in bytes of a storage of NUMEL elements of DTYPE. For packed
 * quantized elements (QUInt4x2Storage) NUMEL counts bytes. False: it does not fit 64 bits. */
bool torch_storage_bytes(ckpt_dtype dtype, uint64_t numel, uint64_t *out);

/* graph_get_storage - sets *INDEX to the index in the table of the storage that node VALUE names, *DTYPE to
 * the dtype of its class and *NUMEL to its number of elements. If VALUE names a legacy view, *NUMEL and
 * *VIEW_OFFSET are those of the view; else *VIEW_OFFSET is 0. CKPT_EFORMAT if VALUE is no storage. */
ckpt_status graph_get_storage(struct graph *graph, const ckpt_value *value, uint32_t *index,
                              ckpt_dtype *dtype, uint64_t *numel, uint64_t *view_offset);
bool graph_is_storage(const ckpt_value *value);
/* graph_add_memory_storage - adds a storage of BYTES, which must be in the arena. *INDEX is its index. */
ckpt_status graph_add_memory_storage(struct graph *graph, ckpt_str bytes, ckpt_dtype dtype, uint32_t *index);
/* graph_add_unreferenced_storages - adds to F the storages that its pickles name but no row refers to: those
 * of generators, device meshes, objects of unknown classes. */
ckpt_status graph_add_unreferenced_storages(ckpt_file *f, const struct graph_input *input, ckpt_error *err);
