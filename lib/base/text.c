/* text.c - see text.h; also the natural order of names. */
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/checked.h"
#include "base/cursor.h"
#include "base/utf8.h"

static const char hex[] = "0123456789abcdef";
static const char ellipsis[] = "\xe2\x80\xa6";

static size_t put_hex_escape(unsigned char character, char *out)
{
    out[0] = '\\';
    out[1] = 'x';
    out[2] = hex[character >> 4];
    out[3] = hex[character & 15];
    return 4;
}

static size_t put_unicode_escape(uint32_t cp, char *out)
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

/* get_escape_letter - returns the character after the backslash in the short escape of CP; 0: it has none. */
static char get_escape_letter(uint32_t cp, enum text_style style)
{
    if (cp == '\\')
        return style == TEXT_MESSAGE ? 0 : '\\';
    if (style != TEXT_QUOTED && style != TEXT_BYTES)
        return 0;
    return cp == '\'' ? '\'' : cp == '\n' ? 'n' : cp == '\r' ? 'r' : cp == '\t' ? 't' : 0;
}

size_t text_escape_char(ckpt_str text, size_t *pos, enum text_style style, char out[TEXT_CHAR_MAX])
{
    size_t at = *pos;
    uint32_t cp;
    if (style == TEXT_BYTES) {
        cp = (unsigned char)text.ptr[at];
        *pos = at + 1;
    } else {
        cp = utf8_next(text, pos, false);
    }
    char c = get_escape_letter(cp, style);
    if (c) {
        out[0] = '\\';
        out[1] = c;
        return 2;
    }
    if (cp == UTF8_BAD || (style == TEXT_BYTES && (cp < 0x20 || cp > 0x7e)))
        return put_hex_escape((unsigned char)text.ptr[at], out);
    if (utf8_unsafe(cp))
        return put_unicode_escape(cp, out);
    memcpy(out, text.ptr + at, *pos - at);
    return *pos - at;
}

void text_put_uint(struct text_sink *to, uint64_t number)
{
    char digits[STR_NUMBER_MAX];
    ckpt_str s = format_number(number, digits);
    text_put(to, s.ptr, s.len);
}

MODULO void text_put_int(struct text_sink *to, int64_t number)
{
    if (number < 0)
        text_put_literal(to, "-");
    text_put_uint(to, number < 0 ? 0 - (uint64_t)number : (uint64_t)number);
}

typedef unsigned char bytes16 __attribute__((vector_size(16)));

/* find_escaped - returns 16 bytes that are not 0 where those at BYTES may need an escape: control characters,
 * what is not ASCII, the backslash and QUOTE. */
MODULO static inline bytes16 find_escaped(const unsigned char *bytes, unsigned char quote)
{
    bytes16 b;
    memcpy(&b, bytes, sizeof b);
    return (bytes16)(b - 0x20 > 0x5e) | (bytes16)(b == '\\') | (bytes16)(b == quote);
}

/* count_unescaped - returns the length of the run of bytes at POS that need no escape in a text that ends at
 * QUOTE. */
static size_t count_unescaped(ckpt_str text, size_t pos, char quote)
{
    size_t n = 0;
    for (const char *p = text.ptr + pos; n < text.len - pos; n++)
        if (p[n] < 0x20 || p[n] > 0x7e || p[n] == '\\' || p[n] == quote)
            break;
    return n;
}

/* is_unescaped - returns true if no byte of TEXT needs an escape in a text that ends at QUOTE. Inline, so
 * that QUOTE is a constant. */
__attribute__((always_inline)) static inline bool is_unescaped(ckpt_str text, char quote)
{
    const unsigned char *p = (const unsigned char *)text.ptr;
    uint64_t halves[2];
    if (text.len < 16)
        return count_unescaped(text, 0, quote) == text.len;
    bytes16 found = find_escaped(p + text.len - 16, (unsigned char)quote);
    for (size_t i = 0; i < text.len - 16; i += 16)
        found |= find_escaped(p + i, (unsigned char)quote);
    memcpy(halves, &found, sizeof halves);
    return !(halves[0] | halves[1]);
}

void text_put_escaped(struct text_sink *to, ckpt_str text, enum text_style style)
{
    char escaped[TEXT_CHAR_MAX];
    for (size_t pos = 0; pos < text.len;)
        text_put(to, escaped, text_escape_char(text, &pos, style, escaped));
}

size_t text_end(struct text_sink *to)
{
    if (to->cap)
        to->out[to->shown] = '\0';
    return to->len;
}

size_t ckpt_text_escape(ckpt_str text, char *out, size_t cap)
{
    struct text_sink sink = {out, out ? cap : 0, 0, 0};
    if (text.len && text.len < sink.cap && is_unescaped(text, '\\'))
        text_put(&sink, text.ptr, text.len);
    else
        text_put_escaped(&sink, text, TEXT_NAME);
    return text_end(&sink);
}

