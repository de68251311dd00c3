/* mean_source.h - the mean of a tensor along a dimension, as a source: computed when it is first read, by one
 * thread in the order of the elements, and kept. */
#pragma once

#include "base/arena.h"
#include "core/computed_source.h"

#define MEAN_NUMBERS_MAX (UINT64_C(8) << 20) /* numbers of a mean: 64 MiB in memory */

/* What is averaged: a row-major tensor of [OUTER, SIZE, INNER] elements, along SIZE. */
struct mean {
    source *src;                 /* of its elements, row-major, from byte 0 on */
    ckpt_dtype dtype;            /* a float for which computed_has_dtype is true */
    uint64_t outer, size, inner; /* SIZE is at least 1, OUTER * INNER at most MEAN_NUMBERS_MAX */
};

/* mean_source - returns a source of the OUTER * INNER means that WHAT describes: sums of doubles, divided by
 * SIZE, rounded once. What it keeps is in A, which outlives it. Reading it fails with CKPT_ELOSSY if a sum of
 * finite numbers is beyond the largest double. NULL: no memory. */
source *mean_source(arena *a, const struct mean *what);
