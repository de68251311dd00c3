/* dcp_flatten.h - the tensors and values of a plan, each by the name that torch.distributed.checkpoint gives
 * it. */
#ifndef FORMAT_DISTRIBUTED_DCP_FLATTEN_H
#define FORMAT_DISTRIBUTED_DCP_FLATTEN_H

#include "base/map.h"
#include "core/plan.h"

/* One name of the checkpoint. */
struct dcp_leaf {
    ckpt_str name;
    const ckpt_path_elem *path; /* texts are keys, numbers items of lists: planner_data */
    uint32_t npath;
    const ckpt_path_elem *input_path; /* its path in the input */
    uint32_t ninput_path;
    const ckpt_value *node; /* replacements applied */
    uint32_t row;           /* of a plain tensor; CKPT_NO_TENSOR: a value … */
    bool holds_tensors;     /* … that has tensors in it */
};

struct dcp_flat {
    ckpt_plan *p;
    struct dcp_leaf *leaf;
    size_t n, cap;
    /* is_single_value - is the container at PATH one value, though it could be flattened? NULL: none is. */
    bool (*is_single_value)(const void *user, const ckpt_path_elem *path, uint32_t n);
    const void *user;
    size_t nedited; /* containers with edits that were flattened */
    bool int_keys;  /* keys that are numbers became texts */
};

/* dcp_flatten - fills the leaves, in the order of the graph: mappings and lists with tensors or mappings in
 * them are taken apart, as torch's planner does (_nested_dict.py, _traverse.py). Refuses a plan without a
 * mapping at its root, keys that are neither text nor number, two leaves of one name, tensors of which only
 * one rank's part is there. */
ckpt_status dcp_flatten(struct dcp_flat *f, ckpt_error *err);

#endif
