/* notice.h - notices: texts that a report shows although nothing failed. */
#pragma once

#include <stdarg.h>

#include "base/arena.h"
#include "base/error.h"

struct notices {
    arena *a; /* holds the texts */
    const char **text;
    size_t n, cap;
};

/* notices_add - appends a formatted text, escaped, unless it is in the list already. LIST is a struct
 * notices *, untyped so that this function can serve as a callback. Does nothing when out of memory. */
void notices_add(void *list, const char *fmt, ...) CKPT_PRINTF(2, 3);
void notices_add_v(struct notices *list, const char *fmt, va_list ap);
/* notices_at - returns text number INDEX; NULL after the last. */
const char *notices_at(const struct notices *list, size_t index);
