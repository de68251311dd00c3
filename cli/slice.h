/* slice.h - parses slices of a tensor such as "[0:2, -1, ::3]" by Python's rules, with negative indexes and
 * steps, without ellipsis and new axes. */
#ifndef CLI_SLICE_H
#define CLI_SLICE_H

#include "text.h"

struct axis {
    uint64_t start, count; /* count elements, the first at start */
    int64_t step;          /* from one element to the next */
    bool dropped;          /* a single index, which removes the dimension */
};

struct slice {
    struct axis *axes; /* one per dimension */
    uint32_t naxes;
    uint64_t elements;
};

/* slice_parse - parses TEXT (without the brackets; NULL: everything) as a slice of SHAPE. On failure it
 * returns false and writes the reason to WHY, at most CAP bytes. The caller calls slice_free. */
bool slice_parse(const char *text, const uint64_t *shape, uint32_t ndim, struct slice *out, char *why,
                 size_t cap);
void slice_free(struct slice *s);

#endif
