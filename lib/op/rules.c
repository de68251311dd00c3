/* rules.c - see rules.h. */
#include "op/rules.h"

#include <inttypes.h>
#include <math.h>

#include "base/checked.h"
#include "base/utf8.h"
#include "codec/pickle_text.h"

#define ANY UINT32_MAX

static const struct verb {
    const char *word, *form;
    uint32_t operands, targets;
    uint32_t required, allowed;
} verbs[] = {
#define RULE_VERB(id, word, form, operands, targets, required, allowed)                                      \
    {word, form, operands, targets, required, allowed},
#include "op/rule_verbs.def"
#undef RULE_VERB
};

const char *rule_verb_name(enum rule_verb verb) { return verbs[verb].word; }

/* ------------------------------------------------------------------------------ errors */

ckpt_status place_if_failed(ckpt_status st, struct rule_place place, ckpt_error *err)
{
    if (st != CKPT_OK)
        error_add_where(err, "line %" PRIu32 ", column %" PRIu32, place.line, place.column);
    return st;
}

ckpt_status rule_fail(struct rule_place place, ckpt_error *err, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    ckpt_status st = fail_v(err, CKPT_EUSAGE, CKPT_NO_OFFSET, fmt, args);
    va_end(args);
    return place_if_failed(st, place, err);
}

/* ------------------------------------------------------------------------------ tokens */

enum token_kind {
    TOKEN_WORD,
    TOKEN_QUOTED,
    TOKEN_BRACKET, /* its text is between the brackets */
    TOKEN_COMMA,
    TOKEN_SEMICOLON,
    TOKEN_ARROW,   /* -> */
    TOKEN_REPLACE, /* => */
    TOKEN_EQUALS,
    TOKEN_LINE, /* the end of a line */
    TOKEN_END
};

struct token {
    enum token_kind kind;
    ckpt_str text;
    struct rule_place place;
};

struct parser {
    ckpt_str text;
    size_t at, end; /* after NEXT; after the token before that */
    uint32_t line;
    size_t counted;  /* the characters before this offset … */
    uint32_t column; /* … are in this column of their line */
    struct token next;
    arena *a;
    struct rule_params *params;
    struct rules *out;
};

/* get_place - returns where the next token begins. */
static struct rule_place get_place(struct parser *parser)
{
    for (; parser->counted < parser->at; parser->counted++) /* in characters, not bytes */
        parser->column += ((unsigned char)parser->text.ptr[parser->counted] & 0xc0) != 0x80;
    return (struct rule_place){parser->line, parser->column};
}

static char peek(const struct parser *parser, size_t ahead)
{
    return parser->text.len - parser->at > ahead ? parser->text.ptr[parser->at + ahead] : '\0';
}

static void begin_line(struct parser *parser)
{
    parser->at++; /* after the line break */
    parser->line++;
    parser->counted = parser->at;
    parser->column = 1;
}

static bool is_blank(char character) { return character == ' ' || character == '\t' || character == '\r'; }

/* skip_blanks - skips blanks, a comment, and a "\" at the end of a line with that end. */
static void skip_blanks(struct parser *parser)
{
    for (;;) {
        if (is_blank(peek(parser, 0))) {
            parser->at++;
        } else if (peek(parser, 0) == '\\' && peek(parser, 1) == '\r' && peek(parser, 2) == '\n') {
            parser->at += 2;
            begin_line(parser);
        } else if (peek(parser, 0) == '\\' && peek(parser, 1) == '\n') {
            parser->at++;
            begin_line(parser);
        } else if (peek(parser, 0) == '#') {
            while (parser->at < parser->text.len && peek(parser, 0) != '\n')
                parser->at++;
        } else {
            return;
        }
    }
}

/* take - makes the next token: KIND, of COUNT bytes. */
static ckpt_status take(struct parser *parser, enum token_kind kind, size_t count)
{
    parser->next.kind = kind;
    parser->next.text = str_of(parser->text.ptr + parser->at, count);
    parser->at += count;
    return CKPT_OK;
}

/* take_enclosed - makes the next token the text up to CLOSE, on the same line. */
static ckpt_status take_enclosed(struct parser *parser, enum token_kind kind, char close, ckpt_error *err)
{
    ckpt_str rest = str_skip(parser->text, parser->at + 1), inner = str_before(str_before(rest, '\n'), close);
    if (inner.len == rest.len || rest.ptr[inner.len] != close)
        return rule_fail(parser->next.place, err, "there is no \"%c\" that ends it", close);
    parser->at++;
    (void)take(parser, kind, inner.len);
    parser->at++;
    return CKPT_OK;
}

