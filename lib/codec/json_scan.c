/* json_scan.c - see json_scan.h. A state machine that returns one event at a time.
 *
 * Refused, because readers disagree about these, and a header must have one meaning: a byte order mark, raw
 * control characters, bytes that are not UTF-8, escapes of half a surrogate pair, leading zeros, fractions
 * without digits, comments, trailing commas, anything after the document, nesting deeper than JSON_DEPTH.
 * Duplicate keys are legal here; the caller decides about them. Numbers stay text, so that an integer is
 * read exactly or not at all. */
#include "codec/json_scan.h"

#include <stdarg.h>

#include "base/checked.h"
#include "base/cursor.h"
#include "base/text.h"
#include "base/utf8.h"

enum { WANT_VALUE, WANT_VALUE_OR_END, WANT_KEY, WANT_KEY_OR_END, AFTER_VALUE, FAILED };

void json_init(json_scan *j, ckpt_str text, uint64_t text_offset, arena *a, ckpt_error *err)
{
    *j = (json_scan){.text_offset = text_offset, .a = a, .err = err, .state = WANT_VALUE};
    j->text = (const unsigned char *)text.ptr;
    j->len = text.len;
}

uint64_t json_offset(const json_scan *j, size_t pos)
{
    uint64_t sum;
    return j->text_offset != CKPT_NO_OFFSET && checked_add(j->text_offset, pos, &sum) ? sum : CKPT_NO_OFFSET;
}

/* fail_syntax - fails because of the byte at POS, or because the text ends there. ALLOWED is what could be
 * there. */
static enum json_event fail_syntax(json_scan *j, size_t pos, const char *allowed)
{
    j->state = FAILED;
    if (pos >= j->len) {
        fail(j->err, CKPT_ETRUNCATED, json_offset(j, j->len), "the JSON text {ends}, {=%s} must follow",
             allowed);
        return JSON_ERROR;
    }
    char found[TEXT_BYTES_SIZE];
    fail(j->err, CKPT_EFORMAT, json_offset(j, pos), "invalid JSON: found {%s}, allowed: {=%s}",
         text_describe_bytes(&j->text[pos], 1, found), allowed);
    return JSON_ERROR;
}

ckpt_status json_fail(json_scan *j, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    (void)fail_v(j->err, CKPT_EFORMAT, json_offset(j, j->event_at), fmt, args);
    va_end(args);
    j->may_resync = j->state != FAILED;
    j->state_before = j->state;
    j->state = FAILED;
    return CKPT_EFORMAT;
}

ckpt_status json_unexpected(json_scan *j, enum json_event e, const char *what, const char *must_be)
{
    static const char *const found[] = {[JSON_END] = "the end",    [JSON_OBJECT] = "an object",
                                        [JSON_OBJECT_END] = "'}'", [JSON_ARRAY] = "an array",
                                        [JSON_ARRAY_END] = "']'",  [JSON_TRUE] = "true",
                                        [JSON_FALSE] = "false",    [JSON_NULL] = "null"};
    if (e == JSON_ERROR)
        return j->err->status;
    if (e == JSON_NUMBER)
        return json_fail(j, "%s must be {=%s}, found {%.*s}", what, must_be, STR_ARG(j->str));
    if (e == JSON_STRING || e == JSON_KEY)
        return json_fail(j, "%s must be {=%s}, found {\"%.*s\"}", what, must_be, STR_ARG(j->str));
    return json_fail(j, "%s must be {=%s}, found {%s}", what, must_be, found[e]);
}

ckpt_status json_check_end(json_scan *j, enum json_event e, enum json_event end)
{
    return e == end ? CKPT_OK
                    : json_unexpected(j, e, "the next part of the JSON text", "an entry or the end");
}

ckpt_status json_expect(json_scan *j, enum json_event expected, const char *what, const char *must_be)
{
    enum json_event e = json_next(j);
    return e == expected ? CKPT_OK : json_unexpected(j, e, what, must_be);
}

ckpt_status json_read_member(json_scan *j, const char *what, const char *key, ckpt_str *out)
{
    enum json_event e;
    CKPT_TRY(json_expect(j, JSON_OBJECT, what, "an object"));
    while ((e = json_next(j)) == JSON_KEY) {
        bool found = str_is(j->str, key);
        e = json_next(j);
        if (found && e == JSON_STRING)
            *out = j->str;
        else
            CKPT_TRY(json_skip(j, e));
    }
    return json_check_end(j, e, JSON_OBJECT_END);
}

