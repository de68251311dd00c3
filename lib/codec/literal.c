/*
 * literal.c - parses a Python literal (ast.literal_eval, "Literals" of the language reference), with its open
 * brackets on a stack:
 *   {key: value, …}  [item, …]  (item, …)  (item), which is the item; a comma may follow the last item
 *   'text' "text" u'text', concatenated where they are adjacent, with the escapes of Python
 *   12 0x1f 0o7 0b1 1_000 -3; the L of Python 2 may follow an integer
 *   True False None, comments, white space
 * Refused: names, calls and operators, bytes, raw and formatted texts, sets, floats, integers beyond 64 bits,
 * nesting beyond LITERAL_MAX_DEPTH. The functions take_… read what the unread text begins with.
 */

#include "base/text.h"
#include "base/utf8.h"
#include "codec/npy.h"

/* A bracket that is not closed yet. */
struct bracket {
    ckpt_value *container; /* DICT or LIST; the items of a tuple are in a LIST until the tuple ends */
    ckpt_value *key;       /* in a DICT, a key whose value is not read yet; NULL: none */
    char closing;          /* the character that closes the bracket */
    bool has_comma;        /* a comma follows the last value that was read */
};

struct literal {
    arena *a;
    ckpt_str unread;  /* the text that is still to be read */
    size_t total_len; /* length of the whole text */
    char *text_room;  /* buffer to decode quoted texts in */
    uint64_t offset;  /* offset of the text in the file */
    struct bracket brackets[LITERAL_MAX_DEPTH];
    uint32_t depth;
    ckpt_error *err;
};

static ckpt_status fail_here(struct literal *literal, const char *expected)
{
    char found[TEXT_BYTES_SIZE];
    (void)fail(literal->err, CKPT_EFORMAT, literal->offset,
               "character %zu of the header is {%s}; {=%s} belongs there",
               literal->total_len - literal->unread.len, /* unread text is no longer than all text */
               literal->unread.len ? text_describe_bytes((const unsigned char *)literal->unread.ptr,
                                                         literal->unread.len, found)
                                   : "its end",
               expected);
    return CKPT_EFORMAT;
}

static bool begins_with(const struct literal *literal, char character)
{
    return literal->unread.len && literal->unread.ptr[0] == character;
}

static bool take_char(struct literal *literal, char character)
{
    bool found = begins_with(literal, character);
    if (found)
        literal->unread = str_skip(literal->unread, 1);
    return found;
}

static void skip_space(struct literal *literal)
{
    for (;;) {
        if (begins_with(literal, '#'))
            while (literal->unread.len && literal->unread.ptr[0] != '\n')
                literal->unread = str_skip(literal->unread, 1);
        if (!literal->unread.len || !memchr(" \t\r\n\f", literal->unread.ptr[0], 5))
            return;
        literal->unread = str_skip(literal->unread, 1);
    }
}

/* take_digits - reads LEAST to MOST digits of BASE; -1: there are fewer. */
static int64_t take_digits(struct literal *literal, int base, size_t least, size_t most)
{
    int64_t v = 0;
    size_t n = 0;
    for (; n < most && literal->unread.len && (int)str_digit(literal->unread.ptr[0]) < base; n++) {
        v = v * base + (int)str_digit(literal->unread.ptr[0]);
        literal->unread = str_skip(literal->unread, 1);
    }
    return n < least ? -1 : v;
}

enum { NO_ESCAPE = -1, BAD_ESCAPE = -2 };

/* take_escape - reads what follows a backslash, and returns its code point. NO_ESCAPE: the backslash stands
 * for itself; BAD_ESCAPE: malformed. */
static int64_t take_escape(struct literal *literal)
{
    static const char letters[] = "\\'\"abfnrtv", characters[] = "\\'\"\a\b\f\n\r\t\v";
    const char *letter = literal->unread.len && literal->unread.ptr[0]
                             ? strchr(letters, literal->unread.ptr[0])
                             : NULL;
    int64_t v = BAD_ESCAPE;
    if (letter) {
        literal->unread = str_skip(literal->unread, 1);
        return characters[letter - letters];
    }
    if (literal->unread.len && (int)str_digit(literal->unread.ptr[0]) < 8)
        v = take_digits(literal, 8, 1, 3);
    else if (take_char(literal, 'x'))
        v = take_digits(literal, 16, 2, 2);
    else if (take_char(literal, 'u'))
        v = take_digits(literal, 16, 4, 4);
    else if (take_char(literal, 'U'))
        v = take_digits(literal, 16, 8, 8);
    else
        return begins_with(literal, 'N') ? BAD_ESCAPE : NO_ESCAPE; /* \N{NAME} is refused */
    bool surrogate = v >= 0xd800 && v <= 0xdfff;
    return v < 0 || v > 0x10ffff || surrogate ? BAD_ESCAPE : v;
}

