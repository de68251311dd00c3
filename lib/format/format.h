/* format.h - a checkpoint format: one const struct format at the end of its main file, and one line in
 * formats.def. */
#ifndef FORMAT_FORMAT_H
#define FORMAT_FORMAT_H

#include "base/buf.h"
#include "codec/zip.h"
#include "core/file.h"
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

/* metadata_check_text - fails if the key or the text of X is not UTF-8. */
ckpt_status metadata_check_text(const ckpt_pair *x, ckpt_error *err);

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
    bool compresses; /* write supports the option `compress` */
    bool flat;       /* the format holds named tensors and texts, no graph */
    bool is_folder;  /* write makes a folder, which torch.load does not read */
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

/* format_by_name - returns the format with that name or other_name, or NULL. */
const struct format *format_by_name(const char *name);
/* format_recognize - returns the first format whose probe accepts P, or NULL. */
const struct format *format_recognize(const struct probe *p);
#define INDEX_SUFFIX ".index.json" /* of the index of a set, after the name that a single file would have */
/* format_by_suffix - returns the format that outputs with the suffix of PATH get, or NULL. Of an index, that
 * of its shards. */
const struct format *format_by_suffix(const char *path);
/* format_written_at - returns the name for --to of the I-th format that can be written, or NULL after the
 * last. Sharded output is not a format of its own. */
const char *format_written_at(size_t i);
/* format_hint_leave_out - sets the hint of ERR: how to leave out T, a tensor of F that the output cannot hold
 * and that is called NAME, and MORE; for elements of numpy without a dtype, how to give them one by --as. */
void format_hint_leave_out(const ckpt_file *f, const ckpt_tensor *t, ckpt_str name, const char *more,
                           ckpt_error *err);
/* format_target - sets *OUT to the format for writing P to PATH: the format named ASKED; if ASKED is NULL,
 * the format for the suffix of PATH; else that of the input, if it can be written; else torch zip. If PATH is
 * NULL, *OUT is the format named ASKED or that of the input. */
ckpt_status format_target(const ckpt_plan *p, const char *path, const char *asked, const struct format **out,
                          ckpt_error *err);
/* format_hint_missing - completes ERR, that PATH does not exist: what a broken link points to, or how to
 * fetch a file for which DVC or iCloud left a small one next to PATH. */
void format_hint_missing(const char *path, ckpt_error *err);
/* format_fail_unrecognized - fails with an error that names what P is instead of a checkpoint, such as a Git
 * LFS pointer (foreign.c). */
ckpt_status format_fail_unrecognized(const struct probe *p, ckpt_error *err);
/* format_refuse_data_file - fails because PATH is a data file of a Distributed Checkpoint, and names its
 * folder: the offset of each item is in .metadata there. */
ckpt_status format_refuse_data_file(const char *path, ckpt_error *err);
/* shards_write - writes P as shards of at most opts->max_shard tensor bytes, each a file in FORMAT, and their
 * index (hub/write.c). */
ckpt_status shards_write(ckpt_plan *p, const struct format *format, const struct write_job *job,
                         ckpt_error *err);
/* The arguments of format_open. */
struct opening {
    const char *path;           /* a folder, or the name of SRC in messages */
    /* format_open takes over the reference; NULL: PATH is a folder; an archive (members.h): PATH is a folder
     * in it */
    source *src;
    const ckpt_limits *limits;  /* or NULL */
    const struct format *only;  /* the format that the file must have; NULL: any */
    struct check *check;        /* receives the faults; NULL: a fault is an error */
    struct source_watch *watch; /* progress and cancellation of the reading, or NULL */
    const char *const *wanted;  /* as in ckpt_open_options */
    size_t nwanted;
    const struct format **recognized; /* is set to the format even if reading fails, or NULL; NULL: not set */
    /* OPEN_SALVAGE: a tensor with missing bytes becomes a row without data and is listed as lost.
     * OPEN_SALVAGE_PART: the same for a shard or embedded file of a file that is opened with OPEN_SALVAGE. */
    enum { OPEN_WHOLE, OPEN_SALVAGE, OPEN_SALVAGE_PART } how;
};
/* format_open - opens a checkpoint, for api.c and for formats that contain checkpoints. The errors
 * CKPT_EUNKNOWN and CKPT_EUNSUPPORTED name what the file is instead. */
ckpt_status format_open(const struct opening *o, ckpt_file **out, ckpt_error *err);
/* format_open_source - opens the file PATH. Fails if its undo journal shows an unfinished edit; sets NOTE if
 * there is a journal that is not of this file. Sets *OUT to NULL if PATH is a folder, and to the archive
 * (members.h) if PATH is a folder in one. */
ckpt_status format_open_source(const char *path, struct journal_note *note, source **out, ckpt_error *err);
/* format_note_journal - returns ST, the result of reading F (may be NULL). Adds the text of NOTE to F as a
 * notice or, if ST is a fault, to ERR as the hint. */
ckpt_status format_note_journal(const struct journal_note *note, ckpt_file *f, ckpt_status st,
                                ckpt_error *err);