ckpt_status json_read_list(json_scan *j, const char *what,
                           ckpt_status (*read)(json_scan *j, enum json_event e, uint64_t *out), uint32_t *n,
                           const uint64_t **out)
{
    enum json_event e;
    size_t cap = 1;
    uint64_t *numbers = arena_array(j->a, cap, sizeof *numbers);
    *n = 0;
    CKPT_TRY(json_expect(j, JSON_ARRAY, what, "arrays"));
    while ((e = json_next(j)) != JSON_ARRAY_END) {
        numbers = numbers ? arena_grow(j->a, numbers, *n, &cap, (size_t)*n + 1, sizeof *numbers) : NULL;
        CKPT_TRY_ALLOC(numbers, j->err);
        CKPT_TRY(read(j, e, &numbers[(*n)++])); /* *N is less than the length of the text */
    }
    *out = numbers;
    return numbers ? CKPT_OK : fail_memory(j->err);
}

bool json_resync(json_scan *j)
{
    if (!j->may_resync)
        return false;
    j->may_resync = false;
    j->state = j->state_before;
    return true;
}

/* count_unescaped8 - returns how many of the eight bytes at P, from the first on, are ASCII characters that
 * need no escape in a string. Each of the four terms sets the high bit of the bytes it excludes. A borrow may
 * set that of a valid byte, too, but only after one that is excluded. */
MODULO static inline unsigned count_unescaped8(const unsigned char *p)
{
    const uint64_t ones = 0x0101010101010101u, high_bits = 0x8080808080808080u;
    uint64_t bytes = load_u64le(p);
    uint64_t quotes = bytes ^ ones * '"', slashes = bytes ^ ones * '\\'; /* 0 at these characters */
    uint64_t non_ascii = bytes, control = bytes - ones * ' ';
    uint64_t excluded = (non_ascii | control | (quotes - ones) | (slashes - ones)) & high_bits;
    return excluded ? (unsigned)__builtin_ctzll(excluded) / 8 : 8;
}

/* parse_hex4 - returns the value of the four hexadecimal digits at POS, before END; -1 if there are fewer. */
static int parse_hex4(const json_scan *j, size_t pos, size_t end)
{
    int v = 0;
    if (end - pos < 4)
        return -1;
    for (size_t i = pos; i < pos + 4; i++) {
        unsigned d = str_digit((char)j->text[i]);
        if (d > 15)
            return -1;
        v = v << 4 | (int)d;
    }
    return v;
}

/* parse_unicode_escape - returns the code point of the \u escape whose digits begin at *POS, or UTF8_BAD, and
 * moves *POS past it. */
static uint32_t parse_unicode_escape(const json_scan *j, size_t *pos, size_t end)
{
    int hi = parse_hex4(j, *pos, end);
    bool is_low_surrogate = hi >= 0xdc00 && hi <= 0xdfff, is_high_surrogate = hi >= 0xd800 && hi <= 0xdbff;
    if (hi < 0 || is_low_surrogate)
        return UTF8_BAD;
    *pos += 4;
    if (!is_high_surrogate)
        return (uint32_t)hi;
    if (end - *pos < 6 || j->text[*pos] != '\\' || j->text[*pos + 1] != 'u')
        return UTF8_BAD;
    int lo = parse_hex4(j, *pos + 2, end);
    if (lo < 0xdc00 || lo > 0xdfff)
        return UTF8_BAD;
    *pos += 6;
    return 0x10000u + ((uint32_t)(hi - 0xd800) << 10) + (uint32_t)(lo - 0xdc00);
}

/* decode_short_escape - returns the character that backslash and C stand for; 0: none. */
static char decode_short_escape(unsigned char c)
{
    switch (c) {
    case 'b': return '\b';
    case 'f': return '\f';
    case 'n': return '\n';
    case 'r': return '\r';
    case 't': return '\t';
    case '"':
    case '\\':
    case '/': return (char)c;
    default: return 0;
    }
}

/* unescape_string - decodes the string in [POS, END) to j->str. No escape is shorter than its character. */
static bool unescape_string(json_scan *j, size_t pos, size_t end)
{
    char *out = arena_alloc(j->a, end - pos);
    size_t n = 0;
    if (!out) {
        j->state = FAILED;
        return fail_memory(j->err), false;
    }
    while (pos < end) {
        unsigned char c = j->text[pos++];
        if (c != '\\') {
            out[n++] = (char)c;
            continue;
        }
        size_t start = pos;
        c = j->text[pos++]; /* scan_string found a byte after every backslash */
        if (c == 'u') {
            uint32_t cp = parse_unicode_escape(j, &pos, end);
            if (cp == UTF8_BAD)
                return fail_syntax(j, start, "\\u and four digits, surrogates in pairs"), false;
            n += utf8_put(cp, out + n);
        } else {
            if (!(out[n++] = decode_short_escape(c)))
                return fail_syntax(j, start, "one of \"\\/bfnrtu"), false;
        }
    }
    j->str = str_of(out, n);
    return true;
}

