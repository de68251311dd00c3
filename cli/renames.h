/* renames.h - reports a thousand renames in a few lines, by the part of the names that changes. */
#ifndef CLI_RENAMES_H
#define CLI_RENAMES_H

#include <stdio.h>

#include "ckpt.h"

/* renames_print - prints "module. -> (nothing)   161 of 161 tensors, 53 _metadata entries" for each kind of
 * change in P. PREFIX: the only change, as the user wrote it, or NULL. */
void renames_print(const ckpt_plan *p, const char *prefix, FILE *to);

#endif
