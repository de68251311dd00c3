/* xml_scan.c - see xml_scan.h. A state machine that returns one event at a time.
 *
 * Refused: a document type, bytes that are not UTF-8, control characters, a tag that closes another element
 * than the last one, references other than the five of XML and characters by number, an attribute without
 * quotes, elements nested deeper than XML_DEPTH, text outside of the root element and elements after it. Two
 * attributes of one name are both returned. White space in a value becomes blanks, as XML demands. */
#include "codec/xml_scan.h"

#include "base/text.h"
#include "base/utf8.h"

enum { IN_CONTENT, IN_TAG, AFTER_ROOT, FAILED };

static enum xml_event fail_at(xml_scan *scan, size_t pos, const char *allowed)
{
    char found[TEXT_BYTES_SIZE];
    scan->state = FAILED;
    if (pos >= scan->text.len)
        (void)fail(scan->err, CKPT_ETRUNCATED, scan->text.len, "the XML text {ends}, {=%s} must follow",
                   allowed);
    else
        (void)fail(scan->err, CKPT_EFORMAT, pos, "invalid XML: found {%s}, allowed: {=%s}",
                   text_describe_bytes((const unsigned char *)scan->text.ptr + pos, 1, found), allowed);
    return XML_ERROR;
}

static bool is_character(uint32_t ch) { return ch >= 0x20 || ch == '\t' || ch == '\n' || ch == '\r'; }

void xml_init(xml_scan *scan, ckpt_str text, arena *a, ckpt_error *err)
{
    *scan = (xml_scan){.text = text, .a = a, .err = err};
    if (str_starts(text, STR_LIT("\xef\xbb\xbf")))
        scan->pos = 3;
    for (size_t at = scan->pos; at < text.len;) {
        size_t from = at;
        uint32_t c = utf8_next(text, &at, false);
        if (c == UTF8_BAD || !is_character(c)) {
            (void)fail_at(scan, from, "characters in UTF-8");
            return;
        }
    }
}

/* ---------------------------------------------------------------------------------- tokens */

static bool is_space(char ch) { return ch == ' ' || ch == '\t' || ch == '\n' || ch == '\r'; }