/* put_json_escape - writes CHARACTER as an escape of JSON. */
static void put_json_escape(struct text_sink *to, uint32_t character)
{
    char out[16];
    uint32_t above = character < 0x10000 ? 0 : character - 0x10000;
    int n = character == '"' || character == '\\' ? snprintf(out, sizeof out, "\\%c", (char)character)
            : character < 0x10000 ? snprintf(out, sizeof out, "\\u%04x", character)
                                  : snprintf(out, sizeof out, "\\u%04x\\u%04x", 0xd800 + (above >> 10),
                                             0xdc00 + (above & 0x3ff));
    text_put(to, out, (size_t)n);
}

bool text_json(struct text_sink *to, ckpt_str text)
{
    bool exact = true;
    text_put_literal(to, "\"");
    for (size_t at = 0, pos = 0; pos < text.len; at = pos) {
        pos += !pos && is_unescaped(text, '"') ? text.len : count_unescaped(text, pos, '"');
        text_put(to, text.ptr + at, pos - at);
        if (pos == text.len)
            break;
        at = pos;
        uint32_t c = utf8_next(text, &pos, false);
        if (c == UTF8_BAD)
            text_put_literal(to, "\xef\xbf\xbd");
        else if (utf8_unsafe(c) || c == '"' || c == '\\')
            put_json_escape(to, c);
        else
            text_put(to, text.ptr + at, pos - at);
        exact = exact && c != UTF8_BAD;
    }
    text_put_literal(to, "\"");
    return exact;
}

size_t ckpt_text_json(ckpt_str text, char *out, size_t cap, bool *exact)
{
    struct text_sink sink = {out, out ? cap : 0, 0, 0};
    bool is_exact = text_json(&sink, text);
    if (exact)
        *exact = is_exact;
    return text_end(&sink);
}

uint32_t ckpt_text_next(ckpt_str text, size_t *pos, bool *unsafe)
{
    bool has_next = pos && *pos < text.len;
    uint32_t cp = has_next ? utf8_next(text, pos, false) : UINT32_MAX;
    if (unsafe)
        *unsafe = utf8_unsafe(cp);
    return cp;
}

void text_fit(ckpt_str text, char *out, size_t cap)
{
    const size_t ellipsis_len = sizeof ellipsis - 1;
    size_t len = 0, safe = 0; /* safe: the longest prefix that leaves room for the ellipsis */
    char escaped[TEXT_CHAR_MAX];
    if (cap == 0)
        return;
    for (size_t pos = 0; pos < text.len;) {
        size_t n = text_escape_char(text, &pos, TEXT_MESSAGE, escaped);
        if (len + n >= cap) {
            len = safe;
            if (safe + ellipsis_len < cap) {
                memcpy(out + safe, ellipsis, ellipsis_len);
                len += ellipsis_len;
            }
            break;
        }
        memcpy(out + len, escaped, n);
        len += n;
        if (len + ellipsis_len < cap)
            safe = len;
    }
    out[len] = '\0';
}

static bool is_digit(ckpt_str text, size_t index)
{
    return index < text.len && text.ptr[index] >= '0' && text.ptr[index] <= '9';
}

/* read_number - returns the digits at TEXT[*POS] without leading zeros; moves *POS after them. */
static ckpt_str read_number(ckpt_str text, size_t *pos)
{
    while (is_digit(text, *pos) && text.ptr[*pos] == '0')
        ++*pos;
    size_t from = *pos;
    while (is_digit(text, *pos))
        ++*pos;
    return str_of(text.ptr + from, *pos - from);
}

/* count_common_prefix - returns the number of bytes that LEFT and RIGHT have in common at the start. */
static size_t count_common_prefix(ckpt_str left, ckpt_str right)
{
    size_t n = left.len < right.len ? left.len : right.len, i = 0;
    const unsigned char *p = (const unsigned char *)left.ptr, *q = (const unsigned char *)right.ptr;
    for (; n - i >= 8; i += 8) {
        uint64_t differ = load_u64le(p + i) ^ load_u64le(q + i);
        if (differ)
            return i + (size_t)__builtin_ctzll(differ) / 8;
    }
    while (i < n && p[i] == q[i])
        i++;
    return i;
}

/* compare_from - compares LEFT and RIGHT from byte START on, which are equal so far and have no number there
 * that began before. Not inline, because it is rare and would slow down all other comparisons. */
