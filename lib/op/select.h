/* select.h - globs of --keep, --drop and --cast. */
#ifndef OP_SELECT_H
#define OP_SELECT_H

#include "core/plan.h"

/* glob_selects - returns true if GLOB matches NAME, or the name of a container around it (NAME up to one of
 * its dots). */
bool glob_selects(const char *glob, ckpt_str name);
/* cast_notice_skipped - adds a notice about the tensors outside the weights that a cast of the weights
 * skipped. To be called before P is written. */
void cast_notice_skipped(ckpt_plan *p);

#endif
