/* preview.h - the numbers of a tensor, or of a slice of it. */
#ifndef CLI_PREVIEW_H
#define CLI_PREVIEW_H

#include "slice.h"

struct preview {
    ckpt_file *f;
    uint32_t row;
    const struct slice *slice;
    bool full;  /* all elements, however many */
    bool exact; /* shortest text that reads back equal, not four decimals */
};

/* preview_shape - the dimensions that numbers are shown by: the tensor's, or
 * one of bytes for packed types. *NDIM of them; lives until the next call. */
const uint64_t *preview_shape(const ckpt_tensor *t, uint32_t *ndim);
ckpt_status preview_text(const struct preview *p, ckpt_error *err);
/* preview_json - nested arrays to stdout, never abbreviated. */
ckpt_status preview_json(const struct preview *p, ckpt_error *err);

#endif