/* word_length - returns the length of the word at the current position. In the brackets of a glob, and in
 * braces, a comma or semicolon is a character like others. */
static size_t word_length(const struct parser *parser)
{
    size_t n = 0;
    bool in_set = false;
    for (char next = peek(parser, 0); next && next != '\n' && !is_blank(next); next = peek(parser, ++n)) {
        bool is_arrow = (next == '-' || next == '=') && peek(parser, n + 1) == '>';
        bool is_quote = n && (next == '"' || next == '\'') && peek(parser, n - 1) == ':'; /* FILE:"NAME" */
        if (!in_set && (next == ',' || next == ';' || is_arrow || is_quote))
            break;
        in_set = next == '[' || (in_set && next != ']');
        if (next == '\\' && peek(parser, n + 1) && peek(parser, n + 1) != '\n')
            n++;
    }
    return n;
}

/* advance - reads the next token to PARSER->next. */
static ckpt_status advance(struct parser *parser, ckpt_error *err)
{
    parser->end = parser->at;
    skip_blanks(parser);
    parser->next = (struct token){.place = get_place(parser)};
    bool is_end = parser->at >= parser->text.len;
    char first = peek(parser, 0), second = peek(parser, 1);
    if (is_end)
        return take(parser, TOKEN_END, 0);
    switch (first) {
    case '\n':
        (void)take(parser, TOKEN_LINE, 0);
        begin_line(parser);
        return CKPT_OK;
    case ',': return take(parser, TOKEN_COMMA, 1);
    case ';': return take(parser, TOKEN_SEMICOLON, 1);
    case '"':
    case '\'': return take_enclosed(parser, TOKEN_QUOTED, first, err);
    case '[': return take_enclosed(parser, TOKEN_BRACKET, ']', err);
    case '-':
        if (second == '>')
            return take(parser, TOKEN_ARROW, 2);
        break;
    case '=':
        if (second == '>')
            return take(parser, TOKEN_REPLACE, 2);
        if (!second || second == '\n' || is_blank(second))
            return take(parser, TOKEN_EQUALS, 1);
        break;
    case '\0': return rule_fail(parser->next.place, err, "a NUL byte in the rules");
    default: break;
    }
    return take(parser, TOKEN_WORD, word_length(parser));
}

static bool is_text(const struct token *token)
{
    return token->kind == TOKEN_WORD || token->kind == TOKEN_QUOTED;
}

static bool next_is_word(const struct parser *parser, const char *word)
{
    return parser->next.kind == TOKEN_WORD && str_is(parser->next.text, word);
}

static bool ends_rule(const struct token *token)
{
    return token->kind == TOKEN_SEMICOLON || token->kind == TOKEN_LINE || token->kind == TOKEN_END;
}

/* ----------------------------------------------------------------------------- numbers */

/* use_parameter - sets *OUT to the parameter NAME, and notes that a rule has it. */
static ckpt_status use_parameter(const struct parser *parser, ckpt_str name, struct rule_place place,
                                 int64_t *out, ckpt_error *err)
{
    struct rule_params *params = parser->params;
    if (!rule_params_find(params, name, out))
        return rule_fail(place, err, "the parameter $%.*s is not given\n-D %.*s=NUMBER gives it",
                         STR_ARG(name), STR_ARG(name));
    for (size_t i = 0; i < params->nlist; i++)
        if (str_eq(params->list[i].name, name))
            return CKPT_OK;
    const struct rule_param used = {.name = name, .value = *out, .key = str_of("", 0), .is_given = true};
    return ARENA_PUSH(parser->a, params, list, &used) ? CKPT_OK : fail_memory(err);
}

/* parse_number - sets *OUT to the number TEXT, or to the parameter that it names. */
static ckpt_status parse_number(const struct parser *parser, ckpt_str text, struct rule_place place,
                                int64_t *out, ckpt_error *err)
{
    ckpt_str rest = text;
    uint64_t number;
    if (str_take(&rest, STR_LIT("$")))
        return use_parameter(parser, rest, place, out, err);
    bool is_negative = str_take(&rest, STR_LIT("-"));
    if (!str_uint(rest, &number) || number > INT64_MAX)
        return rule_fail(place, err, "{\"%.*s\"} is not {=a number}", STR_ARG(text));
    *out = is_negative ? -(int64_t)number : (int64_t)number;
    return CKPT_OK;
}

