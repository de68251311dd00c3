/* noise.h - generates pseudo-random bits, the same in each run, and tensor elements from them. */
#ifndef UNIT_NOISE_H
#define UNIT_NOISE_H

#include <stdbool.h>

#include "ckpt.h"

#define NOISE_DTYPES 4
extern const ckpt_dtype noise_dtypes[NOISE_DTYPES]; /* the dtypes with vector kernels */

/* noise - returns the next 64 bits. */
uint64_t noise(void);
/* noise_fill - fills P with N elements of random bits; if TAME, without NaN, Inf and very large values. */
void noise_fill(ckpt_dtype dt, unsigned char *p, size_t n, bool tame);

#endif
