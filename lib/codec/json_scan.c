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

void json_init(json_scan *scan, ckpt_str text, uint64_t text_offset, arena *a, ckpt_error *err)
{
    *scan = (json_scan){.text_offset = text_offset, .a = a, .err = err, .state = WANT_VALUE};
    scan->text = (const unsigned char *)text.ptr;
    scan->len = text.len;
}

uint64_t json_offset(const json_scan *scan, size_t pos)
{
    uint64_t sum;
    return scan->text_offset != CKPT_NO_OFFSET && checked_add(scan->text_offset, pos, &sum) ? sum
                                                                                            : CKPT_NO_OFFSET;
}

/* fail_syntax - fails because of the byte at POS, or because the text ends there. ALLOWED is what could be
 * there. */
static enum json_event fail_syntax(json_scan *scan, size_t pos, const char *allowed)
{
    scan->state = FAILED;
    if (pos >= scan->len) {
        fail(scan->err, CKPT_ETRUNCATED, json_offset(scan, scan->len),
             "the JSON text {ends}, {=%s} must follow", allowed);
        return JSON_ERROR;
    }
    char found[TEXT_BYTES_SIZE];
    fail(scan->err, CKPT_EFORMAT, json_offset(scan, pos), "invalid JSON: found {%s}, allowed: {=%s}",
         text_describe_bytes(&scan->text[pos], 1, found), allowed);
    return JSON_ERROR;
}

ckpt_status json_fail(json_scan *scan, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    (void)fail_v(scan->err, CKPT_EFORMAT, json_offset(scan, scan->event_at), fmt, args);
    va_end(args);
    scan->may_resync = scan->state != FAILED;
    scan->state_before = scan->state;
    scan->state = FAILED;
    return CKPT_EFORMAT;
}

ckpt_status json_unexpected(json_scan *scan, enum json_event event, const char *what, const char *must_be)
{
    static const char *const found[] = {[JSON_END] = "the end",    [JSON_OBJECT] = "an object",
                                        [JSON_OBJECT_END] = "'}'", [JSON_ARRAY] = "an array",
                                        [JSON_ARRAY_END] = "']'",  [JSON_TRUE] = "true",
                                        [JSON_FALSE] = "false",    [JSON_NULL] = "null"};
    if (event == JSON_ERROR)
        return scan->err->status;
    if (event == JSON_NUMBER)
        return json_fail(scan, "%s must be {=%s}, found {%.*s}", what, must_be, STR_ARG(scan->str));
    if (event == JSON_STRING || event == JSON_KEY)
        return json_fail(scan, "%s must be {=%s}, found {\"%.*s\"}", what, must_be, STR_ARG(scan->str));
    return json_fail(scan, "%s must be {=%s}, found {%s}", what, must_be, found[event]);
}

ckpt_status json_check_end(json_scan *scan, enum json_event event, enum json_event end)
{
    return event == end
               ? CKPT_OK
               : json_unexpected(scan, event, "the next part of the JSON text", "an entry or the end");
}

ckpt_status json_expect(json_scan *scan, enum json_event expected, const char *what, const char *must_be)
{
    enum json_event e = json_next(scan);
    return e == expected ? CKPT_OK : json_unexpected(scan, e, what, must_be);
}

ckpt_status json_read_member(json_scan *scan, const char *what, const char *key, ckpt_str *out)
{
    enum json_event e;
    CKPT_TRY(json_expect(scan, JSON_OBJECT, what, "an object"));
    while ((e = json_next(scan)) == JSON_KEY) {
        bool found = str_is(scan->str, key);
        e = json_next(scan);
        if (found && e == JSON_STRING)
            *out = scan->str;
        else
            CKPT_TRY(json_skip(scan, e));
    }
    return json_check_end(scan, e, JSON_OBJECT_END);
}

