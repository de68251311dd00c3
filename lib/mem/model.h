/* model.h - a network as training uses it: its parameters, and the family that they belong to. */
#pragma once

#include "base/arena.h"
#include "base/notice.h"
#include "op/config.h"
#include "mem/family.h"

/* One tensor of the weights: a parameter, or a buffer. */
struct mem_tensor {
    ckpt_str name;
    const uint64_t *shape;
    uint32_t ndim;
    uint32_t item_bytes; /* as stored */
    uint64_t elements;
    bool is_buffer;
    bool is_integer; /* its dtype cannot be trained */
    bool frozen;
    struct mem_tensor *tied_to;         /* the earlier tensor that it shares memory with, or NULL */
    const struct mem_tensor_rule *rule; /* its row in the table of the family, if that is known */
    uint32_t stage, block;              /* the numbers in its name; a single number is the block */
};

#define BLOCKS_MAX 2000u /* planning takes time proportional to the square of their number */

/* The optimizer whose states the file holds. */
struct mem_own_optimizer {
    ckpt_str title; /* "Adam-like, 42 states"; empty: none */
    uint64_t bytes;
    ckpt_mem_group *groups;
    size_t ngroups;
};

/* The segments of activation checkpointing, in order. */
struct mem_plan {
    ckpt_mem_segment *list; /* NULL: nothing is recomputed */
    size_t n;
    bool proven; /* it is an optimum; false: the search ended before all plans were compared */
};

struct ckpt_mem {
    arena *a;     /* of all that exists as long as this struct */
    arena *notes; /* of the texts and lists of the last estimate */
    struct mem_tensor *tensors;
    size_t ntensors;
    struct model_config config;
    struct mem_own_optimizer file_optimizer;
    bool in_parameter_order;         /* tensors are in the order of model.parameters() */
    bool config_only;                /* there is no file */
    bool tied_by_config;             /* the head is the embedding because the config ties them */
    bool has_model_type;             /* the config has a model_type */
    bool fp32_by_default;            /* there is no file, and the config has no dtype */
    const struct mem_family *family; /* NULL: not known */
    const char *other_title;         /* what a network of no family is; NULL: not known */
    ckpt_str recognized_by;          /* the name of the tensor that only this family, or other network, has */
    struct letters dims;
    uint32_t conditions; /* those of family.h that hold for this network */
    uint32_t nblocks;
    const char **block_names;
    ckpt_str refusal;       /* why activations cannot be estimated; empty: they can */
    bool refused_by_config; /* REFUSAL is about the config */
    struct notices assumed, unknown;
    struct mem_plan plan; /* of the last ckpt_mem_plan */
};

/* The hint for a config.json that does not describe this network. */
#define MEM_CONFIG_HINT "--config takes the config.json of this network; --config '' uses no config"

/* mem_recognize - sets the family of MEM by the names and shapes of its tensors, or the reason why there is
 * none. CKPT_EFORMAT: the config is of another network. */
ckpt_status mem_recognize(ckpt_mem *mem, ckpt_error *err);
/* mem_from_config - adds the tensors that the config of MEM describes, for a model without a file. */
ckpt_status mem_from_config(ckpt_mem *mem, ckpt_error *err);
/* mem_collect - adds the tensors of FILE below ROOT to MEM, and sets MEM->file_optimizer. */
ckpt_status mem_collect(ckpt_mem *mem, ckpt_file *file, const char *root, ckpt_error *err);