/* check_utf8 - fails unless the bytes in [FROM, END) of the text are UTF-8. */
static bool check_utf8(json_scan *j, size_t from, size_t end)
{
    ckpt_str s = str_of((const char *)j->text + from, end - from);
    for (size_t pos = 0; pos < s.len;) {
        size_t start = pos;
        if (utf8_next(s, &pos, false) == UTF8_BAD)
            return fail_syntax(j, from + start, "UTF-8"), false;
    }
    return true;
}

/* scan_string - sets j->str to the string whose opening quote is at j->pos. */
static bool scan_string(json_scan *j)
{
    size_t pos = j->pos + 1, start = pos;
    bool has_escapes = false;
    unsigned char non_ascii = 0; /* not 0 if a byte of the string is above 7f */
    for (;;) {
        for (unsigned n = 8; n == 8 && j->len - pos >= 8; pos += n)
            n = count_unescaped8(j->text + pos);
        if (pos >= j->len)
            return fail_syntax(j, pos, "the end of a string"), false;
        unsigned char c = j->text[pos];
        if (c == '"')
            break;
        if (c < ' ')
            return fail_syntax(j, pos, "\\u escapes for control characters"), false;
        non_ascii |= c & 0x80;
        if (c == '\\') {
            has_escapes = true;
            if (++pos >= j->len)
                return fail_syntax(j, pos, "an escaped character"), false;
        }
        pos++;
    }
    j->pos = pos + 1;
    j->str = str_of((const char *)j->text + start, pos - start);
    if (non_ascii && !check_utf8(j, start, pos))
        return false;
    return !has_escapes || unescape_string(j, start, pos);
}

/* skip_digits - moves *POS past the digits there; false: there are none. */
static bool skip_digits(const json_scan *j, size_t *pos)
{
    size_t first = *pos;
    while (*pos < j->len && j->text[*pos] >= '0' && j->text[*pos] <= '9')
        ++*pos;
    return *pos > first;
}

static enum json_event scan_number(json_scan *j)
{
    size_t pos = j->pos;
    pos += j->text[pos] == '-';
    if (pos < j->len && j->text[pos] == '0') /* no digit may follow a leading zero */
        pos++;
    else if (!skip_digits(j, &pos))
        return fail_syntax(j, pos, "a digit");
    if (pos < j->len && j->text[pos] == '.') {
        pos++;
        if (!skip_digits(j, &pos))
            return fail_syntax(j, pos, "a digit");
    }
    if (pos < j->len && (j->text[pos] | 0x20) == 'e') {
        pos++;
        pos += pos < j->len && (j->text[pos] == '+' || j->text[pos] == '-');
        if (!skip_digits(j, &pos))
            return fail_syntax(j, pos, "a digit");
    }
    j->str = str_of((const char *)j->text + j->pos, pos - j->pos);
    j->pos = pos;
    j->state = AFTER_VALUE;
    return JSON_NUMBER;
}

static inline void skip_space(json_scan *j)
{
    if (j->pos < j->len && j->text[j->pos] > ' ') /* the common case */
        return;
    while (j->pos < j->len && json_is_space(j->text[j->pos]))
        j->pos++;
}

static enum json_event open_container(json_scan *j, uint8_t kind)
{
    if (j->depth == JSON_DEPTH) {
        fail(j->err, CKPT_ELIMIT, json_offset(j, j->pos), "JSON is nested {deeper} than {=%d} levels",
             JSON_DEPTH);
        j->state = FAILED;
        return JSON_ERROR;
    }
    j->open[j->depth++] = kind;
    j->pos++;
    j->state = kind == '{' ? WANT_KEY_OR_END : WANT_VALUE_OR_END;
    return kind == '{' ? JSON_OBJECT : JSON_ARRAY;
}

static enum json_event close_container(json_scan *j)
{
    j->pos++;
    j->state = AFTER_VALUE;
    return j->open[--j->depth] == '{' ? JSON_OBJECT_END : JSON_ARRAY_END;
}

static enum json_event scan_word(json_scan *j, const char *word, enum json_event e)
{
    for (size_t i = 0; word[i]; i++)
        if (j->pos + i >= j->len || j->text[j->pos + i] != (unsigned char)word[i])
            return fail_syntax(j, j->pos + i, word);
    j->pos += strlen(word);
    j->state = AFTER_VALUE;
    return e;
}

static enum json_event scan_value(json_scan *j)
{
    unsigned char c = j->pos < j->len ? j->text[j->pos] : 0;
    switch (c) {
    case '"':
        if (!scan_string(j))
            return JSON_ERROR;
        j->state = AFTER_VALUE;
        return JSON_STRING;
    case '{': return open_container(j, '{');
    case '[': return open_container(j, '[');
    case 't': return scan_word(j, "true", JSON_TRUE);
    case 'f': return scan_word(j, "false", JSON_FALSE);
    case 'n': return scan_word(j, "null", JSON_NULL);
    case '-': return scan_number(j);
    default: return c >= '0' && c <= '9' ? scan_number(j) : fail_syntax(j, j->pos, "a value");
    }
}

