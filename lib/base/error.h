/* error.h - fills in a ckpt_error. Every text argument that may come from a file is escaped here, so that
 * no caller can forget it. */
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

/* CKPT_REQUIRE - returns CKPT_EUSAGE from the calling function, a public one, if CONDITION on its arguments
 * is false: an argument is NULL that must not be, or an enumerator does not exist. */
#define CKPT_REQUIRE(err, condition)                                          \
    do {                                                                      \
        if (!(condition))                                                     \
            return fail_argument(err, #condition);                            \
    } while (0)
ckpt_status fail_argument(ckpt_error *err, const char *condition);

/* fail - stores STATUS, OFFSET (absolute, or CKPT_NO_OFFSET) and the formatted message, which names what was
 * found and what is allowed; clears the file, where and hint fields. ERR may be NULL. Returns STATUS, so that
 * callers can `return fail(...)`. Braces in FMT are not printed: they delimit what the fields `found` and
 * `allowed` get, as in "the version is {%u}, torch writes {=3}". What follows a newline in FMT is the hint.
 * Braces and newlines in arguments have no meaning. */
ckpt_status fail(ckpt_error *err, ckpt_status status, uint64_t offset, const char *fmt, ...)
    CKPT_PRINTF(4, 5);
ckpt_status fail_v(ckpt_error *err, ckpt_status status, uint64_t offset, const char *fmt, va_list args)
    CKPT_PRINTF(4, 0);
/* Buffers for the parts of a message. HINT may be NULL. */
struct error_words {
    char *what, *found, *allowed, *hint;
    size_t what_size, value_size, hint_size; /* VALUE_SIZE: of FOUND and of ALLOWED */
};
/* error_words - formats FMT as fail does, into TO only. All but WHAT stay unchanged if FMT has neither braces
 * nor a hint. */
void error_words(const struct error_words *to, const char *fmt, va_list args) CKPT_PRINTF(2, 0);
/* fail_errno - fails like fail, with the current errno and its text after the message; the status is CKPT_EIO
 * (ENOMEM: CKPT_ENOMEM, ENOENT: CKPT_ENOTFOUND). */
ckpt_status fail_errno(ckpt_error *err, uint64_t offset, const char *fmt, ...) CKPT_PRINTF(3, 4);
/* fail_memory - fails with CKPT_ENOMEM and a fixed text. */
ckpt_status fail_memory(ckpt_error *err);
/* fail_prefix - puts "WORD " before the message. */
void fail_prefix(ckpt_error *err, const char *word);
/* fail_where - puts "TEXT: " before err->where (outer contexts last). */
void fail_where(ckpt_error *err, const char *fmt, ...) CKPT_PRINTF(2, 3);
/* fail_name_part - puts "PART: " before err->where as fail_where does if ST is an error and PART is not
 * empty. Returns ST. */
ckpt_status fail_name_part(ckpt_status st, ckpt_str part, ckpt_error *err);
/* fail_add_place - sets the offset to OFFSET and where to PART, each only if it is not set yet. */
void fail_add_place(ckpt_error *err, uint64_t offset, ckpt_str part);
/* fail_hint - sets what the user can do next, unless a hint is set already. */
void fail_hint(ckpt_error *err, const char *fmt, ...) CKPT_PRINTF(2, 3);
/* fail_replace_hint - sets the hint even if there is one. */
void fail_replace_hint(ckpt_error *err, const char *hint);
/* fail_file - sets the path, unless one is set already. */
void fail_file(ckpt_error *err, const char *path);
/* fail_name_file - sets the path as fail_file does if ST is an error. Returns ST. */
ckpt_status fail_name_file(ckpt_status st, const char *path, ckpt_error *err);

/* STR_ARG - passes a ckpt_str to "%.*s", cut at 200 bytes, which is enough for any message. */
#define STR_ARG(s) str_arg_length((s).len), (s).ptr
static inline int str_arg_length(size_t n) { return n > 200 ? 200 : (int)n; }

#endif
