/* zip.h - what the files of the torch zip format share. */
#ifndef FORMAT_TORCH_ZIP_H
#define FORMAT_TORCH_ZIP_H

#include "base/buf.h"
#include "core/copy_pool.h"
#include "format/format.h"

/* The entries of one container that are left out. */
struct torch_mask {
    bool *out;
    uint32_t n;
};

/* The cast of a storage. */
struct torch_cast {
    ckpt_dtype from, to;            /* to 0: unchanged */
    const struct plan_entry *first; /* the first tensor on it */
    uint64_t nbytes;                /* as written */
};

/* The storage of a node. */
struct torch_node_storage {
    struct storage *s;
    bool cast; /* the tensor that refers to it has the new dtype */
};

/* A plan that is being written into an archive. */
struct torch_writer {
    ckpt_plan *p;
    const struct write_job *job;
    const ckpt_write_options *opts; /* of JOB */
    map *storage_of;                /* node -> index into found, if its key is not enough */
    struct torch_node_storage *found;
    size_t nfound, cap_found;
    struct storage **items; /* the storages by their numbers in the archive */
    size_t n, cap;
    map *rewritten; /* node -> index into news */
    const ckpt_value **news;
    size_t nnews, cap_news;
    map *left_out; /* container -> index into masks */
    struct torch_mask *masks;
    size_t nmasks, cap_masks;
    struct torch_cast *casts;   /* by storage of the file's table; NULL: none */
    map *cast_of;               /* storage -> index into casts */
    bool failed;                /* out of memory where no error can be returned */
    const ckpt_value *no_tuple; /* a persistent id of no storage, in the place of the arguments of a call */
    buf pickle;
    uint64_t total; /* bytes of the storages */
};

extern const struct format format_torch_zip;

/* torch_zip_write - torch/zip_write.c: the format's write. */
ckpt_status torch_zip_write(ckpt_plan *p, const struct write_job *job, ckpt_error *err);
/* torch_zip_in_place - torch/zip_in_place.c: the format's in_place. */
ckpt_status torch_zip_in_place(ckpt_plan *p, struct patches *out, ckpt_error *err);
/* torch_zip_undoes - torch/zip_undoes.c: the format's undoes. */
bool torch_zip_undoes(const ckpt_file *was, const ckpt_file *is, source *now, const struct patches *undo);
/* torch_zip_plan_casts - torch/zip_cast.c: fills casts. */
ckpt_status torch_zip_plan_casts(struct torch_writer *w, ckpt_error *err);
const struct torch_cast *torch_find_cast(const struct torch_writer *w, const struct storage *s);
/* torch_zip_storage_size - the size of S as it is written. */
uint64_t torch_zip_storage_size(const struct torch_writer *w, const struct storage *s);
/* torch_zip_report_casts - for the report, once the items are written; TALLIES: by item. */
ckpt_status torch_zip_report_casts(struct torch_writer *w, const struct convert_tally *tallies,
                                   ckpt_error *err);
/* torch_has_storage_class - does torch.load know the storage class of this dtype? The C++ writer derives
 * others from the name of the dtype. */
bool torch_has_storage_class(ckpt_dtype dt);
/* torch_drop_metadata - drops the metadata of a safetensors header or an index, for which a torch file has no
 * place. "format" is not needed there, and ties become shared storages: neither counts as lost. */
ckpt_status torch_drop_metadata(ckpt_plan *p, bool strict, ckpt_error *err);
/* torch_zip_pickle - torch/zip_pickle.c: fills pickle, and items with the
 * storages that it names. */
ckpt_status torch_zip_pickle(struct torch_writer *w, ckpt_error *err);

#endif
