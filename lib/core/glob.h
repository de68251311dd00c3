/* glob.h - matches names against a pattern and reads the numbers in them; ckpt.h has the other functions. */
#pragma once

#include "base/str.h"

/* glob_match_numbers - matches as ckpt_glob_match does, but `#` matches a number of at most nine digits
 * without superfluous zeros. Sets NUMBERS[1] to the last number, and NUMBERS[0] to the one before, or 0. */
bool glob_match_numbers(ckpt_str glob, ckpt_str name, uint32_t numbers[2]);
