/* pickle_ops.h - the 68 opcodes of pickle. */
#pragma once

#include "ckpt.h"

enum pickle_opcode {
#define OP(name, code, ...) PICKLE_##name = code,
#include "codec/pickle_ops.def"
#undef OP
};

/* The last digit is the number of bytes of the argument, or of the length before it. */
enum pickle_argument {
    PICKLE_ARG_NONE = 0x10, /* 0: not an opcode */
    PICKLE_ARG_U1 = 0x21,
    PICKLE_ARG_U2 = 0x22,
    PICKLE_ARG_U4 = 0x24,
    PICKLE_ARG_U8 = 0x28,
    PICKLE_ARG_I4 = 0x34,
    PICKLE_ARG_F8 = 0x48,
    PICKLE_ARG_LINE = 0x50,
    PICKLE_ARG_LINES = 0x60,
    PICKLE_ARG_B1 = 0x71, /* from here on: has a length */
    PICKLE_ARG_B4 = 0x74,
    PICKLE_ARG_B8 = 0x78,
    PICKLE_ARG_BI4 = 0x84
};

struct pickle_op {
    const char *name; /* as in pickletools */
    uint8_t argument; /* enum pickle_argument */
    uint8_t width;    /* bytes of the argument, or of the length before it */
    bool is_constant; /* it pushes a constant, of TYPE */
    uint8_t type;     /* ckpt_value_type */
};

extern const struct pickle_op pickle_ops[256]; /* by opcode; all 0: there is none */

/* pickle_op - returns the description of the opcode CODE; NULL: there is none. */
static inline const struct pickle_op *pickle_op(uint8_t code)
{
    return pickle_ops[code].argument ? &pickle_ops[code] : NULL;
}

/* pickle_pushes - returns true if the opcode CODE pushes a constant of a type from FIRST to LAST. */
static inline bool pickle_pushes(uint8_t code, ckpt_value_type first, ckpt_value_type last)
{
    const struct pickle_op *op = &pickle_ops[code];
    return op->is_constant && op->type >= first && op->type <= last;
}