static bool is_number(const struct token *token)
{
    const char first = token->text.len ? token->text.ptr[0] : '\0';
    return token->kind == TOKEN_WORD && (first == '$' || first == '-' || (first >= '0' && first <= '9'));
}

static ckpt_status take_number(struct parser *parser, int64_t *out, ckpt_error *err)
{
    if (parser->next.kind != TOKEN_WORD)
        return rule_fail(parser->next.place, err, "a number is missing here");
    CKPT_TRY(parse_number(parser, parser->next.text, parser->next.place, out, err));
    return advance(parser, err);
}

/* take_numbers - adds all numbers that follow, with or without commas, to RULE. */
static ckpt_status take_numbers(struct parser *parser, struct rule *rule, ckpt_error *err)
{
    do {
        int64_t number;
        CKPT_TRY(take_number(parser, &number, err));
        CKPT_TRY_ALLOC(ARENA_PUSH(parser->a, rule, numbers, &number), err);
        if (parser->next.kind == TOKEN_COMMA)
            CKPT_TRY(advance(parser, err));
    } while (is_number(&parser->next));
    return CKPT_OK;
}

/* parse_slice - parses TEXT, what a bracket has for one dimension. */
static ckpt_status parse_slice(const struct parser *parser, ckpt_str text, struct rule_place place,
                               struct rule_slice *out, ckpt_error *err)
{
    *out = (struct rule_slice){.step = 1, .is_index = !str_has(text, STR_LIT(":"))};
    if (str_is(text, "...") || str_is(text, "\xe2\x80\xa6")) {
        out->is_ellipsis = true;
        return CKPT_OK;
    }
    ckpt_str start = str_take_until(&text, ':'), stop = str_take_until(&text, ':');
    out->has_start = start.len != 0;
    out->has_stop = stop.len != 0;
    if (out->has_start || out->is_index)
        CKPT_TRY(parse_number(parser, start, place, &out->start, err));
    if (out->has_stop)
        CKPT_TRY(parse_number(parser, stop, place, &out->stop, err));
    if (text.len)
        CKPT_TRY(parse_number(parser, text, place, &out->step, err));
    if (out->step < 1)
        return rule_fail(place, err, "{a step of %" PRId64 "}; it must be {=at least 1}", out->step);
    return CKPT_OK;
}

static ckpt_status take_bracket(struct parser *parser, struct rule *rule, ckpt_error *err)
{
    ckpt_str rest = parser->next.text;
    while (str_trim_start(rest, " \t").len) {
        struct rule_slice slice;
        ckpt_str one = str_trim_end(str_trim_start(str_take_until(&rest, ','), " \t"), " \t");
        CKPT_TRY(parse_slice(parser, one, parser->next.place, &slice, err));
        CKPT_TRY_ALLOC(ARENA_PUSH(parser->a, rule, slices, &slice), err);
    }
    return advance(parser, err);
}

/* ------------------------------------------------------------------------------- rules */

static ckpt_status take_name(struct parser *parser, struct rule_name *out, ckpt_error *err)
{
    if (parser->next.kind == TOKEN_BRACKET)
        return rule_fail(parser->next.place, err,
                         "a name is missing here\na name that begins with a bracket is written in quotes");
    if (!is_text(&parser->next))
        return rule_fail(parser->next.place, err, "a name is missing here");
    *out = (struct rule_name){parser->next.text, parser->next.place};
    if (!utf8_check(out->text, false, NULL))
        return rule_fail(out->place, err, "\"%.*s\" is not UTF-8", STR_ARG(out->text));
    return advance(parser, err);
}

/* is_adjacent - returns true if the next token begins where the one before it ended. */
static bool is_adjacent(const struct parser *parser)
{
    const char *begin = parser->next.text.ptr - (parser->next.kind == TOKEN_QUOTED);
    return is_text(&parser->next) && begin == parser->text.ptr + parser->end;
}

/* take_member - takes the name of a tensor that follows a file in quotes, or that is in quotes, and sets
 * *FOUND to whether there is one: "FILE":NAME, FILE:"NAME" or "FILE":"NAME". FIRST is the token before it. */
static ckpt_status take_member(struct parser *parser, const struct token *first, struct rule_value *value,
                               bool *found, ckpt_error *err)
{
    struct rule_name name = {.text = first->text};
    bool has_colon = first->kind == TOKEN_WORD && str_ends(first->text, STR_LIT(":"));
    if (first->kind == TOKEN_QUOTED && is_adjacent(parser) && str_starts(parser->next.text, STR_LIT(":"))) {
        CKPT_TRY(take_name(parser, &name, err));
        value->member = str_skip(name.text, 1);
        has_colon = name.text.len == 1;
    }
    *found = value->member.ptr != NULL;
    if (!has_colon || !is_adjacent(parser) || parser->next.kind != TOKEN_QUOTED)
        return CKPT_OK;
    CKPT_TRY(take_name(parser, &name, err));
    if (first->kind == TOKEN_WORD)
        value->text.text.len--;
    value->member = name.text;
    *found = true;
    return CKPT_OK;
}

