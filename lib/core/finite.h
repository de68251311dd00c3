/* finite.h - how many of many numbers are NaN or infinite, and where the first is. */
#ifndef CORE_FINITE_H
#define CORE_FINITE_H

#include "core/dtype.h"

struct finite {
    uint64_t at;       /* elements looked at */
    uint64_t nan, inf; /* a complex element is NaN if a part of it is, else infinite */
    uint64_t first;    /* element that is either; UINT64_MAX: none */
};

/* finite_has - can an element of DT be NaN or infinite? */
bool finite_has(ckpt_dtype dt);
/* finite_add - the next N bytes, whole elements, little-endian. */
void finite_add(struct finite *f, ckpt_dtype dt, const unsigned char *p, size_t n);

#endif