ckpt_status json_read_list(json_scan *scan, const char *what,
                           ckpt_status (*read)(json_scan *scan, enum json_event e, uint64_t *out),
                           uint32_t *count, const uint64_t **out)
{
    enum json_event e;
    size_t cap = 1;
    uint64_t *numbers = arena_array(scan->a, cap, sizeof *numbers);
    *count = 0;
    CKPT_TRY(json_expect(scan, JSON_ARRAY, what, "arrays"));
    while ((e = json_next(scan)) != JSON_ARRAY_END) {
        numbers = numbers ? arena_grow(scan->a, numbers, *count, &cap, (size_t)*count + 1, sizeof *numbers)
                          : NULL;
        CKPT_TRY_ALLOC(numbers, scan->err);
        CKPT_TRY(read(scan, e, &numbers[(*count)++])); /* *COUNT is less than the length of the text */
    }
    *out = numbers;
    return numbers ? CKPT_OK : fail_memory(scan->err);
}

bool json_resync(json_scan *scan)
{
    if (!scan->may_resync)
        return false;
    scan->may_resync = false;
    scan->state = scan->state_before;
    return true;
}

/* count_unescaped8 - returns how many of the eight bytes at AT, from the first on, are ASCII characters that
 * need no escape in a string. Each of the four terms sets the high bit of the bytes it excludes. A borrow may
 * set that of a valid byte, too, but only after one that is excluded. */
MODULO static inline unsigned count_unescaped8(const unsigned char *at)
{
    const uint64_t ones = 0x0101010101010101u, high_bits = 0x8080808080808080u;
    uint64_t bytes = load_u64le(at);
    uint64_t quotes = bytes ^ ones * '"', slashes = bytes ^ ones * '\\'; /* 0 at these characters */
    uint64_t non_ascii = bytes, control = bytes - ones * ' ';
    uint64_t excluded = (non_ascii | control | (quotes - ones) | (slashes - ones)) & high_bits;
    return excluded ? (unsigned)__builtin_ctzll(excluded) / 8 : 8;
}

/* are_unescaped16 - returns whether count_unescaped8() is 8 for both halves of the sixteen bytes at AT. */
static inline bool are_unescaped16(const unsigned char *at)
{
    typedef signed char bytes16 __attribute__((vector_size(16)));
    bytes16 bytes, excluded;
    uint64_t halves[2];
    memcpy(&bytes, at, sizeof bytes);
    excluded = (bytes < ' ') | (bytes == '"') | (bytes == '\\'); /* bytes above 7f are negative */
    memcpy(halves, &excluded, sizeof halves);
    return (halves[0] | halves[1]) == 0;
}

/* parse_hex4 - returns the value of the four hexadecimal digits at POS, before END; -1 if there are fewer. */
static int parse_hex4(const json_scan *scan, size_t pos, size_t end)
{
    int v = 0;
    if (end - pos < 4)
        return -1;
    for (size_t i = pos; i < pos + 4; i++) {
        unsigned d = str_digit((char)scan->text[i]);
        if (d > 15)
            return -1;
        v = v << 4 | (int)d;
    }
    return v;
}

/* parse_unicode_escape - returns the code point of the \u escape whose digits begin at *POS, or UTF8_BAD, and
 * moves *POS past it. */
static uint32_t parse_unicode_escape(const json_scan *scan, size_t *pos, size_t end)
{
    int hi = parse_hex4(scan, *pos, end);
    bool is_low_surrogate = hi >= 0xdc00 && hi <= 0xdfff, is_high_surrogate = hi >= 0xd800 && hi <= 0xdbff;
    if (hi < 0 || is_low_surrogate)
        return UTF8_BAD;
    *pos += 4;
    if (!is_high_surrogate)
        return (uint32_t)hi;
    if (end - *pos < 6 || scan->text[*pos] != '\\' || scan->text[*pos + 1] != 'u')
        return UTF8_BAD;
    int lo = parse_hex4(scan, *pos + 2, end);
    if (lo < 0xdc00 || lo > 0xdfff)
        return UTF8_BAD;
    *pos += 6;
    return 0x10000u + ((uint32_t)(hi - 0xd800) << 10) + (uint32_t)(lo - 0xdc00);
}

