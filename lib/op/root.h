/* root.h - names below the part of a file that is meant. */
#ifndef OP_ROOT_H
#define OP_ROOT_H

#include "core/file.h"

/* root_find - what to take off the names of F when ROOT (NULL: all of it; "auto": the
 * weights) is asked for: empty where nothing lies below it. */
ckpt_status root_find(ckpt_file *f, const char *root, ckpt_str *out, ckpt_error *err);
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
