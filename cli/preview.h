/* preview.h - prints the numbers of a tensor, or of a slice of it. */
#ifndef CLI_PREVIEW_H
#define CLI_PREVIEW_H

#include "slice.h"

struct preview {
    ckpt_file *f;
    uint32_t row;
    const struct slice *slice;
    bool full;  /* print all elements; else large tensors only at their edges */
    bool exact; /* print the shortest text that reads back equal, not four decimals */
};

/* preview_shape - returns the *NDIM dimensions of T as its numbers are shown: its shape, or its size in bytes
 * for packed types. Valid until the next call. */
const uint64_t *preview_shape(const ckpt_tensor *t, uint32_t *ndim);
ckpt_status preview_text(const struct preview *p, ckpt_error *err);
/* preview_json - prints all elements as nested arrays. */
ckpt_status preview_json(const struct preview *p, ckpt_error *err);

#endif
