/* slice.h - "[0:2, -1, ::3]" over a tensor: Python's rules for indexes, negative
 * ones and steps included; no ellipsis, no new axes. */
#ifndef CLI_SLICE_H
#define CLI_SLICE_H

#include "text.h"

struct axis {
    uint64_t start, count; /* count elements from start … */
    int64_t step;          /* … this far apart */
    bool dropped;          /* a single index: the dimension goes away */
};

struct slice {
    struct axis *axes; /* one per dimension */
    uint32_t naxes;
    uint64_t elements;
};

/* slice_parse - TEXT (without the brackets; NULL: everything) over SHAPE. On
 * failure WHY holds one line of at most CAP bytes. Free with slice_free. */
bool slice_parse(const char *text, const uint64_t *shape, uint32_t ndim, struct slice *out, char *why,
                 size_t cap);
void slice_free(struct slice *s);

#endif
