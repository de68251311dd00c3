/* renames.h - a thousand renames in a few lines: what they have in common. */
#ifndef CLI_RENAMES_H
#define CLI_RENAMES_H

#include <stdio.h>

#include "ckpt.h"

/* renames_print - "module. -> (nothing)   161 of 161 tensors, 53 _metadata
 * entries" for each kind of change in P. PREFIX: the one change there is, as
 * the user put it; NULL: find out. */
void renames_print(const ckpt_plan *p, const char *prefix, FILE *to);

#endif
