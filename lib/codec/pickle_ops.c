/* pickle_ops.c - pickle_ops.def as a table by opcode. */
#include "codec/pickle_ops.h"

#include <stddef.h>

static const struct pickle_op ops[256] = {
#define OP(name, code, protocol, argument) [code] = {#name, PICKLE_ARG_##argument},
#include "codec/pickle_ops.def"
#undef OP
};

const struct pickle_op *pickle_op(uint8_t code) { return ops[code].name ? &ops[code] : NULL; }
