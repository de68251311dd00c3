/* error.c - see error.h; also the text of public errors. */
#include "base/error.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/text.h"

#define RAW_MAX 2048 /* room for a message and its hint before they are escaped and cut to fit */

static const char *const status_names[] = {
#define ERROR(id, name, text) [CKPT_##id] = name,
#include "base/errors.def"
#undef ERROR
};

const char *ckpt_status_name(ckpt_status status)
{
    size_t i = (size_t)status;
    return i < sizeof status_names / sizeof *status_names ? status_names[i] : "unknown-status";
}

/* format_escaped - writes the formatted text, escaped, to OUT. */
CKPT_PRINTF(3, 0) static void format_escaped(char *out, size_t cap, const char *fmt, va_list args)
{
    char raw[RAW_MAX];
    int n = vsnprintf(raw, sizeof raw, fmt, args);
    if (n < 0) /* should never happen: shows FMT as it is */
        text_fit(str_c(fmt), out, cap);
    else
        text_fit(str_of(raw, (size_t)n < sizeof raw ? (size_t)n : sizeof raw - 1), out, cap);
}

static void clear_error(ckpt_error *err, ckpt_status status, uint64_t offset)
{
    err->status = status;
    err->sys_errno = 0;
    err->offset = offset;
    err->innermost = 0;
    err->file[0] = err->where[0] = err->what[0] = err->hint[0] = err->found[0] = err->allowed[0] = '\0';
}

/* formatted_length - returns the number of bytes that FMT makes, at most RAW_MAX - 1. */
CKPT_PRINTF(1, 0) static size_t formatted_length(const char *fmt, va_list args)
{
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, fmt, again);
    va_end(again);
    return n < 0 ? 0 : n < RAW_MAX ? (size_t)n : RAW_MAX - 1;
}

/* Where in a formatted text the value found and the allowed one begin and end, and where the message ends and
 * the hint begins; SIZE_MAX: there is no hint. */
struct message_ranges {
    size_t found[2], allowed[2], message_end;
};

/* strip_braces - copies FMT to STRIPPED without the braces around the value found, {…}, and the allowed
 * one, {=…}, and without the newline before the hint. Sets RANGES to where both values and the hint are in
 * the formatted text. Braces and newlines in an argument stay. */
CKPT_PRINTF(1, 0)
static void strip_braces(const char *fmt, va_list args, char stripped[RAW_MAX], struct message_ranges *ranges)
{
    size_t n = 0, *range = ranges->found;
    ranges->message_end = SIZE_MAX;
    for (; *fmt && n + 1 < RAW_MAX; fmt++) {
        stripped[n] = '\0';
        if (*fmt == '{') {
            range = fmt[1] == '=' ? ranges->allowed : ranges->found;
            fmt += fmt[1] == '=';
            range[0] = range[1] = formatted_length(stripped, args);
        } else if (*fmt == '}') {
            range[1] = formatted_length(stripped, args);
        } else if (*fmt == '\n') {
            ranges->message_end = formatted_length(stripped, args);
        } else {
            stripped[n++] = *fmt;
        }
    }
    stripped[n] = '\0';
}

/* put_range - writes bytes [RANGE[0], RANGE[1]) of RAW to OUT, escaped. */
static void put_range(const char *raw, const size_t range[2], char *out, size_t cap)
{
    text_fit(str_of(raw + range[0], range[1] - range[0]), out, cap);
}

void message_format(const struct message_buffers *to, const char *fmt, va_list args)
{
    char stripped[RAW_MAX], raw[RAW_MAX];
    struct message_ranges ranges = {0};
    if (!strpbrk(fmt, "{\n")) {
        format_escaped(to->what, to->what_size, fmt, args);
        return;
    }
    strip_braces(fmt, args, stripped, &ranges);
    size_t n = formatted_length(stripped, args), end = ranges.message_end < n ? ranges.message_end : n;
    (void)vsnprintf(raw, sizeof raw, stripped, args);
    text_fit(str_of(raw, end), to->what, to->what_size);
    put_range(raw, ranges.found, to->found, to->value_size);
    put_range(raw, ranges.allowed, to->allowed, to->value_size);
    if (to->hint)
        text_fit(str_of(raw + end, n - end), to->hint, to->hint_size);
}

ckpt_status fail_v(ckpt_error *err, ckpt_status status, uint64_t offset, const char *fmt, va_list args)
{
    if (!err)
        return status;
    clear_error(err, status, offset);
    const struct message_buffers to = {err->what,        err->found,        err->allowed,    err->hint,
                                       sizeof err->what, sizeof err->found, sizeof err->hint};
    message_format(&to, fmt, args);
    return status;
}

ckpt_status fail(ckpt_error *err, ckpt_status status, uint64_t offset, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    (void)fail_v(err, status, offset, fmt, args);
    va_end(args);
    return status;
}

