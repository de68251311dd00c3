/* finite.h - counts the NaN and infinite elements of a tensor and finds the first. */
#pragma once

#include "core/dtype.h"

struct finite {
    uint64_t seen;        /* elements seen so far */
    uint64_t nan, inf;    /* elements; a complex one is NaN if either component is, else Inf if either is */
    uint64_t first_index; /* index of the first element that is NaN or infinite; UINT64_MAX: none */
};

/* finite_applies_to - returns true if an element of DT can be NaN or infinite. */
bool finite_applies_to(ckpt_dtype dt);
/* finite_add - counts the elements in the next NBYTES bytes, which are complete and little-endian. */
void finite_add(struct finite *finite, ckpt_dtype dt, const unsigned char *at, size_t nbytes);
