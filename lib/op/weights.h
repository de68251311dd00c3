/* weights.h - which of a file's mappings are the weights, and which are averaged
 * copies of them. `info`, prefix work, casts and `--root auto` all ask here. */
#ifndef OP_WEIGHTS_H
#define OP_WEIGHTS_H

#include "op/walk.h"

enum weights_role {
    WEIGHTS_NOT,
    WEIGHTS_MODEL,   /* names of one network's parameters and buffers */
    WEIGHTS_AVERAGED /* an EMA or SWA copy of them */
};

struct weights {
    uint32_t place;  /* in the walk, what `--root auto` takes; NO_PLACE: nothing looks like weights */
    const char *why; /* NUL-terminated, in the walk's arena */
    uint8_t *role;   /* by place: enum weights_role. Below a mapping that has one, only an averaged
                      * copy has, or the branches of a tree of dicts. */
};

/* weights_find - the weights among the places of W. */
ckpt_status weights_find(const struct walk *w, struct weights *out, ckpt_error *err);
/* weights_below - the same where W is the part of a file that a user named: every state dict counts. */
ckpt_status weights_below(const struct walk *w, struct weights *out, ckpt_error *err);
/* weights_averaged - is E what trainers call averaged copies: "ema", "model_ema", "swa_model"? */
bool weights_averaged(const ckpt_path_elem *e);
/* weights_rows - *OUT by row: the place with a role whose entry it is (of a component, whose entry its
 * composite is), or NO_PLACE. What lies deeper inside a value of such a place has none. ROOT: the joined name
 * of the file's node that W began at. */
ckpt_status weights_rows(const struct walk *w, const struct weights *weights, ckpt_str root, uint32_t **out,
                         ckpt_error *err);

#endif
