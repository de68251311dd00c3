/* git.h - runs git. */
#pragma once

#include "text.h"

/* git_run - runs git with ARGUMENTS, which end in NULL, and adds what it prints, without newlines at the end,
 * to OUT. Returns its exit code; -1 after printing an error: git could not be started, or was killed. */
int git_run(const char *const *arguments, struct text *out);
