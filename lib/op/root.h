/* root.h - `--root`: the part of a file below a name, and globs that select names. */
#ifndef OP_ROOT_H
#define OP_ROOT_H

#include "core/file.h"

/* A root: a path of containers and, if its name is longer than that, a common prefix of names in the last
 * one. */
struct root {
    ckpt_str name;              /* joined; empty: all of the file */
    size_t containers_len;      /* length of the part of NAME that is containers */
    const ckpt_path_elem *path; /* the containers */
    uint32_t depth;             /* number of them */
    const ckpt_value *node;     /* the last one; NULL: not known */
    bool alone;                 /* of the last one its tensors alone: see struct weights */
};

/* root_find - *OUT: the root that ROOT (NULL: all of F; "auto": the weights) means; its name is empty if
 * nothing is below it. A name can be split into containers in several ways: the longest part that is
 * containers is chosen, then the fewest containers, then the first in the file. */
ckpt_status root_find(ckpt_file *f, const char *root, struct root *out, ckpt_error *err);
/* root_contains - is the tensor or value with NAME and PATH (NPATH elements) below R? */
bool root_contains(const struct root *r, ckpt_str name, const ckpt_path_elem *path, uint32_t npath);
/* is_below_root - does NAME begin with ROOT and a dot? */
bool is_below_root(ckpt_str root, ckpt_str name);

/* Globs that select names; a name that matches one with '!' in front is excluded. */
struct wanted_names {
    const char *const *globs;
    size_t nglobs;
    bool ignore_case;
};

/* is_wanted - is NAME selected? If all globs have '!' (or there are none), each name is that is not
 * excluded. */
bool is_wanted(const struct wanted_names *w, ckpt_str name);

#endif
