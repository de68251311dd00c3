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

#include "base/utf8.h"

#define KEY_MAX 1024u /* characters of a key and the colon after it */

/* ------------------------------------------------------------------ bytes */

/* peek - returns the byte AHEAD of the current position; 0 at the end. */
static char peek(const yaml_scan *scan, size_t ahead)
{
    return ahead < scan->bytes.len - scan->pos ? scan->bytes.ptr[scan->pos + ahead] : '\0';
}

static bool at_end(const yaml_scan *scan) { return scan->pos >= scan->bytes.len; }
static bool is_break(char character) { return character == '\n' || character == '\r'; }
static bool is_space_or_end(char character)
{
    return character == ' ' || character == '\t' || character == '\0' || is_break(character);
}
static bool is_in(char character, const char *set) { return character && strchr(set, character); }

static enum yaml_token fail_at(yaml_scan *scan, size_t at, const char *what)
{
    scan->failed = true;
    (void)fail(scan->err, CKPT_EFORMAT, at, "YAML: line %zu: %s", scan->line + 1, what);
    return YAML_ERROR;
}

/* step - moves COUNT bytes forward, none of which is a line break. */
static void step(yaml_scan *scan, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        scan->column += ((unsigned char)peek(scan, 0) & 0xc0) != 0x80;
        scan->pos++;
    }
}

/* step_break - moves past the line break, if there is one. */
static bool step_break(yaml_scan *scan)
{
    if (!is_break(peek(scan, 0)))
        return false;
    scan->pos += peek(scan, 0) == '\r' && peek(scan, 1) == '\n' ? 2 : 1;
    scan->line++;
    scan->column = 0;
    return true;
}

static void skip_line(yaml_scan *scan)
{
    while (!at_end(scan) && !is_break(peek(scan, 0)))
        step(scan, 1);
}

static void keep(yaml_scan *scan, const char *bytes, size_t nbytes)
{
    scan->text_is_cut |= nbytes > sizeof scan->text - scan->text_length;
    nbytes = nbytes < sizeof scan->text - scan->text_length ? nbytes : sizeof scan->text - scan->text_length;
    memcpy(scan->text + scan->text_length, bytes, nbytes);
    scan->text_length += nbytes;
}

ckpt_str yaml_text(const yaml_scan *scan)
{
    return scan->text_is_cut ? (ckpt_str){NULL, 0} : str_of(scan->text, scan->text_length);
}

/* begins_document - returns true if the current line is "---" or "...", alone or before white space. */
static bool begins_document(const yaml_scan *scan)
{
    char c = peek(scan, 0);
    return scan->column == 0 && (c == '-' || c == '.') && peek(scan, 1) == c && peek(scan, 2) == c &&
           is_space_or_end(peek(scan, 3));
}

/* ------------------------------------------------- collections and keys */

static void end_collections(yaml_scan *scan, int64_t column)
{
    while (!scan->flow_depth && scan->indent > column)
        scan->indent = scan->indents[--scan->nindents];
}

/* begin_collection - begins a block collection at COLUMN, if that is to the right of the innermost one. */
static bool begin_collection(yaml_scan *scan, size_t column)
{
    if (scan->flow_depth || scan->indent >= (int64_t)column)
        return true;
    if (scan->nindents == YAML_DEPTH) {
        (void)fail_at(scan, scan->pos, "collections are nested too deep");
        return false;
    }
    scan->indents[scan->nindents++] = scan->indent;
    scan->indent = (int64_t)column;
    return true;
}

static struct yaml_key *current_key(yaml_scan *scan) { return &scan->keys[scan->flow_depth]; }

static void note_key(yaml_scan *scan, bool is_scalar)
{
    if (scan->allows_key)
        *current_key(scan) = (struct yaml_key){true, is_scalar, scan->pos, scan->line, scan->column};
    scan->allows_key = false;
}

/* ---------------------------------------------------------------- scalars */

/* skip_plain_space - moves over white space and line breaks in or after a plain scalar. Returns false if
 * there is none, so that the scalar ends. */
static bool skip_plain_space(yaml_scan *scan)
{
    size_t from = scan->pos;
    while (peek(scan, 0) == ' ' || peek(scan, 0) == '\t')
        step(scan, 1);
    bool has_break = is_break(peek(scan, 0));
    while (step_break(scan)) {
        scan->allows_key = true;
        if (begins_document(scan))
            return false;
        while (peek(scan, 0) == ' ')
            step(scan, 1);
    }
    return has_break || scan->pos > from;
}

