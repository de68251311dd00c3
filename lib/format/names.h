/* names.h - reads a text of tensor names, as programs print them. */
#pragma once

#include "core/file.h"

/* names_open - opens SRC (taken over), a text with one tensor name per line, as a file whose rows have names
 * and nothing else. CKPT_EUNKNOWN: SRC is not such a text. There is no ckpt_error to fill in. */
ckpt_status names_open(const char *path, source *src, const ckpt_limits *limits, ckpt_file **out);
