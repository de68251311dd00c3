/* model.h - a network as training sees it: its parameters, and the family that they are recognized as. */
#ifndef OP_MEM_MODEL_H
#define OP_MEM_MODEL_H

#include "base/arena.h"
#include "base/error.h"
#include "op/mem/config.h"
#include "op/mem/family.h"

/* One tensor of the weights: a parameter, or a buffer. */
struct mem_tensor {
    ckpt_str name;
    const uint64_t *shape;
    uint32_t ndim;
    uint32_t item_bytes; /* as stored */
    uint64_t elements;
    bool buffer;
    bool integer; /* its dtype is that of no parameter */
    bool frozen;
    struct mem_tensor *again; /* the earlier one whose bytes it shows, or NULL */
    /* Of a known family: */
    const struct mem_tensor_rule *rule;
    uint32_t stage, block; /* the numbers in its name; of one number, block */
};

#define BLOCKS_MAX 2000u /* no network is deeper: a plan takes the square of it */

struct mem_notes {
    const char **at;
    size_t n, cap;
};

/* The file's own optimizer. */
struct mem_own_optimizer {
    ckpt_str title; /* "Adam-like, 42 states"; empty: none */
    uint64_t bytes;
    ckpt_mem_group *groups;
    size_t ngroups;
};

/* Segments, in order. */
struct mem_plan {
    ckpt_mem_segment *list; /* NULL: there are none */
    size_t n;
    bool proven; /* the optimum over all ways to cut the blocks */
};

struct ckpt_mem {
    arena *a;     /* lives as long as this */
    arena *notes; /* of the last estimate */
    struct mem_tensor *tensors;
    size_t ntensors;
    struct mem_config config;
    struct mem_own_optimizer own;
    bool ordered; /* tensors are in the order of model.parameters() */
    bool config_only;
    bool tie_by_config;
    bool type_by_config;  /* the config has a model_type */
    bool fp32_by_default; /* the config, which is all there is, has no dtype */
    const struct mem_family *family; /* NULL: not known */
    ckpt_str sign;                   /* the name that it was recognized by */
    struct letters dims;
    uint32_t bits;
    uint32_t nblocks;
    const char **block_names;
    ckpt_str refusal; /* why activations cannot be counted; empty: they can */
    bool refused_by_config;
    struct mem_notes assumed, unknown;
    struct mem_plan plan; /* of the last ckpt_mem_plan */
};

/* What the user can do about a config that is of no use. */
#define MEM_CONFIG_HINT "--config names the config.json of this network, --config '' none"

/* mem_recognize - sets the family of M by the names and shapes of its tensors, or the reason why there is
 * none. CKPT_EFORMAT: the config is of another network. */
ckpt_status mem_recognize(ckpt_mem *m, ckpt_error *err);
/* mem_from_config - makes the tensors of M from its config alone. */
ckpt_status mem_from_config(ckpt_mem *m, ckpt_error *err);
/* mem_collect - takes the tensors below ROOT from FILE, and its optimizer. */
ckpt_status mem_collect(ckpt_mem *m, ckpt_file *file, const char *root, ckpt_error *err);
/* name_matches - is NAME like GLOB, of one of our tables, in which only `*` has a meaning? Each name is held
 * against all of them, for which ckpt_glob_match takes four times as long as all else. */
bool name_matches(const char *glob, ckpt_str name);
/* mem_note - adds a line to LIST, escaped. */
void mem_note(ckpt_mem *m, struct mem_notes *list, const char *fmt, ...) CKPT_PRINTF(3, 4);

#endif