/* decode_short_escape - returns the character that backslash and CHARACTER stand for; 0: none. */
static char decode_short_escape(unsigned char character)
{
    switch (character) {
    case 'b': return '\b';
    case 'f': return '\f';
    case 'n': return '\n';
    case 'r': return '\r';
    case 't': return '\t';
    case '"':
    case '\\':
    case '/': return (char)character;
    default: return 0;
    }
}

/* unescape_string - decodes the string in [POS, END) to scan->str. No escape is shorter than its
 * character. */
static bool unescape_string(json_scan *scan, size_t pos, size_t end)
{
    char *out = arena_alloc(scan->a, end - pos);
    size_t n = 0;
    if (!out) {
        scan->state = FAILED;
        return fail_memory(scan->err), false;
    }
    while (pos < end) {
        unsigned char c = scan->text[pos++];
        if (c != '\\') {
            out[n++] = (char)c;
            continue;
        }
        size_t start = pos;
        c = scan->text[pos++]; /* scan_string found a byte after every backslash */
        if (c == 'u') {
            uint32_t cp = parse_unicode_escape(scan, &pos, end);
            if (cp == UTF8_BAD)
                return fail_syntax(scan, start, "\\u and four digits, surrogates in pairs"), false;
            n += utf8_put(cp, out + n);
        } else {
            if (!(out[n++] = decode_short_escape(c)))
                return fail_syntax(scan, start, "one of \"\\/bfnrtu"), false;
        }
    }
    scan->str = str_of(out, n);
    return true;
}

/* check_utf8 - fails unless the bytes in [FROM, END) of the text are UTF-8. */
static bool check_utf8(json_scan *scan, size_t from, size_t end)
{
    ckpt_str s = str_of((const char *)scan->text + from, end - from);
    for (size_t pos = 0; pos < s.len;) {
        size_t start = pos;
        if (utf8_next(s, &pos, false) == UTF8_BAD)
            return fail_syntax(scan, from + start, "UTF-8"), false;
    }
    return true;
}

/* scan_string - sets scan->str to the string whose opening quote is at scan->pos. */
static bool scan_string(json_scan *scan)
{
    size_t pos = scan->pos + 1, start = pos;
    bool has_escapes = false;
    unsigned char non_ascii = 0; /* not 0 if a byte of the string is above 7f */
    for (;;) {
        for (; scan->len - pos >= 16 && are_unescaped16(scan->text + pos); pos += 16)
            ;
        for (unsigned n = 8; n == 8 && scan->len - pos >= 8; pos += n)
            n = count_unescaped8(scan->text + pos);
        if (pos >= scan->len)
            return fail_syntax(scan, pos, "the end of a string"), false;
        unsigned char c = scan->text[pos];
        if (c == '"')
            break;
        if (c < ' ')
            return fail_syntax(scan, pos, "\\u escapes for control characters"), false;
        non_ascii |= c & 0x80;
        if (c == '\\') {
            has_escapes = true;
            if (++pos >= scan->len)
                return fail_syntax(scan, pos, "an escaped character"), false;
        }
        pos++;
    }
    scan->pos = pos + 1;
    scan->str = str_of((const char *)scan->text + start, pos - start);
    if (non_ascii && !check_utf8(scan, start, pos))
        return false;
    return !has_escapes || unescape_string(scan, start, pos);
}

/* skip_digits - moves *POS past the digits there; false: there are none. */
static bool skip_digits(const json_scan *scan, size_t *pos)
{
    size_t first = *pos;
    while (*pos < scan->len && scan->text[*pos] >= '0' && scan->text[*pos] <= '9')
        ++*pos;
    return *pos > first;
}

