/* graph.h - finds the tensors in the value graph of a torch pickle: which nodes they are, their storages,
 * their names. For every torch container. */
#ifndef FORMAT_TORCH_GRAPH_H
#define FORMAT_TORCH_GRAPH_H

#include "core/file.h"

/* A persistent id that names a storage, as torch/serialization.py writes it:
 * ('storage', class, key, location, numel[, view_metadata]). */
struct torch_pid {
    ckpt_str klass; /* "FloatStorage" */
    ckpt_dtype dtype;
    ckpt_str key, location;
    char digits[24]; /* the text of a KEY that is a number: see torch_pid_keep */
    uint64_t numel; /* elements of dtype; bytes for UntypedStorage */
    bool has_view;  /* legacy: offset and size of a view, in elements */
    uint64_t view_offset, view_numel;
};

struct graph;
struct tensor_description;

/* How a container finds the bytes of a storage. */
struct torch_storages {
    void *user;
    /* find - sets S->src (takes a reference), off, s.nbytes, CRC … for the storage PID.
     * Called once per key. The caller checks that the bytes are enough for numel. A storage without bytes
     * (location "meta") keeps src NULL. */
    ckpt_status (*find)(void *user, const struct torch_pid *pid, struct storage *s, ckpt_error *err);
    /* object - the tar format's persistent ids name tensors, and a folder of many files has nodes for them:
     * sets dtype, shape, stride, storage and storage_offset of ROW for VALUE and returns true; may be NULL.
     * */
    bool (*object)(void *user, const ckpt_value *value, struct row *row);
    /* tensor - the same for TENSOR nodes where that can fail; NULL: OBJECT does it. */
    ckpt_status (*tensor)(void *user, struct graph *g, const ckpt_value *v, struct tensor_description *m);
    bool big_endian;
    source *stream;     /* the bytes of the pickle; offsets of nodes are in it */
    uint64_t packed_at; /* file offset of its compressed bytes */
    ckpt_str part;      /* name of that pickle in the file, for errors */
};

/* torch_graph - adds every tensor and leaf reachable from ROOT to F, in document order. Equal keys are one
 * storage. */
ckpt_status torch_graph(ckpt_file *f, ckpt_value *root, const struct torch_storages *storages,
                        ckpt_error *err);

/* torch_read_pickle - fills F with what SRC holds, a pickle that stands alone; joblib's arrays may be in it.
 * SRC must live as long as F. */
ckpt_status torch_read_pickle(ckpt_file *f, source *src, ckpt_error *err);

/* torch_add_unreferenced_storages - adds the storages in F's pickles that no row refers to: those of
 * generators, device meshes, objects of unknown classes. */
ckpt_status torch_add_unreferenced_storages(ckpt_file *f, const struct torch_storages *storages,
                                            ckpt_error *err);

/* torch_find_unrecoverable_objects - adds a lost row for each object that is no tensor and holds a lost
 * storage, and sets f->lost_row for the tensors that are lost with it. f->lost_row has no entries for the
 * new rows. */
ckpt_status torch_find_unrecoverable_objects(ckpt_file *f, ckpt_error *err);

/* torch_bytes - *OUT are the bytes that V, in the graph of F, makes in any protocol; NULL: it makes none. */
ckpt_status torch_bytes(ckpt_file *f, const ckpt_value *v, source **out, ckpt_error *err);

/* torch_pid_parse - parses PERSID node V, also a text id of protocol 0; false: it is not a storage. */
bool torch_pid_parse(const ckpt_value *v, struct torch_pid *out);
/* torch_pid_keep - copies the key of PID to A if it would not outlive PID. */
ckpt_status torch_pid_keep(arena *a, struct torch_pid *pid, ckpt_error *err);

#endif
