/* tree.h - names as the tree their dots make, with sums over what is below. */
#ifndef CLI_TREE_H
#define CLI_TREE_H

#include "out.h"

/* tree_print - N ROWS of F, which it sorts, as branches down to DEPTH (0: all). */
void tree_print(const ckpt_file *f, uint32_t *rows, size_t n, uint64_t depth, FILE *to);
/* tree_groups - one line per node at DEPTH, or less deep leaf, with its sums; LARGEST_FIRST: sorted by
 * bytes. */
void tree_groups(const ckpt_file *f, uint32_t *rows, size_t n, uint64_t depth, bool largest_first, FILE *to);

#endif
