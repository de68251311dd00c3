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

static enum xml_event fail_at(xml_scan *x, size_t pos, const char *allowed)
{
    char found[TEXT_BYTES_SIZE];
    x->state = FAILED;
    if (pos >= x->text.len)
        (void)fail(x->err, CKPT_ETRUNCATED, x->text.len, "the XML text {ends}, {=%s} must follow", allowed);
    else
        (void)fail(x->err, CKPT_EFORMAT, pos, "invalid XML: found {%s}, allowed: {=%s}",
                   text_describe_bytes((const unsigned char *)x->text.ptr + pos, 1, found), allowed);
    return XML_ERROR;
}

static bool is_character(uint32_t c) { return c >= 0x20 || c == '\t' || c == '\n' || c == '\r'; }

void xml_init(xml_scan *x, ckpt_str text, arena *a, ckpt_error *err)
{
    *x = (xml_scan){.text = text, .a = a, .err = err};
    if (str_starts(text, STR_LIT("\xef\xbb\xbf")))
        x->pos = 3;
    for (size_t at = x->pos; at < text.len;) {
        size_t from = at;
        uint32_t c = utf8_next(text, &at, false);
        if (c == UTF8_BAD || !is_character(c)) {
            (void)fail_at(x, from, "characters in UTF-8");
            return;
        }
    }
}

/* ---------------------------------------------------------------------------------- tokens */

static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

static bool is_name_character(char c, bool first)
{
    bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == ':' || (c & 0x80);
    return letter || (!first && ((c >= '0' && c <= '9') || c == '-' || c == '.'));
}

static bool take(xml_scan *x, ckpt_str text)
{
    bool found = str_starts(str_skip(x->text, x->pos), text);
    x->pos += found ? text.len : 0;
    return found;
}

static bool skip_space(xml_scan *x)
{
    size_t from = x->pos;
    while (x->pos < x->text.len && is_space(x->text.ptr[x->pos]))
        x->pos++;
    return x->pos > from;
}

/* skip_after - moves after the next END. False: there is none. */
static bool skip_after(xml_scan *x, ckpt_str end)
{
    size_t at = str_find(x->text, end, x->pos);
    x->pos = at == SIZE_MAX ? x->text.len : at + end.len;
    return at != SIZE_MAX;
}

static ckpt_str take_name(xml_scan *x)
{
    size_t from = x->pos;
    while (x->pos < x->text.len && is_name_character(x->text.ptr[x->pos], x->pos == from))
        x->pos++;
    return str_of(x->text.ptr + from, x->pos - from);
}

/* ---------------------------------------------------------------------------------- values */

