/*
 * literal.c - parses a Python literal (ast.literal_eval, "Literals" of the language reference), with its open
 * brackets on a stack:
 *   {key: value, …}  [item, …]  (item, …)  (item), which is the item; a comma may follow the last one
 *   'text' "text" u'text', concatenated where they are adjacent, with the escapes of Python
 *   12 0x1f 0o7 0b1 1_000 -3, with the L of Python 2 after it
 *   True False None, comments, white space
 * Refused: names, calls and operators, bytes, raw and formatted texts, sets, floats, integers beyond 64 bits,
 * nesting beyond LITERAL_MAX_DEPTH.
 */

#include "base/checked.h"
#include "base/text.h"
#include "base/utf8.h"
#include "codec/npy.h"

/* A bracket that is not closed yet. */
struct bracket {
    ckpt_value *container; /* DICT or LIST; the items of a tuple are in a LIST until the tuple ends */
    ckpt_value *key;       /* of a DICT, whose value comes next */
    char end;              /* the character that closes it */
    bool has_comma;
};

struct literal {
    arena *a;
    ckpt_str left; /* the text that is still to be read */
    size_t length; /* of all text */
    char *quoted;  /* room for the longest quoted text */
    uint64_t offset;
    struct bracket open[LITERAL_MAX_DEPTH];
    uint32_t depth;
    ckpt_error *err;
};

static ckpt_status fail_here(struct literal *l, const char *expected)
{
    char found[TEXT_BYTES_SIZE];
    (void)fail(l->err, CKPT_EFORMAT, l->offset, "character %zu of the header is {%s}; {=%s} belongs there",
               l->length - l->left.len, /* bounded: what is left is the end of the text */
               l->left.len ? text_bytes_found((const unsigned char *)l->left.ptr, l->left.len, found)
                           : "its end",
               expected);
    return CKPT_EFORMAT;
}

static bool begins_with(const struct literal *l, char c) { return l->left.len && l->left.ptr[0] == c; }

static bool take_char(struct literal *l, char c)
{
    bool found = begins_with(l, c);
    if (found)
        l->left = str_skip(l->left, 1);
    return found;
}

static void skip_space(struct literal *l)
{
    for (;;) {
        if (begins_with(l, '#'))
            while (l->left.len && l->left.ptr[0] != '\n')
                l->left = str_skip(l->left, 1);
        if (!l->left.len || !memchr(" \t\r\n\f", l->left.ptr[0], 5))
            return;
        l->left = str_skip(l->left, 1);
    }
}

/* ------------------------------------------------------------------------ texts */

/* take_digits - reads LEAST to MOST digits of BASE; -1: there are fewer. */
static int64_t take_digits(struct literal *l, int base, size_t least, size_t most)
{
    int64_t v = 0;
    size_t n = 0;
    for (; n < most && l->left.len && (int)str_digit(l->left.ptr[0]) < base; n++) {
        v = v * base + (int)str_digit(l->left.ptr[0]); /* bounded: eight digits of base 16 */
        l->left = str_skip(l->left, 1);
    }
    return n < least ? -1 : v;
}

/* take_escape - reads what follows a backslash, and returns its code point; -1: the backslash stands for
 * itself, -2: malformed. */
static int64_t take_escape(struct literal *l)
{
    static const char letters[] = "\\'\"abfnrtv", values[] = "\\'\"\a\b\f\n\r\t\v";
    const char *at = l->left.len && l->left.ptr[0] ? strchr(letters, l->left.ptr[0]) : NULL;
    int64_t v = -2;
    if (at) {
        l->left = str_skip(l->left, 1);
        return values[at - letters];
    }
    if (l->left.len && (int)str_digit(l->left.ptr[0]) < 8)
        v = take_digits(l, 8, 1, 3);
    else if (take_char(l, 'x'))
        v = take_digits(l, 16, 2, 2);
    else if (take_char(l, 'u'))
        v = take_digits(l, 16, 4, 4);
    else if (take_char(l, 'U'))
        v = take_digits(l, 16, 8, 8);
    else
        return begins_with(l, 'N') ? -2 : -1;
    bool surrogate = v >= 0xd800 && v <= 0xdfff;
    return v < 0 || v > 0x10ffff || surrogate ? -2 : v;
}

/* take_quoted - appends one quoted text to the *N bytes at OUT. They have room for it, because an escape is
 * longer than the character it stands for. */
static ckpt_status take_quoted(struct literal *l, char *out, size_t *n)
{
    char quote = l->left.ptr[0];
    l->left = str_skip(l->left, 1);
    while (l->left.len && l->left.ptr[0] != quote) {
        char c = l->left.ptr[0];
        if (c == '\n')
            return fail_here(l, "the end of the text");
        l->left = str_skip(l->left, 1);
        if (c == '\\' && take_char(l, '\n'))
            continue;
        int64_t v = c == '\\' ? take_escape(l) : -1;
        if (v == -2)
            return fail_here(l, "an escape that Python has");
        if (v >= 0)
            *n += utf8_put((uint32_t)v, out + *n);
        else
            out[(*n)++] = c;
    }
    return take_char(l, quote) ? CKPT_OK : fail_here(l, "the end of the text");
}

static bool begins_text(const struct literal *l)
{
    ckpt_str t = l->left;
    if (t.len > 1 && (t.ptr[0] == 'u' || t.ptr[0] == 'U'))
        t = str_skip(t, 1);
    return t.len && (t.ptr[0] == '\'' || t.ptr[0] == '"');
}