/* classify_word - sets what VALUE, which is not in quotes, is. */
static ckpt_status classify_word(struct rule_value *value, ckpt_error *err)
{
    ckpt_str text = value->text.text, digits = text;
    uint64_t number;
    bool is_negative = str_take(&digits, STR_LIT("-"));
    bool is_integer = digits.len != 0;
    for (size_t i = 0; i < digits.len; i++)
        is_integer = is_integer && str_digit(digits.ptr[i]) < 10;
    if (is_integer && (!str_uint(digits, &number) || (is_negative && number > UINT64_C(1) << 63)))
        return rule_fail(value->text.place, err, "{%.*s} has more than {=64 bits}", STR_ARG(text));
    value->is_true = str_is(text, "true") || str_is(text, "True");
    if (is_integer)
        value->kind = RULE_VALUE_INT;
    else if (value->is_true || str_is(text, "false") || str_is(text, "False"))
        value->kind = RULE_VALUE_BOOL;
    else if (str_is(text, "none") || str_is(text, "None") || str_is(text, "null"))
        value->kind = RULE_VALUE_NONE;
    else if (pickle_text_is_float(text))
        value->kind = RULE_VALUE_FLOAT;
    if (value->kind == RULE_VALUE_FLOAT)
        CKPT_TRY_ALLOC(pickle_text_float(text, &value->number), err);
    bool is_word = text.len && str_digit(text.ptr[text.len - 1]) >= 10; /* as inf */
    if (value->kind == RULE_VALUE_FLOAT && isinf(value->number) && !is_word)
        return rule_fail(value->text.place, err, "{%.*s} is beyond {=the largest float}", STR_ARG(text));
    return CKPT_OK;
}

/* take_parameter - replaces NAME, if it is "$PARAMETER", by the digits of the parameter. */
static ckpt_status take_parameter(const struct parser *parser, struct rule_name *name, ckpt_error *err)
{
    int64_t number;
    if (!str_starts(name->text, STR_LIT("$")))
        return CKPT_OK;
    CKPT_TRY(parse_number(parser, name->text, name->place, &number, err));
    name->text = arena_printf(parser->a, "%" PRId64, number);
    return name->text.ptr ? CKPT_OK : fail_memory(err);
}

/* take_value - takes what follows "=". */
static ckpt_status take_value(struct parser *parser, struct rule_value *value, ckpt_error *err)
{
    const struct token first = parser->next;
    bool is_file;
    if (first.kind == TOKEN_BRACKET)
        return rule_fail(
            first.place, err,
            "a list cannot be set\neach of its values has a name, which ends in a number: betas.0");
    if (!is_text(&first))
        return rule_fail(first.place, err, "a value is missing here");
    CKPT_TRY(take_name(parser, &value->text, err));
    CKPT_TRY(take_member(parser, &first, value, &is_file, err));
    if (first.kind == TOKEN_QUOTED && !is_file)
        value->kind = RULE_VALUE_TEXT;
    if (first.kind == TOKEN_QUOTED || is_file)
        return CKPT_OK;
    CKPT_TRY(take_parameter(parser, &value->text, err));
    return classify_word(value, err);
}

/* take_operands - adds the names after the verb to RULE. */
static ckpt_status take_operands(struct parser *parser, struct rule *rule, ckpt_error *err)
{
    struct rule_name name;
    for (bool more = true; more;) {
        CKPT_TRY(take_name(parser, &name, err));
        CKPT_TRY_ALLOC(ARENA_PUSH(parser->a, rule, names, &name), err);
        more = parser->next.kind == TOKEN_COMMA;
        if (more)
            CKPT_TRY(advance(parser, err));
    }
    return CKPT_OK;
}

static ckpt_status take_targets(struct parser *parser, struct rule *rule, ckpt_error *err)
{
    struct rule_name name;
    for (bool more = true; more;) {
        CKPT_TRY(advance(parser, err)); /* the arrow or comma */
        CKPT_TRY(take_name(parser, &name, err));
        CKPT_TRY_ALLOC(ARENA_PUSH(parser->a, rule, targets, &name), err);
        more = parser->next.kind == TOKEN_COMMA;
    }
    return CKPT_OK;
}

