/* name_pattern.c - see name_pattern.h. A glob becomes a regular expression, so that a match takes time linear
 * in the length of the name. */
#include "op/name_pattern.h"

#include "base/buf.h"

/* -------------------------------------------------------------------- names in braces */

/* take_brace - removes "{NAME}" from the start of *REST and sets *NAME. */
static ckpt_status take_brace(ckpt_str *rest, ckpt_str *name, ckpt_error *err)
{
    size_t end = str_find(*rest, STR_LIT("}"), 0);
    if (end == SIZE_MAX)
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "\"%.*s\" has no closing brace", STR_ARG(*rest));
    *name = str_of(rest->ptr + 1, end - 1);
    for (size_t i = 0; i < name->len; i++)
        if (!is_ascii_alnum(name->ptr[i]) && name->ptr[i] != '_')
            return fail(
                err, CKPT_EUSAGE, CKPT_NO_OFFSET,
                "{\"%.*s\"} is no name of a variable: {=letters, digits and _} are allowed in braces\n"
                "a backslash before it makes a brace a character of the name",
                STR_ARG(*name));
    if (!name->len)
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "braces without the name of a variable");
    *rest = str_skip(*rest, end + 1);
    return CKPT_OK;
}

static size_t find_variable(const struct name_pattern *pattern, ckpt_str name)
{
    for (size_t i = 0; i < pattern->nvariables; i++)
        if (pattern->variables[i].len && str_eq(pattern->variables[i], name))
            return i;
    return SIZE_MAX;
}

/* ---------------------------------------------------------------------------- patterns */

static ckpt_status add_variable(struct name_pattern *pattern, ckpt_str name, ckpt_error *err)
{
    if (name.len && find_variable(pattern, name) != SIZE_MAX)
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET,
                    "the variable %.*s is in \"%.*s\" twice; give it two names", STR_ARG(name),
                    STR_ARG(pattern->text));
    if (pattern->nvariables == NAME_VARIABLES)
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "\"%.*s\" has more than %d stars and variables",
                    STR_ARG(pattern->text), NAME_VARIABLES);
    pattern->variables[pattern->nvariables++] = name;
    return CKPT_OK;
}

static void put_literal(buf *out, char character)
{
    if (strchr(".^$*+?()[]{}|\\", character) && character)
        buf_byte(out, '\\');
    buf_byte(out, (unsigned char)character);
}

/* take_set - moves a set such as "[0-9]" from the start of *REST to OUT. */
static ckpt_status take_set(ckpt_str *rest, buf *out, ckpt_error *err)
{
    bool is_negated = rest->len > 1 && (rest->ptr[1] == '!' || rest->ptr[1] == '^');
    size_t end = str_find(*rest, STR_LIT("]"), is_negated ? 3 : 2); /* a ] that comes first is in the set */
    if (end == SIZE_MAX)
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET,
                    "\"%.*s\" has no closing bracket\na backslash before it makes it a character of the name",
                    STR_ARG(*rest));
    buf_put_cstr(out, is_negated ? "[^" : "[");
    buf_put(out, rest->ptr + (is_negated ? 2 : 1), end - (is_negated ? 2 : 1));
    buf_byte(out, ']');
    *rest = str_skip(*rest, end + 1);
    return CKPT_OK;
}

/* take_glob - moves the next character, set or variable from the start of *REST to the expression OUT. */
static ckpt_status take_glob(struct name_pattern *pattern, ckpt_str *rest, buf *out, ckpt_error *err)
{
    ckpt_str name = str_of("", 0);
    char next = *rest->ptr;
    if (next == '[')
        return take_set(rest, out, err);
    if (next == '{') {
        CKPT_TRY(take_brace(rest, &name, err));
        buf_put_cstr(out, "([^.]+)");
        return add_variable(pattern, name, err);
    }
    if (next == '\\' && rest->len > 1)
        *rest = str_skip(*rest, 1);
    if (next == '*')
        buf_put_cstr(out, "(.*)");
    else if (next == '?')
        buf_byte(out, '.');
    else
        put_literal(out, *rest->ptr);
    *rest = str_skip(*rest, 1);
    return next == '*' ? add_variable(pattern, name, err) : CKPT_OK;
}

