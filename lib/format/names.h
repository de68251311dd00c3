/* names.h - reads a text of tensor names, for comparing keys. */
#ifndef FORMAT_NAMES_H
#define FORMAT_NAMES_H

#include "core/file.h"

/* names_open - SRC (taken over), a text with one name per line, as a file whose rows have names and nothing
 * else. CKPT_EUNKNOWN: it is no such text. */
ckpt_status names_open(const char *path, source *src, const ckpt_limits *limits, ckpt_file **out,
                       ckpt_error *err);

#endif
