/*
 * expression.c - judges the expressions in torch's exported programs (.pt2). torch.export.load gives each
 * "expr_str" of the JSON to sympy.sympify, which evaluates it as Python; ExportedProgram.module() compiles
 * each of "guards_code". The grammar is that of what torch writes:
 *
 *   expression  operand, or operands with operators between them
 *   operator    + - * / // % ** << >> < <= > >= == != & | ^ and or is
 *   operand     number, name, name(argument, …), ( expression ), each after any number of - + ~ not
 *   argument    expression, or name = expression; of Symbol and similar functions also a text of letters and
 *               digits
 *   in guards   also NAME['key'] and NAME[0], any number of times, and then .size() and similar methods,
 *               whose result may be indexed; the functions and constants of math
 *
 * A name with arguments must be one of the functions that torch writes. A name with two underscores in a row
 * is refused.
 */
#include "base/text.h"
#include "scan/scan.h"

#define DEPTH_MAX 200u /* parentheses within each other */

/* Of sympy, of torch.utils._sympy.functions, and of Python. */
static const char functions[] =
    "Abs Add And BitwiseFn_bitwise_and BitwiseFn_bitwise_or BitwiseFn_bitwise_xor CeilDiv CeilToInt "
    "CleanDiv Eq Equality Float FloatPow FloatTrueDiv FloorDiv FloorToInt Ge GreaterThan Gt ITE Identity "
    "Infinity IntInfinity IntTrueDiv Integer IsNonOverlappingAndDenseIndicator LShift Le LessThan Lt Max "
    "Min Mod ModularIndexing Mul Ne NegativeInfinity NegativeIntInfinity Not OpaqueUnaryFn_acos "
    "OpaqueUnaryFn_asin OpaqueUnaryFn_asinh OpaqueUnaryFn_atan OpaqueUnaryFn_cos OpaqueUnaryFn_cosh "
    "OpaqueUnaryFn_exp OpaqueUnaryFn_log OpaqueUnaryFn_log2 OpaqueUnaryFn_sin OpaqueUnaryFn_sinh "
    "OpaqueUnaryFn_sqrt OpaqueUnaryFn_tan OpaqueUnaryFn_tanh Or Piecewise ExprCondPair Pow PowByNatural "
    "PythonMod RShift Rational RoundDecimal RoundToInt StrictGreaterThan StrictLessThan Symbol ToFloat "
    "TruncToFloat TruncToInt Tuple Unequality Where Xor abs acos asin atan bool ceil ceiling cos cosh exp "
    "false float floor int log log2 max min pow round sin sinh sqrt tan tanh true trunc";
static const char text_functions[] = "Symbol Float Integer Rational";
static const char methods[] = "size stride storage_offset dim numel item";
static const char math_members[] =
    "inf nan pi e isnan isinf ceil floor trunc sqrt pow log log2 exp sin cos tan fabs";

struct expression {
    ckpt_str text;
    size_t pos;
    bool is_guard;
    uint8_t closers
        [DEPTH_MAX]; /* of the open parentheses: ')' of an expression, 'f' of a call, 't' of a call that
                                 * takes texts, ']' of an index */
    size_t depth;
};

