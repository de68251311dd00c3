/* megatron_rules.h - how the tensor-parallel ranks of Megatron-LM divide a tensor, by its name. */
#ifndef FORMAT_DISTRIBUTED_MEGATRON_RULES_H
#define FORMAT_DISTRIBUTED_MEGATRON_RULES_H

#include "base/arena.h"
#include "base/error.h"

struct megatron_rule {
    ckpt_str glob; /* matches the name of the tensor */
    enum megatron_how {
        MEGATRON_COPIED, /* every rank has all of it */
        MEGATRON_CUT,
        MEGATRON_GATED, /* as CUT; gate and up projection are cut apart if the layer is gated (SwiGLU) */
        MEGATRON_FUSED  /* as CUT; query, key and value are cut apart before checkpoint_version 1 */
    } how;
    uint32_t dim;   /* along which the tensor is cut */
    uint32_t parts; /* how many matrices are stacked along DIM, each cut apart: 1, 2 or 3 */
};

/* Rules of the user, which are tried before those of Megatron-LM. */
struct megatron_rules {
    struct megatron_rule *own;
    size_t n, cap;
};

/* megatron_rules_read - reads R from the JSON file PATH: {"GLOB": DIM, "GLOB": [DIM, PARTS], "GLOB": null},
 * where null means that every rank has a copy. Allocates from A. */
ckpt_status megatron_rules_read(arena *a, const char *path, struct megatron_rules *r, ckpt_error *err);
/* megatron_rules_find - returns the first rule that matches the tensor NAME, or NULL. */
const struct megatron_rule *megatron_rules_find(const struct megatron_rules *r, ckpt_str name);

#endif
