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

static ckpt_status fail_here(struct literal *l, const char *expected)
{
    char found[TEXT_BYTES_SIZE];
    (void)fail(l->err, CKPT_EFORMAT, l->offset, "character %zu of the header is {%s}; {=%s} belongs there",
               l->total_len - l->unread.len, /* unread text is no longer than all text */
               l->unread.len ? text_describe_bytes((const unsigned char *)l->unread.ptr, l->unread.len, found)
                             : "its end",
               expected);
    return CKPT_EFORMAT;
}

static bool begins_with(const struct literal *l, char c) { return l->unread.len && l->unread.ptr[0] == c; }

static bool take_char(struct literal *l, char c)
{
    bool found = begins_with(l, c);
    if (found)
        l->unread = str_skip(l->unread, 1);
    return found;
}

static void skip_space(struct literal *l)
{
    for (;;) {
        if (begins_with(l, '#'))
            while (l->unread.len && l->unread.ptr[0] != '\n')
                l->unread = str_skip(l->unread, 1);
        if (!l->unread.len || !memchr(" \t\r\n\f", l->unread.ptr[0], 5))
            return;
        l->unread = str_skip(l->unread, 1);
    }
}

/* take_digits - reads LEAST to MOST digits of BASE; -1: there are fewer. */
static int64_t take_digits(struct literal *l, int base, size_t least, size_t most)
{
    int64_t v = 0;
    size_t n = 0;
    for (; n < most && l->unread.len && (int)str_digit(l->unread.ptr[0]) < base; n++) {
        v = v * base + (int)str_digit(l->unread.ptr[0]);
        l->unread = str_skip(l->unread, 1);
    }
    return n < least ? -1 : v;
}

enum { NO_ESCAPE = -1, BAD_ESCAPE = -2 };

/* take_escape - reads what follows a backslash, and returns its code point. NO_ESCAPE: the backslash stands
 * for itself; BAD_ESCAPE: malformed. */
static int64_t take_escape(struct literal *l)
{
    static const char letters[] = "\\'\"abfnrtv", characters[] = "\\'\"\a\b\f\n\r\t\v";
    const char *letter = l->unread.len && l->unread.ptr[0] ? strchr(letters, l->unread.ptr[0]) : NULL;
    int64_t v = BAD_ESCAPE;
    if (letter) {
        l->unread = str_skip(l->unread, 1);
        return characters[letter - letters];
    }
    if (l->unread.len && (int)str_digit(l->unread.ptr[0]) < 8)
        v = take_digits(l, 8, 1, 3);
    else if (take_char(l, 'x'))
        v = take_digits(l, 16, 2, 2);
    else if (take_char(l, 'u'))
        v = take_digits(l, 16, 4, 4);
    else if (take_char(l, 'U'))
        v = take_digits(l, 16, 8, 8);
    else
        return begins_with(l, 'N') ? BAD_ESCAPE : NO_ESCAPE; /* \N{NAME} is refused */
    bool surrogate = v >= 0xd800 && v <= 0xdfff;
    return v < 0 || v > 0x10ffff || surrogate ? BAD_ESCAPE : v;
}

/* take_quoted - appends one quoted text to the *N bytes in OUT. OUT is large enough, because no escape is
 * shorter than the UTF-8 of its character. */
static ckpt_status take_quoted(struct literal *l, char *out, size_t *n)
{
    char quote = l->unread.ptr[0];
    l->unread = str_skip(l->unread, 1);
    while (l->unread.len && l->unread.ptr[0] != quote) {
        char c = l->unread.ptr[0];
        if (c == '\n')
            return fail_here(l, "the end of the text");
        l->unread = str_skip(l->unread, 1);
        if (c == '\\' && take_char(l, '\n')) /* a backslash before a newline joins two lines */
            continue;
        int64_t cp = c == '\\' ? take_escape(l) : NO_ESCAPE;
        if (cp == BAD_ESCAPE)
            return fail_here(l, "an escape that Python has");
        if (cp >= 0)
            *n += utf8_put((uint32_t)cp, out + *n);
        else
            out[(*n)++] = c;
    }
    return take_char(l, quote) ? CKPT_OK : fail_here(l, "the end of the text");
}

