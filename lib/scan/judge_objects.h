/* judge_objects.h - which opcodes may change the objects that allow-listed callables make. Private to
 * judge.c. */
#ifndef SCAN_JUDGE_OBJECTS_H
#define SCAN_JUDGE_OBJECTS_H

#include "core/trace.h"

/* object_change - what is dangerous about the change S of N, which a call of MODULE.NAME made; NULL:
 * nothing. */
const char *object_change(const struct trace_step *s, const struct trace_node *n, ckpt_str module,
                          ckpt_str name);

#endif
