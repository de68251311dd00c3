/* text.c - text from a file made safe to show, and names in the order people
 * expect. */
#include "base/text.h"

#include "base/cursor.h"
#include "base/utf8.h"

static const char hex[] = "0123456789abcdef";
static const char ellipsis[] = "\xe2\x80\xa6";

static size_t put_byte(unsigned char c, char *out)
{
    out[0] = '\\';
    out[1] = 'x';
    out[2] = hex[c >> 4];
    out[3] = hex[c & 15];
    return 4;
}

static size_t put_code_point(uint32_t cp, char *out)
{
    int shift = 0;
    size_t n = 3;
    while (cp >> shift > 15)
        shift += 4;
    memcpy(out, "\\u{", n);
    for (; shift >= 0; shift -= 4)
        out[n++] = hex[cp >> shift & 15];
    out[n++] = '}';
    return n;
}

/* The letter that follows the backslash for C, or 0. */
static char letter(uint32_t cp, enum text_style style)
{
    if (cp == '\\')
        return style == TEXT_MESSAGE ? 0 : '\\';
    if (style != TEXT_QUOTED && style != TEXT_BYTES)
        return 0;
    return cp == '\'' ? '\'' : cp == '\n' ? 'n' : cp == '\r' ? 'r' : cp == '\t' ? 't' : 0;
}

size_t text_unit(ckpt_str s, size_t *pos, enum text_style style, char out[TEXT_UNIT])
{
    size_t at = *pos;
    uint32_t cp;
    if (style == TEXT_BYTES) {
        cp = (unsigned char)s.ptr[at];
        *pos = at + 1;
    } else {
        cp = utf8_next(s, pos, false);
    }
    char c = letter(cp, style);
    if (c) {
        out[0] = '\\';
        out[1] = c;
        return 2;
    }
    if (cp == UTF8_BAD || (style == TEXT_BYTES && (cp < 0x20 || cp > 0x7e)))
        return put_byte((unsigned char)s.ptr[at], out);
    if (utf8_unsafe(cp))
        return put_code_point(cp, out);
    memcpy(out, s.ptr + at, *pos - at);
    return *pos - at;
}

void text_put(struct text_sink *sink, const char *piece, size_t n)
{
    /* A piece that does not fit still counts, so none after it fits either. */
    if (n < sink->cap && sink->len < sink->cap - n) {
        memcpy(sink->out + sink->len, piece, n);
        sink->shown += n;
    }
    sink->len += n;
}

void text_word(struct text_sink *sink, const char *z) { text_put(sink, z, strlen(z)); }

#define EACH(byte) ((uint64_t)(byte) * 0x0101010101010101u)

/* suspect - does one of eight bytes perhaps not stand for itself? What sets the
 * high bit of a byte: one below 0x20, the zero that a backslash or an apostrophe
 * becomes, 0x7f and one more, and what had it set already. */
static bool suspect(uint64_t x)
{
    uint64_t low = x - EACH(0x20), slash = (x ^ EACH('\\')) - EACH(1), quote = (x ^ EACH('\'')) - EACH(1);
    return ((low | slash | quote | (x + EACH(1)) | x) & EACH(0x80)) != 0;
}

/* How many bytes from POS on stand for themselves in any style. */
static size_t plain_run(ckpt_str s, size_t pos)
{
    size_t n = 0, left = s.len - pos;
    const unsigned char *p = (const unsigned char *)s.ptr + pos;
    while (left - n >= 8 && !suspect(load_u64le(p + n)))
        n += 8;
    if (left >= 8 && left - n < 8 && !suspect(load_u64le(p + left - 8)))
        return left;
    while (n < left && p[n] >= 0x20 && p[n] <= 0x7e && p[n] != '\\' && p[n] != '\'')
        n++;
    return n;
}

void text_escaped(struct text_sink *sink, ckpt_str s, enum text_style style)
{
    char unit[TEXT_UNIT];
    for (size_t pos = 0, run; pos < s.len; pos += run) {
        run = plain_run(s, pos);
        if (run && sink->len + run < sink->cap) /* all of it fits */
            text_put(sink, s.ptr + pos, run);
        else
            run = 0;
        if (run == 0)
            text_put(sink, unit, text_unit(s, &pos, style, unit));
    }
}

size_t text_end(struct text_sink *sink)
{
    if (sink->cap)
        sink->out[sink->shown] = '\0';
    return sink->len;
}

size_t ckpt_text_escape(ckpt_str text, char *out, size_t cap)
{
    struct text_sink sink = {out, cap, 0, 0};
    text_escaped(&sink, text, TEXT_NAME);
    return text_end(&sink);
}

uint32_t ckpt_text_next(ckpt_str text, size_t *pos, bool *unsafe)
{
    uint32_t cp = utf8_next(text, pos, false);
    *unsafe = utf8_unsafe(cp);
    return cp;
}

void text_fit(ckpt_str s, char *out, size_t cap)
{
    const size_t mark = sizeof ellipsis - 1;
    size_t len = 0, safe = 0; /* safe: longest part that leaves room for the mark */
    char unit[TEXT_UNIT];
    if (cap == 0)
        return;
    for (size_t pos = 0; pos < s.len;) {
        size_t n = text_unit(s, &pos, TEXT_MESSAGE, unit);
        if (len + n >= cap) {
            len = safe;
            if (safe + mark < cap) {
                memcpy(out + safe, ellipsis, mark);
                len += mark;
            }
            break;
        }
        memcpy(out + len, unit, n);
        len += n;
        if (len + mark < cap)
            safe = len;
    }
    out[len] = '\0';
}

