/* bytes.h - makes a ckpt_str of a string literal, which may contain NULs. */
#ifndef UNIT_BYTES_H
#define UNIT_BYTES_H

#include "base/str.h"

#define TEXT(s) str_of(s, sizeof(s) - 1)
/* Does what TEXT does, in the initializer of a static variable. */
#define CONSTANT(s) {s, sizeof(s) - 1}

#endif