/* format_open_path - does format_open_source and format_open for the path of O, whose source is not set. If
 * NAMES, also accepts a text file of tensor names. */
ckpt_status format_open_path(const struct opening *o, bool names, ckpt_file **out, ckpt_error *err);
/* The entries of a mapping in a checkpoint, which are merged with those of others. */
struct merged_part {
    const ckpt_value *node;     /* the mapping */
    const ckpt_path_elem *path; /* its first DEPTH elements lead to NODE */
    uint32_t depth;
    bool only_own_tensors; /* only the tensors that are entries of NODE themselves */
};
/* Checkpoints to merge. FIND_PART sets *OUT to the part of one of them that ROOT names. */
struct merging {
    const char *const *paths;
    size_t n;
    const char *root;
    ckpt_status (*find_part)(ckpt_file *f, const char *root, struct merged_part *out, ckpt_error *err);
};
/* format_open_merged - opens the checkpoints of M as one, which has the tensors of all. CKPT_EEXIST: two of
 * them have a tensor of one name. */
ckpt_status format_open_merged(const struct merging *m, const ckpt_limits *limits, ckpt_file **out,
                               ckpt_error *err);
/* format_open_or_names - does format_open and, if that fails, opens O as a text file of tensor names. ERR
 * must not be NULL. */
ckpt_status format_open_or_names(const struct opening *o, ckpt_file **out, ckpt_error *err);
/* format_journal_judge - returns what checks whether an undo journal belongs to an edit in place of PATH. */
struct journal_judge format_journal_judge(const char *path);
/* format_check_own_file - fails unless F is a single file on disk: only that is edited in place. */
ckpt_status format_check_own_file(const ckpt_file *f, ckpt_error *err);
/* format_journal_options - returns the options for editing F in place, with a check that F is unchanged. */
struct journal_options format_journal_options(const ckpt_write_options *o, ckpt_file *f);
/* format_set_container - lets F, which is being read, keep CONTAINER until RELEASE (may be NULL) frees it.
 * Closes the zip archive of the probe, which is the container otherwise. */
void format_set_container(ckpt_file *f, void *container, void (*release)(void *container));
/* format_open_part - opens a shard or embedded file of F, which is being read, in the mode of F: verify,
 * salvage or strict. Sets *OUT to NULL if its fault was reported already. */
ckpt_status format_open_part(ckpt_file *f, const char *path, source *src, ckpt_file **out, ckpt_error *err);
/* format_check - does format_open, but reports faults to C (may be NULL) and goes on; sets *OUT to NULL if
 * that is impossible. Adds the records that have a checksum to C, for the caller to read. */
ckpt_status format_check(const char *path, source *src, const ckpt_limits *limits, struct check *c,
                         ckpt_file **out, ckpt_error *err);
/* names_open - opens SRC (taken over), a text with one tensor name per line, as a file whose rows have names
 * and nothing else. CKPT_EUNKNOWN: SRC is not such a text. There is no ckpt_error to fill in. */
ckpt_status names_open(const char *path, source *src, const ckpt_limits *limits, ckpt_file **out);
/* verify_records - if SRC is a zip archive: compares central directory and local headers, checks names and
 * bytes around the archive, and adds its records to C. NAMES_ARE_KEYS: as in struct format. FINDINGS_BEFORE
 * is how many findings C had before SRC was opened. */
ckpt_status verify_records(const char *path, source *src, bool names_are_keys, uint64_t findings_before,
                           struct check *c, ckpt_error *err);
/* format_verify - opens PATH, and adds its records and faults to C. Sets *OUT to NULL if PATH cannot be
 * opened. */
ckpt_status format_verify(const char *path, struct check *c, ckpt_file **out, ckpt_error *err);
/* salvage_rows - lists the rows of F whose storages are lost, and replaces them by None in lists and tuples,
 * so that the items after them keep their positions. Called after F was read. */
ckpt_status salvage_rows(ckpt_file *f, ckpt_error *err);
/* salvage_leave_out_unfit - if P is of a salvaged file of a flat format, leaves out the tensors whose dtype
 * the format TO does not have, and lists them as dropped. */
ckpt_status salvage_leave_out_unfit(ckpt_plan *p, const struct format *to, ckpt_error *err);
/* salvage_note_stray - notes as a loss N bytes after the last WHAT, "tensor" or "storage", of a file without
 * checksums: a download that was resumed too early inserts bytes, and what follows them is shifted. */
void salvage_note_stray(ckpt_file *f, uint64_t n, const char *what);
/* salvage_left_nothing - returns true if parts of F are lost, and what is left has no tensors and no values;
 * the metadata of a flat format do not count. */
bool salvage_left_nothing(const ckpt_file *f);
/* salvage_note_no_checksums - adds a notice to F if changed bytes cannot be detected. */
void salvage_note_no_checksums(ckpt_file *f);
/* salvage_hint_raw_bytes - sets the hint of ERR: how many intact bytes of Z have no names. */
void salvage_hint_raw_bytes(const zip *z, ckpt_error *err);

#endif
