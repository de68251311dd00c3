/* format.h - one checkpoint format: a file that ends in one const struct
 * format, plus its line in formats.def. */
#ifndef FORMAT_FORMAT_H
#define FORMAT_FORMAT_H

#include "codec/zip.h"
#include "core/file.h"
#include "core/plan.h"
#include "io/journal.h"

#define PROBE_HEAD 4096u

/* What a file shows before anyone reads it. */
struct probe {
    const char *path; /* for messages, never for decisions */
    bool directory;
    bool salvage; /* it may be cut or damaged */
    source *src; /* NULL for a directory */
    uint64_t size;
    unsigned char head[PROBE_HEAD];
    size_t nhead;
    zip *z;             /* archive structure when the head is PK; else NULL */
    ckpt_error zip_err; /* why z is NULL although the head is PK */
};

struct write_job {
    const char *path; /* "-": standard output */
    const ckpt_write_options *opts;
    ckpt_write_result *result;
    struct sink_batch *batch; /* NULL; or where the output waits for others */
    bool has_index;           /* one file of a set, whose index has the metadata */
    bool layout_only;         /* all that can be refused without reading the data; nothing is written */
};

struct format {
    const char *name;     /* "torch-zip": JSON, --to */
    const char *title;    /* "torch zip": people */
    const char *suffixes; /* ".pt .pth": chosen for outputs; NULL: never by suffix */
    /* probe - is it mine? Asked in the order of formats.def; the first yes wins. */
    bool (*probe)(const struct probe *p);
    ckpt_status (*read)(ckpt_file *f, ckpt_error *err); /* ERR is never NULL */
    /* write - NULL: read-only. */
    ckpt_status (*write)(ckpt_plan *p, const struct write_job *job, ckpt_error *err);
    bool flat; /* holds plain tensors by name, nothing else */
    /* in_place - what to change in the file so that its names are those of the plan;
     * the bytes live as long as the file. NULL: it must be rewritten. */
    ckpt_status (*in_place)(ckpt_plan *p, struct patches *out, ckpt_error *err);
    /* undoes - a journal would make WAS of NOW by putting the bytes of UNDO back: could in_place have
     * replaced those? IS is NOW, read; NULL: it cannot be. Where in_place is NULL, so is this. */
    bool (*undoes)(const ckpt_file *was, const ckpt_file *is, source *now, const struct patches *undo);
};

const struct format *format_by_name(const char *name);
const struct format *format_by_suffix(const char *path); /* that can write */
/* format_target - what P is written as to PATH: ASKED for, as the suffix of PATH has it, or what the input
 * is; a torch zip where that cannot be written. */
ckpt_status format_target(const ckpt_plan *p, const char *path, const char *asked, const struct format **out,
                          ckpt_error *err);
/* foreign_detect - names what is no checkpoint of ours (foreign.def). */
ckpt_status foreign_detect(const struct probe *p, ckpt_error *err);
/* shards_write - PLAN as files of at most opts->max_shard tensor bytes, each
 * written by FORMAT, and their index (hub/write.c). */
ckpt_status shards_write(ckpt_plan *p, const struct format *format, const struct write_job *job,
                         ckpt_error *err);
/* format_open - opens SRC (taken over) or the directory PATH as one checkpoint, of
 * any format or of ONLY that one; api.c and formats that contain checkpoints use
 * it. CKPT_EUNKNOWN and CKPT_EUNSUPPORTED name what it is instead. */
ckpt_status format_open(const char *path, source *src, const ckpt_limits *limits, const struct format *only,
                        ckpt_file **out, ckpt_error *err);
/* format_open_source - the bytes at PATH, once a journal next to it is settled, which NOTE (may be NULL) is
 * about; *OUT is NULL for a folder. */
ckpt_status format_open_source(const char *path, struct journal_note *note, source **out, ckpt_error *err);
/* format_open_path - ckpt_open; with NAMES also a text of tensor names, and then ERR is not NULL. */
ckpt_status format_open_path(const char *path, bool names, const ckpt_limits *limits, ckpt_file **out,
                             ckpt_error *err);
/* format_judge - of an undo journal of the file PATH: could it be of an edit in place? */
struct journal_judge format_judge(const char *path);
/* format_salvage - the same for a file that may be cut or damaged: tensors whose bytes are
 * not all there are rows without data, and listed as lost. */
ckpt_status format_salvage(const char *path, source *src, const ckpt_limits *limits, ckpt_file **out,
                           ckpt_error *err);

/* format_part - a file that F, which is being read, is made of, opened as F is: checked, salvaged, or all of
 * it there. *OUT is NULL where that was told already. */
ckpt_status format_part(ckpt_file *f, const char *path, source *src, ckpt_file **out, ckpt_error *err);
/* format_check - the same, whatever the format; with a C (may be NULL) faults are told
 * there and the file is opened in spite of them: *OUT is NULL where that is not possible.
 * Records that have a checksum are listed in C, to be read by whoever is about to. */
ckpt_status format_check(const char *path, source *src, const ckpt_limits *limits, struct check *c,
                         ckpt_file **out, ckpt_error *err);

#endif
