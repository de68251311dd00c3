/* error.h - filling in a ckpt_error. Every text argument that may come from a
 * file is escaped here, once, so that callers cannot forget it. */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include <stdarg.h>

#include "ckpt.h"

/* CKPT_TRY - returns from the calling function when EXPR failed. */
#define CKPT_TRY(expr)                                                        \
    do {                                                                      \
        ckpt_status try_ = (expr);                                            \
        if (try_ != CKPT_OK)                                                  \
            return try_;                                                      \
    } while (0)

/* fail - records STATUS, OFFSET (absolute, or CKPT_NO_OFFSET) and the formatted
 * text, which says what was found and what is allowed. The file, where and
 * hint fields are cleared. ERR may be NULL. Returns STATUS, so that
 * `return fail(...)` reads well.
 * Braces in FMT, which are not printed, mark what `found` and `allowed` get:
 * "the version is {%u}, torch writes {=3}". Those in arguments mean nothing. */
ckpt_status fail(ckpt_error *err, ckpt_status status, uint64_t offset, const char *fmt, ...)
    CKPT_PRINTF(4, 5);
ckpt_status fail_v(ckpt_error *err, ckpt_status status, uint64_t offset, const char *fmt, va_list args)
    CKPT_PRINTF(4, 0);
/* error_words - what fail makes of FMT, into TO alone: NWHAT bytes at WHAT, NMARKED at FOUND and at ALLOWED,
 * which stay as they are where nothing is marked. */
struct error_words {
    char *what, *found, *allowed;
    size_t nwhat, nmarked;
};
void error_words(const struct error_words *to, const char *fmt, va_list args) CKPT_PRINTF(2, 0);
/* fail_errno - like fail with CKPT_EIO (ENOMEM: CKPT_ENOMEM; ENOENT:
 * CKPT_ENOTFOUND), the current errno and its text after the formatted one. */
ckpt_status fail_errno(ckpt_error *err, uint64_t offset, const char *fmt, ...) CKPT_PRINTF(3, 4);
/* fail_memory - CKPT_ENOMEM with a fixed text. */
ckpt_status fail_memory(ckpt_error *err);
/* fail_begin - puts "WORD " in front of what was said. */
void fail_begin(ckpt_error *err, const char *word);
/* fail_where - puts "TEXT: " in front of err->where (outer contexts last). */
void fail_where(ckpt_error *err, const char *fmt, ...) CKPT_PRINTF(2, 3);
/* fail_near - what is known of the place where nothing nearer was told: PART of the file, OFFSET. */
void fail_near(ckpt_error *err, uint64_t offset, ckpt_str part);
/* fail_hint - sets what to do next, unless a more specific hint is set already. */
void fail_hint(ckpt_error *err, const char *fmt, ...) CKPT_PRINTF(2, 3);
/* fail_file - sets the path, unless one is set already. */
void fail_file(ckpt_error *err, const char *path);

/* STR_ARG - a ckpt_str for "%.*s"; cut at 200 bytes, enough for any message. */
#define STR_ARG(s) str_arg_length((s).len), (s).ptr
static inline int str_arg_length(size_t n) { return n > 200 ? 200 : (int)n; }

#endif
