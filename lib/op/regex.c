/* regex.c - `ckpt rename -s 'REGEX=>REPLACEMENT'`: POSIX extended expressions on keys, and of Python's what
 * POSIX lacks and keys need: \d \D \w \W \s \S, (?:…), and (?i) at the start. */
#include <regex.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/utf8.h"
#include "op/keys.h"

#define MAX_PATTERN 1000u /* bytes of an expression */
#define MAX_REPEATS 4096u /* largest product of all {m,n} of an expression: each multiplies the automaton */
#define MAX_SUBJECT 65536u /* bytes of a key, old or new */
#define GROUPS      10     /* \0 to \9 */
#define MAX_GROUPS  64u    /* groups of an expression and its whole match, those without a number included */

struct expression {
    regex_t regex;
    size_t ngroups, ncaptures; /* groups of REGEX; those of them that have a number */
    size_t group_of[GROUPS];   /* [number]: the group of REGEX; [0]: the whole match */
    const char *replacement;
    buf out;              /* the new key */
    char *subject;        /* the key, NUL-terminated */
    bool no_memory;       /* regexec() ran out of it */
    bool any_matched;     /* some key has a match */
    struct prefixes seen; /* the first components of all keys, for a hint */
};

/* are_repeats_few - returns true if the upper bounds of all {m,n} multiply to at most MAX_REPEATS. */
static bool are_repeats_few(const char *pattern)
{
    unsigned long product = 1;
    for (const char *open = strchr(pattern, '{'); open; open = strchr(open + 1, '{')) {
        unsigned long larger = 0, number = 0; /* both stay below MAX_REPEATS * 100 */
        for (const char *c = open + 1; *c && *c != '}'; c++) {
            bool digit = *c >= '0' && *c <= '9' && number < MAX_REPEATS * 10ul;
            number = digit ? number * 10 + (unsigned long)(*c - '0') : 0;
            larger = number > larger ? number : larger;
        }
        product *= larger ? larger : 1;
        if (product > MAX_REPEATS)
            return false;
    }
    return true;
}

/* ---- translation to POSIX */

/* find_class - returns the bytes for a bracket expression that \LETTER stands for; NULL: none. */
static const char *find_class(char letter)
{
    switch (letter) {
    case 'd':
    case 'D': return "0-9";
    case 'w':
    case 'W': return "[:alnum:]_";
    case 's':
    case 'S': return "[:space:]";
    default: return NULL;
    }
}

/* translate_bracket - copies the bracket expression at P to OUT; returns what follows it. */
static const char *translate_bracket(const char *p, buf *out)
{
    const char *start = p++;
    p += *p == '^';
    p += *p == ']'; /* the first ] is a member */
    buf_put(out, start, (size_t)(p - start));
    while (*p && *p != ']') {
        bool named = p[0] == '[' && (p[1] == ':' || p[1] == '.' || p[1] == '=');
        const char *end = named ? strchr(p + 2, ']') : NULL;
        const char *class = p[0] == '\\' && p[1] >= 'a' ? find_class(p[1]) : NULL; /* \D excludes: not here */
        size_t n = end ? (size_t)(end + 1 - p) : class ? 2 : 1;
        if (class)
            buf_put_cstr(out, class);
        else
            buf_put(out, p, n);
        p += n;
    }
    return p;
}

/* translate_escape - copies the escape at P to OUT; returns what follows it. */
static const char *translate_escape(const struct expression *expr, const char *p, buf *out)
{
    const char *class = find_class(p[1]);
    bool is_reference = p[1] >= '1' && p[1] <= '9' && (size_t)(p[1] - '0') <= expr->ncaptures;
    if (class)
        buf_printf(out, "[%s%s]", p[1] < 'a' ? "^" : "", class);
    else if (is_reference)
        buf_printf(out, "\\%zu", expr->group_of[p[1] - '0']);
    else
        buf_put(out, p, p[1] ? 2 : 1);
    return p + (p[1] ? 2 : 1);
}

/* translate_group - copies the opening of the group at P to OUT and numbers it; returns what follows it, NULL
 * after an error. */
