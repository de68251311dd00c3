/* pickle_ops.c - pickle_ops.def as a table by opcode. */
#include "codec/pickle_ops.h"

const struct pickle_op pickle_ops[256] = {
#define PUSH(type) true, CKPT_V_##type
#define RUN        false, 0
#define OP(name, code, protocol, argument, what)                                                             \
    [code] = {#name, PICKLE_ARG_##argument, PICKLE_ARG_##argument & 15, what},
#include "codec/pickle_ops.def"
#undef OP
};
