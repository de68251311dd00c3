/* sharded_tensors.h - joins tensors that are sharded over the files of many ranks. Each file has shards:
 * rectangular blocks of a tensor, such as rows 512 to 1023 of an embedding. The reader of a format adds the
 * shards of all files by name; each tensor then becomes one storage whose bytes are read from its shards. */
#pragma once

#include "core/file.h"
#include "core/pieces.h"

/* A complete tensor, such as an embedding of which each of four ranks saved 512 rows. */
struct joined_tensor {
    ckpt_str name;
    ckpt_dtype dtype;
    uint32_t ndim;
    const uint64_t *shape; /* NULL: not known yet */
    uint32_t storage;      /* index in the table of the complete checkpoint, or CKPT_NO_STORAGE */
    ckpt_value *node;      /* the node of the tensor in the graph; NULL: not made yet */
};
/* same_sizes - returns true if the COUNT sizes or offsets at LEFT and RIGHT are the same. */
static inline bool same_sizes(const uint64_t *left, const uint64_t *right, uint32_t count)
{
    return count == 0 || memcmp(left, right, count * sizeof *left) == 0;
}
/* is_row_major - returns true if the elements of TENSOR are stored in row-major order without gaps. */
bool is_row_major(const ckpt_tensor *tensor);
/* joined_tensor_describe - fills ROW, a row of the table of F, from TENSOR. */
void joined_tensor_describe(const ckpt_file *f, const struct joined_tensor *tensor, struct row *row);

/* A tensor with the shards that were added so far. */
struct sharded_tensor {
    struct joined_tensor joined; /* its node stays NULL */
    struct piece *pieces;        /* its shards, without replicas */
    size_t npieces, cap;
};

/* All tensors of a checkpoint, while its shards are added. */
struct sharded_tensors {
    ckpt_file *f; /* must be first, for part_graph_find_storage */
    ckpt_error *err;
    map *index_of;                  /* name -> index into TENSORS */
    map *seen_shards;               /* keys made of tensor, offset and size, to find replicas */
    struct sharded_tensor *tensors; /* in the order of their first shards */
    size_t ntensors, cap;
};

/* One shard of a tensor, such as rows 512 to 1023 of an embedding: a row of the table of PART, or a block of
 * that row. */
struct tensor_shard {
    const ckpt_file *part;
    uint32_t row;
    const uint64_t *offset;                    /* of the shard in the complete tensor, by dimension */
    const uint64_t *block_offset, *block_size; /* in the row; NULL: the shard is the complete row */
};

ckpt_status sharded_tensors_begin(struct sharded_tensors *all, ckpt_file *f, ckpt_error *err);
void sharded_tensors_end(struct sharded_tensors *all);
/* sharded_tensors_add - adds SHARD to the tensor NAME, which has SHAPE (NULL: unknown). A shard with the same
 * offset and size as an earlier one is a replica and is ignored. Refuses a shard whose dtype, number of
 * dimensions or SHAPE differs from that of earlier ones. The arrays of SHARD must live as long as the file,
 * and its block must be inside of the row. */
ckpt_status sharded_tensors_add(struct sharded_tensors *all, ckpt_str name, const uint64_t *shape,
                                const struct tensor_shard *shard);
/* sharded_tensor_store, sharded_tensors_store - add a storage for TENSOR, or for each tensor, to the table of
 * the file; a fault of one is handled by sharded_storage_accept_fault. */
ckpt_status sharded_tensor_store(struct sharded_tensors *all, struct sharded_tensor *tensor);
ckpt_status sharded_tensors_store(struct sharded_tensors *all);
/* sharded_tensors_describe - fills ROW from the tensor for which the node VALUE stands: value->offset is its
 * index. USER is the struct sharded_tensors. False: VALUE is no such node. For graph_input.describe_node. */
bool sharded_tensors_describe(void *user, const ckpt_value *value, struct row *row);

/* sharded_storage_add - adds a storage with the bytes of the pieces PIECES to the table of F, and sets
 * TENSOR->storage. PIECES_HAVE_CRCS: every piece has a checksum. */
ckpt_status sharded_storage_add(ckpt_file *f, struct joined_tensor *tensor, const struct pieces *pieces,
                                bool pieces_have_crcs, ckpt_error *err);
/* sharded_storage_accept_fault - handles ST and ERR, the outcome of making the storage NAME. Returns CKPT_OK
 * if ST is CKPT_OK, if `verify` reports the fault, or if salvage can go on: then *STORAGE is a storage
 * without bytes. Otherwise returns ST. */
ckpt_status sharded_storage_accept_fault(ckpt_file *f, ckpt_str name, ckpt_dtype dtype, ckpt_status st,
                                         uint32_t *storage, ckpt_error *err);
