/* error.h - fills in a ckpt_error. Every text argument that may come from a file is escaped here, so that
 * no caller can forget it. */
#pragma once

#include <stdarg.h>

#include "ckpt.h"

/* CKPT_TRY - returns from the calling function when EXPR failed. */
#define CKPT_TRY(expr)                                                                                       \
    do {                                                                                                     \
        ckpt_status try_ = (expr);                                                                           \
        if (try_ != CKPT_OK)                                                                                 \
            return try_;                                                                                     \
    } while (0)

/* CKPT_THEN - sets ST to EXPR, unless ST is an error: the next step of a function that has something to free
 * before it returns ST. */
#define CKPT_THEN(st, expr)                                                                                  \
    do {                                                                                                     \
        if ((st) == CKPT_OK)                                                                                 \
            (st) = (expr);                                                                                   \
    } while (0)

/* CKPT_OWN_ERROR - replaces ERR, the argument of a public function, by an error on the stack if it is NULL.
 * It is the first line of each public function with such an argument. No other function gets NULL, because a
 * callee may read from its error which status a failure had, such as that of a scanner. A call whose error is
 * of no interest gets a variable `ignored` of the calling function, declared at its begin and not in a block,
 * because a reader keeps the pointer. The lint `errors` checks all this. */
#define CKPT_OWN_ERROR(err)                                                                                  \
    ckpt_error unwanted_error;                                                                               \
    (err) = (err) ? (err) : &unwanted_error

/* CKPT_REQUIRE - returns CKPT_EUSAGE from the calling public function if CONDITION is false. CONDITION
 * tests the arguments of that function for NULL and for values that no enumerator has. */
#define CKPT_REQUIRE(err, condition)                                                                         \
    do {                                                                                                     \
        if (!(condition))                                                                                    \
            return fail_argument(err, #condition);                                                           \
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
/* Buffers for the texts that message_format makes. HINT may be NULL. */
struct message_buffers {
    char *what, *found, *allowed, *hint;
    size_t what_size, value_size, hint_size; /* VALUE_SIZE: of FOUND and of ALLOWED */
};
/* message_format - formats FMT as fail does, but into the buffers TO. If FMT has neither braces nor a hint,
 * only WHAT is written. */
void message_format(const struct message_buffers *to, const char *fmt, va_list args) CKPT_PRINTF(2, 0);
/* fail_errno - fails as fail does, adds the text of errno to the message and sets err->sys_errno. The status
 * is CKPT_ENOMEM for ENOMEM, CKPT_ENOTFOUND for ENOENT, else CKPT_EIO. */
ckpt_status fail_errno(ckpt_error *err, uint64_t offset, const char *fmt, ...) CKPT_PRINTF(3, 4);
/* fail_memory - fails with CKPT_ENOMEM and a fixed text. */
ckpt_status fail_memory(ckpt_error *err);
/* CKPT_TRY_ALLOC - returns fail_memory(ERR) from the calling function if OK, a pointer or bool, is false. */
#define CKPT_TRY_ALLOC(ok, err)                                                                              \
    do {                                                                                                     \
        if (!(ok))                                                                                           \
            return fail_memory(err);                                                                         \
    } while (0)
/* error_add_prefix - puts "WORD " before the message. */
void error_add_prefix(ckpt_error *err, const char *word);
/* error_add_where - puts the formatted text and ": " before err->where. The text names what contains the
 * thing that err->where named before. */
void error_add_where(ckpt_error *err, const char *fmt, ...) CKPT_PRINTF(2, 3);
/* prefix_where_if_failed - calls error_add_where with NAME if ST is an error and NAME is not empty. Returns
 * ST. */
ckpt_status prefix_where_if_failed(ckpt_status st, ckpt_str name, ckpt_error *err);
/* error_add_position - sets err->offset to OFFSET and err->where to NAME, each only if it is not set yet. */
void error_add_position(ckpt_error *err, uint64_t offset, ckpt_str name);
/* position_if_failed - calls error_add_position if ST is an error. Returns ST. */
ckpt_status position_if_failed(ckpt_status st, uint64_t offset, ckpt_str name, ckpt_error *err);
/* error_forget_file - removes the name of the file, for a caller that names another. */
void error_forget_file(ckpt_error *err);
/* error_add_hint - sets the hint, what the user can do next, unless there is one already. */
void error_add_hint(ckpt_error *err, const char *fmt, ...) CKPT_PRINTF(2, 3);
/* error_replace_hint - sets the hint, replacing any other. */
void error_replace_hint(ckpt_error *err, const char *hint);
/* error_add_file - sets err->file to PATH, unless it is set already. */
void error_add_file(ckpt_error *err, const char *path);
/* name_file_if_failed - calls error_add_file if ST is an error. Returns ST. */
ckpt_status name_file_if_failed(ckpt_status st, const char *path, ckpt_error *err);

/* STR_ARG - passes a ckpt_str to "%.*s" in the format of a message, cut at 200 bytes, which is enough for
 * any. It would lose bytes of data: ARENA_CONCAT and buf_put_str keep them (tests/lint/message_text.sh). */
#define STR_ARG(s) str_arg_length((s).len), (s).ptr
static inline int str_arg_length(size_t count) { return count > 200 ? 200 : (int)count; }
