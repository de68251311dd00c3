/* tree.h - prints tensors as a tree, whose levels are the components of their names, or as a list of the
 * nodes at one level of that tree. */
#ifndef CLI_TREE_H
#define CLI_TREE_H

#include "out.h"

/* tree_print - prints N ROWS of F, which it sorts, as a tree down to level DEPTH (0: all levels). */
void tree_print(const ckpt_file *f, uint32_t *rows, size_t n, uint64_t depth, FILE *stream);
/* tree_groups - prints one line with sums for each node at level DEPTH, and for each tensor above that level.
 * LARGEST_FIRST: sorted by bytes. */
void tree_groups(const ckpt_file *f, uint32_t *rows, size_t n, uint64_t depth, bool largest_first,
                 FILE *stream);

#endif
