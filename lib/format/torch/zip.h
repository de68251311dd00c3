/* zip.h - what zip_write.c, zip_pickle.c, zip_cast.c, zip_in_place.c share to write torch.save archives. */
#pragma once

#include "core/copy_pool.h"
#include "format/format.h"
#include "format/graph/persistent_id.h"

/* The entries of one container that are left out. */
struct torch_mask {
    bool *left_out; /* [i]: entry i is left out */
    uint32_t nentries;
};

/* The cast of one storage. */
struct torch_cast {
    ckpt_dtype from, to;                  /* TO is 0: the storage is not cast */
    const struct plan_entry *first_entry; /* the first tensor that views the storage */
    uint64_t nbytes;                      /* after the cast */
};

struct torch_node_storage {
    struct storage *storage;
    bool in_cast_call; /* the node is in a call that make_cast_call has adapted to the new dtype */
};

/* A plan that is being written into an archive. */
struct torch_writer {
    ckpt_plan *p;
    const struct write_job *job;
    const ckpt_write_options *opts; /* of JOB */
    map *storage_of; /* node -> index into node_storages; lacks nodes whose storage is found by its key */
    struct torch_node_storage *node_storages;
    size_t nnode_storages, cap_node_storages;
    struct storage **storages; /* [k]: the storage in the record data/k */
    size_t nstorages, cap_storages;
    map *replacement_of; /* node -> index into replacements: the node that is written instead */
    const ckpt_value **replacements;
    size_t nreplacements, cap_replacements;
    map *mask_of; /* container -> index into masks */
    struct torch_mask *masks;
    size_t nmasks, cap_masks;
    struct torch_cast *casts;   /* [i]: the cast of storage i of the file's table; NULL: no storage is cast */
    map *cast_of;               /* storage -> index into casts */
    const ckpt_value *pid_node; /* what parse_pid parsed last, with this result: */
    struct torch_pid pid;
    bool pid_is_valid;
    bool out_of_memory;              /* in replace_node, which cannot return an error */
    const ckpt_value *bad_arguments; /* see check_argument_lists; NULL: none */
    buf pickle;
    uint64_t storage_bytes;
};

/* The callbacks write, in_place and undoes of struct format, in zip_write.c and zip_in_place.c. */
ckpt_status torch_zip_write(ckpt_plan *p, const struct write_job *job, ckpt_error *err);
ckpt_status torch_zip_in_place(ckpt_plan *p, struct patches *out, ckpt_error *err);
bool torch_zip_undoes(const ckpt_file *old, const ckpt_file *current, source *now,
                      const struct patches *undo);
/* torch_zip_plan_casts - fills writer->casts (zip_cast.c). */
ckpt_status torch_zip_plan_casts(struct torch_writer *writer, ckpt_error *err);
/* torch_find_cast - returns the cast of storage STORAGE; NULL: it is not cast. */
const struct torch_cast *torch_find_cast(const struct torch_writer *writer, const struct storage *storage);
/* torch_zip_storage_size - returns the number of bytes of STORAGE in the output. */
uint64_t torch_zip_storage_size(const struct torch_writer *writer, const struct storage *storage);
/* torch_zip_report_casts - reports the casts of the written storages; TALLIES[k] is that of storage k. */
ckpt_status torch_zip_report_casts(struct torch_writer *writer, const struct convert_tally *tallies,
                                   ckpt_error *err);
/* torch_zip_pickle - fills writer->pickle, and writer->storages with the storages that it names
 * (zip_pickle.c). */
ckpt_status torch_zip_pickle(struct torch_writer *writer, ckpt_error *err);