static ckpt_status put_glob(struct name_pattern *pattern, buf *out, ckpt_error *err)
{
    buf_byte(out, '^');
    for (ckpt_str rest = pattern->text; rest.len;)
        CKPT_TRY(take_glob(pattern, &rest, out, err));
    buf_byte(out, '$');
    return CKPT_OK;
}

static ckpt_status compile_text(struct name_pattern *pattern, buf *expression, ckpt_error *err)
{
    pattern->is_expression = pattern->text.len > 2 && str_starts(pattern->text, STR_LIT("/")) &&
                             str_ends(pattern->text, STR_LIT("/"));
    if (pattern->is_expression)
        buf_put(expression, pattern->text.ptr + 1, pattern->text.len - 2);
    else
        CKPT_TRY(put_glob(pattern, expression, err));
    buf_byte(expression, '\0');
    if (!buf_ok(expression))
        return expression->no_memory ? fail_memory(err)
                                     : fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "a name of more than %u bytes",
                                            REGEXP_MAX_PATTERN);
    CKPT_TRY(regexp_compile((const char *)expression->data, &pattern->regex, err));
    if (!pattern->is_expression)
        return CKPT_OK;
    pattern->nvariables = regexp_group_count(pattern->regex);
    if (pattern->nvariables <= NAME_VARIABLES)
        return CKPT_OK;
    size_t found = pattern->nvariables;
    pattern->nvariables = 0;
    return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET,
                "an expression with {%zu groups}; {=%d} are allowed\n(?:…) groups "
                "without a number",
                found, NAME_VARIABLES);
}

ckpt_status name_pattern_compile(struct name_pattern *out, ckpt_str text, ckpt_error *err)
{
    buf expression;
    *out = (struct name_pattern){.text = text};
    if (!text.len)
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "an empty name");
    buf_init(&expression, REGEXP_MAX_PATTERN + 1);
    ckpt_status st = compile_text(out, &expression, err);
    buf_free(&expression);
    return st;
}

void name_pattern_free(struct name_pattern *pattern) { regexp_free(pattern->regex); }

ckpt_status name_pattern_match(const struct name_pattern *pattern, ckpt_str name,
                               struct name_span bound[NAME_VARIABLES], bool *matches, ckpt_error *err)
{
    struct regexp_group groups[REGEXP_GROUPS];
    if (name.len > UINT32_MAX)
        return fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET, "a name has {%zu} bytes, {=2^32 - 1} are allowed",
                    name.len);
    regexp_begin(pattern->regex, name);
    CKPT_TRY(regexp_find(pattern->regex, name, 0, groups, err));
    *matches = groups[0].start != REGEXP_NO_MATCH;
    for (size_t i = 0; *matches && i < pattern->nvariables; i++) {
        const struct regexp_group *group = &groups[i + 1];
        bool is_bound = group->start != REGEXP_NO_MATCH;
        bound[i].start = is_bound ? (uint32_t)group->start : 0;
        bound[i].len = is_bound ? (uint32_t)(group->end - group->start) : 0;
    }
    return CKPT_OK;
}

/* --------------------------------------------------------------------------- templates */

struct template_parser {
    struct name_template *out;
    const struct name_pattern *pattern;
    arena *a;
    buf text;      /* before the next variable */
    size_t nstars; /* of the pattern, that came so far */
};

/* end_piece - adds the piece that ends with VARIABLE. */
static ckpt_status end_piece(struct template_parser *parser, size_t variable, ckpt_error *err)
{
    const struct name_piece piece = {arena_str(parser->a, buf_view(&parser->text)), variable};
    CKPT_TRY_ALLOC(buf_ok(&parser->text) && piece.text.ptr, err);
    parser->text.len = 0;
    if (variable < NAME_VARIABLES)
        parser->out->uses[variable] = true;
    return ARENA_PUSH(parser->a, parser->out, pieces, &piece) ? CKPT_OK : fail_memory(err);
}

