/* dcp_write.h - declarations for the files that write a plan as a Distributed Checkpoint of torch. A state
 * dict {"model": {"w": tensor}} has one leaf, "model.w". Each leaf becomes an item: a torch.save archive in
 * a .distcp file. The file .metadata records the name of each item and where it is. */
#pragma once

#include "base/buf.h"
#include "core/plan.h"
#include "format/files/output_folder.h"

/* ---- the leaves of the state dict (dcp_flatten.c) */

/* A tensor, or a value that torch saves as one object, such as the learning rate
 * "optimizer.param_groups.0.lr". */
struct dcp_leaf {
    ckpt_str name; /* torch calls it fqn */
    /* for planner_data: text for a key of a dict, a number for an item of a list */
    const ckpt_path_elem *path;
    uint32_t npath;
    const ckpt_path_elem *input_path; /* path of the leaf in the input, before keys were renamed */
    uint32_t ninput_path;
    const ckpt_value *node; /* what is written: the node of the input, or its replacement */
    uint32_t row;           /* in the table of the input; CKPT_NO_TENSOR: the leaf is a value */
    bool holds_tensors;     /* the leaf is a value with tensors in it, such as a tuple */
};

struct dcp_leaves {
    ckpt_plan *plan;
    struct dcp_leaf *leaves;
    size_t nleaves, cap;
    /* is_single_value - returns true if the container at PATH of the input must stay one leaf although torch
     * would flatten it. NULL: there is no such container. */
    bool (*is_single_value)(const void *user, const ckpt_path_elem *path, uint32_t n);
    const void *user;  /* for is_single_value */
    size_t nedited;    /* how many flattened containers have edits of the plan */
    bool has_int_keys; /* a dict has integers as keys, which are written as text */
};

/* dcp_flatten - appends the leaves of the plan in the order of its graph. Flattens the same mappings and
 * lists as torch (_nested_dict.py, _traverse.py). Refuses a plan whose root is not a mapping, a key that is
 * neither text nor a number, two leaves with the same name, and a DTensor or ShardedTensor, because the
 * file has only the shard of one rank. */
ckpt_status dcp_flatten(struct dcp_leaves *leaves, ckpt_error *err);

/* ---- items: complete torch.save archives of one tensor or value (dcp_archive.c). The offsets in the zip
 * directory of an item count from the first byte of the item. */

/* The bytes of an archive before and after the elements of its tensor. */
struct dcp_archive {
    buf prefix, suffix;
    uint64_t crc_offset; /* in PREFIX, of the CRC-32 of the elements (in their local header) */
};

void dcp_archive_free(struct dcp_archive *archive);
/* dcp_archive_tensor - sets ARCHIVE to the archive of row ROW of P, whose elements in row-major order have
 * the checksum CRC. */
ckpt_status dcp_archive_tensor(struct dcp_archive *archive, const ckpt_plan *p, uint32_t row, uint32_t crc,
                               ckpt_error *err);
/* dcp_archive_value - sets archive->prefix to the complete archive of the value VALUE of P, and leaves
 * archive->suffix empty. VALUE must not hold a tensor. */
ckpt_status dcp_archive_value(struct dcp_archive *archive, const ckpt_plan *p, const ckpt_value *value,
                              ckpt_error *err);

/* ---- .metadata (dcp_metadata_write.c) */

/* Where an item is: LENGTH bytes at OFFSET of file number FILE. */
struct dcp_item_range {
    uint32_t file;
    uint64_t offset, length;
};

/* dcp_file_name - writes the name of file number FILE to NAME: "__0_2.distcp", the third file of rank 0. */
void dcp_file_name(uint32_t file, char name[32]);
/* dcp_metadata_write - appends the pickle of torch's Metadata to OUT. Leaf I is one item, at
 * RANGES[I]. */
ckpt_status dcp_metadata_write(const struct dcp_leaves *leaves, const struct dcp_item_range *ranges, buf *out,
                               ckpt_error *err);

/* ---- the checkpoint (dcp_write.c, dcp_rename.c) */

ckpt_status dcp_write(ckpt_plan *p, const struct write_job *job, ckpt_error *err);
/* dcp_write_renamed - if P only renames what is in a Distributed Checkpoint, copies its .distcp files to
 * FOLDER, writes new metadata and sets *DONE. Otherwise writes nothing and sets *DONE to false. */
ckpt_status dcp_write_renamed(ckpt_plan *p, struct output_folder *folder, bool *done, ckpt_error *err);
