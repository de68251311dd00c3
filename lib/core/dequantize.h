/* dequantize.h - the numbers in ggml's blocks as floats. */
#ifndef CORE_DEQUANTIZE_H
#define CORE_DEQUANTIZE_H

#include "core/dtype.h"

#define DEQUANTIZE_BLOCK 256u /* elements of the largest block; those of all others divide it */

/* dequantize_supports - can blocks of DT be taken apart? Not q8_1, q8_K, q1_0 and q2_0, which nobody
 * stores. */
bool dequantize_supports(ckpt_dtype dt);
/* dequantize - N blocks of DT at IN as little-endian float32 at OUT; both at any address. */
void dequantize(ckpt_dtype dt, const unsigned char *in, size_t n, unsigned char *out);
/* dequantize_scalar - the same without vector instructions, for tests: the same bits. */
void dequantize_scalar(ckpt_dtype dt, const unsigned char *in, size_t n, unsigned char *out);

#endif
