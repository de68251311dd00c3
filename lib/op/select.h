/* select.h - what --keep, --drop and --cast take. */
#ifndef OP_SELECT_H
#define OP_SELECT_H

#include "core/plan.h"

/* select_takes - does GLOB match NAME, or what is left of one of its dots: a container that it is in? */
bool select_takes(const char *glob, ckpt_str name);
/* cast_note_rest - before P is written: which tensors a cast of the weights left as they are. */
void cast_note_rest(ckpt_plan *p);

#endif