static enum json_event scan_number(json_scan *scan)
{
    size_t pos = scan->pos;
    pos += scan->text[pos] == '-';
    if (pos < scan->len && scan->text[pos] == '0') /* no digit may follow a leading zero */
        pos++;
    else if (!skip_digits(scan, &pos))
        return fail_syntax(scan, pos, "a digit");
    if (pos < scan->len && scan->text[pos] == '.') {
        pos++;
        if (!skip_digits(scan, &pos))
            return fail_syntax(scan, pos, "a digit");
    }
    if (pos < scan->len && (scan->text[pos] | 0x20) == 'e') {
        pos++;
        pos += pos < scan->len && (scan->text[pos] == '+' || scan->text[pos] == '-');
        if (!skip_digits(scan, &pos))
            return fail_syntax(scan, pos, "a digit");
    }
    scan->str = str_of((const char *)scan->text + scan->pos, pos - scan->pos);
    scan->pos = pos;
    scan->state = AFTER_VALUE;
    return JSON_NUMBER;
}

static inline void skip_space(json_scan *scan)
{
    if (scan->pos < scan->len && scan->text[scan->pos] > ' ') /* the common case */
        return;
    while (scan->pos < scan->len && json_is_space(scan->text[scan->pos]))
        scan->pos++;
}

static enum json_event open_container(json_scan *scan, uint8_t kind)
{
    if (scan->depth == JSON_DEPTH) {
        fail(scan->err, CKPT_ELIMIT, json_offset(scan, scan->pos),
             "JSON is nested {deeper} than {=%d} levels", JSON_DEPTH);
        scan->state = FAILED;
        return JSON_ERROR;
    }
    scan->open[scan->depth++] = kind;
    scan->pos++;
    scan->state = kind == '{' ? WANT_KEY_OR_END : WANT_VALUE_OR_END;
    return kind == '{' ? JSON_OBJECT : JSON_ARRAY;
}

static enum json_event close_container(json_scan *scan)
{
    scan->pos++;
    scan->state = AFTER_VALUE;
    return scan->open[--scan->depth] == '{' ? JSON_OBJECT_END : JSON_ARRAY_END;
}

static enum json_event scan_word(json_scan *scan, const char *word, enum json_event event)
{
    for (size_t i = 0; word[i]; i++)
        if (scan->pos + i >= scan->len || scan->text[scan->pos + i] != (unsigned char)word[i])
            return fail_syntax(scan, scan->pos + i, word);
    scan->pos += strlen(word);
    scan->state = AFTER_VALUE;
    return event;
}

static enum json_event scan_value(json_scan *scan)
{
    unsigned char c = scan->pos < scan->len ? scan->text[scan->pos] : 0;
    switch (c) {
    case '"':
        if (!scan_string(scan))
            return JSON_ERROR;
        scan->state = AFTER_VALUE;
        return JSON_STRING;
    case '{': return open_container(scan, '{');
    case '[': return open_container(scan, '[');
    case 't': return scan_word(scan, "true", JSON_TRUE);
    case 'f': return scan_word(scan, "false", JSON_FALSE);
    case 'n': return scan_word(scan, "null", JSON_NULL);
    case '-': return scan_number(scan);
    default: return c >= '0' && c <= '9' ? scan_number(scan) : fail_syntax(scan, scan->pos, "a value");
    }
}

static enum json_event scan_key(json_scan *scan)
{
    if (scan->pos >= scan->len || scan->text[scan->pos] != '"')
        return fail_syntax(scan, scan->pos, "a key in quotes");
    if (!scan_string(scan))
        return JSON_ERROR;
    skip_space(scan);
    if (scan->pos >= scan->len || scan->text[scan->pos] != ':')
        return fail_syntax(scan, scan->pos, "a colon");
    scan->pos++;
    scan->state = WANT_VALUE;
    return JSON_KEY;
}

/* next_after_value - reads what follows a value. Returns false if that is a comma, after which the caller
 * reads the next key or value. Else sets *EVENT to the end of the container or document, or to an error. */
