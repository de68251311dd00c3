/* pickle_ops.h - the 68 opcodes of pickle. */
#ifndef CODEC_PICKLE_OPS_H
#define CODEC_PICKLE_OPS_H

#include <stddef.h>
#include <stdint.h>

enum pickle_opcode {
#define OP(name, code, protocol, argument) PICKLE_##name = code,
#include "codec/pickle_ops.def"
#undef OP
};

enum pickle_argument {
    PICKLE_ARG_NONE = 1, /* 0: not an opcode */
    PICKLE_ARG_U1,
    PICKLE_ARG_U2,
    PICKLE_ARG_U4,
    PICKLE_ARG_U8,
    PICKLE_ARG_I4,
    PICKLE_ARG_F8,
    PICKLE_ARG_LINE,
    PICKLE_ARG_LINES,
    PICKLE_ARG_B1,
    PICKLE_ARG_B4,
    PICKLE_ARG_B8,
    PICKLE_ARG_BI4
};

struct pickle_op {
    const char *name; /* as in pickletools */
    uint8_t argument; /* enum pickle_argument */
};

extern const struct pickle_op pickle_ops[256]; /* by opcode; all 0: there is none */

/* pickle_op - returns the description of the opcode CODE; NULL: there is none. */
static inline const struct pickle_op *pickle_op(uint8_t code)
{
    return pickle_ops[code].argument ? &pickle_ops[code] : NULL;
}

#endif
