/* zip.h - what the files torch/zip*.c share: the state of writing a plan into a torch.save archive. */
#ifndef FORMAT_TORCH_ZIP_H
#define FORMAT_TORCH_ZIP_H

#include "base/buf.h"
#include "core/copy_pool.h"
#include "format/format.h"

/* The entries of one container that are left out. */
struct torch_mask {
    bool *left_out; /* [i]: entry i is not written */
    uint32_t n;
};

struct torch_cast {
    ckpt_dtype from, to;            /* to 0: unchanged */
    const struct plan_entry *first; /* the first tensor that views it */
    uint64_t nbytes;                /* as written */
};

struct torch_node_storage {
    struct storage *s;
    bool cast; /* the tensor that refers to it has the new dtype */
};

/* A plan that is being written into an archive. */
struct torch_writer {
    ckpt_plan *p;
    const struct write_job *job;
    const ckpt_write_options *opts; /* of JOB */
    map *storage_of; /* node -> index into node_storages; only nodes whose storage no key names */
    struct torch_node_storage *node_storages;
    size_t nnode_storages, cap_node_storages;
    struct storage **items; /* [k]: what the record data/k holds */
    size_t n, cap;
    map *rewritten; /* node -> index into replacements: what is written instead of it */
    const ckpt_value **replacements;
    size_t nreplacements, cap_replacements;
    map *left_out; /* container -> index into masks */
    struct torch_mask *masks;
    size_t nmasks, cap_masks;
    struct torch_cast *casts; /* [i]: the cast of storage i of the file's table; NULL: no storage is cast */
    map *cast_of;             /* storage -> index into casts */
    bool failed;              /* out of memory in a callback that cannot return an error */
    const ckpt_value *bad_arguments; /* see check_arguments; NULL: none */
    buf pickle;
    uint64_t total; /* bytes of the storages */
};

extern const struct format format_torch_zip;

/* The format's write, in_place and undoes (format/format.h), in zip_write.c and zip_in_place.c. */
ckpt_status torch_zip_write(ckpt_plan *p, const struct write_job *job, ckpt_error *err);
ckpt_status torch_zip_in_place(ckpt_plan *p, struct patches *out, ckpt_error *err);
bool torch_zip_undoes(const ckpt_file *was, const ckpt_file *is, source *now, const struct patches *undo);
/* torch_zip_plan_casts - fills w->casts (zip_cast.c). */
ckpt_status torch_zip_plan_casts(struct torch_writer *w, ckpt_error *err);
/* torch_find_cast - returns the cast of storage S; NULL: it is not cast. */
const struct torch_cast *torch_find_cast(const struct torch_writer *w, const struct storage *s);
/* torch_zip_storage_size - returns the number of bytes that S has when it is written. */
uint64_t torch_zip_storage_size(const struct torch_writer *w, const struct storage *s);
/* torch_zip_report_casts - reports the casts after the items were written; TALLIES has one for each item. */
ckpt_status torch_zip_report_casts(struct torch_writer *w, const struct convert_tally *tallies,
                                   ckpt_error *err);
/* torch_has_storage_class - returns true if torch has a class for storages of DT. The C++ writer makes up
 * names of classes that torch does not have. */
bool torch_has_storage_class(ckpt_dtype dt);
/* torch_drop_metadata - drops the metadata of a safetensors header or an index from P, because a torch file
 * cannot hold them. The key "format", which a torch file does not need, and ties, which become shared
 * storages, do not count as lost. */
ckpt_status torch_drop_metadata(ckpt_plan *p, bool strict, ckpt_error *err);
/* torch_zip_pickle - fills w->pickle, and w->items with the storages that it names (zip_pickle.c). */
ckpt_status torch_zip_pickle(struct torch_writer *w, ckpt_error *err);

#endif
