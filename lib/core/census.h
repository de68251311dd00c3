/* census.h - how often each value of a type of at most eight bits occurs: all that
 * there is to know of many such numbers, whatever their order. */
#ifndef CORE_CENSUS_H
#define CORE_CENSUS_H

#include "core/moments.h"

struct census {
    uint64_t count[256]; /* by byte, which may hold several elements; of float6 by its six bits */
};

/* census_takes - is DT a type of numbers of at most eight bits? */
bool census_takes(ckpt_dtype dt);
/* census_add - N elements at P, whole blocks of dtype.def. */
void census_add(struct census *c, ckpt_dtype dt, const unsigned char *p, size_t n);
void census_merge(struct census *c, const struct census *more);
struct moments census_moments(const struct census *c, ckpt_dtype dt);
/* census_bins - the finite ones, by BIN_OF, which gets USER and the value. */
void census_bins(const struct census *c, ckpt_dtype dt, uint64_t *bins,
                 size_t (*bin_of)(const void *user, double x), const void *user);

#endif
