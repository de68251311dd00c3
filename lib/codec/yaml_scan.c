/*
 * yaml_scan.c - see yaml_scan.h. The rules are those of YAML 1.1 as PyYAML's scanner.py and libyaml implement
 * them. What decides where a token ends:
 *   indent      column of the innermost block collection; "- ", "? " and "key: " to the right of it open one,
 *               and a token to the left of it ends it
 *   plain       text without quotes ends at ": ", at " #", in [ ] and { } also at , ? [ ] { }; it goes on in
 *               the next line if that is indented by more than INDENT
 *   '…' and "…" end at the quote
 *   | and >     go on as long as lines are indented as the first one, which is indented by more than INDENT
 *   a key       is on one line, at most 1024 characters long
 * Fails where these two disagree with each other (line breaks U+0085, U+2028 and U+2029) and at what they
 * refuse.
 */
#include "codec/yaml_scan.h"

#include "base/cursor.h"
#include "base/utf8.h"

#define KEY_MAX 1024u /* characters of a key and the colon after it */

/* ------------------------------------------------------------------ bytes */

/* peek - returns the byte AHEAD of the current position; 0 at the end. */
static char peek(const yaml_scan *y, size_t ahead)
{
    return ahead < y->bytes.len - y->pos ? y->bytes.ptr[y->pos + ahead] : '\0';
}

static bool at_end(const yaml_scan *y) { return y->pos >= y->bytes.len; }
static bool is_break(char c) { return c == '\n' || c == '\r'; }
static bool is_space_or_end(char c) { return c == ' ' || c == '\t' || c == '\0' || is_break(c); }
static bool is_in(char c, const char *set) { return c && strchr(set, c); }

static enum yaml_token fail_at(yaml_scan *y, size_t at, const char *what)
{
    y->failed = true;
    (void)fail(y->err, CKPT_EFORMAT, at, "YAML: line %zu: %s", y->line + 1, what);
    return YAML_ERROR;
}

/* step - moves N bytes forward, none of which is a line break. */
static void step(yaml_scan *y, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        y->column += ((unsigned char)peek(y, 0) & 0xc0) != 0x80;
        y->pos++;
    }
}

/* step_break - moves past the line break, if there is one. */
static bool step_break(yaml_scan *y)
{
    if (!is_break(peek(y, 0)))
        return false;
    y->pos += peek(y, 0) == '\r' && peek(y, 1) == '\n' ? 2 : 1;
    y->line++;
    y->column = 0;
    return true;
}

/* skip_line - moves to the end of the line. */
static void skip_line(yaml_scan *y)
{
    while (!at_end(y) && !is_break(peek(y, 0)))
        step(y, 1);
}

static void keep(yaml_scan *y, const char *bytes, size_t n)
{
    y->text_is_cut |= n > sizeof y->text - y->text_length;
    n = n < sizeof y->text - y->text_length ? n : sizeof y->text - y->text_length;
    memcpy(y->text + y->text_length, bytes, n);
    y->text_length += n;
}

ckpt_str yaml_text(const yaml_scan *y)
{
    return y->text_is_cut ? (ckpt_str){NULL, 0} : str_of(y->text, y->text_length);
}

/* begins_document - returns true if the current line is "---" or "...", alone or before white space. */
static bool begins_document(const yaml_scan *y)
{
    char c = peek(y, 0);
    return y->column == 0 && (c == '-' || c == '.') && peek(y, 1) == c && peek(y, 2) == c &&
           is_space_or_end(peek(y, 3));
}

/* ------------------------------------------------- collections and keys */

static void end_collections(yaml_scan *y, int64_t column)
{
    while (!y->flow_depth && y->indent > column)
        y->indent = y->indents[--y->nindents];
}

/* begin_collection - begins a block collection at COLUMN, if that is to the right of the innermost one. */
static bool begin_collection(yaml_scan *y, size_t column)
{
    if (y->flow_depth || y->indent >= (int64_t)column)
        return true;
    if (y->nindents == YAML_DEPTH) {
        (void)fail_at(y, y->pos, "collections are nested too deep");
        return false;
    }
    y->indents[y->nindents++] = y->indent;
    y->indent = (int64_t)column;
    return true;
}

static struct yaml_key *current_key(yaml_scan *y) { return &y->keys[y->flow_depth]; }

static void note_key(yaml_scan *y, bool is_scalar)
{
    if (y->allows_key)
        *current_key(y) = (struct yaml_key){true, is_scalar, y->pos, y->line, y->column};
    y->allows_key = false;
}

/* ---------------------------------------------------------------- scalars */

/* skip_plain_space - moves over white space and line breaks in or after a plain scalar. Returns false if
 * there is none, so that the scalar ends. */
