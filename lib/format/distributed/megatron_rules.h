/* megatron_rules.h - finds out by the name of a tensor how the tensor-parallel ranks of Megatron-LM divide
 * it: "*.linear_proj.weight" is cut along dimension 1, so rank 1 of 2 has the right half of its columns. */
#pragma once

#include "base/arena.h"
#include "base/error.h"

/* How tensors whose names match a glob are divided. */
struct megatron_rule {
    ckpt_str glob; /* matches the name of the tensor */
    enum megatron_how {
        MEGATRON_COPIED, /* every rank has all of it */
        MEGATRON_CUT,    /* rank 0 has the first part, and so on */
        MEGATRON_GATED,  /* as CUT; if the layer is gated (SwiGLU), gate and up projection are each cut */
        MEGATRON_FUSED   /* as CUT; before checkpoint_version 1, query, key and value are each cut */
    } how;
    uint32_t dim;   /* along which the tensor is cut */
    uint32_t parts; /* how many matrices follow each other along DIM; each of them is cut */
};

/* Rules of the user, which are tried before those of Megatron-LM. */
struct megatron_rules {
    struct megatron_rule *user_rules;
    size_t nuser_rules, cap;
};

/* megatron_rules_read - reads RULES from the JSON file PATH: {"GLOB": DIM, "GLOB": [DIM, PARTS], "GLOB":
 * null}, where null means that every rank has a copy. Allocates from A. */
ckpt_status megatron_rules_read(arena *a, const char *path, struct megatron_rules *rules, ckpt_error *err);
/* megatron_rules_find - returns the first rule that matches the tensor NAME, or NULL. */
const struct megatron_rule *megatron_rules_find(const struct megatron_rules *rules, ckpt_str name);
