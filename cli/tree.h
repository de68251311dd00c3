/* tree.h - rows in the order of a tree whose levels are the components of their names; prints them as one, or
 * sums up the nodes at one level. */
#pragma once

#include "out.h"

/* Deeper components of a name are not split: a name may have a million dots. */
#define TREE_MAX_DEPTH 64

struct tree {
    const ckpt_file *f;
    uint32_t *rows;
    size_t n;
    char separator;        /* of components: '.' or '/' */
    uint8_t *shared_nodes; /* for each row: how many nodes of its path are in the path of the row before it */
};

/* tree_sort - sorts the rows of TREE so that those below a node are consecutive and its children in natural
 * order, and allocates tree->shared_nodes. The other fields are set. */
void tree_sort(struct tree *tree);
/* tree_name - returns the name of item INDEX of the rows of TREE. */
ckpt_str tree_name(const struct tree *tree, size_t index);
/* tree_component - returns the component of NAME at AT, which is at LEVEL (1: the first), and sets *NEXT to
 * where the next one begins, or to SIZE_MAX. At the last level, what follows AT is one component with all its
 * separators. */
ckpt_str tree_component(ckpt_str name, char separator, size_t at, unsigned level, size_t *next);
/* tree_add_branches - adds the lines before a name at LEVEL >= 1, "│ └─ ". HAS_SIBLING_AFTER: by level,
 * whether the node or its ancestor has a later sibling. */
void tree_add_branches(struct text *text, const bool *has_sibling_after, unsigned level);

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
