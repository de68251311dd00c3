/* plan.h - what to write: edits over a value graph, and the tensors to write with their new names. Operations
 * change plans, writers read them. */
#pragma once

#include <stdatomic.h>

#include "core/file.h"
#include "core/output_layout.h"
#include "core/stream.h"
#include "io/sink.h"

/* Edits of one container. names[i] replaces the key of pair i of a mapping, or text i of a list, unless .ptr
 * is NULL; dropped[i] leaves the pair out. */
struct edit {
    const ckpt_value *node;
    ckpt_str *names;
    bool *dropped;
    uint32_t n, cap; /* CAP: entries that both have room for */
};

struct plan_edits {
    map *index_of; /* node -> index into items */
    struct edit *items;
    size_t n, cap;
};

/* What is renamed, for reports. */
struct plan_renames {
    ckpt_mapping *mappings; /* the mappings in which op/keys renames */
    size_t nmappings;
    uint32_t *mapping_of; /* by tensor: index of its mapping, or UINT32_MAX; NULL: nothing was renamed */
    ckpt_str *old_names;  /* by tensor: its name before all renames; NULL: as in the file */
    ckpt_rename *noted;   /* renames of what is not a tensor: metadata, other values */
    size_t nnoted, cap_noted;
    map *index_of;     /* new name -> index into noted; made by plan_begin_renaming */
    ckpt_rename *list; /* renames of tensors, then noted; made on first use, after the writing */
    size_t n;          /* set by plan_count_renames */
    const struct plan_entry *counted; /* the entries that plan_count_renames counted */
    size_t ncounted;
};

/* Which tensors get a different dtype. */
struct plan_casts {
    uint16_t *to;            /* by tensor: the new dtype, 0: unchanged; NULL: no casts */
    uint32_t weights_dtype;  /* the dtype of a cast without a glob, 0: none */
    const bool *is_weights;  /* by tensor: the cast without a glob applies to it */
    const char *left_scheme; /* a cast left weights of this scheme as they are; NULL: none */
    ckpt_dequantized *dequantized;
    size_t ndequantized, cap_dequantized;
};

/* The row to which item or pair INDEX of NODE leads. One tensor may be in several containers, and one
 * container in several places: then several rows have the same value, or the same NODE and INDEX. */
struct entry_row {
    uint64_t node; /* ptr_key() */
    uint32_t index, row;
};

struct plan_entry {
    uint32_t row;
    ckpt_str name; /* the row's path below the root after the edits, joined */
};

/* A pair of the file's metadata. */
struct plan_pair {
    ckpt_str key, text;
    const ckpt_value *value; /* the value that TEXT was made from */
    bool tie;                /* the pair records that KEY and TEXT name the same tensor */
};

/* A tensor whose numbers are computed when they are written (core/computed_source.h). */
struct plan_computed {
    ckpt_str name;
    ckpt_dtype dtype;
    atomic_bool is_overflow; /* a number was beyond the largest of DTYPE */
};

/* What a plan did, for its user. */
struct plan_report {
    struct notices notices;
    ckpt_dropped *dropped; /* of the last write */
    size_t ndropped, cap_dropped;
    ckpt_alias *aliases;
    size_t naliases, cap_aliases;
    const char **outputs;
    size_t noutputs, cap_outputs;
    ckpt_cast *casts; /* of the last write */
    size_t ncasts, cap_casts;
    ckpt_edit_parameter *edit_parameters; /* these, EDIT_STEPS and EDITED are made by op/edit */
    size_t nedit_parameters, cap_edit_parameters;
    ckpt_edit_step *edit_steps;
    size_t nedit_steps, cap_edit_steps;
    ckpt_edited *edited;
    size_t nedited, cap_edited;
    ckpt_lora_match *lora; /* made by op/lora */
    size_t nlora, cap_lora;
    ckpt_sanitized *sanitized; /* made by op/sanitize */
    size_t nsanitized, cap_sanitized;
    const ckpt_averaged *averaged; /* this and MISMATCHES are made by op/average */
    ckpt_mismatch *mismatches;
    size_t nmismatches, cap_mismatches;
    struct plan_computed **computed;
    size_t ncomputed, cap_computed;
    ckpt_str *overflowed; /* the names of those that overflowed, in the last write */
    size_t noverflowed, cap_overflowed;
};

