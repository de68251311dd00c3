/* walk.h - finds the tensors in a value graph, their storages and names. */
#pragma once

#include "format/graph/graph.h"

/* graph_walk - adds every tensor and leaf reachable from ROOT to F, in document order. Persistent ids of
 * equal keys are one storage. */
ckpt_status graph_walk(ckpt_file *f, ckpt_value *root, const struct graph_input *input, ckpt_error *err);

/* graph_hides_attributes - returns true if KLASS is a class of Python or torch itself. Of the attributes
 * of its objects (hooks, configuration) only tensors are listed. */
bool graph_hides_attributes(const ckpt_value *klass);

/* A module whose parameters and buffers are still to be added to a state dict. */
struct torch_module {
    const ckpt_value *object;
    ckpt_str prefix; /* "layer1.0.", which its keys in the state dict begin with; empty for the root */
    uint32_t depth;  /* 0 for the root */
};

struct torch_modules {
    struct torch_module *modules;
    size_t n, cap;
};

/* torch_push_submodule - appends OBJECT, the submodule NAME of PARENT, to LIST, which is allocated in A. */
ckpt_status torch_push_submodule(arena *a, struct torch_modules *list, const struct torch_module *parent,
                                 ckpt_str name, const ckpt_value *object, ckpt_error *err);
/* torch_put_entry - adds VALUE to the state dict DICT under the key PREFIX + NAME. False: no memory. */
bool torch_put_entry(arena *a, ckpt_value *dict, ckpt_str prefix, ckpt_str name, ckpt_value *value);
