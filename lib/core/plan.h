/* plan.h - what to write: a graph with edits laid over it, and the tensors that
 * are left, under their new names. Operations change plans, writers read them. */
#ifndef CORE_PLAN_H
#define CORE_PLAN_H

#include "core/file.h"
#include "core/stream.h"
#include "io/sink.h"

/* Edits of one container: names[i] replaces the key of pair i (or, in a list,
 * the text that item i is) unless .ptr is NULL; dropped[i] leaves it out. */
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
    bool tie; /* KEY is a row as well, a second name of the tensor TEXT */
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
    map *edit_of; /* node -> index into edits */
    struct edit *edits;
    size_t nedits, cap_edits;
    bool *keep;                 /* by row: still to be written */
    uint16_t *cast;             /* by row: the dtype it becomes, 0: its own; NULL: none is cast */
    uint32_t cast_weights;      /* the dtype that a cast without a glob was to, 0: there was none … */
    const bool *is_weights;     /* … and by row: is it of those that it was for? */
    bool any_keep;              /* plan_keep narrowed already */
    bool renaming;              /* names were to change: what has none of them is copied as it is */
    struct plan_entry *entries; /* by plan_entries, in document order */
    size_t nentries;
    bool entries_stale;
    ckpt_mapping *mappings; /* that op/keys renames in */
    size_t nmappings;
    uint32_t *mapping_of;     /* by row: one of them, or UINT32_MAX; NULL: nothing was renamed */
    ckpt_str *old_names;      /* by row: its name before anything was renamed */
    ckpt_rename *noted;       /* renames of what is no row */
    size_t nnoted, cap_noted;
    map *noted_names;         /* of plan_begin_renaming */
    ckpt_rename *renames;     /* by plan_list_renames: rows, then what was noted */
    size_t nrenames;
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
    /* approve - asked by whoever writes a pickle, which is F's only one, before a byte
     * of it is written; NULL: anything goes. */
    ckpt_status (*approve)(ckpt_file *f, ckpt_error *err);
};

void plan_notice(ckpt_plan *p, const char *fmt, ...) CKPT_PRINTF(2, 3);
/* plan_note_shared - N tensors were to be left out, but are written under other names. */
void plan_note_shared(ckpt_plan *p, size_t n);
/* plan_reading - a wrong checksum is an error, or a notice of P if the file was told
 * to ignore them. */
struct stream_options plan_reading(ckpt_plan *p);
/* plan_writing - O for a sink; what it has to say becomes notices of P. */
struct sink_options plan_writing(ckpt_plan *p, const ckpt_write_options *o);
/* plan_root_is_module - is the whole file one object that is written as its state dict? */
bool plan_root_is_module(const ckpt_plan *p);
/* plan_module_notice - says that a module is written as its state dict. */
void plan_module_notice(ckpt_plan *p);
/* plan_edit - the edit of NODE, which has N entries, made if need be; NULL: no memory. */
struct edit *plan_edit(ckpt_plan *p, const ckpt_value *node, uint32_t n);
/* plan_edit_find - the edit of NODE or NULL. */
const struct edit *plan_edit_find(const ckpt_plan *p, const ckpt_value *node);
/* plan_below_root - does this path go through the plan's root and on? */
bool plan_below_root(const ckpt_plan *p, const ckpt_path_elem *path, uint32_t n);
/* plan_entries - brings p->entries up to date. */
ckpt_status plan_entries(ckpt_plan *p, ckpt_error *err);
/* plan_count - how many entries there are, without a list of them: needs no memory, so a report made
 * after all is written is as true as one made before. */
size_t plan_count(const ckpt_plan *p);
/* plan_nothing_left - the error of a plan without a tensor. */
ckpt_status plan_nothing_left(ckpt_error *err);
/* plan_metadata - the texts of the file's metadata in their order. A pair that records a tie has the
 * names that both rows have now, and is left out where one of them is. */
ckpt_status plan_metadata(ckpt_plan *p, struct plan_pair **out, size_t *n, ckpt_error *err);
/* plan_begin_renaming - before the first plan_renamed of a rule: what an earlier rule renamed is one rename
 * with what this one does to it. */
ckpt_status plan_begin_renaming(ckpt_plan *p, ckpt_error *err);
/* plan_renamed - notes a rename of what is no row, for the report; the texts must outlive the plan. */
ckpt_status plan_renamed(ckpt_plan *p, const ckpt_rename *one, ckpt_error *err);
/* plan_list_renames - brings p->renames and the counts of p->mappings up to date. */
ckpt_status plan_list_renames(ckpt_plan *p, ckpt_error *err);
/* plan_dropped - notes that LEAF is left out; without a value it is a tensor. */
ckpt_status plan_dropped(ckpt_plan *p, const ckpt_leaf *leaf, const char *why, ckpt_error *err);
ckpt_status plan_alias(ckpt_plan *p, ckpt_str name, ckpt_str of, ckpt_error *err);
/* plan_sanitized - notes ONE, whose instead lives as long as the plan; name, type or callable
 * without .ptr: out of memory. */
ckpt_status plan_sanitized(ckpt_plan *p, ckpt_sanitized one, ckpt_error *err);
ckpt_status plan_output(ckpt_plan *p, const char *path, ckpt_error *err);
/* plan_dtype, plan_nbytes - of ROW as it is written. */
ckpt_dtype plan_dtype(const ckpt_plan *p, uint32_t row);
bool plan_nbytes(const ckpt_plan *p, uint32_t row, uint64_t *out); /* false: beyond 2^64 */
/* plan_storage_nbytes - of all of ROW's storage, where that becomes what ROW becomes; an
 * array of numpy stays. */
bool plan_storage_nbytes(const ckpt_plan *p, uint32_t row, uint64_t *out);
/* plan_cast_done - notes for the report that NAME, at ROW, became another dtype. */
ckpt_status plan_cast_done(ckpt_plan *p, ckpt_str name, uint32_t row, uint64_t elements, uint64_t overflowed,
                           ckpt_error *err);
/* plan_cast_lossless - CKPT_ELOSSY when values overflowed in casts noted from BEFORE on. */
ckpt_status plan_cast_lossless(const ckpt_plan *p, size_t before, ckpt_error *err);
/* plan_cast_disagree - tensors A and B, which share bytes, would become different things. */
ckpt_status plan_cast_disagree(const ckpt_plan *p, const struct plan_entry *a, const struct plan_entry *b,
                               ckpt_error *err);

/* plan_save, plan_restore - which rows and pairs of the root it keeps, for a writer that
 * shows it in parts. */
struct plan_saved {
    bool *keep, *dropped;
    uint32_t n;
};
ckpt_status plan_save(ckpt_plan *p, struct plan_saved *s, ckpt_error *err);
void plan_restore(ckpt_plan *p, const struct plan_saved *s);

#endif