/* take_replacement - takes "EXPRESSION => [TEXT]". */
static ckpt_status take_replacement(struct parser *parser, struct rule *rule, ckpt_error *err)
{
    struct rule_name from, to = {.text = str_of("", 0)};
    CKPT_TRY(take_name(parser, &from, err));
    if (parser->next.kind != TOKEN_REPLACE)
        return rule_fail(parser->next.place, err, "\"=>\" is missing here, as in: rename ^model\\. =>");
    CKPT_TRY(advance(parser, err));
    if (is_text(&parser->next))
        CKPT_TRY(take_name(parser, &to, err));
    rule->word = from;
    rule->replacement = ARENA_CONCAT(parser->a, from.text, STR_LIT("=>"), to.text);
    rule->given |= ARGUMENT_REPLACEMENT;
    return rule->replacement.ptr ? CKPT_OK : fail_memory(err);
}

/* take_keyword - takes an argument that begins with a word of its own. *FOUND: there is one. */
static ckpt_status take_keyword(struct parser *parser, struct rule *rule, uint32_t *found, ckpt_error *err)
{
    static const struct {
        const char *word;
        uint32_t argument;
    } keywords[] = {{"dim", ARGUMENT_DIM},
                    {"dims", ARGUMENT_DIMS},
                    {"sizes", ARGUMENT_SIZES},
                    {"to", ARGUMENT_TO},
                    {"with", ARGUMENT_WITH}};
    *found = parser->next.kind == TOKEN_EQUALS ? ARGUMENT_VALUE : 0;
    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++)
        if (next_is_word(parser, keywords[i].word))
            *found = keywords[i].argument;
    if (*found)
        CKPT_TRY(advance(parser, err));
    switch (*found) {
    case ARGUMENT_DIM: return take_number(parser, &rule->dim, err);
    case ARGUMENT_TO: return take_number(parser, &rule->to, err);
    case ARGUMENT_DIMS:
    case ARGUMENT_SIZES: return take_numbers(parser, rule, err);
    case ARGUMENT_VALUE: return take_value(parser, &rule->value, err);
    case ARGUMENT_WITH:
        CKPT_TRY(take_name(parser, &rule->word, err));
        return take_parameter(parser, &rule->word, err);
    default: return CKPT_OK;
    }
}

/* fail_without_comma - does what rule_fail does at TOKEN, which follows a name in a list of names of VERB. */
static ckpt_status fail_without_comma(const struct token *token, const struct verb *verb, ckpt_error *err)
{
    return rule_fail(token->place, err, "no comma before \"%.*s\"\nnames are separated by commas: %s %s",
                     STR_ARG(token->text), verb->word, verb->form);
}

/* take_argument - takes one argument of RULE. */
static ckpt_status take_argument(struct parser *parser, struct rule *rule, ckpt_error *err)
{
    const struct token first = parser->next;
    const struct verb *verb = &verbs[rule->verb];
    uint32_t found, takes = verb->required | verb->allowed;
    CKPT_TRY(take_keyword(parser, rule, &found, err));
    if (found) {
        /* taken */
    } else if (first.kind == TOKEN_BRACKET) {
        found = ARGUMENT_BRACKET;
        CKPT_TRY(take_bracket(parser, rule, err));
    } else if (takes & ARGUMENT_NUMBERS && is_number(&first)) {
        found = ARGUMENT_NUMBERS;
        CKPT_TRY(take_numbers(parser, rule, err));
    } else if (takes & ARGUMENT_WORD && is_text(&first)) {
        found = ARGUMENT_WORD;
        CKPT_TRY(take_name(parser, &rule->word, err));
    }
    if (!found && is_text(&first) && verb->operands == ANY && !rule->given)
        return fail_without_comma(&first, verb, err);
    if (!(takes & found))
        return rule_fail(first.place, err, "`%s` does not take {\"%.*s\"}", verb->word, STR_ARG(first.text));
    if (rule->given & found)
        return rule_fail(first.place, err, "\"%.*s\" is given twice", STR_ARG(first.text));
    rule->given |= found;
    return CKPT_OK;
}

#define WORD_MAX 12 /* bytes of a word that is compared with the verbs; a longer one is none of them */

static char lower(char letter)
{
    return letter >= 'A' && letter <= 'Z' ? (char)(letter - 'A' + 'a') : letter;
}

/* count_changes - returns how many letters are replaced, added, left out or exchanged with the next one in
 * WORD, in lower or upper case, to get VERB. WORD_MAX: WORD is too long. */