/* take_quoted - appends one quoted text to the *COUNT bytes in OUT. OUT is large enough, because no escape is
 * shorter than the UTF-8 of its character. */
static ckpt_status take_quoted(struct literal *literal, char *out, size_t *count)
{
    char quote = literal->unread.ptr[0];
    literal->unread = str_skip(literal->unread, 1);
    while (literal->unread.len && literal->unread.ptr[0] != quote) {
        char c = literal->unread.ptr[0];
        if (c == '\n')
            return fail_here(literal, "the end of the text");
        literal->unread = str_skip(literal->unread, 1);
        if (c == '\\' && take_char(literal, '\n')) /* a backslash before a newline joins two lines */
            continue;
        int64_t cp = c == '\\' ? take_escape(literal) : NO_ESCAPE;
        if (cp == BAD_ESCAPE)
            return fail_here(literal, "an escape that Python has");
        if (cp >= 0)
            *count += utf8_put((uint32_t)cp, out + *count);
        else
            out[(*count)++] = c;
    }
    return take_char(literal, quote) ? CKPT_OK : fail_here(literal, "the end of the text");
}

static bool is_at_quoted_text(const struct literal *literal)
{
    ckpt_str t = literal->unread;
    if (t.len > 1 && (t.ptr[0] == 'u' || t.ptr[0] == 'U'))
        t = str_skip(t, 1);
    return t.len && (t.ptr[0] == '\'' || t.ptr[0] == '"');
}

static ckpt_status take_concatenated_texts(struct literal *literal, ckpt_value **out)
{
    size_t n = 0;
    while (is_at_quoted_text(literal)) {
        if (!begins_with(literal, '\'') && !begins_with(literal, '"'))
            literal->unread = str_skip(literal->unread, 1);
        CKPT_TRY(take_quoted(literal, literal->text_room, &n));
        skip_space(literal);
    }
    ckpt_str text = arena_str(literal->a, str_of(literal->text_room, n));
    *out = text.ptr ? value_str(literal->a, text) : NULL;
    return *out ? CKPT_OK : fail_memory(literal->err);
}

/* take_base - skips 0x, 0o or 0b, and returns the base that it stands for; 10 if there is none. */
static int take_base(struct literal *literal)
{
    char c = literal->unread.len > 1 && literal->unread.ptr[0] == '0' ? (char)(literal->unread.ptr[1] | 0x20)
                                                                      : 0;
    int base = c == 'x' ? 16 : c == 'o' ? 8 : c == 'b' ? 2 : 10;
    if (base != 10)
        literal->unread = str_skip(literal->unread, 2);
    return base;
}

static ckpt_status take_integer(struct literal *literal, ckpt_value **out)
{
    bool negative = take_char(literal, '-'), leading_zero = begins_with(literal, '0');
    int base = take_base(literal);
    uint64_t v = 0;
    size_t digits = 0;
    for (; literal->unread.len; literal->unread = str_skip(literal->unread, 1)) {
        int d = (int)str_digit(literal->unread.ptr[0]);
        bool digit_follows = literal->unread.len > 1 && (int)str_digit(literal->unread.ptr[1]) < base;
        bool may_separate = (digits || base != 10) && digit_follows; /* 0x_1f is valid, _1 is not */
        if (begins_with(literal, '_') && may_separate)
            continue;
        if (d >= base)
            break;
        if (!checked_mul(v, (uint64_t)base, &v) || !checked_add(v, (uint64_t)d, &v) || v > INT64_MAX)
            return fail_here(literal, "an integer that fits 64 bits");
        digits++;
    }
    bool is_old_octal = leading_zero && base == 10 && digits > 1 && v; /* 0755 in Python 2; 00 is valid */
    if (digits == 0 || is_old_octal)
        return fail_here(literal, "an integer");
    (void)(take_char(literal, 'L') || take_char(literal, 'l'));
    *out = value_int(literal->a, negative ? -(int64_t)v : (int64_t)v);
    return *out ? CKPT_OK : fail_memory(literal->err);
}