static bool is_name_character(char ch, bool first)
{
    bool letter = (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || ch == '_' || ch == ':' ||
                  (ch & 0x80);
    return letter || (!first && ((ch >= '0' && ch <= '9') || ch == '-' || ch == '.'));
}

static bool take(xml_scan *scan, ckpt_str text)
{
    bool found = str_starts(str_skip(scan->text, scan->pos), text);
    scan->pos += found ? text.len : 0;
    return found;
}

static bool skip_space(xml_scan *scan)
{
    size_t from = scan->pos;
    while (scan->pos < scan->text.len && is_space(scan->text.ptr[scan->pos]))
        scan->pos++;
    return scan->pos > from;
}

/* skip_after - moves after the next END. False: there is none. */
static bool skip_after(xml_scan *scan, ckpt_str end)
{
    size_t at = str_find(scan->text, end, scan->pos);
    scan->pos = at == SIZE_MAX ? scan->text.len : at + end.len;
    return at != SIZE_MAX;
}

static ckpt_str take_name(xml_scan *scan)
{
    size_t from = scan->pos;
    while (scan->pos < scan->text.len && is_name_character(scan->text.ptr[scan->pos], scan->pos == from))
        scan->pos++;
    return str_of(scan->text.ptr + from, scan->pos - from);
}

/* ---------------------------------------------------------------------------------- values */

/* find_reference - returns the character that NAME, the text between & and ;, refers to; UTF8_BAD: none. */
static uint32_t find_reference(ckpt_str name)
{
    static const struct {
        const char *name;
        char ch;
    } named[] = {{"lt", '<'}, {"gt", '>'}, {"amp", '&'}, {"quot", '"'}, {"apos", '\''}};
    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        if (str_is(name, named[i].name))
            return (unsigned char)named[i].ch;
    if (!str_starts(name, STR_LIT("#")) || name.len < 2)
        return UTF8_BAD;
    bool is_hex = name.ptr[1] == 'x';
    ckpt_str digits = str_skip(name, is_hex ? 2 : 1);
    uint32_t c = 0;
    for (size_t i = 0; i < digits.len && c <= 0x10ffff; i++) {
        unsigned digit = str_digit(digits.ptr[i]);
        if (digit >= (is_hex ? 16u : 10u))
            return UTF8_BAD;
        c = c * (is_hex ? 16 : 10) + digit;
    }
    bool is_allowed = digits.len && is_character(c) && c <= 0x10ffff && (c < 0xd800 || c > 0xdfff);
    return is_allowed ? c : UTF8_BAD;
}

/* decode_value - sets scan->value to RAW with references replaced and white space turned into blanks. */
static enum xml_event decode_value(xml_scan *scan, ckpt_str raw)
{
    char *out = arena_alloc(scan->a, raw.len + 1); /* no character is longer than its reference */
    size_t n = 0;
    if (!out) {
        scan->state = FAILED;
        (void)fail_memory(scan->err);
        return XML_ERROR;
    }
    for (size_t i = 0; i < raw.len;) {
        char c = raw.ptr[i];
        if (c != '&') {
            i += c == '\r' && i + 1 < raw.len && raw.ptr[i + 1] == '\n' ? 2 : 1;
            out[n++] = is_space(c) ? ' ' : c;
            continue;
        }
        size_t end = str_find(raw, STR_LIT(";"), i);
        uint32_t ch = end == SIZE_MAX ? UTF8_BAD : find_reference(str_of(raw.ptr + i + 1, end - i - 1));
        if (ch == UTF8_BAD)
            return fail_at(scan, (size_t)(raw.ptr - scan->text.ptr) + i,
                           "a reference such as &amp; or &#38;");
        n += utf8_put(ch, out + n);
        i = end + 1;
    }
    scan->value = str_of(out, n);
    return XML_ATTRIBUTE;
}

static enum xml_event read_attribute(xml_scan *scan)
{
    scan->name = take_name(scan);
    if (!scan->name.len)
        return fail_at(scan, scan->pos, "an attribute, > or />");
    (void)skip_space(scan);
    if (!take(scan, STR_LIT("=")))
        return fail_at(scan, scan->pos, "=");
    (void)skip_space(scan);
    char quote = scan->pos < scan->text.len ? scan->text.ptr[scan->pos] : 0;
    if (quote != '"' && quote != '\'')
        return fail_at(scan, scan->pos, "a value in quotes");
    size_t from = ++scan->pos, end = str_find(scan->text, str_of(&quote, 1), from);
    if (end == SIZE_MAX)
        return fail_at(scan, scan->text.len, "the end of a value");
    ckpt_str raw = str_of(scan->text.ptr + from, end - from);
    size_t open = str_find(raw, STR_LIT("<"), 0);
    if (open != SIZE_MAX)
        return fail_at(scan, from + open, "&lt; instead");
    scan->pos = end + 1;
    return decode_value(scan, raw);
}

/* ------------------------------------------------------------------------------------ tags */

static enum xml_event close_element(xml_scan *scan)
{
    scan->name = scan->open[--scan->depth];
    scan->state = scan->depth ? IN_CONTENT : AFTER_ROOT;
    return XML_CLOSE;
}

static enum xml_event read_closing_tag(xml_scan *scan)
{
    size_t at = scan->pos;
    ckpt_str name = take_name(scan);
    if (!scan->depth || !str_eq(name, scan->open[scan->depth - 1]))
        return fail_at(scan, at, scan->depth ? "the name of the element that is open" : "an element");
    (void)skip_space(scan);
    return take(scan, STR_LIT(">")) ? close_element(scan) : fail_at(scan, scan->pos, ">");
}

static enum xml_event read_tag(xml_scan *scan)
{
    if (take(scan, STR_LIT("</")))
        return read_closing_tag(scan);
    scan->pos++;
    scan->name = take_name(scan);
    if (!scan->name.len)
        return fail_at(scan, scan->pos, "the name of an element (a document type is not read)");
    if (scan->state == AFTER_ROOT)
        return fail_at(scan, scan->event_at, "nothing after the root element");
    if (scan->depth == XML_DEPTH) {
        scan->state = FAILED;
        (void)fail(scan->err, CKPT_ELIMIT, scan->event_at, "{more} than {=%u elements} within each other",
                   XML_DEPTH);
        return XML_ERROR;
    }
    scan->open[scan->depth++] = scan->name;
    scan->state = IN_TAG;
    return XML_OPEN;
}

/* read_in_tag - returns the next attribute of the tag that began, or its end if it is empty. XML_END: its
 * content follows. */
static enum xml_event read_in_tag(xml_scan *scan)
{
    bool has_space = skip_space(scan);
    scan->event_at = scan->pos;
    if (take(scan, STR_LIT("/>")))
        return close_element(scan);
    if (!take(scan, STR_LIT(">")))
        return has_space ? read_attribute(scan) : fail_at(scan, scan->pos, "white space, > or />");
    scan->state = IN_CONTENT;
    return XML_END;
}

/* skip_to_tag - skips text, comments and the like. False: an error, or the end of the text. */
static bool skip_to_tag(xml_scan *scan)
{
    while (scan->pos < scan->text.len) {
        bool closed = true;
        if (take(scan, STR_LIT("<!--")))
            closed = skip_after(scan, STR_LIT("-->"));
        else if (take(scan, STR_LIT("<?")))
            closed = skip_after(scan, STR_LIT("?>"));
        else if (scan->depth && take(scan, STR_LIT("<![CDATA[")))
            closed = skip_after(scan, STR_LIT("]]>"));
        else if (scan->text.ptr[scan->pos] == '<')
            return true;
        else if (scan->depth || is_space(scan->text.ptr[scan->pos]))
            scan->pos++;
        else
            return fail_at(scan, scan->pos, "an element") != XML_ERROR;
        if (!closed)
            return fail_at(scan, scan->text.len, "the end of a comment or instruction") != XML_ERROR;
    }
    return false;
}

enum xml_event xml_next(xml_scan *scan)
{
    if (scan->state == FAILED)
        return XML_ERROR;
    enum xml_event e = scan->state == IN_TAG ? read_in_tag(scan) : XML_END;
    if (e != XML_END)
        return e;
    if (skip_to_tag(scan)) {
        scan->event_at = scan->pos;
        return read_tag(scan);
    }
    if (scan->state == AFTER_ROOT)
        return XML_END;
    return scan->state == FAILED
               ? XML_ERROR
               : fail_at(scan, scan->text.len, scan->depth ? "a closing tag" : "an element");
}
