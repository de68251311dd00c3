/* number.h - elements seen as numbers, for comparing and showing values. */
#ifndef CORE_NUMBER_H
#define CORE_NUMBER_H

#include "core/dtype.h"

/* number_lanes - doubles that one element (as the shape counts it) becomes:
 * 1 mostly, 2 for complex (re, im) and float4 pairs, 0 for what is no number. */
unsigned number_lanes(ckpt_dtype dt);
bool number_is_complex(ckpt_dtype dt);
/* number_is_wide - 64-bit integers: a double cannot hold all of them. */
bool number_is_wide(ckpt_dtype dt);
/* number_decode - ELEMS elements at IN, which is little-endian and holds whole
 * blocks (dtype.def), into ELEMS * number_lanes(dt) doubles at OUT. Exact but
 * for 64-bit integers beyond 2^53. Quantised types give their stored integers. */
void number_decode(ckpt_dtype dt, const unsigned char *in, size_t elems, double *out);

#endif
