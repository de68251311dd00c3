/* format.h - a checkpoint format: one const struct format at the end of its main file, and one line in
 * formats.def. */
#pragma once

#include "codec/zip.h"
#include "core/plan.h"
#include "io/journal.h"

#define PROBE_HEAD 4096u

/* What the probe of a format may look at. */
struct probe {
    const char *path; /* for messages, for probes by the suffix, and to open files in a folder */
    bool is_folder;
    bool is_storage; /* numbers in a torch archive, in which no loader looks for HDF5 */
    bool salvage;    /* the file may be truncated or damaged */
    source *archive; /* that PATH is in; NULL: it is on disk */
    ckpt_str *names; /* of the files in a folder, in natural order */
    size_t nnames;
    bool *no_memory; /* set by a probe that ran out of memory: then no answer is valid */
    source *src;     /* NULL for a folder */
    uint64_t size;
    unsigned char head[PROBE_HEAD];
    size_t nhead;
    zip *zip;           /* the archive; NULL: the file is none, or zip_err is set */
    ckpt_error zip_err; /* why ZIP is NULL although the head is PK */
};

/* A replacement of the metadata of a file. */
struct metadata_job {
    const ckpt_pair *pairs; /* the new metadata; no key is in it twice */
    size_t n;
    const char *path; /* of the copy to write; NULL: edit in place */
    const ckpt_write_options *opts;
    buf header; /* for an edit in place: the bytes that the format puts at offset AT of the file */
    uint64_t at;
    uint64_t length; /* bytes of the complete new header, also of a copy */
};

struct format {
    const char *name;       /* in JSON and for --to: "torch-zip" */
    const char *title;      /* in messages: "torch zip" */
    const char *other_name; /* a second name for --to, or NULL */
    const char *suffixes;   /* ".pt .pth": what files are usually called. If there is a writer, outputs with
                             * these suffixes get this format. NULL: none */
    /* probe - returns true if the file has this format. Called in the order of formats.def; the first true
     * wins. */
    bool (*probe)(const struct probe *p);
    ckpt_status (*read)(ckpt_file *f, ckpt_error *err); /* ERR is never NULL */
    /* write - NULL: the format is read-only. */
    ckpt_status (*write)(ckpt_plan *p, const struct write_job *job, ckpt_error *err);
    bool lays_out;       /* write supports job->layout */
    bool compresses;     /* write supports the option `compress` */
    bool flat;           /* the format holds named tensors and texts, no graph */
    bool is_folder;      /* write makes a folder, which torch.load does not read */
    bool names_are_keys; /* names in its zip archive are no paths: any name is legal */
    /* holds_dtype - for a flat format: returns true if it supports the dtype of T. Called only for dtypes
     * that safetensors lacks. NULL: the format supports none of these. */
    bool (*holds_dtype)(const ckpt_tensor *t);
    /* in_place - adds the patches to OUT that rename tensors as P does. The bytes of the patches live as long
     * as P. NULL: files of the format must be rewritten. */
    ckpt_status (*in_place)(ckpt_plan *p, struct patches *out, ckpt_error *err);
    /* undoes - returns true if UNDO may be the undo journal of an edit by in_place. NOW has the current
     * bytes; CURRENT is NOW read as a file, or NULL if that fails; OLD is the file after UNDO is applied to
     * NOW. A format without in_place has no `undoes`. */
    bool (*undoes)(const ckpt_file *old, const ckpt_file *current, source *now, const struct patches *undo);
    /* write_metadata - writes the copy to job->path or, for an edit in place, only makes job->header. Sets
     * job->length. NULL: the format has no metadata that can be edited. */
    ckpt_status (*write_metadata)(ckpt_file *f, struct metadata_job *job, ckpt_error *err);
};

/* All formats: format_torch_zip … */
#define FORMAT(id) extern const struct format format_##id;
#include "format/formats.def"
#undef FORMAT