static ckpt_status take_name(struct literal *literal, ckpt_value **out)
{
    static const struct {
        const char *name;
        ckpt_value_type type;
        bool value;
    } names[] = {{"True", CKPT_V_BOOL, true}, {"False", CKPT_V_BOOL, false}, {"None", CKPT_V_NONE, false}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (str_starts(literal->unread, str_c(names[i].name))) {
            literal->unread = str_skip(literal->unread, strlen(names[i].name));
            *out = value_new(literal->a, names[i].type, 0);
            if (*out && names[i].type == CKPT_V_BOOL)
                (*out)->u.b = names[i].value;
            return *out ? CKPT_OK : fail_memory(literal->err);
        }
    return fail_here(literal, "a Python literal");
}

/* take_atom - reads a value that has no brackets. */
static ckpt_status take_atom(struct literal *literal, ckpt_value **out)
{
    if (is_at_quoted_text(literal))
        return take_concatenated_texts(literal, out);
    bool is_number = begins_with(literal, '-') ||
                     (literal->unread.len && (int)str_digit(literal->unread.ptr[0]) < 10);
    return is_number ? take_integer(literal, out) : take_name(literal, out);
}

static ckpt_status open_bracket(struct literal *literal)
{
    bool is_dict = begins_with(literal, '{');
    if (literal->depth == LITERAL_MAX_DEPTH)
        return fail(literal->err, CKPT_EFORMAT, literal->offset, "brackets are nested {more} than {=%u} deep",
                    LITERAL_MAX_DEPTH);
    struct bracket *b = &literal->brackets[literal->depth++];
    *b = (struct bracket){.container = value_new(literal->a, is_dict ? CKPT_V_DICT : CKPT_V_LIST, 0),
                          .closing = is_dict                     ? '}'
                                     : begins_with(literal, '[') ? ']'
                                                                 : ')'};
    literal->unread = str_skip(literal->unread, 1);
    return b->container ? CKPT_OK : fail_memory(literal->err);
}

/* close_bracket - closes the innermost bracket, and sets *OUT to its dict, list or tuple, or to x for (x). */
static ckpt_status close_bracket(struct literal *literal, ckpt_value **out)
{
    const struct bracket *b = &literal->brackets[--literal->depth];
    uint32_t n = value_count(b->container);
    if (b->closing != ')')
        *out = b->container;
    else if (n == 1 && !b->has_comma)
        *out = value_item(b->container, 0);
    else
        *out = value_tuple(literal->a, n, b->container->u.seq.items);
    return *out ? CKPT_OK : fail_memory(literal->err);
}

/* add_to_bracket - adds VALUE to the innermost bracket, as key, as value or as item. After a key, reads the
 * colon. */
static ckpt_status add_to_bracket(struct literal *literal, ckpt_value *value)
{
    struct bracket *b = &literal->brackets[literal->depth - 1];
    if (b->closing == '}' && !b->key) {
        b->key = value;
        skip_space(literal);
        return take_char(literal, ':') ? CKPT_OK : fail_here(literal, "a colon");
    }
    bool ok = b->key ? value_put(literal->a, b->container, b->key, value)
                     : value_append(literal->a, b->container, value);
    b->key = NULL;
    return ok ? CKPT_OK : fail_memory(literal->err);
}

/* may_close - returns true if the innermost bracket closes here, after a comma or because it is empty. */
static bool may_close(const struct literal *literal)
{
    const struct bracket *b = literal->depth ? &literal->brackets[literal->depth - 1] : NULL;
    if (!b || b->key || !begins_with(literal, b->closing))
        return false;
    return b->has_comma || value_count(b->container) == 0;
}

/* finish_value - adds *VALUE to the innermost bracket. If that bracket ends, *VALUE becomes the value of the
 * bracket, which is added to the next outer bracket, and so on. Sets *DONE if no bracket is open: then *VALUE
 * is the value of the literal. */
static ckpt_status finish_value(struct literal *literal, ckpt_value **value, bool *done)
{
    while (literal->depth) {
        struct bracket *b = &literal->brackets[literal->depth - 1];
        bool is_key = b->closing == '}' && !b->key;
        CKPT_TRY(add_to_bracket(literal, *value));
        skip_space(literal);
        if (is_key)
            return CKPT_OK;
        b->has_comma = take_char(literal, ',');
        if (b->has_comma)
            return CKPT_OK;
        if (!take_char(literal, b->closing))
            return fail_here(literal, "a comma or the closing bracket");
        CKPT_TRY(close_bracket(literal, value));
    }
    *done = true;
    return CKPT_OK;
}

ckpt_status literal_read(arena *a, ckpt_str text, uint64_t offset, ckpt_value **out, ckpt_error *err)
{
    struct literal l = {.a = a, .unread = text, .total_len = text.len, .offset = offset, .err = err};
    bool done = false;
    CKPT_TRY_ALLOC(l.text_room = arena_alloc(a, text.len + 4), err);
    while (!done) {
        ckpt_value *v;
        skip_space(&l);
        if (may_close(&l)) {
            l.unread = str_skip(l.unread, 1);
            CKPT_TRY(close_bracket(&l, &v));
        } else if (l.unread.len && memchr("{[(", l.unread.ptr[0], 3)) {
            CKPT_TRY(open_bracket(&l));
            continue;
        } else {
            CKPT_TRY(take_atom(&l, &v));
        }
        CKPT_TRY(finish_value(&l, &v, &done));
        *out = v;
    }
    skip_space(&l);
    return l.unread.len ? fail_here(&l, "its end") : CKPT_OK;
}
