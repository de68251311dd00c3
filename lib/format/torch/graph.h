/* graph.h - the meaning of a torch pickle: which nodes are tensors, what
 * they look at, what they are called. Shared by every torch container. */
#ifndef FORMAT_TORCH_GRAPH_H
#define FORMAT_TORCH_GRAPH_H

#include "core/file.h"

/* A persistent id that names a storage, as torch/serialization.py writes it:
 * ('storage', class, key, location, numel[, view_metadata]). */
struct torch_pid {
    ckpt_str klass; /* "FloatStorage" */
    ckpt_dtype dtype;
    ckpt_str key, location;
    char digits[24]; /* where KEY is, should it be a number: torch_pid_keep */
    uint64_t numel; /* elements of dtype; bytes for UntypedStorage */
    bool has_view;  /* legacy: offset and size of a view, in elements */
    uint64_t view_offset, view_numel;
};

/* How a container finds the bytes of a storage. */
struct torch_storages {
    void *user;
    /* find - fills S->src (a reference to keep), off, s.nbytes, s.file_offset,
     * CRC … for the storage PID names. Asked once per key. That the bytes are
     * enough for numel is checked by the caller. A storage without bytes
     * (location "meta") keeps src NULL. */
    ckpt_status (*find)(void *user, const struct torch_pid *pid, struct storage *s, ckpt_error *err);
    /* object - the tar format's persistent ids name tensors: fills dtype, shape,
     * stride, storage and storage_offset of ROW for VALUE and returns true; may
     * be NULL. */
    bool (*object)(void *user, const ckpt_value *value, struct row *row);
    bool big_endian;
    source *stream; /* the pickle's own bytes, which node offsets count in */
    uint64_t packed_at; /* where they are in the file, should they be packed there */
    ckpt_str part;      /* what the file calls that pickle */
};

/* torch_graph - adds every tensor and leaf that ROOT reaches to F, in document
 * order. Storages of equal key are shared. */
ckpt_status torch_graph(ckpt_file *f, ckpt_value *root, const struct torch_storages *storages,
                        ckpt_error *err);

/* torch_graph_rest - adds the storages that F's pickles name, but no row shows:
 * those of generators, device meshes, objects of unknown classes. */
ckpt_status torch_graph_rest(ckpt_file *f, const struct torch_storages *storages, ckpt_error *err);

/* torch_lost_objects - rows that are lost for what holds a lost storage and is no tensor, and the tensors
 * that are lost with such a thing: f->lost_row, which has none of the new rows. */
ckpt_status torch_lost_objects(ckpt_file *f, ckpt_error *err);

/* torch_pid_parse - is PERSID node V a storage? Text ids of protocol 0 too. */
bool torch_pid_parse(const ckpt_value *v, struct torch_pid *out);
/* torch_pid_keep - lets PID's key outlive PID. */
ckpt_status torch_pid_keep(arena *a, struct torch_pid *pid, ckpt_error *err);

#endif
