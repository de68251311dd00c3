/* dequantize_grids.h - the points that ggml's IQ types choose from: the elements of a point as digits, the
 * first in the lowest bits. IQ1 and IQ2 have eight of two bits, IQ3 four of three. */
#ifndef CORE_DEQUANTIZE_GRIDS_H
#define CORE_DEQUANTIZE_GRIDS_H

#include <stdint.h>

extern const uint16_t grid_iq2_xxs[256];
extern const uint16_t grid_iq2_xs[512];
extern const uint16_t grid_iq2_s[1024];
extern const uint16_t grid_iq3_xxs[256];
extern const uint16_t grid_iq3_s[512];
extern const uint16_t grid_iq1[2048];

#endif
