/* python2.h - the names that Python 3 imports for Python 2 names in pickles of protocol 0 to 2. */
#pragma once

#include "base/str.h"

/* python2_translate - replaces the Python 2 names *MODULE and *NAME by those that Python 3 imports for them
 * below protocol 3. False: they are the same in Python 3. */
bool python2_translate(ckpt_str *module, ckpt_str *name);
