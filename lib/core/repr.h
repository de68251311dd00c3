/* repr.h - numbers as Python writes them, whatever the locale. */
#ifndef CORE_REPR_H
#define CORE_REPR_H

#include "base/str.h"

enum repr_width { REPR_DOUBLE, REPR_SINGLE, REPR_HALF };

#define REPR_FLOAT     32   /* room that any float takes, terminated */
#define REPR_BIG_BYTES 512  /* longest integer that is written out */
#define REPR_BIG       1280 /* room that it takes, terminated */

/* repr_float - the shortest decimal that reads back as X in WIDTH. */
size_t repr_float(double x, enum repr_width width, char out[REPR_FLOAT]);
/* repr_big - LE, a little-endian two's complement integer, in decimal;
 * 0 when it is longer than REPR_BIG_BYTES. */
size_t repr_big(ckpt_str le, char out[REPR_BIG]);

#endif
