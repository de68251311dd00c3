/* diff_names.h - lists the names of both files of a diff: shortened, selected, sorted and paired. */
#pragma once

#include "base/text.h"
#include "op/root.h"

/* Names below the root, without the ignored prefix, with the indices of their rows or leaves. */
struct diff_names {
    struct indexed_name *list; /* freed by the caller */
    size_t n;
};

/* The state of pairing the names of two sorted lists. The caller sets a and b, and zeroes the indices. */
struct diff_join {
    const struct diff_names *a, *b;
    size_t next_a, next_b; /* indices of the next names */
};

/* A path in FILE, and the container of each of its elements: from CONTAINERS, or else from STEPS. */
struct diff_path {
    const ckpt_file *file;
    const ckpt_path_elem *path;
    uint32_t n;
    const ckpt_value *const *containers; /* or NULL */
    const struct step *steps;            /* or NULL */
};

/* diff_have_same_key_types - returns false if a key in the paths of LEFT and RIGHT, which print the same, is
 * a text in one and something else in the other, as '1' and 1, or '(1, 2)' and (1, 2). Only keys of mappings
 * count, not the indices of lists, and only in files with typed keys. Paths are compared from their ends:
 * roots and prefixes may differ. */
bool diff_have_same_key_types(const struct diff_path *left, const struct diff_path *right);
/* diff_name_matches - returns true if the globs select NAME, which is shortened already. */
bool diff_name_matches(const ckpt_diff_options *opts, ckpt_str name);
/* diff_list_rows, diff_list_leaves - set *OUT to the selected names, in natural order. */
ckpt_status diff_list_rows(const ckpt_file *f, const ckpt_diff_options *opts, const struct root *root,
                           struct diff_names *out, ckpt_error *err);
ckpt_status diff_list_leaves(const ckpt_file *f, const ckpt_diff_options *opts, const struct root *root,
                             struct diff_names *out, ckpt_error *err);
/* diff_has_row, diff_has_leaf - return true if F has a tensor, or another value, whose name is selected. */
bool diff_has_row(const ckpt_file *f, const ckpt_diff_options *opts, const struct root *root);
bool diff_has_leaf(const ckpt_file *f, const ckpt_diff_options *opts, const struct root *root);
/* diff_has_prefix - returns true if the name of a tensor or value begins with the ignored prefix. */
bool diff_has_prefix(const ckpt_file *f, const ckpt_diff_options *opts, const struct root *root);
/* diff_has_name_below - returns true if one of NAMES begins with NAME and a dot. For an empty NAME: returns
 * true if one of NAMES is not empty. */
bool diff_has_name_below(const struct diff_names *names, ckpt_str name);
/* diff_next_pair - sets *LEFT and *RIGHT to the next name in order; NULL: that list lacks it. False: the
 * end. */
bool diff_next_pair(struct diff_join *join, const struct indexed_name **left,
                    const struct indexed_name **right);
