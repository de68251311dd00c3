/* tree.h - prints tensors as a tree, whose levels are the components of their names, or sums up the nodes at
 * one level of that tree. */
#pragma once

#include "out.h"

/* tree_print - prints COUNT ROWS of F, which it sorts, as a tree down to level DEPTH (0: all levels). */
void tree_print(const ckpt_file *f, uint32_t *rows, size_t count, uint64_t depth, FILE *stream);
/* A node at one level of the tree, or a tensor above that level. */
struct tree_group {
    ckpt_str name; /* valid as long as the file is open */
    struct totals sum;
    bool folded;  /* there are tensors below the node: the group stands for "NAME.*" */
    size_t first; /* its place in the order of the tree */
};
/* tree_groups - returns the *NGROUPS groups at level DEPTH of the COUNT ROWS of F, which it sorts. The caller
 * frees them. */
struct tree_group *tree_groups(const ckpt_file *f, uint32_t *rows, size_t count, uint64_t depth,
                               size_t *ngroups);
/* tree_sort_groups - sorts COUNT groups by bytes, the largest first. */
void tree_sort_groups(struct tree_group *groups, size_t count);
