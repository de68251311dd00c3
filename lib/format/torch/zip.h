/* zip.h - what the parts of the format share. */
#ifndef FORMAT_TORCH_ZIP_H
#define FORMAT_TORCH_ZIP_H

#include "base/buf.h"
#include "core/copy_pool.h"
#include "format/format.h"

/* Entries of one container that are left out. */
struct torch_mask {
    bool *out;
    uint32_t n;
};

/* What a storage's elements become. */
struct torch_cast {
    ckpt_dtype from, to;            /* to 0: what they are */
    const struct plan_entry *first; /* of the tensors on it */
    uint64_t nbytes;                /* as written */
};

/* The storage that a node stands for. */
struct torch_found {
    struct storage *s;
    bool cast; /* by a tensor that knows that its dtype is another now */
};

/* A plan on its way into an archive. */
struct torch_writer {
    ckpt_plan *p;
    const ckpt_write_options *opts;
    struct sink_batch *batch;
    map *storage_of; /* node -> index into found, where its key does not tell */
    struct torch_found *found;
    size_t nfound, cap_found;
    struct storage **items; /* by their numbers in the archive */
    size_t n, cap;
    map *rewritten; /* node -> index into news */
    const ckpt_value **news;
    size_t nnews, cap_news;
    map *left_out; /* container -> index into masks */
    struct torch_mask *masks;
    size_t nmasks, cap_masks;
    struct torch_cast *casts; /* by storage of the file's table; NULL: none */
    map *cast_of;             /* storage -> index into casts */
    bool failed;              /* out of memory where no error can be returned */
    const ckpt_value *no_tuple; /* a persistent id that names no storage where a call has its arguments */
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
/* torch_zip_casts - torch/zip_cast.c: fills casts. */
ckpt_status torch_zip_casts(struct torch_writer *w, ckpt_error *err);
const struct torch_cast *torch_cast_of(const struct torch_writer *w, const struct storage *s);
/* torch_zip_bytes - of S as it is written. */
uint64_t torch_zip_bytes(const struct torch_writer *w, const struct storage *s);
/* torch_zip_casts_done - for the report, once the items are written; TALLIES: by item. */
ckpt_status torch_zip_casts_done(struct torch_writer *w, const struct convert_tally *tallies,
                                 ckpt_error *err);
/* torch_zip_pickle - torch/zip_pickle.c: fills pickle, and items with the
 * storages that it names. */
ckpt_status torch_zip_pickle(struct torch_writer *w, ckpt_error *err);

#endif