static bool ends_plain(const yaml_scan *scan, size_t ahead)
{
    char c = peek(scan, ahead), next = peek(scan, ahead + 1);
    return is_space_or_end(c) ||
           (c == ':' && (is_space_or_end(next) || (scan->flow_depth && is_in(next, ",[]{}")))) ||
           (scan->flow_depth && is_in(c, ",?[]{}"));
}

static enum yaml_token scan_plain(yaml_scan *scan)
{
    note_key(scan, true);
    for (;;) {
        size_t n = 0, space_from;
        while (!ends_plain(scan, n))
            n++;
        if (n == 0 || peek(scan, 0) == '#')
            break;
        keep(scan, scan->bytes.ptr + scan->pos, n);
        step(scan, n);
        scan->allows_key = false;
        space_from = scan->pos;
        if (!skip_plain_space(scan) || peek(scan, 0) == '#' ||
            (!scan->flow_depth && (int64_t)scan->column <= scan->indent))
            break;
        if (!ends_plain(scan, 0) && scan->pos > space_from)
            keep(scan, " ", 1);
    }
    return YAML_SCALAR;
}

/* keep_escape - decodes the escape at the current backslash. */
static bool keep_escape(yaml_scan *scan)
{
    static const char simple[] = "0abt\tnvfre \"/\\N_LP";
    static const char *const values[] = {
        "",     "\a", "\b", "\t", "\t", "\n",       "\v",       "\f",           "\r",
        "\x1b", " ",  "\"", "/",  "\\", "\xc2\x85", "\xc2\xa0", "\xe2\x80\xa8", "\xe2\x80\xa9"};
    char c = peek(scan, 1), bytes[4];
    const char *found = is_in(c, simple) ? strchr(simple, c) : NULL;
    size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    uint32_t point = 0;
    step(scan, 1);
    if (step_break(scan)) { /* an escaped line break; the spaces that follow it do not count */
        while (peek(scan, 0) == ' ' || peek(scan, 0) == '\t')
            step(scan, 1);
        return true;
    }
    step(scan, c ? 1 : 0);
    if (found) {
        const char *value = values[found - simple];
        keep(scan, value, *value ? strlen(value) : 1); /* "\0" is a NUL byte */
        return true;
    }
    for (size_t i = 0; i < digits; i++) {
        unsigned digit = str_digit(peek(scan, 0));
        if (digit > 15)
            return false;
        point = point << 4 | digit;
        step(scan, 1);
    }
    size_t n = digits && point <= 0x10ffff && (point < 0xd800 || point > 0xdfff) ? utf8_put(point, bytes) : 0;
    keep(scan, bytes, n);
    return n > 0;
}

static enum yaml_token scan_quoted(yaml_scan *scan)
{
    char quote = peek(scan, 0);
    note_key(scan, true);
    step(scan, 1);
    while (!at_end(scan)) {
        char c = peek(scan, 0);
        if (c == quote && quote == '\'' && peek(scan, 1) == '\'') {
            keep(scan, "'", 1);
            step(scan, 2);
        } else if (c == quote) {
            step(scan, 1);
            return YAML_SCALAR;
        } else if (c == '\\' && quote == '"') {
            if (!keep_escape(scan))
                return fail_at(scan, scan->pos, "an unknown escape in double quotes");
        } else if (step_break(scan)) {
            if (begins_document(scan))
                return fail_at(scan, scan->pos, "a document ends inside quotes");
            keep(scan, "\n", 1);
        } else {
            keep(scan, &c, 1);
            step(scan, 1);
        }
    }
    return fail_at(scan, scan->token_at, "quotes without an end");
}

/* read_block_header - reads the indicators after | or >, and the rest of their line. *INCREMENT: the
 * indentation that it states, 0: none. *CHOMPING: '-', which drops line breaks at the end of the scalar, '+',
 * which keeps them, or '\0', which keeps one. */
static bool read_block_header(yaml_scan *scan, unsigned *increment, char *chomping)
{
    *increment = 0;
    *chomping = '\0';
    step(scan, 1);
    for (int i = 0; i < 2; i++) {
        if (is_in(peek(scan, 0), "123456789"))
            *increment = (unsigned)(peek(scan, 0) - '0');
        else if (is_in(peek(scan, 0), "+-"))
            *chomping = peek(scan, 0);
        else
            break;
        step(scan, 1);
    }
    while (peek(scan, 0) == ' ')
        step(scan, 1);
    if (peek(scan, 0) == '#')
        skip_line(scan);
    return at_end(scan) || step_break(scan);
}

/* measure_block - returns the indentation of a block scalar that begins at the current line: that of its
 * first line that is not empty, or of longer empty lines before it. */
