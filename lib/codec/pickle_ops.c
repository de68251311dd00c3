/* pickle_ops.c - pickle_ops.def as a table by opcode. */
#include "codec/pickle_ops.h"

const struct pickle_op pickle_ops[256] = {
#define OP(name, code, protocol, argument) [code] = {#name, PICKLE_ARG_##argument},
#include "codec/pickle_ops.def"
#undef OP
};
