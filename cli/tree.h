/* tree.h - prints tensors as a tree, whose levels are the components of their names, with sums for each
 * node. */
#ifndef CLI_TREE_H
#define CLI_TREE_H

#include "out.h"

/* tree_print - prints N ROWS of F, which it sorts, as a tree down to level DEPTH (0: all levels). */
void tree_print(const ckpt_file *f, uint32_t *rows, size_t n, uint64_t depth, FILE *stream);
/* tree_groups - prints a line with the sums of each node at level DEPTH and of each tensor above that level;
 * LARGEST_FIRST: sorted by bytes. */
void tree_groups(const ckpt_file *f, uint32_t *rows, size_t n, uint64_t depth, bool largest_first,
                 FILE *stream);

#endif
