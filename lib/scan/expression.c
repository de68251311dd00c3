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

static char peek(const struct expression *expression, size_t ahead)
{
    return ahead < expression->text.len - expression->pos ? expression->text.ptr[expression->pos + ahead]
                                                          : '\0';
}

static bool is_digit(char character) { return character >= '0' && character <= '9'; }
static bool is_name_char(char character) { return character == '_' || is_ascii_alnum(character); }

static void skip_space(struct expression *expression)
{
    while (peek(expression, 0) == ' ')
        expression->pos++;
}

static ckpt_str take_name(struct expression *expression)
{
    size_t from = expression->pos;
    while (is_name_char(peek(expression, 0)))
        expression->pos++;
    return str_of(expression->text.ptr + from, expression->pos - from);
}

static bool take(struct expression *expression, const char *token)
{
    skip_space(expression);
    if (!str_starts(str_skip(expression->text, expression->pos), str_c(token)))
        return false;
    expression->pos += strlen(token);
    return true;
}

static bool open_parenthesis(struct expression *expression, char closer)
{
    if (expression->depth == DEPTH_MAX)
        return false;
    expression->closers[expression->depth++] = (uint8_t)closer;
    return true;
}

/* take_text - takes a text in quotes, of letters, digits and + - . only. */
static bool take_text(struct expression *expression)
{
    char quote = peek(expression, 0);
    if (quote != '\'' && quote != '"')
        return false;
    do
        expression->pos++;
    while (is_name_char(peek(expression, 0)) || (peek(expression, 0) && strchr("+-.", peek(expression, 0))));
    return peek(expression, 0) == quote && expression->pos++ < expression->text.len;
}

static bool take_number(struct expression *expression)
{
    size_t from = expression->pos;
    while (is_digit(peek(expression, 0)))
        expression->pos++;
    if (peek(expression, 0) == '.')
        expression->pos++;
    while (is_digit(peek(expression, 0)))
        expression->pos++;
    if (expression->pos > from && (peek(expression, 0) | 0x20) == 'e') {
        expression->pos++;
        if (peek(expression, 0) == '-' || peek(expression, 0) == '+')
            expression->pos++;
        if (!is_digit(peek(expression, 0)))
            return false;
        while (is_digit(peek(expression, 0)))
            expression->pos++;
    }
    return expression->pos > from && !is_name_char(peek(expression, 0));
}

/* take_members - takes what may follow a name in a guard: indices with a text or number, methods without
 * arguments. */
static bool take_members(struct expression *expression)
{
    for (;;) {
        if (peek(expression, 0) == '[') {
            expression->pos++;
            if (!take_text(expression) && !take_number(expression))
                return false;
            if (peek(expression, 0) != ']')
                return false;
            expression->pos++;
        } else if (peek(expression, 0) == '.') {
            expression->pos++;
            if (!str_matches_word(take_name(expression), methods, str_eq) || !take(expression, "()"))
                return false;
        } else {
            return true;
        }
    }
}

/* take_named - takes a name with what follows it. Sets *IS_OPEN if arguments follow. */
static bool take_named(struct expression *expression, bool *is_open)
{
    ckpt_str name = take_name(expression);
    if (!name.len || str_has(name, STR_LIT("__")) || str_is(name, "lambda"))
        return false;
    if (expression->is_guard && str_is(name, "math") && peek(expression, 0) == '.') {
        expression->pos++;
        name = take_name(expression);
        if (!str_matches_word(name, math_members, str_eq))
            return false;
        *is_open = peek(expression, 0) == '(';
    } else {
        *is_open = peek(expression, 0) == '(';
        if (*is_open && !str_matches_word(name, functions, str_eq))
            return false;
    }
    if (!*is_open)
        return !expression->is_guard || take_members(expression);
    expression->pos++;
    return open_parenthesis(expression, str_matches_word(name, text_functions, str_eq) ? 't' : 'f');
}

/* take_operand - takes an operand; sets *IS_OPEN if it took only up to a parenthesis, so that another
 * follows. */
static bool take_operand(struct expression *expression, bool *is_open)
{
    *is_open = false;
    while (take(expression, "-") || take(expression, "+") || take(expression, "~") ||
           take(expression, "not "))
        ;
    skip_space(expression);
    char c = peek(expression, 0);
    if (is_digit(c) || c == '.')
        return take_number(expression);
    if ((c == '\'' || c == '"') && expression->depth && expression->closers[expression->depth - 1] == 't')
        return take_text(expression);
    if (c == '(') {
        expression->pos++;
        *is_open = true;
        return open_parenthesis(expression, ')');
    }
    return take_named(expression, is_open);
}

static bool take_operator(struct expression *expression)
{
    static const char *const operators[] = {
        "**", "//", "<<", ">>", "<=", ">=", "==", "!=",   "+",   "-",  "*",
        "/",  "%",  "<",  ">",  "&",  "|",  "^",  "and ", "or ", "is "};
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
        if (take(expression, operators[i]))
            return true;
    return false;
}

/* take_keyword - takes "name=", which may begin an argument. */
static void take_keyword(struct expression *expression)
{
    size_t from = expression->pos;
    skip_space(expression);
    ckpt_str name = take_name(expression);
    if (!name.len || peek(expression, 0) != '=' || peek(expression, 1) == '=')
        expression->pos = from;
    else
        expression->pos++;
}

/* take_end_of_operand - takes the closing parentheses, and then a comma or operator. Sets *AT_END at the end.
 * */
static bool take_end_of_operand(struct expression *expression, bool *at_end)
{
    while (expression->depth && take(expression, ")"))
        expression->depth--;
    skip_space(expression);
    *at_end = expression->pos == expression->text.len;
    if (*at_end)
        return expression->depth == 0;
    if (expression->depth && take(expression, ",")) {
        if (expression->closers[expression->depth - 1] != ')')
            take_keyword(expression);
        return true;
    }
    return take_operator(expression);
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
