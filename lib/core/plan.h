/* plan.h - what to write: edits over a value graph, and the rows that are kept, with their new names.
 * Operations change plans, writers read them. */
#ifndef CORE_PLAN_H
#define CORE_PLAN_H

#include "core/file.h"
#include "core/stream.h"
#include "io/sink.h"

/* Edits of one container: names[i] replaces the key of pair i (or, in a list, text item i) unless .ptr is
 * NULL; dropped[i] leaves it out. */
struct edit {
    const ckpt_value *node;
    ckpt_str *names;
    bool *dropped;
    uint32_t n;
};

struct plan_entry {
    uint32_t row;
    ckpt_str name; /* below the root, edits applied */
};

/* A text of the file's metadata. */
struct plan_pair {
    ckpt_str key, text;
    const ckpt_value *value; /* that TEXT was in the file */
    bool tie;                /* KEY is a row, too: another name of the tensor TEXT */
};

struct ckpt_plan {
    arena *a;
    ckpt_file *file;
    const ckpt_value *root;          /* what to write; replacements applied */
    uint32_t root_depth;             /* path elements of the file above root … */
    const ckpt_path_elem *root_path; /* … which are these */
    ckpt_str root_name;
    ckpt_str prefix;                 /* that was stripped, where the one that was asked for lacked a dot */
    bool rooted;                     /* a part of the file was named */
    bool tensors_alone;              /* `--root auto`: what is no tensor is left out, and said to be */
    map *edit_of; /* node -> index into edits */
    struct edit *edits;
    size_t nedits, cap_edits;
    bool *keep;                 /* by row: still to be written */
    uint16_t *cast;             /* by row: the dtype it becomes, 0: its own; NULL: none is cast */
    uint32_t cast_weights;      /* the dtype that a cast without a glob was to, 0: there was none … */
    const bool *is_weights;     /* … and by row: is it of those that it was for? */
    bool object_graph_dropped;  /* by plan_drop_object_graph */
    bool any_keep;              /* plan_keep narrowed already */
    bool renaming;              /* names were to change: what has none of them is copied as it is */
    struct plan_entry *entries; /* by plan_update_entries, in document order */
    size_t nentries;
    bool entries_stale;
    ckpt_mapping *mappings; /* that op/keys renames in */
    size_t nmappings;
    uint32_t *mapping_of;     /* by row: one of them, or UINT32_MAX; NULL: nothing was renamed */
    ckpt_str *old_names;      /* by row: its name before anything was renamed; NULL: as in the file */
    ckpt_rename *noted;       /* renames of what is no row */
    size_t nnoted, cap_noted;
    map *noted_names;         /* of plan_begin_renaming */
    ckpt_rename *renames;     /* rows, then what was noted; made on first use, which is after the writing */
    size_t nrenames;          /* by plan_count_renames, of COUNTED */
    const struct plan_entry *counted;
    size_t ncounted;
    struct notices notices;
    ckpt_dropped *dropped; /* of the last write */
    size_t ndropped, cap_dropped;
    ckpt_alias *aliases;
    size_t naliases, cap_aliases;
    const char **outputs;
    size_t noutputs, cap_outputs;
    ckpt_cast *casts; /* of the last write */
    size_t ncasts, cap_casts;
    ckpt_sanitized *sanitized; /* by op/sanitize */
    size_t nsanitized, cap_sanitized;
    /* approve - called by the writer of a pickle, the only one of F, before it is written; NULL: everything
     * is accepted. */
    ckpt_status (*approve)(ckpt_file *f, ckpt_error *err);
};

/* One output of a plan: to PATH ("-": standard output); where that is NULL, into MEMORY; with neither, to the
 * descriptor FD. */
struct write_job {
    const char *path;
    struct sink_bytes *memory;
    int fd;
    const ckpt_write_options *opts;
    ckpt_write_result *result;
    struct sink_batch *batch; /* NULL; or where the output waits for others */
    bool has_index;           /* one file of a set: its index has the metadata, its writer checks the input */
    struct { /* … of a set without one: its NUMBER (from 0) of COUNT; 0: no set */
        uint32_t number, count;
        uint64_t tensors; /* of all files */
    } part;
    bool layout_only;         /* all that can be refused without reading the data; nothing is written */
};

void plan_notice(ckpt_plan *p, const char *fmt, ...) CKPT_PRINTF(2, 3);
/* plan_note_shared - a notice that N tensors are written under other names, though they were to be left
 * out. */
