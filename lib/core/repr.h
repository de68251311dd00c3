/* repr.h - numbers in decimal as Python writes them, in any locale. */
#pragma once

#include "base/str.h"

enum repr_width { REPR_DOUBLE, REPR_SINGLE, REPR_HALF };

#define REPR_FLOAT_ROOM    32   /* room for any float, with its NUL */
#define REPR_BIG_MAX_BYTES 512  /* longest integer that is written out, in bytes */
#define REPR_BIG_ROOM      1280 /* room for that integer in decimal, with its NUL */

/* repr_float - writes the shortest decimal that reads back as NUMBER at WIDTH; returns its length. */
size_t repr_float(double number, enum repr_width width, char out[REPR_FLOAT_ROOM]);
/* repr_big - writes LE, a little-endian two's complement integer, in decimal. Returns 0 if it is longer
 * than REPR_BIG_MAX_BYTES. */
size_t repr_big(ckpt_str le, char out[REPR_BIG_ROOM]);