static bool skip_plain_space(yaml_scan *y)
{
    size_t from = y->pos;
    while (peek(y, 0) == ' ' || peek(y, 0) == '\t')
        step(y, 1);
    bool has_break = is_break(peek(y, 0));
    while (step_break(y)) {
        y->allows_key = true;
        if (begins_document(y))
            return false;
        while (peek(y, 0) == ' ')
            step(y, 1);
    }
    return has_break || y->pos > from;
}

static bool ends_plain(const yaml_scan *y, size_t ahead)
{
    char c = peek(y, ahead), next = peek(y, ahead + 1);
    return is_space_or_end(c) ||
           (c == ':' && (is_space_or_end(next) || (y->flow_depth && is_in(next, ",[]{}")))) ||
           (y->flow_depth && is_in(c, ",?[]{}"));
}

static enum yaml_token scan_plain(yaml_scan *y)
{
    note_key(y, true);
    for (;;) {
        size_t n = 0, space_from;
        while (!ends_plain(y, n))
            n++;
        if (n == 0 || peek(y, 0) == '#')
            break;
        keep(y, y->bytes.ptr + y->pos, n);
        step(y, n);
        y->allows_key = false;
        space_from = y->pos;
        if (!skip_plain_space(y) || peek(y, 0) == '#' || (!y->flow_depth && (int64_t)y->column <= y->indent))
            break;
        if (!ends_plain(y, 0) && y->pos > space_from)
            keep(y, " ", 1);
    }
    return YAML_SCALAR;
}

/* keep_escape - decodes the escape at the current backslash. */
static bool keep_escape(yaml_scan *y)
{
    static const char simple[] = "0abt\tnvfre \"/\\N_LP";
    static const char *const values[] = {
        "",     "\a", "\b", "\t", "\t", "\n",       "\v",       "\f",           "\r",
        "\x1b", " ",  "\"", "/",  "\\", "\xc2\x85", "\xc2\xa0", "\xe2\x80\xa8", "\xe2\x80\xa9"};
    char c = peek(y, 1), bytes[4];
    const char *found = is_in(c, simple) ? strchr(simple, c) : NULL;
    size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    uint32_t point = 0;
    step(y, 1);
    if (step_break(y)) { /* an escaped line break; the spaces that follow it do not count */
        while (peek(y, 0) == ' ' || peek(y, 0) == '\t')
            step(y, 1);
        return true;
    }
    step(y, c ? 1 : 0);
    if (found) {
        const char *value = values[found - simple];
        keep(y, value, *value ? strlen(value) : 1); /* "\0" is a NUL byte */
        return true;
    }
    for (size_t i = 0; i < digits; i++) {
        unsigned digit = str_digit(peek(y, 0));
        if (digit > 15)
            return false;
        point = point << 4 | digit;
        step(y, 1);
    }
    size_t n = digits && point <= 0x10ffff && (point < 0xd800 || point > 0xdfff) ? utf8_put(point, bytes) : 0;
    keep(y, bytes, n);
    return n > 0;
}

static enum yaml_token scan_quoted(yaml_scan *y)
{
    char quote = peek(y, 0);
    note_key(y, true);
    step(y, 1);
    while (!at_end(y)) {
        char c = peek(y, 0);
        if (c == quote && quote == '\'' && peek(y, 1) == '\'') {
            keep(y, "'", 1);
            step(y, 2);
        } else if (c == quote) {
            step(y, 1);
            return YAML_SCALAR;
        } else if (c == '\\' && quote == '"') {
            if (!keep_escape(y))
                return fail_at(y, y->pos, "an unknown escape in double quotes");
        } else if (step_break(y)) {
            if (begins_document(y))
                return fail_at(y, y->pos, "a document ends inside quotes");
            keep(y, "\n", 1);
        } else {
            keep(y, &c, 1);
            step(y, 1);
        }
    }
    return fail_at(y, y->token_at, "quotes without an end");
}

/* read_block_header - reads the indicators after | or >, and the rest of their line. *INCREMENT: the
 * indentation that it states, 0: none. *CHOMPING: '-', which drops line breaks at the end of the scalar, '+',
 * which keeps them, or '\0', which keeps one. */
static bool read_block_header(yaml_scan *y, unsigned *increment, char *chomping)
{
    *increment = 0;
    *chomping = '\0';
    step(y, 1);
    for (int i = 0; i < 2; i++) {
        if (is_in(peek(y, 0), "123456789"))
            *increment = (unsigned)(peek(y, 0) - '0');
        else if (is_in(peek(y, 0), "+-"))
            *chomping = peek(y, 0);
        else
            break;
        step(y, 1);
    }
    while (peek(y, 0) == ' ')
        step(y, 1);
    if (peek(y, 0) == '#')
        skip_line(y);
    return at_end(y) || step_break(y);
}

/* measure_block - returns the indentation of a block scalar that begins at the current line: that of its
 * first line that is not empty, or of longer empty lines before it. */
