/* names.h - reads a text of tensor names, as programs print them. */
#pragma once

#include "core/file.h"

enum { NAMES_MAX_SIZES = 64 };

struct named_shape {
    ckpt_str name;
    bool has_shape;
    uint32_t ndim;
    uint64_t shape[NAMES_MAX_SIZES];
};

/* names_add - adds a tensor of which only the name and perhaps the shape are known. The name stays where it
 * is. */
ckpt_status names_add(ckpt_file *f, const struct named_shape *named);

/* names_open - opens SRC (taken over), a text with one tensor name per line, as a file whose rows have names
 * and nothing else. CKPT_EUNKNOWN: SRC is not such a text. There is no ckpt_error to fill in. */
ckpt_status names_open(const char *path, source *src, const ckpt_limits *limits, ckpt_file **out);
