/* python2.h - what Python 3 imports where a pickle of protocol 0 to 2 names something by its name in
 * Python 2. */
#ifndef CORE_PYTHON2_H
#define CORE_PYTHON2_H

#include "base/str.h"

/* python2_translate - *MODULE and *NAME as Python 3 imports them below protocol 3. False: as they are. */
bool python2_translate(ckpt_str *module, ckpt_str *name);

#endif