static bool digit(ckpt_str s, size_t i) { return i < s.len && s.ptr[i] >= '0' && s.ptr[i] <= '9'; }

/* Moves *POS behind the digits at it; the number without leading zeros. */
static ckpt_str number(ckpt_str s, size_t *pos)
{
    while (digit(s, *pos) && s.ptr[*pos] == '0')
        ++*pos;
    size_t from = *pos;
    while (digit(s, *pos))
        ++*pos;
    return str_of(s.ptr + from, *pos - from);
}

/* How many bytes both begin with. */
static size_t shared(ckpt_str a, ckpt_str b)
{
    size_t n = a.len < b.len ? a.len : b.len, i = 0;
    const unsigned char *p = (const unsigned char *)a.ptr, *q = (const unsigned char *)b.ptr;
    for (; n - i >= 8; i += 8) {
        uint64_t differ = load_u64le(p + i) ^ load_u64le(q + i);
        if (differ)
            return i + (size_t)__builtin_ctzll(differ) / 8;
    }
    while (i < n && p[i] == q[i])
        i++;
    return i;
}

int ckpt_natural_compare(ckpt_str a, ckpt_str b)
{
    size_t i = shared(a, b), j;
    if (i < a.len && i < b.len && !digit(a, i) && !digit(b, i))
        return (unsigned char)a.ptr[i] < (unsigned char)b.ptr[i] ? -1 : 1;
    while (i && digit(a, i - 1))
        i--;
    j = i;
    while (i < a.len && j < b.len) {
        if (digit(a, i) && digit(b, j)) {
            ckpt_str x = number(a, &i), y = number(b, &j);
            if (x.len != y.len)
                return x.len < y.len ? -1 : 1;
            int c = str_compare(x, y);
            if (c)
                return c < 0 ? -1 : 1;
        } else {
            unsigned char x = (unsigned char)a.ptr[i++], y = (unsigned char)b.ptr[j++];
            if (x != y)
                return x < y ? -1 : 1;
        }
    }
    if (i < a.len || j < b.len)
        return i < a.len ? 1 : -1;
    int c = str_compare(a, b); /* 1 and 01 are equal so far */
    return (c > 0) - (c < 0);
}

/* ------------------------------------------------------------ words of a shell */

/* shown_as_is - would escaping leave S as it is? */
static bool shown_as_is(ckpt_str s)
{
    char shown[SHELL_MOST];
    text_fit(s, shown, sizeof shown);
    return str_is(s, shown);
}

const char *shell_word(ckpt_str s, const char *unless, const char *otherwise, char out[SHELL_MOST])
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./+:,@%=";
    size_t n = 0;
    bool quote = s.len == 0;
    if (s.len >= SHELL_MOST / 4 * 3 || !shown_as_is(s))
        return otherwise;
    for (size_t i = 0; i < s.len; i++) {
        if (strchr(unless, s.ptr[i]))
            return otherwise;
        quote |= !strchr(plain, s.ptr[i]);
    }
    if (quote)
        out[n++] = '\'';
    for (size_t i = 0; i < s.len; i++) {
        bool end = s.ptr[i] == '\'';
        if (n + 6 > SHELL_MOST)
            return otherwise;
        memcpy(out + n, end ? "'\\''" : s.ptr + i, end ? 4 : 1);
        n += end ? 4 : 1; /* bounded: by the line above */
    }
    if (quote)
        out[n++] = '\'';
    out[n] = 0;
    return out;
}

const char *shell_path(const char *path, char out[SHELL_MOST])
{
    char own[SHELL_MOST];
    size_t n = strlen(path);
    bool option = path[0] == '-' && path[1];
    if (!option || n + 3 > sizeof own)
        return shell_word(str_of(path, n), "", "FILE", out);
    memcpy(own, "./", 2);
    memcpy(own + 2, path, n + 1); /* bounded: by the lines above */
    return shell_word(str_of(own, n + 2), "", "FILE", out); /* bounded: likewise */
}

const char *shell_glob(ckpt_str name, char out[SHELL_MOST])
{
    return shell_word(name, "*?[]{}!\\=,", "NAME", out);
}

/* is_text - can all N bytes at P be shown as they are? */
static bool is_text(const unsigned char *p, size_t n)
{
    size_t i = 0;
    while (i < n && ((p[i] >= ' ' && p[i] < 0x7f) || p[i] == '\n' || p[i] == '\t' || p[i] == '\r'))
        i++;
    return n && i == n;
}

const char *text_bytes_found(const void *p, size_t n, char out[BYTES_SHOWN])
{
    const unsigned char *bytes = p;
    struct text_sink to = {out, BYTES_SHOWN, 0, 0};
    n = n < BYTES_MOST ? n : BYTES_MOST;
    if (is_text(bytes, n) && (n > 1 || bytes[0] >= ' ')) {
        text_word(&to, n == 1 ? "'" : "\"");
        text_escaped(&to, str_of(p, n), n == 1 ? TEXT_BYTES : TEXT_QUOTED);
        text_word(&to, n == 1 ? "'" : "\"");
    }
    for (size_t i = 0, text = to.len; !text && i < n; i++) {
        const char pair[] = {hex[bytes[i] >> 4], hex[bytes[i] & 15], '\0'};
        text_word(&to, n == 1 ? "byte 0x" : i ? " " : "");
        text_word(&to, pair);
    }
    text_end(&to);
    return out;
}
