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

/* What formats may look at to recognize a file. */
struct probe {
    const char *path; /* for messages, and where the bytes alone say too little */
    bool directory;
    bool salvage;          /* it may be truncated or damaged */
    const ckpt_str *names; /* of the files in a directory, in the order that people expect */
    size_t nnames;
    bool *no_memory; /* set by a probe that could not look: the answers do not count */
    source *src;     /* NULL for a directory */
    uint64_t size;
    unsigned char head[PROBE_HEAD];
    size_t nhead;
    zip *z;             /* the archive, if the head is PK; else NULL */
    ckpt_error zip_err; /* why z is NULL although the head is PK */
};

/* The metadata of a file, which are to become others. */
struct metadata_job {
    const ckpt_pair *pairs; /* without equal keys */
    size_t n;
    const char *path; /* of the copy that is to be written; NULL: in place */
    const ckpt_write_options *opts;
    buf header;      /* in place: what is to be at offset AT of the file; made by the format */
    uint64_t at;
    uint64_t length; /* of the new header */
};

/* metadata_check_text - fails if X is not UTF-8; for the pairs that a format does not copy. */
ckpt_status metadata_check_text(const ckpt_pair *x, ckpt_error *err);

struct format {
    const char *name;       /* "torch-zip": JSON, --to */
    const char *title;      /* "torch zip": people */
    const char *other_name; /* that --to takes, too; or NULL */
    const char *suffixes;   /* ".pt .pth": chosen for outputs; NULL: never by suffix */
    /* probe - is the file of this format? Called in the order of formats.def; the first true wins. */
    bool (*probe)(const struct probe *p);
    ckpt_status (*read)(ckpt_file *f, ckpt_error *err); /* ERR is never NULL */
    /* write - NULL: read-only. */
    ckpt_status (*write)(ckpt_plan *p, const struct write_job *job, ckpt_error *err);
    bool compresses; /* write honours `compress` of its options */
    bool flat; /* tensors by name and texts only; no graph */
    /* holds - of a flat format: has it the element type of T, which safetensors lacks? NULL: it has none. */
    bool (*holds)(const ckpt_tensor *t);
    /* in_place - the patches that give the file the names of the plan; their bytes live as long as the
     * file. NULL: it must be rewritten. */
    ckpt_status (*in_place)(ckpt_plan *p, struct patches *out, ckpt_error *err);
    /* undoes - applying UNDO, the old bytes of a journal, to NOW gives WAS: can in_place have replaced
     * these bytes? IS is NOW as a file; NULL: it cannot be read. NULL if in_place is. */
    bool (*undoes)(const ckpt_file *was, const ckpt_file *is, source *now, const struct patches *undo);
    /* write_metadata - does JOB, but for an edit in place, of which it makes the header. NULL: it has no
     * metadata that can be edited. */
    ckpt_status (*write_metadata)(ckpt_file *f, struct metadata_job *job, ckpt_error *err);
};

const struct format *format_by_name(const char *name);
/* format_of - the first format whose probe accepts P; NULL: none does. */
const struct format *format_of(const struct probe *p);
const struct format *format_by_suffix(const char *path); /* that can write */
/* format_written_at - what --to calls the I-th format that an output can have; NULL past the end. Shards are
 * none: their files have one. */
const char *format_written_at(size_t i);
/* format_target - what P is written as to PATH: ASKED for, as the suffix of PATH has it, or what the input
 * is; a torch zip where that cannot be written. Without a PATH there is neither suffix nor torch zip. */
ckpt_status format_target(const ckpt_plan *p, const char *path, const char *asked, const struct format **out,
                          ckpt_error *err);
/* foreign_refuse - reports what P is, if no format recognizes it (foreign.c). */
ckpt_status foreign_refuse(const struct probe *p, ckpt_error *err);
/* shards_write - writes P as files of at most opts->max_shard tensor bytes, each
 * written in FORMAT, and their index (hub/write.c). */
ckpt_status shards_write(ckpt_plan *p, const struct format *format, const struct write_job *job,
                         ckpt_error *err);
/* What is opened, and how. */
struct opening {
    const char *path;           /* a folder, or what messages call SRC */
    source *src;                /* taken over; NULL: PATH is a folder */
    const ckpt_limits *limits;  /* or NULL */
    const struct format *only;  /* of any format: NULL */
    struct check *check;        /* faults go there; or NULL */
    struct source_watch *watch; /* follows the reading; or NULL */
    /* Salvage: tensors whose bytes are not all there are rows without data, and listed as lost. */
    enum { OPEN_WHOLE, OPEN_SALVAGE, OPEN_SALVAGE_PART } how;
};
/* format_open - opens one checkpoint; api.c and formats that contain checkpoints use it. CKPT_EUNKNOWN and
 * CKPT_EUNSUPPORTED name what it is instead. */
ckpt_status format_open(const struct opening *o, ckpt_file **out, ckpt_error *err);
/* format_open_source - opens the bytes at PATH, unless an edit in place was cut short; NOTE is about a
 * journal next to it that does not count. *OUT is NULL for a folder. */
ckpt_status format_open_source(const char *path, struct journal_note *note, source **out, ckpt_error *err);
/* format_note_journal - returns ST, the result of reading the file of NOTE, and adds the text of NOTE as a
 * notice to F (may be NULL), or as the hint of a fault. */
ckpt_status format_note_journal(const struct journal_note *note, ckpt_file *f, ckpt_status st,
                                ckpt_error *err);
/* format_open_path - format_open of the file at PATH of O, whose source is not set yet; with NAMES, a text
 * of tensor names is accepted, too. */
ckpt_status format_open_path(const struct opening *o, bool names, ckpt_file **out, ckpt_error *err);
/* format_open_or_names - format_open, or else as a text of tensor names; ERR is not NULL. */
ckpt_status format_open_or_names(const struct opening *o, ckpt_file **out, ckpt_error *err);
/* format_judge - the checks of an undo journal of the file PATH: can it be of an edit in place? */
struct journal_judge format_judge(const char *path);
/* format_set_container - for a format that has no archive: CONTAINER is what F, which is being read, keeps,
 * and RELEASE (may be NULL) frees it. An archive that was found at the end of the file is closed. */
void format_set_container(ckpt_file *f, void *container, void (*release)(void *container));
/* format_open_part - opens a shard or embedded file of F, which is being read, in the same way as F:
 * checked, salvaged or strictly. *OUT is NULL if its fault was reported already. */
ckpt_status format_open_part(ckpt_file *f, const char *path, source *src, ckpt_file **out, ckpt_error *err);
/* format_check - format_open, but with C (may be NULL) faults are reported there and the file is opened in
 * spite of them: *OUT is NULL if that is not possible. Records that have a checksum are added to C, to be
 * read by the caller. */
ckpt_status format_check(const char *path, source *src, const ckpt_limits *limits, struct check *c,
                         ckpt_file **out, ckpt_error *err);

#endif
