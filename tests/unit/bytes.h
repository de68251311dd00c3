/* bytes.h - bytes of a literal, NUL among them, as a ckpt_str. */
#ifndef UNIT_BYTES_H
#define UNIT_BYTES_H

#include "base/str.h"

#define TEXT(s) str_of(s, sizeof(s) - 1)
/* The same where only constants may stand. */
#define CONSTANT(s)                                                                                          \
    {                                                                                                        \
        s, sizeof(s) - 1                                                                                     \
    }

#endif
