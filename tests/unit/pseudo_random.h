/* pseudo_random.h - generates pseudo-random bits, the same in each run, and tensor elements from them. */
#ifndef UNIT_PSEUDO_RANDOM_H
#define UNIT_PSEUDO_RANDOM_H

#include <stdbool.h>

#include "ckpt.h"

#define VECTOR_DTYPES 4
extern const ckpt_dtype vector_dtypes[VECTOR_DTYPES]; /* the dtypes with vector kernels */

/* next_random - returns the next 64 pseudo-random bits. */
uint64_t next_random(void);
/* fill_random_elements - fills P with N elements of random bits. If MODERATE, none of them is NaN, infinite
 * or very large. */
void fill_random_elements(ckpt_dtype dt, unsigned char *p, size_t n, bool moderate);

#endif
