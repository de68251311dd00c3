/*
 * python_config.c - judges texts that mmengine runs as Python (Config.fromstring): configurations that its
 * inferencers take from a checkpoint. mmengine writes nothing but values, such as
 *   model = dict(type='ResNet', depth=50, norm=dict(requires_grad=True))
 *   custom_imports = dict(imports=['my.module'], allow_failed_imports=False)
 * so that a text is data if each of its tokens is one of these:
 *   comments, numbers, - = , : ( ) [ ] { } and line ends; + after a number
 *   strings without a prefix f, one after the other or escapes of letters, which would hide names
 *   names, which do nothing unless they are called; keywords, __…__ and _base_ (a file to run) are refused
 *   calls of types that only hold values, which are not assigned to
 * mmengine replaces "{{…}}" in the text before it runs it, and Python reads "coding" in a comment: refused.
 * It imports what custom_imports names, and a "type" with dots.
 */
#include "scan/scan.h"

#define KEY_MAX 64u /* bytes of the longest name that is compared */

/* The packages of OpenMMLab, whose modules are harmless. */
static const char packages[] = "mmaction mmcls mmcv mmdeploy mmdet mmdet3d mmedit mmengine mmocr mmpose "
                               "mmpretrain mmrazor mmseg mmyolo";

enum token { TOKEN_BAD, TOKEN_END, TOKEN_NAME, TOKEN_STRING, TOKEN_NUMBER, TOKEN_PUNCTUATION };

struct config {
    ckpt_str text;
    size_t pos;
    size_t depth; /* of brackets */
    enum token token;
    ckpt_str token_text; /* of a string: between its quotes, with escapes */
    bool has_escape;     /* it has an escape that can stand for a letter */
};

static int peek(const struct config *config, size_t ahead)
{
    return ahead < config->text.len - config->pos ? (unsigned char)config->text.ptr[config->pos + ahead] : -1;
}

static bool is_digit(int ch) { return ch >= '0' && ch <= '9'; }
static bool is_name_char(int ch)
{
    return ch == '_' || ((ch | 0x20) >= 'a' && (ch | 0x20) <= 'z') || is_digit(ch);
}

/* skip_space - skips white space, line ends and comments. False: a comment may name an encoding. */
static bool skip_space(struct config *config)
{
    while (peek(config, 0) > 0 && strchr(" \t\r\n\f\\#", peek(config, 0))) {
        bool is_continuation = peek(config, 0) == '\\' &&
                               (peek(config, 1) == '\n' || peek(config, 1) == '\r');
        if (peek(config, 0) == '\\' && !is_continuation)
            return true;
        size_t from = config->pos++;
        while (config->text.ptr[from] == '#' && peek(config, 0) >= 0 && peek(config, 0) != '\n' &&
               peek(config, 0) != '\r')
            config->pos++;
        if (str_has(str_of(config->text.ptr + from, config->pos - from), STR_LIT("coding")))
            return false;
    }
    return true;
}

/* take_string - takes a string whose quote is next. */
static enum token take_string(struct config *config)
{
    int quote = peek(config, 0);
    size_t nquotes = peek(config, 1) == quote && peek(config, 2) == quote ? 3 : 1, run = 0;
    config->pos += nquotes;
    size_t from = config->pos;
    config->has_escape = false;
    for (; run < nquotes; config->pos++) {
        int next = peek(config, 0);
        if (next <= 0 || (nquotes == 1 && (next == '\n' || next == '\r')))
            return TOKEN_BAD;
        run = next == quote ? run + 1 : 0;
        if (next == '\\') {
            config->pos++;
            if (peek(config, 0) <= 0)
                return TOKEN_BAD;
            config->has_escape |= !strchr("\\'\"nrt", peek(config, 0));
        }
    }
    config->token_text = str_of(config->text.ptr + from, config->pos - from - nquotes);
    return TOKEN_STRING;
}

/* take_name - takes a name, or a string with a prefix. */
static enum token take_name(struct config *config)
{
    size_t from = config->pos;
    while (is_name_char(peek(config, 0)))
        config->pos++;
    config->token_text = str_of(config->text.ptr + from, config->pos - from);
    if (peek(config, 0) != '\'' && peek(config, 0) != '"')
        return TOKEN_NAME;
    return str_matches_word(config->token_text, "r b u br rb R B U BR Br bR RB Rb rB", str_eq)
               ? take_string(config)
               : TOKEN_BAD;
}

/* read_token - reads the next token. Names of other letters than those of ASCII are refused: Python may read
 * them as others. */
static enum token read_token(struct config *config)
{
    if (!skip_space(config))
        return TOKEN_BAD;
    int next = peek(config, 0);
    size_t from = config->pos;
    if (next < 0)
        return TOKEN_END;
    if (next == '\'' || next == '"')
        return take_string(config);
    if (is_digit(next) || (next == '.' && is_digit(peek(config, 1)))) {
        while (is_name_char(peek(config, 0)) || peek(config, 0) == '.')
            config->pos++;
        config->token_text = str_of(config->text.ptr + from, config->pos - from);
        return TOKEN_NUMBER;
    }
    if (is_name_char(next))
        return take_name(config);
    if (!next || !strchr("+-=,:()[]{}", next))
        return TOKEN_BAD;
    config->pos++;
    config->depth += strchr("([{", next) != NULL;
    config->depth -= config->depth && strchr(")]}", next);
    config->token_text = str_of(config->text.ptr + from, 1);
    return TOKEN_PUNCTUATION;
}

