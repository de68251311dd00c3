/* weights.h - which of a file's mappings are the weights. */
#ifndef OP_WEIGHTS_H
#define OP_WEIGHTS_H

#include "op/walk.h"

struct weights {
    uint32_t place;  /* in the walk; NO_PLACE: nothing looks like weights */
    const char *why; /* NUL-terminated, in the walk's arena */
};

/* weights_find - the weights among the places of W. */
ckpt_status weights_find(const struct walk *w, struct weights *out, ckpt_error *err);

#endif