static ckpt_status take_text(struct literal *l, ckpt_value **out)
{
    size_t n = 0;
    while (begins_text(l)) {
        if (!begins_with(l, '\'') && !begins_with(l, '"'))
            l->left = str_skip(l->left, 1);
        CKPT_TRY(take_quoted(l, l->quoted, &n));
        skip_space(l);
    }
    ckpt_str text = arena_str(l->a, str_of(l->quoted, n));
    *out = text.ptr ? value_str(l->a, text) : NULL;
    return *out ? CKPT_OK : fail_memory(l->err);
}

/* ---------------------------------------------------------------- numbers, names */

/* take_base - takes 0x, 0o or 0b off the text, and returns the base that it stands for; 10: there is none. */
static int take_base(struct literal *l)
{
    char c = l->left.len > 1 && l->left.ptr[0] == '0' ? (char)(l->left.ptr[1] | 0x20) : 0;
    int base = c == 'x' ? 16 : c == 'o' ? 8 : c == 'b' ? 2 : 10;
    if (base != 10)
        l->left = str_skip(l->left, 2);
    return base;
}

static ckpt_status take_integer(struct literal *l, ckpt_value **out)
{
    bool negative = take_char(l, '-'), zero = begins_with(l, '0');
    int base = take_base(l);
    uint64_t v = 0;
    size_t digits = 0;
    for (; l->left.len; l->left = str_skip(l->left, 1)) {
        int d = (int)str_digit(l->left.ptr[0]);
        if (begins_with(l, '_') && (digits || base != 10) && l->left.len > 1 &&
            (int)str_digit(l->left.ptr[1]) < base)
            continue;
        if (d >= base)
            break;
        if (!checked_mul(v, (uint64_t)base, &v) || !checked_add(v, (uint64_t)d, &v) || v > INT64_MAX)
            return fail_here(l, "an integer that fits 64 bits");
        digits++;
    }
    if (digits == 0 || (zero && base == 10 && digits > 1 && v))
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
        if (str_starts(l->left, str_c(names[i].name))) {
            l->left = str_skip(l->left, strlen(names[i].name));
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
    if (begins_text(l))
        return take_text(l, out);
    bool number = l->left.len && (begins_with(l, '-') || (int)str_digit(l->left.ptr[0]) < 10);
    return number ? take_integer(l, out) : take_name(l, out);
}

/* --------------------------------------------------------------------- brackets */

static ckpt_status open_bracket(struct literal *l)
{
    bool dict = begins_with(l, '{');
    if (l->depth == LITERAL_MAX_DEPTH)
        return fail(l->err, CKPT_EFORMAT, l->offset, "brackets are nested {more} than {=%u} deep",
                    LITERAL_MAX_DEPTH);
    struct bracket *b = &l->open[l->depth++];
    *b = (struct bracket){.container = value_new(l->a, dict ? CKPT_V_DICT : CKPT_V_LIST, 0),
                          .end = dict                  ? '}'
                                 : begins_with(l, '[') ? ']'
                                                       : ')'};
    l->left = str_skip(l->left, 1);
    return b->container ? CKPT_OK : fail_memory(l->err);
}

/* close_bracket - closes the innermost bracket, and sets *OUT to the dict, list, tuple or item in it. */
static ckpt_status close_bracket(struct literal *l, ckpt_value **out)
{
    const struct bracket *b = &l->open[--l->depth];
    uint32_t n = value_count(b->container);
    if (b->end != ')')
        *out = b->container;
    else if (n == 1 && !b->has_comma)
        *out = value_item(b->container, 0);
    else
        *out = value_tuple(l->a, n, b->container->u.seq.items);
    return *out ? CKPT_OK : fail_memory(l->err);
}

/* add_to_bracket - adds V to the innermost bracket, as key, as value or as item. */
static ckpt_status add_to_bracket(struct literal *l, ckpt_value *v)
{
    struct bracket *b = &l->open[l->depth - 1];
    if (b->end == '}' && !b->key) {
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
    const struct bracket *b = l->depth ? &l->open[l->depth - 1] : NULL;
    return b && !b->key && begins_with(l, b->end) && (b->has_comma || value_count(b->container) == 0);
}

/* finish_value - adds *V to the innermost bracket; if that bracket ends, *V becomes the bracket, and is added
 * to the next one. *DONE: *V is the literal. */
static ckpt_status finish_value(struct literal *l, ckpt_value **v, bool *done)
{
    while (l->depth) {
        struct bracket *b = &l->open[l->depth - 1];
        bool was_key = b->end == '}' && !b->key;
        CKPT_TRY(add_to_bracket(l, *v));
        skip_space(l);
        if (was_key)
            return CKPT_OK;
        b->has_comma = take_char(l, ',');
        if (b->has_comma)
            return CKPT_OK;
        if (!take_char(l, b->end))
            return fail_here(l, "a comma or the closing bracket");
        CKPT_TRY(close_bracket(l, v));
    }
    *done = true;
    return CKPT_OK;
}

ckpt_status literal_read(arena *a, ckpt_str text, uint64_t offset, ckpt_value **out, ckpt_error *err)
{
    struct literal l = {.a = a, .left = text, .length = text.len, .offset = offset, .err = err};
    bool done = false;
    if (!(l.quoted = arena_alloc(a, text.len + 4))) /* bounded: it is in memory */
        return fail_memory(err);
    while (!done) {
        ckpt_value *v;
        skip_space(&l);
        if (may_close(&l)) {
            l.left = str_skip(l.left, 1);
            CKPT_TRY(close_bracket(&l, &v));
        } else if (l.left.len && memchr("{[(", l.left.ptr[0], 3)) {
            CKPT_TRY(open_bracket(&l));
            continue;
        } else {
            CKPT_TRY(take_atom(&l, &v));
        }
        CKPT_TRY(finish_value(&l, &v, &done));
        *out = v;
    }
    skip_space(&l);
    return l.left.len ? fail_here(&l, "its end") : CKPT_OK;
}
