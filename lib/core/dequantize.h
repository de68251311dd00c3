/* dequantize.h - the numbers in ggml's blocks as floats. */
#ifndef CORE_DEQUANTIZE_H
#define CORE_DEQUANTIZE_H

#include "core/dtype.h"

#define DEQUANTIZE_BLOCK 256u /* elements of the largest block; those of all others divide it */

/* dequantize_supports - returns true if blocks of DT can be converted: all but q8_1, q8_K, q1_0 and q2_0,
 * which no file stores. */
bool dequantize_supports(ckpt_dtype dt);
/* dequantize - converts N blocks of DT at IN to little-endian float32 at OUT; both at any address. */
void dequantize(ckpt_dtype dt, const unsigned char *in, size_t n, unsigned char *out);
/* dequantize_scalar - converts as dequantize does, without vector instructions; gives the same bits, for
 * tests. */
void dequantize_scalar(ckpt_dtype dt, const unsigned char *in, size_t n, unsigned char *out);

#endif