/* How the tensors that rules have made are read, in op/edit_verbs.c. */
struct edit_views {
    const struct edit_view **list;
    size_t nlist, cap_list;
};

struct ckpt_plan {
    arena *a;
    ckpt_file *file;
    const ckpt_value *root;          /* the node to write, as file_replacement_of() returns it */
    const ckpt_path_elem *root_path; /* the root's own path, of ROOT_DEPTH elements */
    uint32_t root_depth;
    ckpt_str root_name;
    ckpt_str prefix;   /* what strip removed, if the user's prefix lacked the dot at the end; else NULL */
    bool has_root;     /* --root was given */
    bool omits_values; /* `--root auto` leaves out all values that are not tensors, with a report */
    struct plan_edits edits;
    bool *keep;                   /* by tensor: it is written */
    size_t cap_rows;              /* rows that KEEP and the other arrays by tensor have room for */
    struct entry_row *entry_rows; /* sorted; made by plan_index_entry_rows */
    size_t nentry_rows;
    struct plan_casts casts;
    const struct quantized_weights *quantized; /* op/quantized.h; NULL: not searched for yet */
    bool description_dropped;                  /* by plan_drop_description */
    bool keep_called;                          /* ckpt_plan_keep was called */
    bool allow_none;                           /* a glob, prefix or rule may match nothing */
    ckpt_str rules;             /* by op/edit: all rules and parameters that were applied, or empty */
    struct edit_scales *scales; /* by op/edit: what belongs to quantized weights; NULL: nothing was moved */
    map *view_of;               /* by op/edit: storage that a rule has made -> its number in VIEWS, or NULL */
    struct edit_views views;
    bool renaming;              /* an operation renames; if no name changes, safetensors are copied */
    struct plan_entry *entries; /* made by plan_update_entries, in document order */
    size_t nentries;
    bool entries_stale;
    struct plan_renames renames;
    struct plan_report report;
    /* approve - checks F, which has only the pickle that is about to be written; may be NULL. */
    ckpt_status (*approve)(ckpt_file *f, ckpt_error *err);
};

/* Where one output of a plan goes: to PATH ("-": standard output); if that is NULL, into MEMORY; if that is
 * NULL too, to the descriptor FD. */
struct write_job {
    const char *path;
    struct sink_bytes *memory;
    int fd;
    const ckpt_write_options *opts;
    ckpt_write_result *result;
    struct sink_batch *batch; /* the outputs that appear together with this one, or NULL */
    bool has_index;           /* the output is a shard, and the metadata are in the index of the set */
    struct { /* for a shard of a set without index: NUMBER (from 0) of COUNT; COUNT 0: no set */
        uint32_t number, count;
        uint64_t tensors; /* tensors of all files */
    } shard;
    bool layout_only; /* make the checks that need no data, and write nothing */
    struct output_layout
        *layout; /* receives the files that would be written; then `dry_run` is set, too, and no
                                   * data is read. NULL: they are written. Only formats with `lays_out` */
};

/* plan_grow - makes room for the rows that were added to the file's table; they are written. */
ckpt_status plan_grow(ckpt_plan *p, ckpt_error *err);
void plan_notice(ckpt_plan *p, const char *fmt, ...) CKPT_PRINTF(2, 3);
/* plan_no_match - fails as fail() does with CKPT_ENOTFOUND, because a glob, prefix or rule matches nothing.
 * If that is allowed, adds the message without its hint as a notice and returns CKPT_OK. */
ckpt_status plan_no_match(ckpt_plan *p, ckpt_error *err, const char *fmt, ...) CKPT_PRINTF(3, 4);
/* plan_note_shared - adds a notice that COUNT tensors that were to be left out are written under other
 * names. */
void plan_note_shared(ckpt_plan *p, size_t count);
/* plan_stream_options - returns options by which a wrong checksum is an error, or a notice of P if checksums
 * are ignored. */