__attribute__((noinline)) static int compare_from(ckpt_str left, ckpt_str right, size_t start)
{
    size_t i = start, j = start;
    while (i < left.len && j < right.len) {
        if (is_digit(left, i) && is_digit(right, j)) {
            ckpt_str x = read_number(left, &i), y = read_number(right, &j);
            if (x.len != y.len)
                return x.len < y.len ? -1 : 1;
            int c = str_compare(x, y);
            if (c)
                return c < 0 ? -1 : 1;
        } else {
            unsigned char x = (unsigned char)left.ptr[i++], y = (unsigned char)right.ptr[j++];
            if (x != y)
                return x < y ? -1 : 1;
        }
    }
    if (i < left.len || j < right.len)
        return i < left.len ? 1 : -1;
    int c = str_compare(left, right); /* 1 and 01 compare equal so far */
    return (c > 0) - (c < 0);
}

static size_t count_digits(ckpt_str text, size_t from)
{
    size_t i = from;
    while (is_digit(text, i))
        i++;
    return i - from;
}

int ckpt_natural_compare(ckpt_str left, ckpt_str right)
{
    size_t i = count_common_prefix(left, right), start = i;
    bool in_both = i < left.len && i < right.len;
    if (in_both && !is_digit(left, i) && !is_digit(right, i))
        return (unsigned char)left.ptr[i] < (unsigned char)right.ptr[i] ? -1 : 1;
    while (start && is_digit(left, start - 1)) /* back to the start of the numbers that differ */
        start--;
    size_t x = count_digits(left, i), y = count_digits(right, i);
    bool are_numbers = start < i || (x && y);
    if (!in_both || !are_numbers || left.ptr[start] == '0' || right.ptr[start] == '0')
        return compare_from(left, right, start);
    return x != y ? (x < y ? -1 : 1) : left.ptr[i] < right.ptr[i] ? -1 : 1;
}

struct name_order {
    int (*compare)(ckpt_str a, ckpt_str b);
    struct indexed_name *moved; /* room for half of the names */
};

static bool comes_before(const struct name_order *order, const struct indexed_name *left,
                         const struct indexed_name *right)
{
    int c = order->compare(left->name, right->name);
    return c ? c < 0 : left->index < right->index;
}

/* merge_names - merges the sorted names LIST[0..HALF) and LIST[HALF..N), from the end. The second half is at
 * most as long as the first. */
static void merge_names(const struct name_order *order, struct indexed_name *list, size_t half, size_t count)
{
    size_t left = half, end = half;
    while (end < count) { /* END becomes the first name after LIST[HALF - 1]: it is in place */
        size_t middle = end + (count - end) / 2;
        if (comes_before(order, &list[half - 1], &list[middle]))
            count = middle;
        else
            end = middle + 1;
    }
    size_t nmoved = end - half;
    memcpy(order->moved, list + half, nmoved * sizeof *list);
    while (nmoved) {
        bool takes_left = left && comes_before(order, &order->moved[nmoved - 1], &list[left - 1]);
        list[--end] = takes_left ? list[--left] : order->moved[--nmoved];
    }
}

/* Names are usually almost in order: this merge sort skips those that are in place, and compares a fifth as
 * often as qsort. */
bool names_sort(struct indexed_name *list, size_t count, int (*compare)(ckpt_str a, ckpt_str b))
{
    struct name_order order = {compare, malloc((count / 2 + 1) * sizeof *list)};
    for (size_t width = 1; order.moved && width < count; width *= 2)
        for (size_t from = 0; from + width < count; from += 2 * width) {
            struct indexed_name *part = list + from;
            if (!comes_before(&order, &part[width - 1], &part[width]))
                merge_names(&order, part, width, count - from < 2 * width ? count - from : 2 * width);
        }
    free(order.moved);
    return order.moved != NULL;
}

/* ------------------------------------------------------------ words for shell commands */

/* is_shown_unescaped - returns true if TEXT is shown without escapes and is not cut off. */
static bool is_shown_unescaped(ckpt_str text)
{
    char shown[SHELL_WORD_MAX];
    text_fit(text, shown, sizeof shown);
    return str_is(text, shown);
}