static bool is_at_quoted_text(const struct literal *l)
{
    ckpt_str t = l->unread;
    if (t.len > 1 && (t.ptr[0] == 'u' || t.ptr[0] == 'U'))
        t = str_skip(t, 1);
    return t.len && (t.ptr[0] == '\'' || t.ptr[0] == '"');
}

static ckpt_status take_concatenated_texts(struct literal *l, ckpt_value **out)
{
    size_t n = 0;
    while (is_at_quoted_text(l)) {
        if (!begins_with(l, '\'') && !begins_with(l, '"'))
            l->unread = str_skip(l->unread, 1);
        CKPT_TRY(take_quoted(l, l->text_room, &n));
        skip_space(l);
    }
    ckpt_str text = arena_str(l->a, str_of(l->text_room, n));
    *out = text.ptr ? value_str(l->a, text) : NULL;
    return *out ? CKPT_OK : fail_memory(l->err);
}

/* take_base - skips 0x, 0o or 0b, and returns the base that it stands for; 10 if there is none. */
static int take_base(struct literal *l)
{
    char c = l->unread.len > 1 && l->unread.ptr[0] == '0' ? (char)(l->unread.ptr[1] | 0x20) : 0;
    int base = c == 'x' ? 16 : c == 'o' ? 8 : c == 'b' ? 2 : 10;
    if (base != 10)
        l->unread = str_skip(l->unread, 2);
    return base;
}

static ckpt_status take_integer(struct literal *l, ckpt_value **out)
{
    bool negative = take_char(l, '-'), leading_zero = begins_with(l, '0');
    int base = take_base(l);
    uint64_t v = 0;
    size_t digits = 0;
    for (; l->unread.len; l->unread = str_skip(l->unread, 1)) {
        int d = (int)str_digit(l->unread.ptr[0]);
        bool digit_follows = l->unread.len > 1 && (int)str_digit(l->unread.ptr[1]) < base;
        bool may_separate = (digits || base != 10) && digit_follows; /* 0x_1f is valid, _1 is not */
        if (begins_with(l, '_') && may_separate)
            continue;
        if (d >= base)
            break;
        if (!checked_mul(v, (uint64_t)base, &v) || !checked_add(v, (uint64_t)d, &v) || v > INT64_MAX)
            return fail_here(l, "an integer that fits 64 bits");
        digits++;
    }
    bool is_old_octal = leading_zero && base == 10 && digits > 1 && v; /* 0755 in Python 2; 00 is valid */
    if (digits == 0 || is_old_octal)
        return fail_here(l, "an integer");
    (void)(take_char(l, 'L') || take_char(l, 'l'));
    *out = value_int(l->a, negative ? -(int64_t)v : (int64_t)v);
    return *out ? CKPT_OK : fail_memory(l->err);
}

