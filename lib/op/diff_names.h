/* diff_names.h - the names of both sides of a comparison: shortened, chosen, sorted, joined. */
#ifndef OP_DIFF_NAMES_H
#define OP_DIFF_NAMES_H

#include "op/root.h"

struct diff_name {
    ckpt_str name;  /* below the root, without the ignored prefix */
    uint32_t index; /* of a row, or of a leaf */
};

struct diff_names {
    struct diff_name *list; /* free() */
    size_t n;
};

/* A walk over two sorted lists; zeroed but for a and b. */
struct diff_join {
    const struct diff_names *a, *b;
    size_t i, j;
};

/* diff_wanted - does NAME, shortened, match the globs? */
bool diff_wanted(const ckpt_diff_options *o, ckpt_str name);
/* diff_rows, diff_leaves - the wanted names of tensors and of values, in natural order. */
ckpt_status diff_rows(const ckpt_file *f, const ckpt_diff_options *o, const struct root *root,
                      struct diff_names *out, ckpt_error *err);
ckpt_status diff_leaves(const ckpt_file *f, const ckpt_diff_options *o, const struct root *root,
                        struct diff_names *out, ckpt_error *err);
/* diff_any_leaf - does F have a value whose name is wanted? */
bool diff_any_leaf(const ckpt_file *f, const ckpt_diff_options *o, const struct root *root);
/* diff_any_below - does a name of N begin with NAME and a dot? All do with the root, which has none. */
bool diff_any_below(const struct diff_names *n, ckpt_str name);
/* diff_next - the next name that either list has, in order: *A or *B is NULL where only the other has it.
 * False: there are no more. */
bool diff_next(struct diff_join *join, const struct diff_name **a, const struct diff_name **b);

#endif
