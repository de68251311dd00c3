/* root.h - names below the part of a file that is meant. */
#ifndef OP_ROOT_H
#define OP_ROOT_H

#include "core/file.h"

/* A root: containers, and what of its name is left then, a common prefix of names in the last of them. */
struct root {
    ckpt_str name; /* joined; empty: all of the file */
    size_t len;    /* of NAME as far as it is containers */
    const ckpt_path_elem *path; /* those, DEPTH of them */
    uint32_t depth;
    const ckpt_value *node; /* the last of them; NULL: not known */
};

/* root_find - what ROOT (NULL: all of F; "auto": the weights) means; no name where nothing lies below it. A
 * name may be split in several ways; the most of it that is containers counts, the fewest of those, the first
 * in the file. */
ckpt_status root_find(ckpt_file *f, const char *root, struct root *out, ckpt_error *err);
/* root_holds - is the tensor or value called NAME, by the NPATH elements of PATH, below R? */
bool root_holds(const struct root *r, ckpt_str name, const ckpt_path_elem *path, uint32_t npath);
bool root_above(ckpt_str root, ckpt_str name);

/* Globs over names; those that begin with '!' are of what is not wanted. */
struct wanted_names {
    const char *const *globs;
    size_t nglobs;
    bool ignore_case;
};

/* is_wanted - does NAME match? All do where no glob is of what is wanted. */
bool is_wanted(const struct wanted_names *w, ckpt_str name);

#endif