static size_t count_changes(ckpt_str word, const char *verb)
{
    const size_t length = strlen(verb);
    size_t rows[3][WORD_MAX + 1];
    if (word.len > WORD_MAX || length > WORD_MAX)
        return WORD_MAX;
    for (size_t k = 0; k <= length; k++)
        rows[0][k] = k;
    for (size_t i = 1; i <= word.len; i++) {
        size_t *row = rows[i % 3], *before = rows[(i + 2) % 3];
        row[0] = i;
        for (size_t k = 1; k <= length; k++) {
            bool same = lower(word.ptr[i - 1]) == verb[k - 1];
            bool exchanged = i > 1 && k > 1 && lower(word.ptr[i - 1]) == verb[k - 2] &&
                             lower(word.ptr[i - 2]) == verb[k - 1];
            row[k] = before[k - 1] + !same;
            row[k] = before[k] + 1 < row[k] ? before[k] + 1 : row[k];
            row[k] = row[k - 1] + 1 < row[k] ? row[k - 1] + 1 : row[k];
            if (exchanged && rows[(i + 1) % 3][k - 2] + 1 < row[k])
                row[k] = rows[(i + 1) % 3][k - 2] + 1;
        }
    }
    return rows[word.len % 3][length];
}

/* find_nearest_verb - returns the verb that WORD is another word for, or that it is a misspelling or the
 * beginning of; NULL: there is none. */
static const char *find_nearest_verb(ckpt_str word)
{
    static const struct {
        const char *word;
        enum rule_verb verb;
    } others[] = {
#define RULE_WORD(word, verb) {word, RULE_##verb},
#include "op/rule_words.def"
#undef RULE_WORD
    };
    const char *nearest = NULL;
    size_t least = WORD_MAX;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (count_changes(word, others[i].word) == 0)
            return verbs[others[i].verb].word;
    for (size_t i = 0; i < RULE_VERBS; i++) {
        const size_t length = strlen(verbs[i].word), changes = count_changes(word, verbs[i].word);
        bool begins = word.len > 2 && str_starts(str_c(verbs[i].word), word);
        bool is_near = changes <= (length > 4 ? 2 : 1) || begins;
        if (is_near && changes < least) {
            least = changes;
            nearest = verbs[i].word;
        }
    }
    return nearest;
}

/* fail_verb - fails because WORD, where a rule begins, is not a verb, or is in quotes if not IS_WORD. */
static ckpt_status fail_verb(ckpt_str word, bool is_word, struct rule_place place, ckpt_error *err)
{
    const char *nearest = is_word ? find_nearest_verb(word) : NULL;
    ckpt_status st = nearest ? rule_fail(place, err, "{\"%.*s\"} is not a verb; the nearest is {=%s}",
                                         STR_ARG(word), nearest)
                             : rule_fail(place, err, "{\"%.*s\"} is not a verb%s", STR_ARG(word),
                                         is_word ? "" : ": it is in quotes or brackets, or is a sign");
    error_add_hint(err, "the verbs are"
#define RULE_VERB(id, word, form, operands, targets, required, allowed) " " word
#include "op/rule_verbs.def"
#undef RULE_VERB
    );
    return st;
}

static ckpt_status find_verb(struct parser *parser, struct rule *rule, ckpt_error *err)
{
    ckpt_str word = parser->next.text;
    rule->place = parser->next.place;
    if (parser->next.kind == TOKEN_WORD && str_ends(word, STR_LIT("?"))) {
        rule->is_optional = true;
        word.len--;
    }
    for (size_t i = 0; parser->next.kind == TOKEN_WORD && i < RULE_VERBS; i++)
        if (str_is(word, verbs[i].word)) {
            rule->verb = (enum rule_verb)i;
            return advance(parser, err);
        }
    return fail_verb(word, parser->next.kind == TOKEN_WORD, rule->place, err);
}

static const char *argument_name(uint32_t argument)
{
    switch (argument) {
    case ARGUMENT_DIM: return "`dim N`";
    case ARGUMENT_NUMBERS: return "the new order of the dimensions, as 0 2 1";
    case ARGUMENT_BRACKET: return "what is in brackets, as [2, -1]";
    case ARGUMENT_TO: return "`to N`";
    case ARGUMENT_VALUE: return "\"=\" between spaces, and a value";
    default: return "another name";
    }
}

