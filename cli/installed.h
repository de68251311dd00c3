/* installed.h - where this program is, and what else is called `ckpt` in PATH. */
#pragma once

#include "text.h"

/* installed_path - sets OUT to the path of this program, without links. Returns false if the system cannot
 * name it. */
bool installed_path(struct text *out);

/* installed_examine - does what `ckpt doctor --install` does: prints which program `ckpt` is. Returns EXIT_NO
 * if it is another one than this. */
int installed_examine(void);
