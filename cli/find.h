/* find.h - finds a tensor or value by a name such as "state_dict.fc.weight". The metadata of a safetensors
 * header or a shard index are values below "__metadata__". */
#pragma once

#include "json.h"
#include "text.h"

struct found {
    uint32_t row;            /* CKPT_NO_TENSOR: not a tensor */
    const ckpt_value *value; /* may be NULL if row is a tensor */
};

/* find_path - finds NAME (keys joined with '.') in F: among its tensors, then in its graph, where keys may
 * hold dots themselves, then in its metadata. ROOT is the root to which F was narrowed, or empty. Returns
 * false if nothing has that name. */
bool find_path(const ckpt_file *f, ckpt_str root, ckpt_str name, struct found *out);
/* find_similar_name - returns the name of a tensor or value that ends in NAME, else the name that is nearest
 * to NAME; empty if none is near. */
ckpt_str find_similar_name(const ckpt_file *f, const char *name);
/* check_globs - returns true if the globs select a tensor of F or, with VALUES, another value, and each of
 * them matches one, with '!' too: in F or, with several inputs, in any of them, which check_globs_of_all()
 * finds. Otherwise prints the first glob that matches nothing and the names nearest to it: as an error, and
 * returns false; with --allow-none as a notice. */
bool check_globs(const ckpt_file *f, const char *const *globs, size_t nglobs, bool values);
/* check_globs_of_all - after check_globs() of several inputs, returns false, after printing the error, if a
 * glob matched in none of them. */
bool check_globs_of_all(void);
/* text_key - adds KEY, the key of a mapping, as it is written in a path. */
void text_key(struct text *text, const ckpt_value *key);

/* metadata_next - sets *OUT to the next pair of F's metadata from index *INDEX on that does not record a tie,
 * and moves *INDEX past it. *OUT is valid until the next call. Returns false if there is none, and always
 * with --root. */
bool metadata_next(const ckpt_file *f, size_t *index, ckpt_leaf *out);
/* next_value - sets *OUT to value *INDEX of F and moves *INDEX past it. The values are the leaves, then the
 * pairs that metadata_next returns. Returns false if there is none. */
bool next_value(const ckpt_file *f, size_t *index, ckpt_leaf *out);
/* metadata_find - returns all metadata for "__metadata__", one value for "__metadata__.KEY", else NULL. */
const ckpt_value *metadata_find(const ckpt_file *f, ckpt_str name);
/* metadata_json - adds a list of all pairs, ties included, as "metadata". */
void metadata_json(json *parent, const ckpt_file *f);
