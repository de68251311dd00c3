/* preview.h - prints the numbers of a tensor, or of a slice of it such as "[0:2, -1, ::3]". A slice follows
 * Python's rules, with negative indexes and steps, but has neither an ellipsis nor new axes. */
#pragma once

#include "text.h"

struct axis {
    uint64_t start, count; /* indexes in the tensor: the first one, and how many */
    int64_t step;          /* from one element to the next */
    bool drops_dimension;  /* it is a single index, not a range */
};

struct slice {
    struct axis *axes; /* one per dimension of the tensor */
    uint32_t naxes;
    uint64_t *shape; /* of the result: the counts of the axes that are ranges */
    uint32_t ndim;
    uint64_t elements;
};

/* slice_parse - parses TEXT (without the brackets; NULL: everything) as a slice of SHAPE. On failure it
 * returns false and writes the reason to WHY, at most CAP bytes. The caller calls slice_free. */
bool slice_parse(const char *text, const uint64_t *shape, uint32_t ndim, struct slice *out, char *why,
                 size_t cap);
void slice_free(struct slice *slice);

struct preview {
    ckpt_file *f;
    uint32_t row;
    const struct slice *slice;
    bool full;  /* print all elements; else large tensors only at their edges */
    bool exact; /* print the shortest text that reads back equal; else four decimals */
};

/* preview_shape - returns the *NDIM dimensions of TENSOR as its numbers are shown: its shape, or its size in
 * bytes for packed types. Valid until the next call. */
const uint64_t *preview_shape(const ckpt_tensor *tensor, uint32_t *ndim);
ckpt_status preview_text(const struct preview *preview, ckpt_error *err);
/* preview_json - prints all elements as nested arrays. */
ckpt_status preview_json(const struct preview *preview, ckpt_error *err);
