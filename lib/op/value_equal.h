/* value_equal.h - compares two nodes, of the same graph or of different ones, as Python compares values. */
#ifndef OP_VALUE_EQUAL_H
#define OP_VALUE_EQUAL_H

#include "base/map.h"
#include "core/value.h"

struct node_pair {
    const ckpt_value *a, *b;
};

/* The state of a comparison; zeroed before the first one, and reused for others. */
struct value_equal {
    struct node_pair *waiting;
    size_t n, cap;
    map *numbers;     /* node -> its index in parent */
    uint32_t *parent; /* union-find: nodes that are equal, or assumed so, form a tree; a root is its own
                       * parent. Kept for the next comparison if all assumptions were right */
    size_t nparents, cap_parents;
    bool in_outermost;  /* the two outermost objects were not reached yet */
    uint64_t work;      /* pairs of nodes in all comparisons */
    bool no_attributes; /* ignores the attributes of the two outermost objects */
    bool has_unread;    /* set by the last comparison: *SAME is true only of what could be read */
};

/* value_equal - sets *SAME to whether A and B have the same value and type in Python. An int is not a float
 * or a bool, but NaN equals NaN, 0.0 equals -0.0, text of Python 2 equals that of Python 3, bytes and sets
 * are the same in any protocol. Order counts in lists, not in mappings and sets. Objects and calls are
 * compared by class, arguments, contents and attributes, but not by the _metadata of an OrderedDict. Tensors
 * that are rows count as equal here, because they are compared as rows. Storages, and tensors that are no
 * rows, are compared by type and size, and set e->has_unread. Takes O(nodes) steps, with loops too;
 * CKPT_ELIMIT if all comparisons together take too many. */
ckpt_status value_equal(struct value_equal *e, const ckpt_value *a, const ckpt_value *b, bool *same,
                        ckpt_error *err);
/* numpy_array_equal - sets *SAME to whether A and B, numpy arrays or scalars, have the same dtype, order and
 * elements; true, with e->has_unread, if A or B is something else. For arrays whose bytes the caller cannot
 * compare (text, dates, records, objects); the caller compares the shapes. */
ckpt_status numpy_array_equal(struct value_equal *e, const ckpt_value *a, const ckpt_value *b, bool *same,
                              ckpt_error *err);
void value_equal_free(struct value_equal *e);

#endif
