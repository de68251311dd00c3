/* select.h - globs of --keep, --drop and --cast. */
#ifndef OP_SELECT_H
#define OP_SELECT_H

#include "core/plan.h"

/* glob_selects - does GLOB match NAME, or the name of a container that it is in (NAME up to one of its
 * dots)? */
bool glob_selects(const char *glob, ckpt_str name);
/* cast_notice_rest - called before P is written: adds a notice about tensors that a cast of the weights
 * skipped. */
void cast_notice_rest(ckpt_plan *p);

#endif
