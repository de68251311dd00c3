/* paddle.h - the tensors that paddle.save wrote in a pickle. */
#pragma once

#include "format/graph/graph.h"

/* The tensors of a pickle that paddle.save wrote. */
struct paddle_pickle {
    ckpt_file *f;
    bool is_paddle;
    struct paddle_tensor *tensors; /* indexed by u.i of their TENSOR nodes */
    size_t ntensors, cap;
};

/* paddle_make_tensors - sets PADDLE->is_paddle. If true, replaces each call in the graph of F that
 * paddle.load turns into a tensor by a TENSOR node, joins the slices of big parameters, and removes the
 * table of parameter names from the graph. */
ckpt_status paddle_make_tensors(struct paddle_pickle *paddle, ckpt_file *f, struct pickle_facts *facts,
                                source *src, ckpt_error *err);
/* paddle_describe - describes a tensor for graph_walk; USER is a struct paddle_pickle. */
ckpt_status paddle_describe(void *user, struct graph *graph, const ckpt_value *value,
                            struct tensor_description *description);
