/* judge_objects.h - what may be done to the objects that names of the lists make. Private to judge.c. */
#ifndef SCAN_JUDGE_OBJECTS_H
#define SCAN_JUDGE_OBJECTS_H

#include "core/trace.h"

/* object_change - what speaks against the change S of N, which a call of MODULE.NAME made; NULL: nothing. */
const char *object_change(const struct trace_step *s, const struct trace_node *n, ckpt_str module,
                          ckpt_str name);

#endif