static size_t measure_block(const yaml_scan *scan)
{
    size_t at = scan->pos, spaces = 0, most = 0;
    for (; at < scan->bytes.len && (scan->bytes.ptr[at] == ' ' || is_break(scan->bytes.ptr[at])); at++) {
        spaces = scan->bytes.ptr[at] == ' ' ? spaces + 1 : 0;
        most = spaces > most ? spaces : most;
    }
    return most;
}

static void keep_breaks(yaml_scan *scan, size_t count)
{
    for (size_t i = 0; i < count && !scan->text_is_cut; i++)
        keep(scan, "\n", 1);
}

/* scan_block - reads a block scalar. Its lines are not folded: a name that folding would change is none. */
static enum yaml_token scan_block(yaml_scan *scan)
{
    unsigned increment;
    char chomping;
    size_t at = scan->pos, breaks = 0; /* line breaks that are kept if a line follows */
    bool has_text = false;
    scan->allows_key = true;
    current_key(scan)->possible = false;
    if (!read_block_header(scan, &increment, &chomping))
        return fail_at(scan, at, "a block scalar whose line has more than indicators");
    size_t least = scan->indent < 0 ? 1 : (size_t)scan->indent + 1;
    size_t measured = measure_block(scan);
    size_t indent = increment ? least + increment - 1 : measured > least ? measured : least;
    for (;;) {
        while (scan->column < indent && peek(scan, 0) == ' ')
            step(scan, 1);
        if (step_break(scan)) {
            breaks++;
            continue;
        }
        if (at_end(scan) || scan->column < indent)
            break;
        keep_breaks(scan, breaks);
        size_t n = 0;
        while (scan->pos + n < scan->bytes.len && !is_break(peek(scan, n)))
            n++;
        keep(scan, scan->bytes.ptr + scan->pos, n);
        step(scan, n);
        has_text = true;
        breaks = step_break(scan);
    }
    if (chomping == '+' || (chomping == '\0' && has_text && breaks))
        keep_breaks(scan, chomping ? breaks : 1);
    return YAML_SCALAR;
}

/* ------------------------------------------------- tags, anchors, directives */

static enum yaml_token scan_tag(yaml_scan *scan)
{
    note_key(scan, false);
    bool is_verbatim = peek(scan, 1) == '<';
    while (!is_space_or_end(peek(scan, 0)) &&
           !(scan->flow_depth && !is_verbatim && is_in(peek(scan, 0), ",[]{}"))) {
        unsigned high = str_digit(peek(scan, 1)), low = str_digit(peek(scan, 2));
        char c = peek(scan, 0);
        if (c == '%' && high < 16 && low < 16) {
            c = (char)(high << 4 | low);
            step(scan, 2);
        }
        keep(scan, &c, 1);
        step(scan, 1);
    }
    return YAML_TAG;
}

static enum yaml_token scan_anchor(yaml_scan *scan)
{
    enum yaml_token token = peek(scan, 0) == '*' ? YAML_ALIAS : YAML_ANCHOR;
    size_t n = 1;
    note_key(scan, false);
    while (!is_space_or_end(peek(scan, n)) && !is_in(peek(scan, n), "?:,[]{}%@`"))
        n++;
    if (n == 1)
        return fail_at(scan, scan->pos, "an anchor or alias without a name");
    step(scan, n);
    return token;
}

static enum yaml_token scan_directive(yaml_scan *scan)
{
    bool is_tag = str_starts(str_skip(scan->bytes, scan->pos), STR_LIT("%TAG"));
    end_collections(scan, -1);
    current_key(scan)->possible = scan->allows_key = false;
    skip_line(scan);
    return is_tag ? YAML_TAG_DIRECTIVE : YAML_OTHER;
}

/* ----------------------------------------------------------- indicators */

static enum yaml_token begin_document(yaml_scan *scan)
{
    end_collections(scan, -1);
    if (scan->flow_depth)
        return fail_at(scan, scan->pos, "a document ends inside brackets");
    current_key(scan)->possible = scan->allows_key = false;
    step(scan, 3);
    return YAML_OTHER;
}

static enum yaml_token open_flow(yaml_scan *scan)
{
    note_key(scan, false);
    if (scan->flow_depth + 1 == YAML_DEPTH)
        return fail_at(scan, scan->pos, "brackets are nested too deep");
    scan->flow_depth++;
    current_key(scan)->possible = false;
    scan->allows_key = true;
    step(scan, 1);
    return YAML_OTHER;
}

static enum yaml_token close_flow(yaml_scan *scan)
{
    if (!scan->flow_depth)
        return fail_at(scan, scan->pos, "a bracket is closed that was not opened");
    current_key(scan)->possible = scan->allows_key = false;
    scan->flow_depth--;
    step(scan, 1);
    return YAML_OTHER;
}