/* check_rule - checks that RULE has what its verb needs. */
static ckpt_status check_rule(const struct rule *rule, ckpt_error *err)
{
    const struct verb *verb = &verbs[rule->verb];
    uint32_t missing = verb->required & ~rule->given, first = 1;
    while (missing && !(missing & first))
        first *= 2;
    if (rule->nnames > verb->operands)
        return rule_fail(rule->names[1].place, err, "`%s` takes one name", verb->word);
    if (rule->ntargets > verb->targets)
        return rule_fail(rule->targets[verb->targets].place, err, "`%s` makes %s", verb->word,
                         verb->targets ? "one tensor" : "no tensor");
    if (missing)
        return rule_fail(rule->place, err, "`%s` needs %s", verb->word,
                         rule->verb == RULE_CAST ? "a dtype" : argument_name(first));
    return CKPT_OK;
}

/* lacks_names - returns true if what follows VERB is no name of a tensor. */
static bool lacks_names(const struct parser *parser, const struct verb *verb)
{
    const struct token *next = &parser->next;
    return next->kind == TOKEN_BRACKET || next->kind == TOKEN_ARROW || ends_rule(next) ||
           next_is_word(parser, "dim") || next_is_word(parser, "dims") || next_is_word(parser, "to") ||
           next_is_word(parser, "sizes") || next_is_word(parser, "with") ||
           (verb->required & ARGUMENT_NUMBERS && is_number(next));
}

/* take_after_verb - takes what follows the verb of RULE. FOLLOWS: the rule comes after a semicolon. */
static ckpt_status take_after_verb(struct parser *parser, struct rule *rule, bool follows, ckpt_error *err)
{
    const struct verb *verb = &verbs[rule->verb];
    rule->continues = follows && verb->operands && lacks_names(parser, verb);
    if (verb->required & ARGUMENT_REPLACEMENT)
        CKPT_TRY(take_replacement(parser, rule, err));
    else if (!rule->continues)
        CKPT_TRY(take_operands(parser, rule, err));
    bool has_comma = rule->verb == RULE_TIE && rule->nnames == 2; /* as many write it */
    rule->continues |= follows && rule->verb == RULE_CAST && rule->nnames == 1 && ends_rule(&parser->next);
    if (has_comma || (rule->nnames && rule->continues)) { /* the last name is the word */
        rule->word = rule->names[--rule->nnames];
        rule->given |= ARGUMENT_WORD;
    }
    while (!ends_rule(&parser->next) && parser->next.kind != TOKEN_ARROW)
        CKPT_TRY(take_argument(parser, rule, err));
    if (parser->next.kind == TOKEN_ARROW)
        CKPT_TRY(take_targets(parser, rule, err));
    if (is_text(&parser->next) && verb->targets == ANY)
        return fail_without_comma(&parser->next, verb, err);
    if (!ends_rule(&parser->next))
        return rule_fail(parser->next.place, err, "{\"%.*s\"} comes after {=the end of the rule}",
                         STR_ARG(parser->next.text));
    return check_rule(rule, err);
}

static ckpt_status take_rule(struct parser *parser, bool follows, ckpt_error *err)
{
    const char *begin = parser->next.text.ptr;
    struct rule rule = {.continues = false};
    CKPT_TRY(find_verb(parser, &rule, err));
    ckpt_status st = take_after_verb(parser, &rule, follows, err);
    if (st == CKPT_EUSAGE)
        error_add_hint(err, "%s %s", verbs[rule.verb].word, verbs[rule.verb].form);
    CKPT_TRY(st);
    rule.text = str_of(begin, parser->end - (size_t)(begin - parser->text.ptr));
    return ARENA_PUSH(parser->a, parser->out, rules, &rule) ? CKPT_OK : fail_memory(err);
}

/* -------------------------------------------------------------------------- parameters */

static bool is_identifier(ckpt_str text)
{
    for (size_t i = 0; i < text.len; i++)
        if (!is_ascii_alnum(text.ptr[i]) && text.ptr[i] != '_')
            return false;
    return text.len;
}

/* take_identifier - takes a word of letters, digits and "_", after "$" if MAY_BE_PARAMETER. */
static ckpt_status take_identifier(struct parser *parser, bool may_be_parameter, ckpt_str *out,
                                   ckpt_error *err)
{
    ckpt_str name = parser->next.text;
    if (may_be_parameter)
        (void)str_take(&name, STR_LIT("$"));
    if (ends_rule(&parser->next))
        return rule_fail(parser->next.place, err, "a %s is missing here",
                         may_be_parameter ? "key of config.json, a number or $NAME" : "name");
    if (parser->next.kind != TOKEN_WORD || !is_identifier(name))
        return rule_fail(parser->next.place, err, "{\"%.*s\"} is not {=a name of letters, digits and _}",
                         STR_ARG(parser->next.text));
    *out = parser->next.text;
    return advance(parser, err);
}

