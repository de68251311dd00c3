/* python2.h - the names that Python 3 imports for Python 2 names in pickles of protocol 0 to 2. */
#ifndef CORE_PYTHON2_H
#define CORE_PYTHON2_H

#include "base/str.h"

/* python2_translate - replaces *MODULE and *NAME by what Python 3 imports below protocol 3; false: it has no
 * other name for them. */
bool python2_translate(ckpt_str *module, ckpt_str *name);

#endif
