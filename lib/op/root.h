/* root.h - names below the part of a file that is meant. */
#ifndef OP_ROOT_H
#define OP_ROOT_H

#include "core/file.h"

/* root_find - what to take off the names of F when ROOT (NULL: all of it; "auto": the
 * weights) is asked for: empty where nothing lies below it. */
ckpt_status root_find(ckpt_file *f, const char *root, ckpt_str *out, ckpt_error *err);
bool root_above(ckpt_str root, ckpt_str name);

#endif
