/* value_equal.h - compares two nodes, of the same graph or of different ones, as Python compares values. */
#pragma once

#include "base/map.h"
#include "core/value.h"

struct node_pair {
    const ckpt_value *a, *b;
};

/* An object that was compared: what is known of its equality with others. */
struct equal_node {
    uint32_t parent[2];  /* union-find, by enum equal_sets; a root is its own parent */
    uint32_t comparison; /* the number of that in which parent[ASSUMED] was set */
    uint32_t oldest;     /* of a root in ASSUMED: the first pair in e->unproven with nodes of its set */
    bool has_unread;     /* of a root in PROVEN: nodes of its set are equal as far as they could be read */
};

struct equal_pair {
    uint32_t a, b; /* indices in nodes */
};

/* A pair of objects whose contents are being compared. */
struct open_pair {
    uint32_t index;  /* in e->unproven */
    uint32_t lowest; /* the first pair in e->unproven whose equality was assumed for that of this pair */
    bool has_unread;
};

/* The state of a comparison; zeroed before the first one, and reused for others. */
struct value_equal {
    struct node_pair *waiting;
    size_t n, cap;
    map *numbers; /* node -> its index in nodes */
    struct equal_node *nodes;
    size_t nnodes, cap_nodes;
    struct equal_pair *unproven; /* pairs that are assumed to be equal, in the order of their comparison */
    size_t nunproven, cap_unproven;
    struct open_pair *open; /* the pairs that contain the current one, the outermost first */
    size_t nopen, cap_open;
    map *differing;      /* pairs of nodes that are not equal */
    uint32_t comparison; /* number of comparisons */
    bool in_outermost;   /* the two outermost objects were not reached yet */
    uint64_t work;       /* pairs of nodes in all comparisons */
    bool no_attributes;  /* ignores the attributes of the two outermost objects */
    bool has_unread;     /* set by the last comparison: *SAME is true only of what could be read */
};

/* value_equal - sets *SAME to whether LEFT and RIGHT have the same value and type in Python. An int is not a
 * float or a bool, but NaN equals NaN, 0.0 equals -0.0, text of Python 2 equals that of Python 3, bytes and
 * sets are the same in any protocol. Order counts in lists, not in mappings and sets. Objects and calls are
 * compared by class, arguments, contents and attributes, but not by the _metadata of an OrderedDict. Tensors
 * that are rows count as equal here, because they are compared as rows. Storages, and tensors that are no
 * rows, are compared by type and size, and set comparison->has_unread. Two objects are compared once in all
 * comparisons, whether they are equal or not, with loops too; CKPT_ELIMIT after too many steps. */
ckpt_status value_equal(struct value_equal *job, const ckpt_value *left, const ckpt_value *right, bool *same,
                        ckpt_error *err);
/* numpy_array_equal - sets *SAME to whether LEFT and RIGHT, numpy arrays or scalars, have the same dtype,
 * order and elements; true, with comparison->has_unread, if LEFT or RIGHT is something else. For arrays whose
 * bytes the caller cannot compare (text, dates, records, objects); the caller compares the shapes. */
ckpt_status numpy_array_equal(struct value_equal *job, const ckpt_value *left, const ckpt_value *right,
                              bool *same, ckpt_error *err);
void value_equal_free(struct value_equal *job);