/* take_term - takes one alternative of `param`. */
static ckpt_status take_term(struct parser *parser, struct rule_term *out, ckpt_error *err)
{
    *out = (struct rule_term){.place = parser->next.place};
    CKPT_TRY(take_identifier(parser, true, &out->left, err));
    if (next_is_word(parser, "*") || next_is_word(parser, "/")) {
        out->operator = *parser->next.text.ptr;
        CKPT_TRY(advance(parser, err));
        CKPT_TRY(take_identifier(parser, true, &out->right, err));
    }
    if (!next_is_word(parser, "if"))
        return CKPT_OK;
    CKPT_TRY(advance(parser, err));
    return take_identifier(parser, false, &out->condition, err);
}

/* fail_unknown - fails because PARAM, which is the text DEFINITION, is nowhere. */
static ckpt_status fail_unknown(const struct parser *parser, const struct rule_param *param,
                                struct rule_place place, ckpt_str definition, ckpt_error *err)
{
    const char *path = parser->params->config.path;
    ckpt_status st = path ? rule_fail(place, err, "the parameter %.*s is not known: %s has no %.*s",
                                      STR_ARG(param->name), path, STR_ARG(definition))
                          : rule_fail(place, err,
                                      "the parameter %.*s is not known: there is no config.json next to the "
                                      "input, which would have %.*s",
                                      STR_ARG(param->name), STR_ARG(definition));
    error_add_hint(err, "-D %.*s=NUMBER gives it, as does such an entry of config.json",
                   STR_ARG(param->name));
    return st;
}

/* take_param - takes "param NAME = TERM | …", and computes the parameter, unless the caller gave it. */
static ckpt_status take_param(struct parser *parser, ckpt_error *err)
{
    struct rule_place place = parser->next.place;
    struct rule_param param = {.key = str_of("", 0), .is_defined = true};
    struct rule_term term;
    CKPT_TRY(advance(parser, err));
    CKPT_TRY(take_identifier(parser, false, &param.name, err));
    if (parser->next.kind != TOKEN_EQUALS)
        return rule_fail(parser->next.place, err, "\"=\" between spaces is missing here");
    for (size_t i = 0; i < parser->params->nlist; i++)
        if (parser->params->list[i].is_defined && str_eq(parser->params->list[i].name, param.name))
            return rule_fail(place, err, "the parameter %.*s is defined twice", STR_ARG(param.name));
    param.is_given = rule_params_find(parser->params, param.name, &param.value);
    bool is_known = param.is_given, found;
    size_t begin = parser->at;
    do {
        CKPT_TRY(advance(parser, err)); /* the "=" or "|" */
        CKPT_TRY(take_term(parser, &term, err));
        found = false;
        if (!is_known)
            CKPT_TRY(rule_param_compute(parser->params, &term, &param, &found, err));
        is_known = is_known || found;
    } while (next_is_word(parser, "|"));
    ckpt_str definition = str_of(parser->text.ptr + begin, parser->end - begin);
    if (!ends_rule(&parser->next))
        return rule_fail(parser->next.place, err, "{\"%.*s\"} comes after {=the end of the parameter}",
                         STR_ARG(parser->next.text));
    if (!is_known)
        return fail_unknown(parser, &param, place, str_trim_start(definition, " \t"), err);
    return ARENA_PUSH(parser->a, parser->params, list, &param) ? CKPT_OK : fail_memory(err);
}

ckpt_status rules_parse(ckpt_str text, struct rule_params *params, arena *a, struct rules *out,
                        ckpt_error *err)
{
    struct parser parser = {.text = text, .line = 1, .column = 1, .a = a, .params = params, .out = out};
    bool follows = false;
    *out = (struct rules){.nrules = 0};
    (void)str_take(&parser.text, STR_LIT("\xef\xbb\xbf")); /* as some editors mark UTF-8 */
    CKPT_TRY(advance(&parser, err));
    while (parser.next.kind != TOKEN_END) {
        if (next_is_word(&parser, "param"))
            CKPT_TRY(take_param(&parser, err));
        else if (!ends_rule(&parser.next))
            CKPT_TRY(take_rule(&parser, follows, err));
        follows = parser.next.kind == TOKEN_SEMICOLON;
        if (parser.next.kind != TOKEN_END)
            CKPT_TRY(advance(&parser, err));
    }
    return CKPT_OK;
}