/* scan_item - scans "- " or "? ". */
static enum yaml_token scan_item(yaml_scan *scan)
{
    bool is_key = peek(scan, 0) == '?';
    if (!scan->flow_depth && !scan->allows_key)
        return fail_at(scan, scan->pos, "an item begins where none can");
    if (!begin_collection(scan, scan->column))
        return YAML_ERROR;
    current_key(scan)->possible = false;
    scan->allows_key = !is_key || !scan->flow_depth;
    step(scan, 1);
    return YAML_OTHER;
}

static enum yaml_token scan_comma(yaml_scan *scan)
{
    if (!scan->flow_depth)
        return fail_at(scan, scan->pos, "a comma begins a scalar");
    current_key(scan)->possible = false;
    scan->allows_key = true;
    step(scan, 1);
    return YAML_OTHER;
}

static enum yaml_token scan_colon(yaml_scan *scan)
{
    struct yaml_key *key = current_key(scan);
    bool is_key = key->possible;
    if (is_key) {
        scan->key_is_scalar = key->is_scalar;
        if (!begin_collection(scan, key->column))
            return YAML_ERROR;
        scan->allows_key = false;
    } else {
        if (!scan->flow_depth && !scan->allows_key)
            return fail_at(scan, scan->pos, "a second value in one line");
        if (!begin_collection(scan, scan->column))
            return YAML_ERROR;
        scan->allows_key = !scan->flow_depth;
    }
    key->possible = false;
    step(scan, 1);
    return is_key ? YAML_KEY : YAML_VALUE;
}

/* ----------------------------------------------------------------- tokens */

/* skip_to_token - moves over white space and comments. */
static void skip_to_token(yaml_scan *scan)
{
    for (;;) {
        while (peek(scan, 0) == ' ' || (peek(scan, 0) == '\t' && (scan->flow_depth || !scan->allows_key)))
            step(scan, 1);
        if (peek(scan, 0) == '#')
            skip_line(scan);
        if (!step_break(scan))
            return;
        scan->allows_key |= !scan->flow_depth;
    }
}

/* drop_old_key - forgets a possible key that is on an earlier line or too long. */
static void drop_old_key(yaml_scan *scan)
{
    struct yaml_key *key = current_key(scan);
    key->possible = key->possible && key->line == scan->line && scan->pos - key->at <= KEY_MAX;
}

static enum yaml_token scan_token(yaml_scan *scan)
{
    char c = peek(scan, 0), next = peek(scan, 1);
    bool is_followed_by_space = is_space_or_end(next);
    if (c == '%' && scan->column == 0)
        return scan_directive(scan);
    if (begins_document(scan))
        return begin_document(scan);
    if (c == '[' || c == '{')
        return open_flow(scan);
    if (c == ']' || c == '}')
        return close_flow(scan);
    if (c == ',')
        return scan_comma(scan);
    if ((c == '-' && is_followed_by_space) || (c == '?' && (scan->flow_depth || is_followed_by_space)))
        return scan_item(scan);
    if (c == ':' && (scan->flow_depth || is_followed_by_space))
        return scan_colon(scan);
    if (c == '*' || c == '&')
        return scan_anchor(scan);
    if (c == '!')
        return scan_tag(scan);
    if ((c == '|' || c == '>') && !scan->flow_depth)
        return scan_block(scan);
    if (c == '\'' || c == '"')
        return scan_quoted(scan);
    if (is_in(c, "|>%@`\t") || (unsigned char)c < 32)
        return fail_at(scan, scan->pos, "a character that begins no token");
    return scan_plain(scan);
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

void yaml_init(yaml_scan *scan, ckpt_str bytes, ckpt_error *err)
{
    bool has_mark = str_starts(bytes, STR_LIT("\xef\xbb\xbf"));
    memset(scan, 0, sizeof *scan);
    scan->bytes = bytes;
    scan->pos = has_mark ? 3 : 0;
    scan->indent = -1;
    scan->allows_key = true;
    scan->err = err;
    size_t foreign = find_foreign_break(bytes);
    if (foreign != SIZE_MAX)
        (void)fail_at(scan, foreign, "a line break of Unicode, which not all programs take for one");
}

enum yaml_token yaml_next(yaml_scan *scan)
{
    if (scan->failed)
        return YAML_ERROR;
    skip_to_token(scan);
    drop_old_key(scan);
    end_collections(scan, (int64_t)scan->column);
    scan->token_at = scan->pos;
    scan->text_length = 0;
    scan->text_is_cut = scan->key_is_scalar = false;
    if (!at_end(scan))
        return scan_token(scan);
    return scan->flow_depth ? fail_at(scan, scan->pos, "a bracket is not closed") : YAML_END;
}