static ckpt_status take_name(struct literal *l, ckpt_value **out)
{
    static const struct {
        const char *name;
        ckpt_value_type type;
        bool value;
    } names[] = {{"True", CKPT_V_BOOL, true}, {"False", CKPT_V_BOOL, false}, {"None", CKPT_V_NONE, false}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (str_starts(l->unread, str_c(names[i].name))) {
            l->unread = str_skip(l->unread, strlen(names[i].name));
            *out = value_new(l->a, names[i].type, 0);
            if (*out && names[i].type == CKPT_V_BOOL)
                (*out)->u.b = names[i].value;
            return *out ? CKPT_OK : fail_memory(l->err);
        }
    return fail_here(l, "a Python literal");
}

/* take_atom - reads a value that has no brackets. */
static ckpt_status take_atom(struct literal *l, ckpt_value **out)
{
    if (is_at_quoted_text(l))
        return take_concatenated_texts(l, out);
    bool is_number = begins_with(l, '-') || (l->unread.len && (int)str_digit(l->unread.ptr[0]) < 10);
    return is_number ? take_integer(l, out) : take_name(l, out);
}

static ckpt_status open_bracket(struct literal *l)
{
    bool is_dict = begins_with(l, '{');
    if (l->depth == LITERAL_MAX_DEPTH)
        return fail(l->err, CKPT_EFORMAT, l->offset, "brackets are nested {more} than {=%u} deep",
                    LITERAL_MAX_DEPTH);
    struct bracket *b = &l->brackets[l->depth++];
    *b = (struct bracket){.container = value_new(l->a, is_dict ? CKPT_V_DICT : CKPT_V_LIST, 0),
                          .closing = is_dict               ? '}'
                                     : begins_with(l, '[') ? ']'
                                                           : ')'};
    l->unread = str_skip(l->unread, 1);
    return b->container ? CKPT_OK : fail_memory(l->err);
}

/* close_bracket - closes the innermost bracket, and sets *OUT to its dict, list or tuple, or to x for (x). */
static ckpt_status close_bracket(struct literal *l, ckpt_value **out)
{
    const struct bracket *b = &l->brackets[--l->depth];
    uint32_t n = value_count(b->container);
    if (b->closing != ')')
        *out = b->container;
    else if (n == 1 && !b->has_comma)
        *out = value_item(b->container, 0);
    else
        *out = value_tuple(l->a, n, b->container->u.seq.items);
    return *out ? CKPT_OK : fail_memory(l->err);
}

/* add_to_bracket - adds V to the innermost bracket, as key, as value or as item. After a key, reads the
 * colon. */
static ckpt_status add_to_bracket(struct literal *l, ckpt_value *v)
{
    struct bracket *b = &l->brackets[l->depth - 1];
    if (b->closing == '}' && !b->key) {
        b->key = v;
        skip_space(l);
        return take_char(l, ':') ? CKPT_OK : fail_here(l, "a colon");
    }
    bool ok = b->key ? value_put(l->a, b->container, b->key, v) : value_append(l->a, b->container, v);
    b->key = NULL;
    return ok ? CKPT_OK : fail_memory(l->err);
}

/* may_close - returns true if the innermost bracket closes here, after a comma or because it is empty. */
static bool may_close(const struct literal *l)
{
    const struct bracket *b = l->depth ? &l->brackets[l->depth - 1] : NULL;
    if (!b || b->key || !begins_with(l, b->closing))
        return false;
    return b->has_comma || value_count(b->container) == 0;
}

/* finish_value - adds *V to the innermost bracket. If that bracket ends, *V becomes the value of the bracket,
 * which is added to the next outer bracket, and so on. Sets *DONE if no bracket is open: then *V is the value
 * of the literal. */
static ckpt_status finish_value(struct literal *l, ckpt_value **v, bool *done)
{
    while (l->depth) {
        struct bracket *b = &l->brackets[l->depth - 1];
        bool is_key = b->closing == '}' && !b->key;
        CKPT_TRY(add_to_bracket(l, *v));
        skip_space(l);
        if (is_key)
            return CKPT_OK;
        b->has_comma = take_char(l, ',');
        if (b->has_comma)
            return CKPT_OK;
        if (!take_char(l, b->closing))
            return fail_here(l, "a comma or the closing bracket");
        CKPT_TRY(close_bracket(l, v));
    }
    *done = true;
    return CKPT_OK;
}

ckpt_status literal_read(arena *a, ckpt_str text, uint64_t offset, ckpt_value **out, ckpt_error *err)
{
    struct literal l = {.a = a, .unread = text, .total_len = text.len, .offset = offset, .err = err};
    bool done = false;
    if (!(l.text_room = arena_alloc(a, text.len + 4)))
        return fail_memory(err);
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