static enum json_event scan_key(json_scan *j)
{
    if (j->pos >= j->len || j->text[j->pos] != '"')
        return fail_syntax(j, j->pos, "a key in quotes");
    if (!scan_string(j))
        return JSON_ERROR;
    skip_space(j);
    if (j->pos >= j->len || j->text[j->pos] != ':')
        return fail_syntax(j, j->pos, "a colon");
    j->pos++;
    j->state = WANT_VALUE;
    return JSON_KEY;
}

/* next_after_value - reads what follows a value. Returns false if that is a comma, after which the caller
 * reads the next key or value. Else sets *E to the end of the container or document, or to an error. */
static bool next_after_value(json_scan *j, enum json_event *e)
{
    bool in_object = j->depth && j->open[j->depth - 1] == '{';
    if (j->depth == 0) {
        *e = j->pos < j->len ? fail_syntax(j, j->pos, "nothing after the document") : JSON_END;
        return true;
    }
    unsigned char c = j->pos < j->len ? j->text[j->pos] : 0;
    if (c == ',') {
        j->pos++;
        j->state = in_object ? WANT_KEY : WANT_VALUE;
        return false;
    }
    *e = c == (in_object ? '}' : ']') ? close_container(j)
                                      : fail_syntax(j, j->pos, in_object ? "',' or '}'" : "',' or ']'");
    return true;
}

enum json_event json_next(json_scan *j)
{
    enum json_event e;
    if (j->state == FAILED)
        return JSON_ERROR;
    skip_space(j);
    j->event_at = j->pos;
    if (j->state == AFTER_VALUE) {
        if (next_after_value(j, &e))
            return e;
        skip_space(j);
        j->event_at = j->pos;
    }
    unsigned char c = j->pos < j->len ? j->text[j->pos] : 0;
    if (j->state == WANT_KEY_OR_END)
        return c == '}' ? close_container(j) : scan_key(j);
    if (j->state == WANT_KEY)
        return scan_key(j);
    return j->state == WANT_VALUE_OR_END && c == ']' ? close_container(j) : scan_value(j);
}

ckpt_str json_value_text(json_scan *j)
{
    if (j->state != WANT_VALUE)
        return str_of("", 0);
    skip_space(j);
    return str_of((const char *)j->text + j->pos, j->len - j->pos);
}

void json_pass_value(json_scan *j, size_t len)
{
    j->event_at = j->pos;
    j->pos += len; /* by the text that json_value_text returned */
    j->state = AFTER_VALUE;
}

ckpt_status json_skip(json_scan *j, enum json_event e)
{
    unsigned outer_depth = e == JSON_OBJECT || e == JSON_ARRAY ? j->depth - 1 : j->depth;
    while (e != JSON_ERROR && j->depth > outer_depth)
        e = json_next(j);
    return e != JSON_ERROR ? CKPT_OK : j->err->status;
}

void json_quote(buf *out, ckpt_str s)
{
    static const char escaped[] = "\b\f\n\r\t\"\\", letters[] = "bfnrt\"\\";
    size_t first = 0;
    buf_byte(out, '"');
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.ptr[i];
        if (c >= ' ' && c != '"' && c != '\\')
            continue;
        buf_put(out, s.ptr + first, i - first);
        first = i + 1;
        const char *found = memchr(escaped, c, sizeof escaped - 1);
        if (found)
            buf_printf(out, "\\%c", letters[found - escaped]);
        else
            buf_printf(out, "\\u%04x", c);
    }
    buf_put(out, s.ptr + first, s.len - first);
    buf_byte(out, '"');
}

void json_quote_ascii(buf *b, ckpt_str s)
{
    buf quoted; /* in UTF-8 */
    buf_init(&quoted, SIZE_MAX);
    json_quote(&quoted, s);
    ckpt_str text = buf_view(&quoted);
    for (size_t pos = 0; pos < text.len;) {
        uint32_t cp = utf8_next(text, &pos, true);
        if (cp < 0x7f) /* json.dumps escapes DEL, too */
            buf_byte(b, (unsigned char)cp);
        else if (cp < 0x10000)
            buf_printf(b, "\\u%04x", (unsigned)cp);
        else
            buf_printf(b, "\\u%04x\\u%04x", (unsigned)(0xd800 + ((cp - 0x10000) >> 10)),
                       (unsigned)(0xdc00 + (cp & 0x3ff)));
    }
    b->failed |= quoted.failed;
    buf_free(&quoted);
}
