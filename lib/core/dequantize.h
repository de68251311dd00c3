/* dequantize.h - the numbers in ggml's blocks as floats. */
#pragma once

#include "core/dtype.h"

#define DEQUANTIZE_BLOCK 256u /* elements of the largest block; those of all others divide it */

/* dequantize_supports - returns true if blocks of DT can be converted: all but q8_1, q8_K, q1_0 and q2_0,
 * which no file stores. */
bool dequantize_supports(ckpt_dtype dt);
/* dequantize - converts COUNT blocks of DT at IN to little-endian float32 at OUT; both at any address. */
void dequantize(ckpt_dtype dt, const unsigned char *in, size_t count, unsigned char *out);
/* dequantize_scalar - does the same, to the bit, without vector instructions; for tests. */
void dequantize_scalar(ckpt_dtype dt, const unsigned char *in, size_t count, unsigned char *out);

/* The points that ggml's IQ types choose from. The elements of a point are digits, the first in the lowest
 * bits: eight digits of two bits for IQ1 and IQ2, four digits of three bits for IQ3. */
extern const uint16_t grid_iq2_xxs[256];
extern const uint16_t grid_iq2_xs[512];
extern const uint16_t grid_iq2_s[1024];
extern const uint16_t grid_iq3_xxs[256];
extern const uint16_t grid_iq3_s[512];
extern const uint16_t grid_iq1[2048];
