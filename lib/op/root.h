/* root.h - finds the part of a file that `--root` names, and selects names by globs. */
#pragma once

#include "core/file.h"

/* A root: a path of containers and, if its name is longer than that, a common prefix of names in the last
 * container: "model.encoder" in {"model": {"encoder.0.weight": …}}. */
struct root {
    ckpt_str name;              /* joined; empty: all of the file */
    size_t containers_len;      /* length of the part of NAME that is containers */
    const ckpt_path_elem *path; /* its first elements are the containers */
    uint32_t depth;             /* number of containers */
    const ckpt_value *node;     /* the last container; NULL: not known */
    bool only_own_tensors;      /* only the tensors of the last container: see struct weights */
};

/* root_find - sets *OUT to the root that ROOT names (NULL: all of F; "auto": the weights). out->name is empty
 * if nothing is below ROOT. If a name can be split into containers in several ways, the longest part that is
 * containers is chosen, then the fewest containers, then the first in the file. */
ckpt_status root_find(ckpt_file *f, const char *root, struct root *out, ckpt_error *err);
/* root_contains - returns true if the tensor or value with NAME and PATH (NPATH elements) is below ROOT. */
bool root_contains(const struct root *root, ckpt_str name, const ckpt_path_elem *path, uint32_t npath);
/* is_below_root - returns true if NAME begins with ROOT and a dot. */
bool is_below_root(ckpt_str root, ckpt_str name);

/* Globs that select names; a name that matches one with '!' in front is excluded. */
struct wanted_names {
    const char *const *globs;
    size_t nglobs;
    bool ignore_case;
};

/* is_wanted - returns true if NAME is selected by the globs. If all globs begin with '!', or there are none,
 * every name is selected that is not excluded. */
bool is_wanted(const struct wanted_names *names, ckpt_str name);
/* glob_selects - returns true if GLOB matches NAME, or a container of NAME, which is NAME up to a dot. */
bool glob_selects(const char *glob, ckpt_str name);
/* plan_no_tensor_matches - calls plan_no_match because GLOB selects no tensor of P. The hint is a wider glob
 * that does, or what the names begin after. */
ckpt_status plan_no_tensor_matches(ckpt_plan *p, const char *glob, ckpt_error *err);