static const char *translate_group(struct expression *expr, const char *p, buf *out, ckpt_error *err)
{
    bool has_number = p[1] != '?';
    if (!has_number && p[2] != ':') {
        (void)fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET,
                   "\"%.3s\" is not understood: only (?:…), and (?i) at the start of the expression", p);
        return NULL;
    }
    if (++expr->ngroups >= MAX_GROUPS) {
        (void)fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "more than %u groups", MAX_GROUPS - 1);
        return NULL;
    }
    if (has_number && ++expr->ncaptures < GROUPS)
        expr->group_of[expr->ncaptures] = expr->ngroups;
    buf_byte(out, '(');
    return p + (has_number ? 1 : 3);
}

/* translate - writes PATTERN as POSIX has it to OUT, NUL-terminated, and numbers its groups. */
static ckpt_status translate(struct expression *expr, const char *pattern, buf *out, ckpt_error *err)
{
    for (const char *p = pattern; *p;) {
        if (*p == '[')
            p = translate_bracket(p, out);
        else if (*p == '\\')
            p = translate_escape(expr, p, out);
        else if (*p == '(')
            p = translate_group(expr, p, out, err);
        else
            buf_byte(out, (unsigned char)*p++);
        if (!p)
            return CKPT_EUSAGE;
    }
    buf_byte(out, 0);
    return buf_ok(out) ? CKPT_OK : fail_memory(err);
}

static ckpt_status check_replacement(const char *replacement, size_t groups, ckpt_error *err)
{
    if (!utf8_check(str_c(replacement), false, NULL))
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "the replacement is not UTF-8");
    for (const char *p = strchr(replacement, '\\'); p; p = strchr(p + 2, '\\')) {
        if (p[1] == '\\')
            continue;
        if (p[1] < '0' || p[1] > '9')
            return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET,
                        "\"\\%.1s\" in the replacement: only \\0 to \\9 and \\\\ are allowed", p + 1);
        if ((size_t)(p[1] - '0') > groups)
            return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET,
                        "the replacement uses \\%c, the expression has %zu group%s", p[1], groups,
                        groups == 1 ? "" : "s");
    }
    return CKPT_OK;
}

/* regcomp_error - returns a text for CODE of regcomp(). Texts of regerror() differ between C libraries. */
static const char *regcomp_error(int code)
{
    static const struct {
        int code;
        const char *text;
    } known[] = {
        {REG_ECOLLATE, "unknown collating element"},
        {REG_ECTYPE, "unknown character class"},
        {REG_EESCAPE, "backslash at the end"},
        {REG_ESUBREG, "reference to a group that is not there"},
        {REG_EBRACK, "unmatched ["},
        {REG_EPAREN, "unmatched parenthesis"},
        {REG_EBRACE, "unmatched {"},
        {REG_BADBR, "malformed repetition count"},
        {REG_ERANGE, "invalid range of characters"},
        {REG_ESPACE, "too large an expression"},
        {REG_BADRPT, "nothing to repeat"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].code == code)
            return known[i].text;
    return "malformed expression"; /* REG_BADPAT, and codes that POSIX does not have */
}

static ckpt_status compile_pattern(struct expression *expr, const char *pattern, ckpt_error *err)
{
    buf posix;
    bool any_case = strncmp(pattern, "(?i)", 4) == 0;
    buf_init(&posix, 16 * MAX_PATTERN); /* \w becomes 13 bytes */
    ckpt_status st = translate(expr, pattern + (any_case ? 4 : 0), &posix, err);
    if (st == CKPT_OK) {
        int code = regcomp(&expr->regex, (const char *)posix.data, REG_EXTENDED | (any_case ? REG_ICASE : 0));
        if (code)
            st = fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "\"%s\": %s", pattern, regcomp_error(code));
    }
    buf_free(&posix);
    return st;
}

static ckpt_status compile_rule(struct expression *expr, const char *rule, ckpt_error *err)
{
    const char *arrow = strstr(rule, "=>");
    char pattern[MAX_PATTERN + 1];
    if (!arrow)
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET,
                    "\"%s\" is not a rule of the form REGEX=>REPLACEMENT\n"
                    "'^module\\.=>' removes a prefix, '^=>module.' adds it",
                    rule);
    size_t n = (size_t)(arrow - rule);
    if (n == 0 || n > MAX_PATTERN)
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "an expression of %zu bytes; 1 to %u are allowed", n,
                    MAX_PATTERN);
    memcpy(pattern, rule, n);
    pattern[n] = '\0';
    if (!are_repeats_few(pattern))
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "the repetitions of \"%s\" multiply to more than %u",
                    pattern, MAX_REPEATS);
    CKPT_TRY(compile_pattern(expr, pattern, err));
    expr->replacement = arrow + 2;
    ckpt_status st = check_replacement(expr->replacement, expr->ncaptures, err);
    if (st != CKPT_OK)
        regfree(&expr->regex);
    return st;
}

