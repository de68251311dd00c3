/* value_equal.h - are two nodes, of the same graph or of different ones, the same value in Python? */
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
    uint32_t *parent; /* union-find: nodes assumed equal form a tree; a root is its own parent */
    size_t nparents, cap_parents;
    uint64_t work;      /* of all comparisons */
    bool no_attributes; /* of the two outermost objects */
};

/* value_equal - *SAME: does Python have A and B for the same value of the same type? An int is no float
 * and no bool, but any NaN is any other, 0.0 is -0.0, text of Python 2 is the same text of Python 3, bytes
 * and sets are the same in any protocol. The order of lists counts, that of mappings and sets does not.
 * Objects and calls are compared by class, arguments, contents and attributes (the last only below the
 * outermost with no_attributes); tensors in them are rows of their own and count as equal here, storages
 * by type and size. Costs O(nodes), for graphs with loops too; CKPT_ELIMIT when all comparisons together
 * take too much. */
ckpt_status value_equal(struct value_equal *e, const ckpt_value *a, const ckpt_value *b, bool *same,
                        ckpt_error *err);
/* array_equal - *SAME: do A and B, two rows, hold the same, as far as they are arrays or scalars of numpy
 * without comparable bytes (text, dates, records, objects)? By dtype, order and elements; their shapes are
 * the caller's. Whatever else they are counts as equal. */
ckpt_status array_equal(struct value_equal *e, const ckpt_value *a, const ckpt_value *b, bool *same,
                        ckpt_error *err);
void value_equal_free(struct value_equal *e);

#endif
