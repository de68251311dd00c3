/* judge_objects.h - decides which opcodes may change the objects that allow-listed callables make. Private
 * to judge.c. */
#ifndef SCAN_JUDGE_OBJECTS_H
#define SCAN_JUDGE_OBJECTS_H

#include "core/trace.h"

/* object_change - returns what is dangerous about S, a change of the object N, which a call of MODULE.NAME
 * made; NULL: nothing. */
const char *object_change(const struct trace_step *s, const struct trace_node *n, ckpt_str module,
                          ckpt_str name);

#endif