struct stream_options plan_stream_options(ckpt_plan *p);
/* plan_sink_options - returns OPTIONS as options of a sink, whose notices become notices of P. */
struct sink_options plan_sink_options(ckpt_plan *p, const ckpt_write_options *options);
ckpt_status plan_open_sink(ckpt_plan *p, const struct write_job *job, sink **out, ckpt_error *err);
/* plan_root_is_module - returns true if the whole file is one object that is written as its state dict. */
bool plan_root_is_module(const ckpt_plan *p);
/* plan_note_module - adds a notice that a module is written as its state dict. */
void plan_note_module(ckpt_plan *p);
/* plan_find_or_add_edit - finds or adds the edit of NODE, which has COUNT entries. NULL: no memory. */
struct edit *plan_find_or_add_edit(ckpt_plan *p, const ckpt_value *node, uint32_t count);
const struct edit *plan_find_edit(const ckpt_plan *p, const ckpt_value *node);
/* plan_edit_entry - applies the edits of PLAN to entry INDEX of container VALUE, as the hook `keep_entry` of
 * a pickle writer: returns false if the entry is dropped, and sets *TEXT if it is renamed. */
bool plan_edit_entry(void *plan, const ckpt_value *value, uint32_t index, ckpt_str *text);
/* plan_leaves_rows_out - returns true if a tensor is left out. */
bool plan_leaves_rows_out(const ckpt_plan *p);
/* plan_index_entry_rows - prepares for the next two functions. The first needs it only if a tensor is left
 * out. */
ckpt_status plan_index_entry_rows(ckpt_plan *p, ckpt_error *err);
/* plan_shares_entry - returns true if several rows are of item or pair INDEX of NODE, which is in several
 * places. */
bool plan_shares_entry(const ckpt_plan *p, const ckpt_value *node, uint32_t index);
/* plan_keeps_entry - returns true unless item or pair INDEX of NODE is a tensor that is left out, in every
 * place of NODE. */
bool plan_keeps_entry(const ckpt_plan *p, const ckpt_value *node, uint32_t index);
/* plan_find_entry_row - returns the row of item or pair INDEX of NODE, where NODE is at PATH, COUNT elements;
 * CKPT_NO_TENSOR: it is no tensor. */
uint32_t plan_find_entry_row(const ckpt_plan *p, const ckpt_value *node, uint32_t index,
                             const ckpt_path_elem *path, uint32_t count);
bool plan_is_below_root(const ckpt_plan *p, const ckpt_path_elem *path, uint32_t count);
/* plan_includes_leaf - returns true if LEAF is below the root and `--root auto` does not leave it out. */
bool plan_includes_leaf(const ckpt_plan *p, const ckpt_leaf *leaf);
/* plan_edit_path - applies the edits to the path of row ROW below the root. OUT gets the new path and has
 * room for it, or is NULL. *CHANGED: an edit applied, or there is a root. False: the tensor is dropped. */
bool plan_edit_path(const ckpt_plan *p, size_t row, ckpt_path_elem *out, bool *changed);
ckpt_status plan_update_entries(ckpt_plan *p, ckpt_error *err);
/* plan_find_nearest - returns that of the names that plan_update_entries made which has the most
 * components of NAME; empty: none has any. */
ckpt_str plan_find_nearest(const ckpt_plan *p, ckpt_str name);
/* plan_narrow - makes ENTRIES, COUNT of those that plan_update_entries made, all that is written. Takes time
 * for the entries before and after, not for all rows of the file. */
ckpt_status plan_narrow(ckpt_plan *p, const struct plan_entry *entries, size_t count, ckpt_error *err);
/* plan_count_entries - returns the number of entries without listing them. It allocates nothing, so that a
 * report after writing cannot fail. */
size_t plan_count_entries(const ckpt_plan *p);
ckpt_status plan_fail_no_tensors(const ckpt_plan *p, ckpt_error *err);
/* plan_metadata - lists the pairs of the file's metadata in their order. A pair that records a tie gets the
 * new names of both tensors; it is left out if one of them is. */
ckpt_status plan_metadata(ckpt_plan *p, struct plan_pair **out, size_t *number, ckpt_error *err);
/* plan_begin_renaming - prepares for renames by a rule, before its first plan_note_renamed: a name that an
 * earlier rule changed and this rule changes again is one rename in the report. */