static size_t measure_block(const yaml_scan *y)
{
    size_t at = y->pos, spaces = 0, most = 0;
    for (; at < y->bytes.len && (y->bytes.ptr[at] == ' ' || is_break(y->bytes.ptr[at])); at++) {
        spaces = y->bytes.ptr[at] == ' ' ? spaces + 1 : 0;
        most = spaces > most ? spaces : most;
    }
    return most;
}

static void keep_breaks(yaml_scan *y, size_t n)
{
    for (size_t i = 0; i < n && !y->text_is_cut; i++)
        keep(y, "\n", 1);
}

/* scan_block - reads a block scalar. Its lines are not folded: a name that folding would change is none. */
static enum yaml_token scan_block(yaml_scan *y)
{
    unsigned increment;
    char chomping;
    size_t at = y->pos, breaks = 0; /* line breaks that are kept if a line follows */
    bool has_text = false;
    y->allows_key = true;
    current_key(y)->possible = false;
    if (!read_block_header(y, &increment, &chomping))
        return fail_at(y, at, "a block scalar whose line has more than indicators");
    size_t least = y->indent < 0 ? 1 : (size_t)y->indent + 1;
    size_t measured = measure_block(y);
    size_t indent = increment ? least + increment - 1 : measured > least ? measured : least;
    for (;;) {
        while (y->column < indent && peek(y, 0) == ' ')
            step(y, 1);
        if (step_break(y)) {
            breaks++;
            continue;
        }
        if (at_end(y) || y->column < indent)
            break;
        keep_breaks(y, breaks);
        size_t n = 0;
        while (y->pos + n < y->bytes.len && !is_break(peek(y, n)))
            n++;
        keep(y, y->bytes.ptr + y->pos, n);
        step(y, n);
        has_text = true;
        breaks = step_break(y);
    }
    if (chomping == '+' || (chomping == '\0' && has_text && breaks))
        keep_breaks(y, chomping ? breaks : 1);
    return YAML_SCALAR;
}

/* ------------------------------------------------- tags, anchors, directives */

static enum yaml_token scan_tag(yaml_scan *y)
{
    note_key(y, false);
    bool is_verbatim = peek(y, 1) == '<';
    while (!is_space_or_end(peek(y, 0)) && !(y->flow_depth && !is_verbatim && is_in(peek(y, 0), ",[]{}"))) {
        unsigned high = str_digit(peek(y, 1)), low = str_digit(peek(y, 2));
        char c = peek(y, 0);
        if (c == '%' && high < 16 && low < 16) {
            c = (char)(high << 4 | low);
            step(y, 2);
        }
        keep(y, &c, 1);
        step(y, 1);
    }
    return YAML_TAG;
}

static enum yaml_token scan_anchor(yaml_scan *y)
{
    enum yaml_token token = peek(y, 0) == '*' ? YAML_ALIAS : YAML_ANCHOR;
    size_t n = 1;
    note_key(y, false);
    while (!is_space_or_end(peek(y, n)) && !is_in(peek(y, n), "?:,[]{}%@`"))
        n++;
    if (n == 1)
        return fail_at(y, y->pos, "an anchor or alias without a name");
    step(y, n);
    return token;
}

static enum yaml_token scan_directive(yaml_scan *y)
{
    bool is_tag = str_starts(str_skip(y->bytes, y->pos), STR_LIT("%TAG"));
    end_collections(y, -1);
    current_key(y)->possible = y->allows_key = false;
    skip_line(y);
    return is_tag ? YAML_TAG_DIRECTIVE : YAML_OTHER;
}

/* ----------------------------------------------------------- indicators */

static enum yaml_token begin_document(yaml_scan *y)
{
    end_collections(y, -1);
    if (y->flow_depth)
        return fail_at(y, y->pos, "a document ends inside brackets");
    current_key(y)->possible = y->allows_key = false;
    step(y, 3);
    return YAML_OTHER;
}

static enum yaml_token open_flow(yaml_scan *y)
{
    note_key(y, false);
    if (y->flow_depth + 1 == YAML_DEPTH)
        return fail_at(y, y->pos, "brackets are nested too deep");
    y->flow_depth++;
    current_key(y)->possible = false;
    y->allows_key = true;
    step(y, 1);
    return YAML_OTHER;
}

static enum yaml_token close_flow(yaml_scan *y)
{
    if (!y->flow_depth)
        return fail_at(y, y->pos, "a bracket is closed that was not opened");
    current_key(y)->possible = y->allows_key = false;
    y->flow_depth--;
    step(y, 1);
    return YAML_OTHER;
}

