/* megatron_rules.h - how the tensor-parallel ranks of Megatron-LM divide a tensor, by its name. */
#ifndef FORMAT_DISTRIBUTED_MEGATRON_RULES_H
#define FORMAT_DISTRIBUTED_MEGATRON_RULES_H

#include "base/arena.h"
#include "base/error.h"

struct megatron_rule {
    ckpt_str glob;
    enum megatron_how {
        MEGATRON_COPIED, /* every rank has all of it */
        MEGATRON_CUT,
        MEGATRON_GATED, /* cut, in two parts or one: the shape of the next layer decides */
        MEGATRON_FUSED  /* cut, in PARTS before checkpoint_version 1, else in one */
    } how;
    uint32_t dim, parts; /* along DIM; each rank has PARTS of it, one after the other */
};

/* The rules of a user, which go before those of Megatron-LM. */
struct megatron_rules {
    struct megatron_rule *own;
    size_t n, cap;
};

/* megatron_rules_read - R from the JSON file PATH: {"GLOB": DIM, "GLOB": null, "GLOB": [DIM, PARTS]}, where
 * null is a copy. Texts and rules are in A. */
ckpt_status megatron_rules_read(arena *a, const char *path, struct megatron_rules *r, ckpt_error *err);
/* megatron_rules_find - the rule for the tensor NAME, or NULL. */
const struct megatron_rule *megatron_rules_find(const struct megatron_rules *r, ckpt_str name);

#endif
