/* bytes.h - string literals with NULs as a ckpt_str. */
#ifndef UNIT_BYTES_H
#define UNIT_BYTES_H

#include "base/str.h"

#define TEXT(s) str_of(s, sizeof(s) - 1)
/* TEXT for static initializers. */
#define CONSTANT(s)                                                                                          \
    {                                                                                                        \
        s, sizeof(s) - 1                                                                                     \
    }

#endif
