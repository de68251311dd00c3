/* dcp_write.h - declarations for the files that write a plan as a Distributed Checkpoint of torch. A state
 * dict {"model": {"w": tensor}} has one leaf, "model.w". Each leaf becomes an item: a torch.save archive in
 * a .distcp file. The file .metadata records the name of each item and where it is. */
#pragma once

#include "base/buf.h"
#include "core/plan.h"

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

/* ---- the output folder (dcp_folder.c) */

/* The folder is written under a temporary name and renamed at the end, so that it appears with all its files
 * or not at all. */
struct dcp_folder {
    ckpt_plan *plan;
    const struct write_job *job;
    arena *arena;
    ckpt_str output_path;       /* the path of JOB without slashes at its end */
    ckpt_str parent, base_name; /* the same path with links followed; PARENT ends in a slash or is empty */
    struct temp temp;           /* the folder under its temporary name, if TEMP_EXISTS */
    bool temp_exists;
};

/* dcp_folder_prepare - sets up FOLDER for the output path of JOB, which writes the plan P. Refuses the path
 * "-" and an existing file. Refuses a folder that is not empty, unless the option `force` is set and the
 * folder has only files of a Distributed Checkpoint. */
ckpt_status dcp_folder_prepare(struct dcp_folder *folder, ckpt_plan *p, const struct write_job *job,
                               ckpt_error *err);
/* dcp_folder_begin - makes the folder under a temporary name. */
ckpt_status dcp_folder_begin(struct dcp_folder *folder, ckpt_error *err);
/* dcp_folder_path - returns the path of the file NAME in the temporary folder. NULL: no memory. */
const char *dcp_folder_path(const struct dcp_folder *folder, const char *name);
/* dcp_folder_write_metadata - writes the file .metadata with CONTENT. Does nothing if dry_run is set. */
ckpt_status dcp_folder_write_metadata(const struct dcp_folder *folder, ckpt_str content, ckpt_error *err);
/* dcp_folder_note_output - adds the final path of the file NAME to the outputs of the plan. */
ckpt_status dcp_folder_note_output(const struct dcp_folder *folder, const char *name, ckpt_error *err);
/* dcp_folder_end - renames the folder to its final name if ST, the result of writing it, is CKPT_OK.
 * Otherwise removes it, replaces the temporary path in ERR by the final one and returns ST. */
ckpt_status dcp_folder_end(struct dcp_folder *folder, ckpt_status st, ckpt_error *err);

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
ckpt_status dcp_write_renamed(ckpt_plan *p, struct dcp_folder *folder, bool *done, ckpt_error *err);
