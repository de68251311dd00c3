/* weights.h - finds the mappings of a file that are the weights, and averaged copies of them: for `ckpt
 * info`, strip, add, rename, casts and `--root auto`. */
#pragma once

#include "op/containers.h"

enum weights_role {
    WEIGHTS_NO_ROLE,
    WEIGHTS_MODEL,   /* the parameters and buffers of one network, by name */
    WEIGHTS_AVERAGED /* an EMA or SWA copy of them */
};

struct weights {
    uint32_t container;    /* what `--root auto` selects; NO_CONTAINER: nothing looks like weights */
    bool only_own_tensors; /* of CONTAINER's entries, only tensors are weights; there is an optimizer, too */
    bool has_common_name;  /* CONTAINER was found by a common name for weights */
    const char *why;       /* NUL-terminated, in the arena of the containers */
    /* [i]: enum weights_role of container i. Containers below a mapping with a role have none, except for
     * averaged copies and the branches of a tree of dicts. */
    uint8_t *role;
};

/* weights_find - finds the weights among the containers of TREE. */
ckpt_status weights_find(const struct containers *tree, struct weights *out, ckpt_error *err);
/* weights_below - finds the weights if TREE is below a given --root: then every state dict has a role. */
ckpt_status weights_below(const struct containers *tree, struct weights *out, ckpt_error *err);
/* is_averaged_name - returns true if ELEM is a name of averaged copies: "ema", "model_ema", "swa_model". */
bool is_averaged_name(const ckpt_path_elem *elem);
/* name_state - returns which state NAME, the joined name of a tensor, belongs to in a file in which only
 * names tell it from the weights (Keras, TensorFlow, Paddle); CKPT_STATE_NONE: it may be a weight. */
ckpt_state name_state(ckpt_str name);
/* weights_rows - sets *OUT to an array with an item for each row: the container that has a role and the row
 * (or its composite) as an entry, or NO_CONTAINER. ROOT: the joined name of the node where TREE begins. */
ckpt_status weights_rows(const struct containers *tree, const struct weights *weights, ckpt_str root,
                         uint32_t **out, ckpt_error *err);
