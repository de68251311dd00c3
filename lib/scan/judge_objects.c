/*
 * judge_objects.c - decides which opcodes may change the objects that allow-listed callables make. BUILD
 * calls __setstate__, APPEND and APPENDS call append and extend, ADDITEMS calls add. Loaders look these
 * methods up in the object: if the file sets its attributes (by BUILD or as arguments), it can choose the
 * function that is called. Picklers write the items of an object before its state, the state once, and items
 * only for a type that has items.
 */
#include "scan/judge.h"

#include <string.h>

#define ADDITEMS "\x90"

/* The opcodes, besides one BUILD, that may change the result of a call. */
static const struct {
    const char *module, *name, *opcodes;
} fillable[] = {
    {"builtins", "bytearray", "aesu"},    {"builtins", "dict", "su"},
    {"builtins", "list", "aesu"},         {"builtins", "set", ADDITEMS},
    {"collections", "Counter", "su"},     {"collections", "OrderedDict", "su"},
    {"collections", "defaultdict", "su"}, {"collections", "deque", "aesu"},
};

static bool takes_items(ckpt_str module, ckpt_str name, uint8_t opcode)
{
    for (size_t i = 0; i < sizeof fillable / sizeof *fillable; i++)
        if (str_is(module, fillable[i].module) && str_is(name, fillable[i].name))
            return strchr(fillable[i].opcodes, (char)opcode) != NULL;
    return false;
}

/* arguments_set_attributes - does N, a call of NAME, set attributes of its result from its arguments? */
static bool arguments_set_attributes(const struct trace_node *n, ckpt_str name)
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
        return arguments_set_attributes(n, name)
                   ? "gives it a state after its arguments gave it attributes: that may call one of them"
                   : NULL;
    return takes_items(module, name, s->opcode)
               ? NULL
               : "puts items into what has none by its type: that may call what its state holds";
}
