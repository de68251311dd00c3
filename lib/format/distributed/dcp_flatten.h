/* dcp_flatten.h - flattens the graph of a plan as torch.distributed.checkpoint does: {"a": {"b": 1}} becomes
 * the leaf "a.b" with the path ("a", "b"). */
#ifndef FORMAT_DISTRIBUTED_DCP_FLATTEN_H
#define FORMAT_DISTRIBUTED_DCP_FLATTEN_H

#include "base/map.h"
#include "core/plan.h"

/* A tensor or value with the name (fqn) that it has in the checkpoint. */
struct dcp_leaf {
    ckpt_str name;
    const ckpt_path_elem *path; /* as in planner_data: text for a key, a number for an item of a list */
    uint32_t npath;
    const ckpt_path_elem *input_path; /* in the file that is read */
    uint32_t ninput_path;
    const ckpt_value *node; /* after replacements */
    uint32_t row;           /* of a tensor; CKPT_NO_TENSOR: a value … */
    bool holds_tensors;     /* … with tensors in it, such as a tuple */
};

struct dcp_flat {
    ckpt_plan *p;
    struct dcp_leaf *leaf;
    size_t n, cap;
    /* is_single_value - returns true if the container at PATH of the input must stay one leaf. NULL: every
     * container that torch flattens is flattened. */
    bool (*is_single_value)(const void *user, const ckpt_path_elem *path, uint32_t n);
    const void *user;
    size_t nedited; /* containers with edits that were flattened */
    bool int_keys;  /* a dict had integers as keys, which became text */
};

/* dcp_flatten - appends the leaves in the order of the graph. Flattens the mappings and lists that torch does
 * (_nested_dict.py, _traverse.py). Refuses a plan whose root is not a mapping, a key that is neither text nor
 * a number, two leaves of one name, and a tensor of which this file has only the shard of one rank. */
ckpt_status dcp_flatten(struct dcp_flat *f, ckpt_error *err);

#endif