ckpt_status plan_begin_renaming(ckpt_plan *p, ckpt_error *err);
/* plan_note_renamed - records, for the report, RENAME of something that is not a tensor. Its texts outlive
 * the plan. */
ckpt_status plan_note_renamed(ckpt_plan *p, const ckpt_rename *rename, ckpt_error *err);
/* plan_keep_old_names - records the names that the tensors have before the first of them is renamed. */
ckpt_status plan_keep_old_names(ckpt_plan *p, ckpt_error *err);
/* plan_count_renames - updates p->renames.n and the counts of the mappings. */
ckpt_status plan_count_renames(ckpt_plan *p, ckpt_error *err);
/* plan_note_dropped - records that LEAF is left out; a LEAF without a value is a tensor. */
ckpt_status plan_note_dropped(ckpt_plan *p, const ckpt_leaf *leaf, const char *why, ckpt_error *err);
/* plan_check_droppable - fails with CKPT_ELOSSY if a rule has set LEAF, so that it cannot be left out.
 * CONTENTS_RULE: what the output holds, as "safetensors holds tensors only". */
ckpt_status plan_check_droppable(const ckpt_leaf *leaf, const char *contents_rule, ckpt_error *err);
/* plan_sets_values - returns true if a rule has set a value that is not a tensor. */
bool plan_sets_values(const ckpt_plan *p);
ckpt_status plan_note_alias(ckpt_plan *p, ckpt_str name, ckpt_str of, ckpt_error *err);
/* plan_note_sanitized - records CHANGE, whose INSTEAD outlives the plan. A name, type or callable with
 * .ptr NULL means out of memory. */
ckpt_status plan_note_sanitized(ckpt_plan *p, ckpt_sanitized change, ckpt_error *err);
ckpt_status plan_note_output(ckpt_plan *p, const char *path, ckpt_error *err);
/* plan_dtype, plan_nbytes - return dtype and size of ROW as it is written. */
ckpt_dtype plan_dtype(const ckpt_plan *p, uint32_t row);
bool plan_nbytes(const ckpt_plan *p, uint32_t row, uint64_t *out); /* false: beyond 2^64 */
/* plan_storage_nbytes - computes the size of ROW's storage after the cast of ROW, if it has one. */
bool plan_storage_nbytes(const ckpt_plan *p, uint32_t row, uint64_t *out);
/* plan_note_cast - records, for the report, that NAME, which is ROW, got another dtype. */
ckpt_status plan_note_cast(ckpt_plan *p, ckpt_str name, uint32_t row, uint64_t elements, uint64_t overflowed,
                           ckpt_error *err);
/* plan_add_computed - records that tensor NAME, which outlives P, is computed, and rounded to DTYPE. The
 * result lives as long as the file of P; NULL: no memory. */
struct plan_computed *plan_add_computed(ckpt_plan *p, ckpt_str name, ckpt_dtype dtype);
/* plan_list_overflowed - lists the computed tensors that overflowed, and adds a notice about them. To be
 * called after P was written. */
void plan_list_overflowed(ckpt_plan *p);
/* plan_check_lossless - returns CKPT_ELOSSY if values overflowed in computed tensors, or in casts recorded
 * from number FIRST on. */
ckpt_status plan_check_lossless(const ckpt_plan *p, size_t first, ckpt_error *err);
/* plan_fail_cast_conflict - returns the error that LEFT and RIGHT, which share bytes, would get different
 * dtypes. */
ckpt_status plan_fail_cast_conflict(const ckpt_plan *p, const struct plan_entry *left,
                                    const struct plan_entry *right, ckpt_error *err);

/* plan_drop_description - leaves out the description of the file and records that; if STRICT, fails. */
ckpt_status plan_drop_description(ckpt_plan *p, bool strict, ckpt_error *err);
/* plan_save, plan_restore - save and restore which tensors and pairs of the root are kept, for a writer that
 * writes parts of the plan one after the other. */
struct plan_saved {
    bool *keep, *dropped;
    uint32_t n;
};
ckpt_status plan_save(ckpt_plan *p, struct plan_saved *saved, ckpt_error *err);
void plan_restore(ckpt_plan *p, const struct plan_saved *saved);
