/* notice.h - what is worth saying though nothing failed: texts that a report shows. */
#ifndef BASE_NOTICE_H
#define BASE_NOTICE_H

#include <stdarg.h>

#include "base/arena.h"
#include "base/error.h"

struct notices {
    arena *a; /* where they are kept */
    const char **text;
    size_t n, cap;
};

/* notices_say - a formatted text behind the others, escaped, unless it is there already. LIST is
 * a struct notices, so that this can be given away as a callback. Without memory nothing is said. */
void notices_say(void *list, const char *fmt, ...) CKPT_PRINTF(2, 3);
void notices_vsay(struct notices *list, const char *fmt, va_list ap);
/* notices_at - number I, NULL beyond the last. */
const char *notices_at(const struct notices *list, size_t i);

#endif