static void append_replacement(struct expression *expr, const char *subject, const regmatch_t *groups)
{
    for (const char *p = expr->replacement; *p; p++) {
        if (*p != '\\') {
            buf_byte(&expr->out, (unsigned char)*p);
        } else if (*++p == '\\') {
            buf_byte(&expr->out, '\\');
        } else {
            const regmatch_t *group = &groups[expr->group_of[*p - '0']];
            if (group->rm_so >= 0) /* -1: the group is not in the match */
                buf_put(&expr->out, subject + group->rm_so, (size_t)(group->rm_eo - group->rm_so));
        }
    }
}

/* replace_all - copies the LEN bytes of expr->subject to expr->out with each match replaced; after an empty
 * match, copies a byte. *MATCHED: there was a match. False: the result is too long, or out of memory. */
static bool replace_all(struct expression *expr, size_t len, bool *matched)
{
    const char *s = expr->subject;
    regmatch_t groups[MAX_GROUPS];
    size_t at = 0;
    int code = 0;
    *matched = false;
    while (at <= len &&
           (code = regexec(&expr->regex, s + at, expr->ngroups + 1, groups, at ? REG_NOTBOL : 0)) == 0) {
        size_t from = (size_t)groups[0].rm_so, to = (size_t)groups[0].rm_eo; /* relative to s + at */
        *matched = true;
        buf_put(&expr->out, s + at, from);
        append_replacement(expr, s + at, groups);
        if (to == from && at + to < len)
            buf_byte(&expr->out, (unsigned char)s[at + to]);
        at += to + (to == from);
    }
    expr->no_memory = code != 0 && code != REG_NOMATCH; /* the only other error is REG_ESPACE */
    if (at < len)
        buf_put(&expr->out, s + at, len - at);
    return buf_ok(&expr->out);
}

static ckpt_status rename_key_by_regex(struct rename_rule *rule, ckpt_str key, ckpt_str *out, ckpt_error *err)
{
    struct expression *expr = rule->user;
    bool matched;
    prefixes_add(&expr->seen, key);
    *out = key;
    if (key.len && memchr(key.ptr, '\0', key.len)) /* at which regexec() would stop */
        return CKPT_OK;
    if (key.len > MAX_SUBJECT)
        return fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET,
                    "a key of %zu bytes is too long for an expression; %u are allowed", key.len, MAX_SUBJECT);
    if (key.len)
        memcpy(expr->subject, key.ptr, key.len);
    expr->subject[key.len] = '\0';
    expr->out.len = 0;
    bool done = replace_all(expr, key.len, &matched);
    if (expr->out.no_memory || expr->no_memory)
        return fail_memory(err);
    if (!done)
        return fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET, "\"%.*s\" would become longer than %u bytes",
                    STR_ARG(key), MAX_SUBJECT);
    if (!matched)
        return CKPT_OK;
    expr->any_matched = true;
    *out = arena_str(rule->plan->a, buf_view(&expr->out));
    return out->ptr ? CKPT_OK : fail_memory(err);
}

ckpt_status ckpt_plan_rename_regex(ckpt_plan *plan, const char *rule, ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    CKPT_REQUIRE(err, plan && rule);
    struct expression expr = {.subject = malloc(MAX_SUBJECT + 1)};
    struct rename_rule by_regex = {
        .plan = plan, .rename_key = rename_key_by_regex, .modules_follow_keys = true, .user = &expr};
    ckpt_status st = expr.subject ? compile_rule(&expr, rule, err) : fail_memory(err);
    if (st == CKPT_OK) {
        buf_init(&expr.out, MAX_SUBJECT);
        st = keys_rename(&by_regex, err);
        buf_free(&expr.out);
        regfree(&expr.regex);
    }
    free(expr.subject);
    if (st == CKPT_OK && !expr.any_matched)
        return plan_no_key_matches(plan, "matches", str_of(rule, (size_t)(strstr(rule, "=>") - rule)),
                                   &expr.seen, err);
    return st;
}