/* scan_item - scans "- " or "? ". */
static enum yaml_token scan_item(yaml_scan *y)
{
    bool is_key = peek(y, 0) == '?';
    if (!y->flow_depth && !y->allows_key)
        return fail_at(y, y->pos, "an item begins where none can");
    if (!begin_collection(y, y->column))
        return YAML_ERROR;
    current_key(y)->possible = false;
    y->allows_key = !is_key || !y->flow_depth;
    step(y, 1);
    return YAML_OTHER;
}

static enum yaml_token scan_comma(yaml_scan *y)
{
    if (!y->flow_depth)
        return fail_at(y, y->pos, "a comma begins a scalar");
    current_key(y)->possible = false;
    y->allows_key = true;
    step(y, 1);
    return YAML_OTHER;
}

static enum yaml_token scan_colon(yaml_scan *y)
{
    struct yaml_key *key = current_key(y);
    bool is_key = key->possible;
    if (is_key) {
        y->key_is_scalar = key->is_scalar;
        if (!begin_collection(y, key->column))
            return YAML_ERROR;
        y->allows_key = false;
    } else {
        if (!y->flow_depth && !y->allows_key)
            return fail_at(y, y->pos, "a second value in one line");
        if (!begin_collection(y, y->column))
            return YAML_ERROR;
        y->allows_key = !y->flow_depth;
    }
    key->possible = false;
    step(y, 1);
    return is_key ? YAML_KEY : YAML_VALUE;
}

/* ----------------------------------------------------------------- tokens */

/* skip_to_token - moves over white space and comments. */
static void skip_to_token(yaml_scan *y)
{
    for (;;) {
        while (peek(y, 0) == ' ' || (peek(y, 0) == '\t' && (y->flow_depth || !y->allows_key)))
            step(y, 1);
        if (peek(y, 0) == '#')
            skip_line(y);
        if (!step_break(y))
            return;
        y->allows_key |= !y->flow_depth;
    }
}

/* drop_old_key - forgets a possible key that is on an earlier line or too long. */
static void drop_old_key(yaml_scan *y)
{
    struct yaml_key *key = current_key(y);
    key->possible = key->possible && key->line == y->line && y->pos - key->at <= KEY_MAX;
}

static enum yaml_token scan_token(yaml_scan *y)
{
    char c = peek(y, 0), next = peek(y, 1);
    bool is_followed_by_space = is_space_or_end(next);
    if (c == '%' && y->column == 0)
        return scan_directive(y);
    if (begins_document(y))
        return begin_document(y);
    if (c == '[' || c == '{')
        return open_flow(y);
    if (c == ']' || c == '}')
        return close_flow(y);
    if (c == ',')
        return scan_comma(y);
    if ((c == '-' && is_followed_by_space) || (c == '?' && (y->flow_depth || is_followed_by_space)))
        return scan_item(y);
    if (c == ':' && (y->flow_depth || is_followed_by_space))
        return scan_colon(y);
    if (c == '*' || c == '&')
        return scan_anchor(y);
    if (c == '!')
        return scan_tag(y);
    if ((c == '|' || c == '>') && !y->flow_depth)
        return scan_block(y);
    if (c == '\'' || c == '"')
        return scan_quoted(y);
    if (is_in(c, "|>%@`\t") || (unsigned char)c < 32)
        return fail_at(y, y->pos, "a character that begins no token");
    return scan_plain(y);
}

/* find_foreign_break - returns the offset of the first line break that only some programs take for one;
 * SIZE_MAX: there is none. */
static size_t find_foreign_break(ckpt_str bytes)
{
    static const char *const breaks[] = {"\xc2\x85", "\xe2\x80\xa8", "\xe2\x80\xa9"};
    size_t first = SIZE_MAX;
    for (size_t i = 0; i < sizeof breaks / sizeof *breaks; i++) {
        size_t at = str_find(bytes, str_c(breaks[i]), 0);
        first = at < first ? at : first;
    }
    return first;
}

void yaml_init(yaml_scan *y, ckpt_str bytes, ckpt_error *err)
{
    bool has_mark = str_starts(bytes, STR_LIT("\xef\xbb\xbf"));
    memset(y, 0, sizeof *y);
    y->bytes = bytes;
    y->pos = has_mark ? 3 : 0;
    y->indent = -1;
    y->allows_key = true;
    y->err = err;
    size_t foreign = find_foreign_break(bytes);
    if (foreign != SIZE_MAX)
        (void)fail_at(y, foreign, "a line break of Unicode, which not all programs take for one");
}

enum yaml_token yaml_next(yaml_scan *y)
{
    if (y->failed)
        return YAML_ERROR;
    skip_to_token(y);
    drop_old_key(y);
    end_collections(y, (int64_t)y->column);
    y->token_at = y->pos;
    y->text_length = 0;
    y->text_is_cut = y->key_is_scalar = false;
    if (!at_end(y))
        return scan_token(y);
    return y->flow_depth ? fail_at(y, y->pos, "a bracket is not closed") : YAML_END;
}