static bool is_one_of(const struct config *config, const char *characters)
{
    return config->token == TOKEN_PUNCTUATION && strchr(characters, *config->token_text.ptr);
}

/* is_allowed - returns true if the current token may follow LAST. */
static bool is_allowed(const struct config *config, const struct config *last)
{
    static const char types[] = "dict float frozenset int list set tuple";
    static const char keywords[] = "and as assert async await break class continue def del elif else except "
                                   "exec finally for from global if import in is lambda nonlocal not or "
                                   "pass print raise return try while with yield";
    bool is_after_type = last->token == TOKEN_NAME && str_matches_word(last->token_text, types, str_eq);
    bool is_call = is_one_of(config, "(") && (last->token == TOKEN_NAME || last->token == TOKEN_STRING ||
                                              last->token == TOKEN_NUMBER || is_one_of(last, ")]}"));
    bool is_keyword_argument = is_one_of(config, "=") && last->depth > 0;
    if (is_call ? !is_after_type : is_after_type && !is_keyword_argument)
        return false;
    if (is_one_of(config, "=") && is_one_of(last, ":")) /* := */
        return false;
    bool is_joined = last->token == TOKEN_NAME || last->token == TOKEN_STRING;
    if (config->token == TOKEN_STRING && (config->has_escape || is_joined))
        return false;
    if (is_one_of(config, "+") && last->token != TOKEN_NUMBER)
        return false;
    return config->token != TOKEN_NAME ||
           (!str_starts(config->token_text, STR_LIT("__")) && !str_is(config->token_text, "_base_") &&
            !str_matches_word(config->token_text, keywords, str_eq));
}

/* has_template - returns true if TEXT has "{{", after which mmengine may replace a name. */
static bool has_template(ckpt_str text)
{
    static const char space[] = " \t\r\n\f\v{";
    size_t at = str_find(text, STR_LIT("{{"), 0);
    while (at != SIZE_MAX) {
        while (at < text.len && text.ptr[at] && strchr(space, text.ptr[at]))
            at++;
        if (at < text.len && (text.ptr[at] == '$' || is_name_char((unsigned char)text.ptr[at])))
            return true;
        at = str_find(text, STR_LIT("{{"), at);
    }
    return false;
}

/* Where a string is in a configuration. */
struct place {
    bool in_imports; /* in the value of custom_imports */
    ckpt_str key;    /* the name or string before the last "=" or ":" */
};

/* judge_string - reports the string CONFIG, if it names what mmengine imports. */
static ckpt_status judge_string(const struct scanned *in, uint64_t at, const struct config *config,
                                const struct place *place)
{
    ckpt_str text = config->token_text;
    ckpt_str package = str_before(text, '.');
    bool is_known = str_matches_word(package, packages, str_eq);
    if (place->in_imports && str_is(place->key, "imports") && !is_known)
        return SCAN_FOUND(in, SCAN_LOADER_CODE, at, "%.*s, what mmengine imports", STR_ARG(text));
    return scan_target_runs_code(text) ||
                   (str_is(place->key, "type") && !is_known && scan_may_be_target(text))
               ? scan_stored_target(in, at, text)
               : CKPT_OK;
}

/* note_token - keeps in PLACE what the tokens up to CONFIG, after LAST, say about the next string. */
static void note_token(const struct config *config, const struct config *last, struct place *place)
{
    if (config->depth == 0 && is_one_of(config, "="))
        place->in_imports = str_is(last->token_text, "custom_imports");
    if (is_one_of(config, "=:") && (last->token == TOKEN_NAME || last->token == TOKEN_STRING))
        place->key = str_first(last->token_text, KEY_MAX);
}

/* get_line - returns the line of TEXT that POS is in, up to 80 bytes of it. */
static ckpt_str get_line(ckpt_str text, size_t pos)
{
    while (pos && text.ptr[pos - 1] != '\n')
        pos--;
    ckpt_str rest = str_skip(text, pos);
    size_t end = str_find(rest, STR_LIT("\n"), 0);
    return str_first(rest, end < 80 ? end : 80);
}

ckpt_status scan_python_config(const struct scanned *in, uint64_t at, ckpt_str text)
{
    struct config c = {.text = text, .token = TOKEN_END}, last = c;
    struct place p = {.key = STR_LIT("")};
    bool is_data = !has_template(text);
    do {
        last = c;
        c.token = read_token(&c);
        is_data = is_data && c.token != TOKEN_BAD && is_allowed(&c, &last);
        note_token(&c, &last, &p);
        if (is_data && c.token == TOKEN_STRING)
            CKPT_TRY(judge_string(in, at, &c, &p));
    } while (is_data && c.token != TOKEN_END);
    return is_data ? CKPT_OK
                   : SCAN_FOUND(in, SCAN_EVALUATED_TEXT, at,
                                "a configuration that mmengine runs as Python is more than {=values}: {%.*s}",
                                STR_ARG(get_line(text, last.pos)));
}