void error_add_prefix(ckpt_error *err, const char *word)
{
    char all[sizeof err->what + 64];
    if (!err)
        return;
    snprintf(all, sizeof all, "%s %s", word, err->what);
    text_fit(str_c(all), err->what, sizeof err->what);
}

/* GNU's strerror_r returns the text; that of POSIX writes it to WHY and returns 0. */
static const char *gnu_strerror(const char *text, const char *why) { return text ? text : why; }

static const char *posix_strerror(int failed, const char *why) { return failed ? "unknown error" : why; }

#define ERRNO_TEXT(code, why)                                                                                \
    _Generic(strerror_r(code, why, sizeof why), int: posix_strerror, default: gnu_strerror)(                 \
        strerror_r(code, why, sizeof why), why)

ckpt_status fail_errno(ckpt_error *err, uint64_t offset, const char *fmt, ...)
{
    int code = errno;
    ckpt_status status = code == ENOMEM ? CKPT_ENOMEM : code == ENOENT ? CKPT_ENOTFOUND : CKPT_EIO;
    if (!err)
        return status;
    char why[128], joined[sizeof err->what + sizeof why + 2];
    va_list args;
    va_start(args, fmt);
    (void)fail_v(err, status, offset, fmt, args);
    va_end(args);
    err->sys_errno = code;
    snprintf(joined, sizeof joined, "%s: %s", err->what, ERRNO_TEXT(code, why));
    text_fit(str_c(joined), err->what, sizeof err->what);
    if (code == EMFILE)
        error_replace_hint(err, "`ulimit -n` shows how many files may be open at once; raise it");
    return status;
}

ckpt_status fail_memory(ckpt_error *err) { return fail(err, CKPT_ENOMEM, CKPT_NO_OFFSET, "out of memory"); }

ckpt_status fail_argument(ckpt_error *err, const char *condition)
{
    return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET,
                "{an argument} of a library call is NULL or has an unknown value, expected {=%s}", condition);
}

void error_add_where(ckpt_error *err, const char *fmt, ...)
{
    if (!err)
        return;
    char outer[sizeof err->where], both[2 * sizeof err->where + 2];
    va_list args;
    va_start(args, fmt);
    format_escaped(outer, sizeof outer, fmt, args);
    va_end(args);
    bool first = !err->where[0];
    size_t innermost = first ? 0 : strlen(outer) + 2 + err->innermost;
    snprintf(both, sizeof both, "%s%s%s", outer, first ? "" : ": ", err->where);
    text_fit(str_c(both), err->where, sizeof err->where);
    size_t length = strlen(err->where);
    err->innermost = (uint32_t)(innermost < length ? innermost : length);
}

void error_add_position(ckpt_error *err, uint64_t offset, ckpt_str name)
{
    if (!err)
        return;
    if (err->offset == CKPT_NO_OFFSET)
        err->offset = offset;
    if (!err->where[0])
        text_fit(name, err->where, sizeof err->where);
}

void error_add_hint(ckpt_error *err, const char *fmt, ...)
{
    if (!err || err->hint[0])
        return;
    va_list args;
    va_start(args, fmt);
    format_escaped(err->hint, sizeof err->hint, fmt, args);
    va_end(args);
}

void error_replace_hint(ckpt_error *err, const char *hint)
{
    if (err)
        err->hint[0] = '\0';
    error_add_hint(err, "%s", hint);
}

void error_add_file(ckpt_error *err, const char *path)
{
    if (err && !err->file[0])
        text_fit(str_c(path), err->file, sizeof err->file);
}

void error_forget_file(ckpt_error *err)
{
    if (err)
        err->file[0] = '\0';
}

ckpt_status position_if_failed(ckpt_status st, uint64_t offset, ckpt_str name, ckpt_error *err)
{
    if (st != CKPT_OK)
        error_add_position(err, offset, name);
    return st;
}

ckpt_status prefix_where_if_failed(ckpt_status st, ckpt_str name, ckpt_error *err)
{
    if (st != CKPT_OK && name.len)
        error_add_where(err, "%.*s", STR_ARG(name));
    return st;
}

ckpt_status name_file_if_failed(ckpt_status st, const char *path, ckpt_error *err)
{
    error_add_file(st == CKPT_OK ? NULL : err, path);
    return st;
}

const char *ckpt_error_text(const ckpt_error *err, char *out, size_t cap)
{
    char byte[40] = "";
    if (!out || cap == 0)
        return "";
    out[0] = '\0';
    if (!err)
        return out;
    if (err->offset != CKPT_NO_OFFSET)
        snprintf(byte, sizeof byte, "byte 0x%" PRIx64 ": ", err->offset);
    snprintf(out, cap, "%s%s%s%s%s%s", err->file, err->file[0] ? ": " : "", byte, err->where,
             err->where[0] ? ": " : "", err->what);
    return out;
}