/* find_reference - returns the character that NAME, the text between & and ;, refers to; UTF8_BAD: none. */
static uint32_t find_reference(ckpt_str name)
{
    static const struct {
        const char *name;
        char character;
    } named[] = {{"lt", '<'}, {"gt", '>'}, {"amp", '&'}, {"quot", '"'}, {"apos", '\''}};
    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        if (str_is(name, named[i].name))
            return (unsigned char)named[i].character;
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

/* decode_value - sets x->value to RAW with references replaced and white space turned into blanks. */
static enum xml_event decode_value(xml_scan *x, ckpt_str raw)
{
    char *out = arena_alloc(x->a, raw.len + 1); /* no character is longer than its reference */
    size_t n = 0;
    if (!out) {
        x->state = FAILED;
        (void)fail_memory(x->err);
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
        uint32_t character = end == SIZE_MAX ? UTF8_BAD
                                             : find_reference(str_of(raw.ptr + i + 1, end - i - 1));
        if (character == UTF8_BAD)
            return fail_at(x, (size_t)(raw.ptr - x->text.ptr) + i, "a reference such as &amp; or &#38;");
        n += utf8_put(character, out + n);
        i = end + 1;
    }
    x->value = str_of(out, n);
    return XML_ATTRIBUTE;
}

static enum xml_event read_attribute(xml_scan *x)
{
    x->name = take_name(x);
    if (!x->name.len)
        return fail_at(x, x->pos, "an attribute, > or />");
    (void)skip_space(x);
    if (!take(x, STR_LIT("=")))
        return fail_at(x, x->pos, "=");
    (void)skip_space(x);
    char quote = x->pos < x->text.len ? x->text.ptr[x->pos] : 0;
    if (quote != '"' && quote != '\'')
        return fail_at(x, x->pos, "a value in quotes");
    size_t from = ++x->pos, end = str_find(x->text, str_of(&quote, 1), from);
    if (end == SIZE_MAX)
        return fail_at(x, x->text.len, "the end of a value");
    ckpt_str raw = str_of(x->text.ptr + from, end - from);
    size_t open = str_find(raw, STR_LIT("<"), 0);
    if (open != SIZE_MAX)
        return fail_at(x, from + open, "&lt; instead");
    x->pos = end + 1;
    return decode_value(x, raw);
}

/* ------------------------------------------------------------------------------------ tags */

static enum xml_event close_element(xml_scan *x)
{
    x->name = x->open[--x->depth];
    x->state = x->depth ? IN_CONTENT : AFTER_ROOT;
    return XML_CLOSE;
}

static enum xml_event read_closing_tag(xml_scan *x)
{
    size_t at = x->pos;
    ckpt_str name = take_name(x);
    if (!x->depth || !str_eq(name, x->open[x->depth - 1]))
        return fail_at(x, at, x->depth ? "the name of the element that is open" : "an element");
    (void)skip_space(x);
    return take(x, STR_LIT(">")) ? close_element(x) : fail_at(x, x->pos, ">");
}

static enum xml_event read_tag(xml_scan *x)
{
    if (take(x, STR_LIT("</")))
        return read_closing_tag(x);
    x->pos++;
    x->name = take_name(x);
    if (!x->name.len)
        return fail_at(x, x->pos, "the name of an element (a document type is not read)");
    if (x->state == AFTER_ROOT)
        return fail_at(x, x->event_at, "nothing after the root element");
    if (x->depth == XML_DEPTH) {
        x->state = FAILED;
        (void)fail(x->err, CKPT_ELIMIT, x->event_at, "{more} than {=%u elements} within each other",
                   XML_DEPTH);
        return XML_ERROR;
    }
    x->open[x->depth++] = x->name;
    x->state = IN_TAG;
    return XML_OPEN;
}

/* read_in_tag - returns the next attribute of the tag that began, or its end if it is empty. XML_END: its
 * content follows. */
static enum xml_event read_in_tag(xml_scan *x)
{
    bool has_space = skip_space(x);
    x->event_at = x->pos;
    if (take(x, STR_LIT("/>")))
        return close_element(x);
    if (!take(x, STR_LIT(">")))
        return has_space ? read_attribute(x) : fail_at(x, x->pos, "white space, > or />");
    x->state = IN_CONTENT;
    return XML_END;
}

/* skip_to_tag - skips text, comments and the like. False: an error, or the end of the text. */
static bool skip_to_tag(xml_scan *x)
{
    while (x->pos < x->text.len) {
        bool closed = true;
        if (take(x, STR_LIT("<!--")))
            closed = skip_after(x, STR_LIT("-->"));
        else if (take(x, STR_LIT("<?")))
            closed = skip_after(x, STR_LIT("?>"));
        else if (x->depth && take(x, STR_LIT("<![CDATA[")))
            closed = skip_after(x, STR_LIT("]]>"));
        else if (x->text.ptr[x->pos] == '<')
            return true;
        else if (x->depth || is_space(x->text.ptr[x->pos]))
            x->pos++;
        else
            return fail_at(x, x->pos, "an element") != XML_ERROR;
        if (!closed)
            return fail_at(x, x->text.len, "the end of a comment or instruction") != XML_ERROR;
    }
    return false;
}

enum xml_event xml_next(xml_scan *x)
{
    if (x->state == FAILED)
        return XML_ERROR;
    enum xml_event e = x->state == IN_TAG ? read_in_tag(x) : XML_END;
    if (e != XML_END)
        return e;
    if (skip_to_tag(x)) {
        x->event_at = x->pos;
        return read_tag(x);
    }
    if (x->state == AFTER_ROOT)
        return XML_END;
    return x->state == FAILED ? XML_ERROR
                              : fail_at(x, x->text.len, x->depth ? "a closing tag" : "an element");
}
