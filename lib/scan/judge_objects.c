/*
 * judge_objects.c - what may be done to the objects that names of the lists make.
 *
 * BUILD calls __setstate__, APPEND and APPENDS call append and extend, ADDITEMS calls add, each looked up in
 * the object: where its attributes come from the file (by BUILD, as arguments), what is called does, too.
 * Picklers give an object its items first and its state last, once, and items only to what has them by its
 * type.
 */
#include "scan/judge_objects.h"

#include <string.h>

#define ADDITEMS "\x90"

/* filled - OPCODES: that change what the call of a name made, beside one BUILD. */
static const struct {
    const char *module, *name, *opcodes;
} filled[] = {
    {"builtins", "bytearray", "aesu"},    {"builtins", "dict", "su"},
    {"builtins", "list", "aesu"},         {"builtins", "set", ADDITEMS},
    {"collections", "Counter", "su"},     {"collections", "OrderedDict", "su"},
    {"collections", "defaultdict", "su"}, {"collections", "deque", "aesu"},
};

static bool takes_items(ckpt_str module, ckpt_str name, uint8_t opcode)
{
    for (size_t i = 0; i < sizeof filled / sizeof *filled; i++)
        if (str_is(module, filled[i].module) && str_is(name, filled[i].name))
            return strchr(filled[i].opcodes, (char)opcode) != NULL;
    return false;
}

/* with_attributes - do the arguments of N, a call of this name, become attributes of what it makes? */
static bool with_attributes(const struct trace_node *n, ckpt_str name)
{
    const struct trace_node *args = trace_node(n->items[1]);
    return str_is(name, "_rebuild_from_type_v2") || str_is(name, "_rebuild_parameter_with_state") ||
           ((str_is(name, "SimpleNamespace") || str_is(name, "Namespace")) &&
            !(args && args->kind == TRACE_TUPLE && args->n == 0));
}

const char *object_change(const struct trace_step *s, const struct trace_node *n, ckpt_str module,
                          ckpt_str name)
{
    if (s->opcode == 'b')
        return with_attributes(n, name)
                   ? "gives it a state after its arguments gave it attributes: that may call one of them"
                   : NULL;
    return takes_items(module, name, s->opcode)
               ? NULL
               : "puts items into what has none by its type: that may call what its state holds";
}