/* fail_unknown - fails because the pattern has no variable WHAT. */
static ckpt_status fail_unknown(const struct template_parser *parser, ckpt_str what, ckpt_error *err)
{
    return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "\"%.*s\", of \"%.*s\", is not in \"%.*s\"", STR_ARG(what),
                STR_ARG(parser->out->text), STR_ARG(parser->pattern->text));
}

static ckpt_status take_star(struct template_parser *parser, ckpt_error *err)
{
    size_t nth = parser->nstars++, seen = 0;
    for (size_t i = 0; i < parser->pattern->nvariables && !parser->pattern->is_expression; i++)
        if (!parser->pattern->variables[i].len && seen++ == nth)
            return end_piece(parser, i, err);
    return fail_unknown(parser, STR_LIT("*"), err);
}

static ckpt_status take_named(struct template_parser *parser, ckpt_str *rest, ckpt_error *err)
{
    ckpt_str name;
    CKPT_TRY(take_brace(rest, &name, err));
    size_t i = find_variable(parser->pattern, name);
    if (i != SIZE_MAX)
        return end_piece(parser, i, err);
    if (parser->out->extra.len && !str_eq(parser->out->extra, name))
        return fail_unknown(parser, name, err);
    parser->out->extra = name;
    return end_piece(parser, NAME_EXTRA, err);
}

/* take_backslash - takes "\1" or a quoted character. */
static ckpt_status take_backslash(struct template_parser *parser, ckpt_str *rest, ckpt_error *err)
{
    ckpt_str both = str_first(*rest, 2);
    char next = both.len > 1 ? both.ptr[1] : '\\';
    size_t group = str_digit(next);
    *rest = str_skip(*rest, 2);
    if (!parser->pattern->is_expression || group > 9) {
        buf_byte(&parser->text, (unsigned char)next);
        return CKPT_OK;
    }
    if (!group || group > parser->pattern->nvariables)
        return fail_unknown(parser, both, err);
    return end_piece(parser, group - 1, err);
}

static ckpt_status parse_template(struct template_parser *parser, ckpt_error *err)
{
    ckpt_str rest = parser->out->text;
    while (rest.len) {
        char next = *rest.ptr;
        if (next == '{') {
            CKPT_TRY(take_named(parser, &rest, err));
        } else if (next == '\\') {
            CKPT_TRY(take_backslash(parser, &rest, err));
        } else {
            if (next == '*')
                CKPT_TRY(take_star(parser, err));
            else
                buf_byte(&parser->text, (unsigned char)next);
            rest = str_skip(rest, 1);
        }
    }
    return end_piece(parser, NAME_NOTHING, err);
}

ckpt_status name_template_compile(struct name_template *out, ckpt_str text,
                                  const struct name_pattern *pattern, arena *a, ckpt_error *err)
{
    struct template_parser parser = {.out = out, .pattern = pattern, .a = a};
    *out = (struct name_template){.text = text};
    if (!text.len)
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "an empty name");
    buf_init(&parser.text, SIZE_MAX / 2);
    ckpt_status st = parse_template(&parser, err);
    buf_free(&parser.text);
    return st;
}

void name_template_put(const struct name_template *template, const struct name_match *match, ckpt_str extra,
                       buf *out)
{
    for (size_t i = 0; i < template->npieces; i++) {
        const struct name_piece *piece = &template->pieces[i];
        buf_put_str(out, piece->text);
        if (piece->variable != NAME_NOTHING)
            buf_put_str(out,
                        piece->variable == NAME_EXTRA ? extra : name_match_bound(match, piece->variable));
    }
}

ckpt_str name_template_fill(const struct name_template *template, const struct name_match *match,
                            ckpt_str extra, arena *a)
{
    buf name;
    buf_init(&name, SIZE_MAX / 2);
    name_template_put(template, match, extra, &name);
    ckpt_str filled = buf_ok(&name) ? arena_str(a, buf_view(&name)) : str_of(NULL, 0);
    buf_free(&name);
    return filled;
}
