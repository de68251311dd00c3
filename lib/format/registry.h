/* registry.h - detects the format of a file, and opens it. */
#pragma once

#include "format/format.h"

/* format_by_name - returns the format with that name or other_name, or NULL. */
const struct format *format_by_name(const char *name);
/* format_recognize - returns the first format whose probe accepts PROBE, or NULL. */
const struct format *format_recognize(const struct probe *probe);
/* format_by_suffix - returns the format that outputs with the suffix of PATH get, or NULL. Of an index, that
 * of its shards. */
const struct format *format_by_suffix(const char *path);
/* format_written_at - returns the name for --to of the I-th format that can be written, or NULL after the
 * last. Sharded output is not a format of its own. */
const char *format_written_at(size_t index);
/* format_hint_leave_out - sets the hint of ERR: how to leave out TENSOR, a tensor of F that the output cannot
 * hold and that is called NAME, and MORE; for elements of numpy without a dtype, how to give them one by
 * --as. */
void format_hint_leave_out(const ckpt_file *f, const ckpt_tensor *tensor, ckpt_str name, const char *more,
                           ckpt_error *err);
/* format_target - sets *OUT to the format for writing P to PATH: the format named ASKED; if ASKED is NULL,
 * the format for the suffix of PATH; else that of the input, if it can be written; else torch zip. If PATH is
 * NULL, *OUT is the format named ASKED or that of the input. */
ckpt_status format_target(const ckpt_plan *p, const char *path, const char *asked, const struct format **out,
                          ckpt_error *err);
/* format_check_lays_out - refuses FORMAT for an output that several processes write, unless it lays_out. */
ckpt_status format_check_lays_out(const struct format *format, ckpt_error *err);
/* format_open - opens a checkpoint, for api.c and for formats that contain checkpoints. The errors
 * CKPT_EUNKNOWN and CKPT_EUNSUPPORTED name what the file is instead. */
ckpt_status format_open(const struct opening *opening, ckpt_file **out, ckpt_error *err);
/* format_open_source - opens the file PATH; a URL as `remote` of LIMITS (may be NULL) has it. Fails if its
 * undo journal shows an unfinished edit; sets NOTE if there is a journal that is not of this file. Sets
 * *OUT to NULL if PATH is a folder, and to the archive (members.h) or server if PATH is a folder in one. */
ckpt_status format_open_source(const char *path, const ckpt_limits *limits, struct journal_note *note,
                               source **out, ckpt_error *err);
/* format_note_journal - returns ST, the result of reading F (may be NULL). Adds the text of NOTE to F as a
 * notice or, if ST is a fault, to ERR as the hint. */
ckpt_status format_note_journal(const struct journal_note *note, ckpt_file *f, ckpt_status st,
                                ckpt_error *err);
/* format_open_path - does format_open_source and format_open for the path of GIVEN, whose source is not set.
 * If NAMES, also accepts a text file of tensor names. */
ckpt_status format_open_path(const struct opening *given, bool names, ckpt_file **out, ckpt_error *err);
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
/* format_open_merged - opens the checkpoints of MERGING as one, which has the tensors of all. CKPT_EEXIST:
 * two of them have a tensor of one name. */
ckpt_status format_open_merged(const struct merging *merging, const ckpt_limits *limits, ckpt_file **out,
                               ckpt_error *err);
/* format_open_or_names - does format_open and, if that fails, opens OPENING as a text file of tensor names.
 * ERR must not be NULL. */
ckpt_status format_open_or_names(const struct opening *opening, ckpt_file **out, ckpt_error *err);
/* format_set_container - lets F, which is being read, keep CONTAINER until RELEASE (may be NULL) frees it.
 * Closes the zip archive of the probe, which is the container otherwise. */
void format_set_container(ckpt_file *f, void *container, void (*release)(void *container));
/* format_open_part - opens a shard or embedded file of F, which is being read, in the mode of F: verify,
 * salvage or strict. Sets *OUT to NULL if its fault was reported already. */
ckpt_status format_open_part(ckpt_file *f, const char *path, source *src, ckpt_file **out, ckpt_error *err);
/* format_check - does format_open, but reports faults to opening->check (may be NULL) and goes on; sets *OUT
 * to NULL if that is impossible. Adds the records that have a checksum to it, for the caller to read. */
ckpt_status format_check(const struct opening *opening, ckpt_file **out, ckpt_error *err);