const char *shell_word(ckpt_str text, const char *forbidden, const char *fallback, char out[SHELL_WORD_MAX])
{
    static const char unquoted[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./+:,@%=";
    size_t n = 0;
    bool needs_quotes = text.len == 0;
    if (text.len >= SHELL_WORD_MAX / 4 * 3 || !is_shown_unescaped(text))
        return fallback;
    for (size_t i = 0; i < text.len; i++) {
        if (strchr(forbidden, text.ptr[i]))
            return fallback;
        needs_quotes |= !strchr(unquoted, text.ptr[i]);
    }
    if (needs_quotes)
        out[n++] = '\'';
    for (size_t i = 0; i < text.len; i++) {
        bool is_quote = text.ptr[i] == '\'';
        if (n + 6 > SHELL_WORD_MAX)
            return fallback;
        memcpy(out + n, is_quote ? "'\\''" : text.ptr + i, is_quote ? 4 : 1);
        n += is_quote ? 4 : 1;
    }
    if (needs_quotes)
        out[n++] = '\'';
    out[n] = 0;
    return out;
}

const char *shell_path(const char *path, char out[SHELL_WORD_MAX])
{
    char prefixed[SHELL_WORD_MAX];
    size_t n = strlen(path);
    bool looks_like_option = path[0] == '-' && path[1];
    if (!looks_like_option || n + 3 > sizeof prefixed)
        return shell_word(str_of(path, n), "", "FILE", out);
    memcpy(prefixed, "./", 2);
    memcpy(prefixed + 2, path, n + 1);
    return shell_word(str_of(prefixed, n + 2), "", "FILE", out);
}

const char *shell_glob(ckpt_str name, char out[SHELL_WORD_MAX])
{
    return shell_word(name, "*?[]{}!\\=,", "NAME", out);
}

/* is_text - returns true if all NBYTES > 0 bytes at BYTES are printable ASCII, newlines, tabs or carriage
 * returns. */
static bool is_text(const unsigned char *bytes, size_t nbytes)
{
    size_t i = 0;
    while (i < nbytes &&
           ((bytes[i] >= ' ' && bytes[i] < 0x7f) || bytes[i] == '\n' || bytes[i] == '\t' || bytes[i] == '\r'))
        i++;
    return nbytes && i == nbytes;
}

const char *text_find_path_fault(ckpt_str path)
{
    uint32_t control;
    const char *c = path.ptr;
    if (path.len == 0)
        return "has no name";
    if (c[0] == '/' || c[0] == '\\' || (path.len > 1 && c[1] == ':'))
        return "is an absolute path";
    for (size_t i = 0; i + 1 < path.len; i++) {
        bool begins = i == 0 || c[i - 1] == '/' || c[i - 1] == '\\';
        bool ends = i + 2 == path.len || c[i + 2] == '/' || c[i + 2] == '\\';
        if (begins && ends && c[i] == '.' && c[i + 1] == '.')
            return "leads out of its folder by \"..\"";
    }
    return utf8_find_control(path, &control) ? "has a control character in its name" : NULL;
}

const char *text_describe_bytes(const void *data, size_t nbytes, char out[TEXT_BYTES_SIZE])
{
    const unsigned char *bytes = data;
    struct text_sink to = {out, TEXT_BYTES_SIZE, 0, 0};
    nbytes = nbytes < TEXT_BYTES_MAX ? nbytes : TEXT_BYTES_MAX;
    bool quoted = is_text(bytes, nbytes) && (nbytes > 1 || bytes[0] >= ' ');
    if (quoted) {
        text_put_literal(&to, nbytes == 1 ? "'" : "\"");
        text_put_escaped(&to, str_of(data, nbytes), nbytes == 1 ? TEXT_BYTES : TEXT_QUOTED);
        text_put_literal(&to, nbytes == 1 ? "'" : "\"");
    }
    for (size_t i = 0; !quoted && i < nbytes; i++) {
        const char pair[] = {hex[bytes[i] >> 4], hex[bytes[i] & 15], '\0'};
        text_put_literal(&to, nbytes == 1 ? "byte 0x" : i ? " " : "");
        text_put_literal(&to, pair);
    }
    text_end(&to);
    return out;
}

/* get_base64_digit - returns the value of the digit CHARACTER, URL_SAFE or not; 64: it is none. */
static uint32_t get_base64_digit(char character, bool url_safe)
{
    if (character >= 'A' && character <= 'Z')
        return (uint32_t)(character - 'A');
    if (character >= 'a' && character <= 'z')
        return (uint32_t)(character - 'a') + 26;
    if (character >= '0' && character <= '9')
        return (uint32_t)(character - '0') + 52;
    if (character == '+' || (url_safe && character == '-'))
        return 62;
    return character == '/' || (url_safe && character == '_') ? 63 : 64;
}

bool text_decode_base64(ckpt_str text, bool url_safe, unsigned char *bytes, size_t *count)
{
    uint32_t bits = 0;
    unsigned nbits = 0;
    bool is_base64 = true;
    *count = 0;
    for (size_t i = 0; i < text.len; i++) {
        uint32_t digit = get_base64_digit(text.ptr[i], url_safe);
        if (digit == 64) {
            is_base64 = is_base64 && text.ptr[i] && strchr("=\n\r", text.ptr[i]);
            continue;
        }
        bits = bits << 6 | digit;
        nbits += 6;
        if (nbits >= 8) {
            nbits -= 8;
            bytes[(*count)++] = (unsigned char)(bits >> nbits);
        }
    }
    return is_base64;
}