static char peek(const struct expression *e, size_t ahead)
{
    return ahead < e->text.len - e->pos ? e->text.ptr[e->pos + ahead] : '\0';
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_name_char(char c) { return c == '_' || is_ascii_alnum(c); }

static void skip_space(struct expression *e)
{
    while (peek(e, 0) == ' ')
        e->pos++;
}

static ckpt_str take_name(struct expression *e)
{
    size_t from = e->pos;
    while (is_name_char(peek(e, 0)))
        e->pos++;
    return str_of(e->text.ptr + from, e->pos - from);
}

static bool take(struct expression *e, const char *token)
{
    skip_space(e);
    if (!str_starts(str_skip(e->text, e->pos), str_c(token)))
        return false;
    e->pos += strlen(token);
    return true;
}

static bool open_parenthesis(struct expression *e, char closer)
{
    if (e->depth == DEPTH_MAX)
        return false;
    e->closers[e->depth++] = (uint8_t)closer;
    return true;
}

/* take_text - takes a text in quotes, of letters, digits and + - . only. */
static bool take_text(struct expression *e)
{
    char quote = peek(e, 0);
    if (quote != '\'' && quote != '"')
        return false;
    do
        e->pos++;
    while (is_name_char(peek(e, 0)) || (peek(e, 0) && strchr("+-.", peek(e, 0))));
    return peek(e, 0) == quote && e->pos++ < e->text.len;
}

static bool take_number(struct expression *e)
{
    size_t from = e->pos;
    while (is_digit(peek(e, 0)))
        e->pos++;
    if (peek(e, 0) == '.')
        e->pos++;
    while (is_digit(peek(e, 0)))
        e->pos++;
    if (e->pos > from && (peek(e, 0) | 0x20) == 'e') {
        e->pos++;
        if (peek(e, 0) == '-' || peek(e, 0) == '+')
            e->pos++;
        if (!is_digit(peek(e, 0)))
            return false;
        while (is_digit(peek(e, 0)))
            e->pos++;
    }
    return e->pos > from && !is_name_char(peek(e, 0));
}

/* take_members - takes what may follow a name in a guard: indices with a text or number, methods without
 * arguments. */
static bool take_members(struct expression *e)
{
    for (;;) {
        if (peek(e, 0) == '[') {
            e->pos++;
            if (!take_text(e) && !take_number(e))
                return false;
            if (peek(e, 0) != ']')
                return false;
            e->pos++;
        } else if (peek(e, 0) == '.') {
            e->pos++;
            if (!str_matches_word(take_name(e), methods, str_eq) || !take(e, "()"))
                return false;
        } else {
            return true;
        }
    }
}

/* take_named - takes a name with what follows it. Sets *IS_OPEN if arguments follow. */
static bool take_named(struct expression *e, bool *is_open)
{
    ckpt_str name = take_name(e);
    if (!name.len || str_has(name, STR_LIT("__")) || str_is(name, "lambda"))
        return false;
    if (e->is_guard && str_is(name, "math") && peek(e, 0) == '.') {
        e->pos++;
        name = take_name(e);
        if (!str_matches_word(name, math_members, str_eq))
            return false;
        *is_open = peek(e, 0) == '(';
    } else {
        *is_open = peek(e, 0) == '(';
        if (*is_open && !str_matches_word(name, functions, str_eq))
            return false;
    }
    if (!*is_open)
        return !e->is_guard || take_members(e);
    e->pos++;
    return open_parenthesis(e, str_matches_word(name, text_functions, str_eq) ? 't' : 'f');
}

/* take_operand - takes an operand; sets *IS_OPEN if it took only up to a parenthesis, so that another
 * follows. */
static bool take_operand(struct expression *e, bool *is_open)
{
    *is_open = false;
    while (take(e, "-") || take(e, "+") || take(e, "~") || take(e, "not "))
        ;
    skip_space(e);
    char c = peek(e, 0);
    if (is_digit(c) || c == '.')
        return take_number(e);
    if ((c == '\'' || c == '"') && e->depth && e->closers[e->depth - 1] == 't')
        return take_text(e);
    if (c == '(') {
        e->pos++;
        *is_open = true;
        return open_parenthesis(e, ')');
    }
    return take_named(e, is_open);
}

static bool take_operator(struct expression *e)
{
    static const char *const operators[] = {
        "**", "//", "<<", ">>", "<=", ">=", "==", "!=",   "+",   "-",  "*",
        "/",  "%",  "<",  ">",  "&",  "|",  "^",  "and ", "or ", "is "};
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
        if (take(e, operators[i]))
            return true;
    return false;
}

/* take_keyword - takes "name=", which may begin an argument. */
static void take_keyword(struct expression *e)
{
    size_t from = e->pos;
    skip_space(e);
    ckpt_str name = take_name(e);
    if (!name.len || peek(e, 0) != '=' || peek(e, 1) == '=')
        e->pos = from;
    else
        e->pos++;
}

/* take_end_of_operand - takes the closing parentheses, and then a comma or operator. Sets *AT_END at the end.
 * */
static bool take_end_of_operand(struct expression *e, bool *at_end)
{
    while (e->depth && take(e, ")"))
        e->depth--;
    skip_space(e);
    *at_end = e->pos == e->text.len;
    if (*at_end)
        return e->depth == 0;
    if (e->depth && take(e, ",")) {
        if (e->closers[e->depth - 1] != ')')
            take_keyword(e);
        return true;
    }
    return take_operator(e);
}

bool expression_is_arithmetic(ckpt_str text, bool is_guard, size_t *failed_at)
{
    struct expression e = {.text = text, .is_guard = is_guard};
    bool is_open, at_end = false, ok = true;
    while (ok && !at_end) {
        ok = take_operand(&e, &is_open);
        if (!ok)
            break;
        if (is_open && e.closers[e.depth - 1] != ')' && take(&e, ")")) /* a call without arguments */
            e.depth--;
        else if (is_open)
            continue;
        ok = take_end_of_operand(&e, &at_end);
    }
    *failed_at = e.pos;
    return ok;
}