static bool next_after_value(json_scan *scan, enum json_event *event)
{
    bool in_object = scan->depth && scan->open[scan->depth - 1] == '{';
    if (scan->depth == 0) {
        *event = scan->pos < scan->len ? fail_syntax(scan, scan->pos, "nothing after the document")
                                       : JSON_END;
        return true;
    }
    unsigned char c = scan->pos < scan->len ? scan->text[scan->pos] : 0;
    if (c == ',') {
        scan->pos++;
        scan->state = in_object ? WANT_KEY : WANT_VALUE;
        return false;
    }
    *event = c == (in_object ? '}' : ']')
                 ? close_container(scan)
                 : fail_syntax(scan, scan->pos, in_object ? "',' or '}'" : "',' or ']'");
    return true;
}

enum json_event json_next(json_scan *scan)
{
    enum json_event e;
    if (scan->state == FAILED)
        return JSON_ERROR;
    skip_space(scan);
    scan->event_at = scan->pos;
    if (scan->state == AFTER_VALUE) {
        if (next_after_value(scan, &e))
            return e;
        skip_space(scan);
        scan->event_at = scan->pos;
    }
    unsigned char c = scan->pos < scan->len ? scan->text[scan->pos] : 0;
    if (scan->state == WANT_KEY_OR_END)
        return c == '}' ? close_container(scan) : scan_key(scan);
    if (scan->state == WANT_KEY)
        return scan_key(scan);
    return scan->state == WANT_VALUE_OR_END && c == ']' ? close_container(scan) : scan_value(scan);
}

ckpt_str json_value_text(json_scan *scan)
{
    if (scan->state != WANT_VALUE)
        return str_of("", 0);
    skip_space(scan);
    return str_of((const char *)scan->text + scan->pos, scan->len - scan->pos);
}

void json_pass_value(json_scan *scan, size_t len)
{
    scan->event_at = scan->pos;
    scan->pos += len; /* by the text that json_value_text returned */
    scan->state = AFTER_VALUE;
}

ckpt_status json_skip(json_scan *scan, enum json_event event)
{
    unsigned outer_depth = event == JSON_OBJECT || event == JSON_ARRAY ? scan->depth - 1 : scan->depth;
    while (event != JSON_ERROR && scan->depth > outer_depth)
        event = json_next(scan);
    return event != JSON_ERROR ? CKPT_OK : scan->err->status;
}

void json_quote(buf *out, ckpt_str text)
{
    static const char escaped[] = "\b\f\n\r\t\"\\", letters[] = "bfnrt\"\\";
    size_t first = 0;
    buf_byte(out, '"');
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        if (c >= ' ' && c != '"' && c != '\\')
            continue;
        buf_put(out, text.ptr + first, i - first);
        first = i + 1;
        const char *found = memchr(escaped, c, sizeof escaped - 1);
        if (found)
            buf_printf(out, "\\%c", letters[found - escaped]);
        else
            buf_printf(out, "\\u%04x", c);
    }
    buf_put(out, text.ptr + first, text.len - first);
    buf_byte(out, '"');
}

void json_quote_ascii(buf *out, ckpt_str name)
{
    buf quoted; /* in UTF-8 */
    buf_init(&quoted, SIZE_MAX);
    json_quote(&quoted, name);
    ckpt_str text = buf_view(&quoted);
    for (size_t pos = 0; pos < text.len;) {
        uint32_t cp = utf8_next(text, &pos, true);
        if (cp < 0x7f) /* json.dumps escapes DEL, too */
            buf_byte(out, (unsigned char)cp);
        else if (cp < 0x10000)
            buf_printf(out, "\\u%04x", (unsigned)cp);
        else
            buf_printf(out, "\\u%04x\\u%04x", (unsigned)(0xd800 + ((cp - 0x10000) >> 10)),
                       (unsigned)(0xdc00 + (cp & 0x3ff)));
    }
    out->failed |= quoted.failed;
    buf_free(&quoted);
}
