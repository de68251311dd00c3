/* plan.h - what to write: a graph with edits laid over it, and the tensors that
 * are left, under their new names. Operations change plans, writers read them. */
#ifndef CORE_PLAN_H
#define CORE_PLAN_H

#include "core/file.h"
#include "core/stream.h"

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
};

struct ckpt_plan {
    arena *a;
    ckpt_file *file;
    const ckpt_value *root;          /* what to write; replacements applied */
    uint32_t root_depth;             /* path elements of the file above root … */
    const ckpt_path_elem *root_path; /* … which are these */
    ckpt_str root_name;
    map *edit_of; /* node -> index into edits */
    struct edit *edits;
    size_t nedits, cap_edits;
    bool *keep;                 /* by row: still to be written */
    bool any_keep;              /* plan_keep narrowed already */
    struct plan_entry *entries; /* by plan_entries, in document order */
    size_t nentries;
    bool entries_stale;
    ckpt_rename *renames;
    size_t nrenames, cap_renames;
    const char **notices;
    size_t nnotices, cap_notices;
    ckpt_dropped *dropped; /* of the last write */
    size_t ndropped, cap_dropped;
    ckpt_alias *aliases;
    size_t naliases, cap_aliases;
    const char **outputs;
    size_t noutputs, cap_outputs;
};

void plan_notice(ckpt_plan *p, const char *fmt, ...) CKPT_PRINTF(2, 3);
/* plan_reading - a wrong checksum is an error, or a notice of P if the file was told
 * to ignore them. */
struct stream_options plan_reading(ckpt_plan *p);
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
/* plan_metadata - the texts of the file's metadata as they are to be written. Where a text is the
 * name of a tensor, the pair records a tie ({"dropped name": "name"}): it takes the tensor's new
 * name, and is left out with the tensor. Its key is an edit like any other. */
ckpt_status plan_metadata(ckpt_plan *p, struct plan_pair **out, size_t *n, ckpt_error *err);
/* plan_renamed - notes a rename for the report. */
ckpt_status plan_renamed(ckpt_plan *p, ckpt_str from, ckpt_str to, bool metadata, ckpt_error *err);
ckpt_status plan_dropped(ckpt_plan *p, ckpt_str path, ckpt_str type, const char *why, ckpt_error *err);
ckpt_status plan_alias(ckpt_plan *p, ckpt_str name, ckpt_str of, ckpt_error *err);
ckpt_status plan_output(ckpt_plan *p, const char *path, ckpt_error *err);

#endif
