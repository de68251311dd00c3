/* number.h - decodes elements to doubles, for comparing and showing values. */
#pragma once

#include "core/dtype.h"

/* numbers_per_element - returns the number of doubles for one element (as the shape counts it): usually 1;
 * 2 for complex (re, im) and float4 pairs; 0 for what is not a number. */
unsigned numbers_per_element(ckpt_dtype dt);
bool number_is_complex(ckpt_dtype dt);
/* number_is_wide - returns true if DT is a 64-bit integer, which a double may not hold exactly. */
bool number_is_wide(ckpt_dtype dt);
/* number_decode - decodes ELEMS elements at IN, which is little-endian and holds complete blocks
 * (dtype.def), to ELEMS * numbers_per_element(dt) doubles at OUT. Exact but for 64-bit integers above 2^53.
 * Quantised types give their stored integers; ggml's blocks are dequantized. IN may be the end of OUT. */
void number_decode(ckpt_dtype dt, const unsigned char *in, size_t elems, double *out);
/* number_decode_fast - decodes as many of COUNT numbers as the CPU can do at once, the first ones, and
 * returns how many: for number_decode, which decodes the others. */
size_t number_decode_fast(ckpt_dtype dt, const unsigned char *in, size_t count, double *out);
/* number_decode_low - sets the ELEMS numbers at OUT to what number_decode() rounds off: the element is
 * exactly the sum of both numbers. DT is wide. */
void number_decode_low(ckpt_dtype dt, const unsigned char *in, size_t elems, double *out);
/* number_subtract - returns LEFT - RIGHT, rounded once. */
static inline double number_subtract(uint64_t left, uint64_t right)
{
    return left < right ? -(double)(right - left) : (double)(left - right);
}
/* number_add_lanes - returns the sum of eight numbers, always added up in the same order. */
static inline double number_add_lanes(const double *in)
{
    return ((in[0] + in[4]) + (in[2] + in[6])) + ((in[1] + in[5]) + (in[3] + in[7]));
}
