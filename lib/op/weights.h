/* weights.h - which mappings of a file are the weights, and which are averaged copies of them: for `ckpt
 * info`, strip, add, rename, casts and `--root auto`. */
#ifndef OP_WEIGHTS_H
#define OP_WEIGHTS_H

#include "op/containers.h"

enum weights_role {
    WEIGHTS_NOT,
    WEIGHTS_MODEL,   /* names of one network's parameters and buffers */
    WEIGHTS_AVERAGED /* an EMA or SWA copy of them */
};

struct weights {
    uint32_t container; /* what `--root auto` selects; NO_CONTAINER: nothing looks like weights */
    bool alone;         /* of it the tensors alone: its entries are parameters and an optimizer */
    const char *why;    /* NUL-terminated, in the arena of the containers */
    uint8_t *role;      /* by container: enum weights_role. Below a mapping with a role, only averaged copies
                      * have one, and the branches of a tree of dicts. */
};

/* weights_find - finds the weights among the containers W. */
ckpt_status weights_find(const struct containers *w, struct weights *out, ckpt_error *err);
/* weights_below - the same if W is the part of a file below a given --root: every state dict counts. */
ckpt_status weights_below(const struct containers *w, struct weights *out, ckpt_error *err);
/* weights_averaged - is E a name of averaged copies: "ema", "model_ema", "swa_model"? */
bool weights_averaged(const ckpt_path_elem *e);
/* weights_rows - *OUT by row: the container with a role of which the row (or its composite) is an entry, or
 * NO_CONTAINER, as for rows deeper inside such an entry. ROOT: the joined name of the node where W begins. */
ckpt_status weights_rows(const struct containers *w, const struct weights *weights, ckpt_str root,
                         uint32_t **out, ckpt_error *err);

#endif
