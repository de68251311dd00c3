/* tree.h - names as the tree their dots make, with sums over what is below. */
#ifndef CLI_TREE_H
#define CLI_TREE_H

#include "out.h"

/* Deeper parts of a name stay joined: a name of a million dots is no tree. */
#define TREE_DEPTH 64

struct tree_node {
    const char *word;    /* this component */
    size_t nword, nfull; /* its length; that of the name so far */
    uint32_t row;        /* the tensor that ends here, or CKPT_NO_TENSOR */
    uint32_t parent;     /* node; the root is node 0 */
    unsigned depth;      /* root: 0 */
    bool more;           /* a sibling follows */
    struct totals sum;   /* of this and all below */
};

struct tree {
    struct tree_node *nodes; /* parents before children, children in natural order */
    size_t n, cap;
};

/* tree_make - from N rows of F in any order. Sorts ROWS. */
void tree_make(struct tree *t, const ckpt_file *f, uint32_t *rows, size_t n);
void tree_free(struct tree *t);
/* tree_print - branches down to DEPTH (0: all). */
void tree_print(const struct tree *t, const ckpt_file *f, uint64_t depth, FILE *to);
/* tree_groups - one line per node at DEPTH, or less deep leaf, with its sums. */
void tree_groups(const struct tree *t, const ckpt_file *f, uint64_t depth, FILE *to);

#endif
