/* error.c - what went wrong, in words that are safe to print. */
#include "base/error.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/str.h"
#include "base/text.h"

#define RAW_MAX 1024 /* room for a message before it is escaped and cut to fit */

static const char *const names[] = {
#define ERROR(id, name, text) [CKPT_##id] = name,
#include "base/errors.def"
#undef ERROR
};

const char *ckpt_status_name(ckpt_status status)
{
    size_t i = (size_t)status;
    return i < sizeof names / sizeof *names ? names[i] : "unknown-status";
}

/* What vsnprintf would write, escaped, into OUT. */
CKPT_PRINTF(3, 0) static void format(char *out, size_t cap, const char *fmt, va_list args)
{
    char raw[RAW_MAX];
    int n = vsnprintf(raw, sizeof raw, fmt, args);
    if (n < 0) /* nothing of ours does this; better the pattern than nothing */
        text_fit(str_c(fmt), out, cap);
    else
        text_fit(str_of(raw, (size_t)n < sizeof raw ? (size_t)n : sizeof raw - 1), out, cap);
}

static void clear(ckpt_error *err, ckpt_status status, uint64_t offset)
{
    err->status = status;
    err->sys_errno = 0;
    err->offset = offset;
    err->file[0] = err->where[0] = err->what[0] = err->hint[0] = '\0';
}

ckpt_status fail(ckpt_error *err, ckpt_status status, uint64_t offset, const char *fmt, ...)
{
    if (!err)
        return status;
    clear(err, status, offset);
    va_list args;
    va_start(args, fmt);
    format(err->what, sizeof err->what, fmt, args);
    va_end(args);
    return status;
}

ckpt_status fail_errno(ckpt_error *err, uint64_t offset, const char *fmt, ...)
{
    int code = errno;
    ckpt_status status = code == ENOMEM ? CKPT_ENOMEM : code == ENOENT ? CKPT_ENOTFOUND : CKPT_EIO;
    if (!err)
        return status;
    char text[sizeof err->what], why[128], both[sizeof text + sizeof why + 2];
    clear(err, status, offset);
    err->sys_errno = code;
    va_list args;
    va_start(args, fmt);
    format(text, sizeof text, fmt, args);
    va_end(args);
    snprintf(both, sizeof both, "%s: %s", text, strerror_r(code, why, sizeof why));
    text_fit(str_c(both), err->what, sizeof err->what);
    if (code == EMFILE)
        fail_hint(err, "`ulimit -n` says how many files may be open at once; raise it");
    return status;
}

ckpt_status fail_memory(ckpt_error *err) { return fail(err, CKPT_ENOMEM, CKPT_NO_OFFSET, "memory ran out"); }

void fail_where(ckpt_error *err, const char *fmt, ...)
{
    if (!err)
        return;
    char outer[sizeof err->where], both[2 * sizeof err->where + 2];
    va_list args;
    va_start(args, fmt);
    format(outer, sizeof outer, fmt, args);
    va_end(args);
    snprintf(both, sizeof both, "%s%s%s", outer, err->where[0] ? ": " : "", err->where);
    text_fit(str_c(both), err->where, sizeof err->where);
}

void fail_near(ckpt_error *err, uint64_t offset, ckpt_str part)
{
    if (!err)
        return;
    if (err->offset == CKPT_NO_OFFSET)
        err->offset = offset;
    if (!err->where[0])
        text_fit(part, err->where, sizeof err->where);
}

void fail_hint(ckpt_error *err, const char *fmt, ...)
{
    if (!err || err->hint[0])
        return;
    va_list args;
    va_start(args, fmt);
    format(err->hint, sizeof err->hint, fmt, args);
    va_end(args);
}

void fail_file(ckpt_error *err, const char *path)
{
    if (err && !err->file[0])
        text_fit(str_c(path), err->file, sizeof err->file);
}

const char *ckpt_error_text(const ckpt_error *err, char *out, size_t cap)
{
    char byte[40] = "";
    if (cap == 0)
        return out;
    if (err->offset != CKPT_NO_OFFSET)
        snprintf(byte, sizeof byte, "byte 0x%" PRIx64 ": ", err->offset);
    snprintf(out, cap, "%s%s%s%s%s%s", err->file, err->file[0] ? ": " : "", byte, err->where,
             err->where[0] ? ": " : "", err->what);
    return out;
}