void plan_note_shared(ckpt_plan *p, size_t n);
/* plan_stream_options - a wrong checksum is an error, or a notice of P if checksums are ignored. */
struct stream_options plan_stream_options(ckpt_plan *p);
/* plan_sink_options - the options O for a sink, whose notices become notices of P. */
struct sink_options plan_sink_options(ckpt_plan *p, const ckpt_write_options *o);
/* plan_open_sink - *OUT leads to where JOB has the output of P go. */
ckpt_status plan_open_sink(ckpt_plan *p, const struct write_job *job, sink **out, ckpt_error *err);
/* plan_root_is_module - is the whole file one object that is written as its state dict? */
bool plan_root_is_module(const ckpt_plan *p);
/* plan_note_module - a notice that a module is written as its state dict. */
void plan_note_module(ckpt_plan *p);
/* plan_edit - the edit of NODE, which has N entries; adds one if there is none. NULL: no memory. */
struct edit *plan_edit(ckpt_plan *p, const ckpt_value *node, uint32_t n);
/* plan_edit_find - the edit of NODE or NULL. */
const struct edit *plan_edit_find(const ckpt_plan *p, const ckpt_value *node);
/* plan_below_root - is this path below the plan's root? */
bool plan_below_root(const ckpt_plan *p, const ckpt_path_elem *path, uint32_t n);
/* plan_takes_leaf - is LEAF below it, and not left out with it? */
bool plan_takes_leaf(const ckpt_plan *p, const ckpt_leaf *leaf);
/* plan_edited_path - ROW's path below the root with the edits in OUT, which has room for all of it or is
 * NULL; *CHANGED: did any edit apply? False: the row is dropped. */
bool plan_edited_path(const ckpt_plan *p, const struct row *row, ckpt_path_elem *out, bool *changed);
/* plan_update_entries - brings p->entries up to date. */
ckpt_status plan_update_entries(ckpt_plan *p, ckpt_error *err);
/* plan_count - the number of entries, without listing them: allocates nothing, so that a report after
 * writing cannot fail. */
size_t plan_count(const ckpt_plan *p);
/* plan_fail_no_tensors - the error of a plan without a tensor. */
ckpt_status plan_fail_no_tensors(ckpt_error *err);
/* plan_metadata - the texts of the file's metadata in their order. A pair that records a tie has the
 * names that both rows have now, and is left out where one of them is. */
ckpt_status plan_metadata(ckpt_plan *p, struct plan_pair **out, size_t *n, ckpt_error *err);
/* plan_begin_renaming - is called before the first plan_note_renamed of a rule: what an earlier rule renamed
 * and this one renames again is one rename in the report. */
ckpt_status plan_begin_renaming(ckpt_plan *p, ckpt_error *err);
/* plan_note_renamed - notes a rename of what is no row, for the report; the texts must outlive the plan. */
ckpt_status plan_note_renamed(ckpt_plan *p, const ckpt_rename *one, ckpt_error *err);
/* plan_keep_old_names - records the names that the rows have before the first of them is renamed. */
ckpt_status plan_keep_old_names(ckpt_plan *p, ckpt_error *err);
/* plan_count_renames - brings p->nrenames and the counts of p->mappings up to date. */
ckpt_status plan_count_renames(ckpt_plan *p, ckpt_error *err);
/* plan_note_dropped - notes that LEAF is left out; without a value it is a tensor. */
ckpt_status plan_note_dropped(ckpt_plan *p, const ckpt_leaf *leaf, const char *why, ckpt_error *err);
ckpt_status plan_note_alias(ckpt_plan *p, ckpt_str name, ckpt_str of, ckpt_error *err);
/* plan_note_sanitized - notes ONE, whose instead lives as long as the plan; name, type or callable
 * without .ptr: out of memory. */
ckpt_status plan_note_sanitized(ckpt_plan *p, ckpt_sanitized one, ckpt_error *err);
ckpt_status plan_note_output(ckpt_plan *p, const char *path, ckpt_error *err);
/* plan_dtype, plan_nbytes - of ROW as it is written. */
ckpt_dtype plan_dtype(const ckpt_plan *p, uint32_t row);
bool plan_nbytes(const ckpt_plan *p, uint32_t row, uint64_t *out); /* false: beyond 2^64 */
/* plan_storage_nbytes - the size of all of ROW's storage, where that becomes what ROW becomes; an
 * array of numpy stays. */
bool plan_storage_nbytes(const ckpt_plan *p, uint32_t row, uint64_t *out);
/* plan_note_cast - notes, for the report, that NAME, at ROW, became another dtype. */
ckpt_status plan_note_cast(ckpt_plan *p, ckpt_str name, uint32_t row, uint64_t elements, uint64_t overflowed,
                           ckpt_error *err);
/* plan_check_lossless - CKPT_ELOSSY when values overflowed in casts noted from BEFORE on. */
ckpt_status plan_check_lossless(const ckpt_plan *p, size_t before, ckpt_error *err);
/* plan_fail_cast_conflict - tensors A and B, which share bytes, would become different things. */
ckpt_status plan_fail_cast_conflict(const ckpt_plan *p, const struct plan_entry *a,
                                    const struct plan_entry *b, ckpt_error *err);

/* plan_drop_object_graph - leaves the object graph of P's file out, and notes that; STRICT: refuses to. */
ckpt_status plan_drop_object_graph(ckpt_plan *p, bool strict, ckpt_error *err);
/* plan_save, plan_restore - which rows and pairs of the root it keeps, for a writer that
 * shows it in parts. */
struct plan_saved {
    bool *keep, *dropped;
    uint32_t n;
};
ckpt_status plan_save(ckpt_plan *p, struct plan_saved *s, ckpt_error *err);
void plan_restore(ckpt_plan *p, const struct plan_saved *s);

#endif
