/* sharded_tensors.h - tensors of which each file of many has a box, put together by name: whatever wrote the
 * files says which box, and the whole is a tensor in pieces like any other. */
#ifndef FORMAT_DISTRIBUTED_SHARDED_TENSORS_H
#define FORMAT_DISTRIBUTED_SHARDED_TENSORS_H

#include "base/map.h"
#include "core/file.h"
#include "core/pieces.h"

/* A tensor of which some boxes are known. */
struct sharded_tensor {
    ckpt_str name;
    ckpt_dtype dtype;
    uint32_t ndim;
    const uint64_t *shape; /* NULL: as far as its boxes reach */
    struct piece *piece;   /* each of another box */
    size_t n, cap;
    uint32_t storage; /* of the whole; sharded_tensors_store */
};

struct sharded_tensors {
    ckpt_file *f;
    ckpt_error *err;
    map *names, *shards;
    struct sharded_tensor *tensor; /* in the order of their first boxes */
    size_t n, cap;
};

ckpt_status sharded_tensors_begin(struct sharded_tensors *r, ckpt_file *f, ckpt_error *err);
void sharded_tensors_end(struct sharded_tensors *r);
/* A box of a tensor: row ROW of PART, one of the files, or what is in it from FROM on and has SIZE. */
struct tensor_shard {
    const ckpt_file *part;
    uint32_t row;
    const uint64_t *offset;      /* in the tensor */
    const uint64_t *from, *size; /* in the row; NULL: all of it */
};
/* sharded_tensors_add - BOX is one of the tensor NAME, which has SHAPE (NULL: it is not known). A box that is
 * there already is a replica, and left alone. Refuses a row of another element type or number of dimensions
 * than before, or another SHAPE. What BOX points to lives as long as the file; FROM and SIZE are in the
 * row. */
ckpt_status sharded_tensors_add(struct sharded_tensors *r, ckpt_str name, const uint64_t *shape,
                                const struct tensor_shard *shard);
/* sharded_tensors_store - each tensor gets a storage in the table of the file. What is wrong with the pieces of
 * one is the error, is reported where the file is checked, and makes it lost where it is salvaged. */
ckpt_status sharded_tensors_store(struct sharded_tensors *r);
/* sharded_tensors_describe - for torch_graph: ROW of the tensor node V, whose offset is the number of its
 * tensor. */
bool sharded_tensors_describe(const struct sharded_tensors *r, const ckpt_value *v, struct row *row);

/* sharded_storage_add - the tensor NAME in the pieces P as a storage of F; it has checksums of its pieces where
 * HAS_CRCS. */
ckpt_status sharded_storage_add(ckpt_file *f, ckpt_str name, ckpt_dtype dtype, const struct pieces *p,
                                bool has_crcs, uint32_t *storage, ckpt_error *err);
/* sharded_storage_accept_fault - ST, with ERR, is what came of that: returned, reported, or a storage that is lost. */
ckpt_status sharded_storage_accept_fault(ckpt_file *f, ckpt_str name, ckpt_dtype dtype, ckpt_status st,
                                         uint32_t *storage, ckpt_error *err);

#endif
