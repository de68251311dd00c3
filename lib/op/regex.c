/* regex.c - `ckpt rename -s 'REGEX=>REPLACEMENT'`: POSIX extended expressions on keys. */
#include <regex.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/utf8.h"
#include "op/keys.h"

#define MAX_PATTERN 1000u /* bytes of an expression */
#define MAX_REPEATS 4096u /* largest product of its bounds {m,n}: each multiplies the size of the automaton */
#define MAX_SUBJECT 65536u /* bytes of a key, old or new */
#define GROUPS      10

struct expression {
    regex_t re;
    const char *repl; /* the replacement */
    buf out;          /* the new key */
    char *subject;    /* the key, NUL-terminated */
    bool no_memory;
    struct prefixes seen; /* the first components of all keys, for a hint */
};

/* are_repeats_few - returns true if the product of all bounds {m,n} of PATTERN is at most MAX_REPEATS. */
static bool are_repeats_few(const char *pattern)
{
    unsigned long product = 1;
    for (const char *p = strchr(pattern, '{'); p; p = strchr(p + 1, '{')) {
        unsigned long most = 0, n = 0;
        const char *q = p + 1;
        for (; *q && *q != '}'; q++) {
            n = *q >= '0' && *q <= '9' && n < MAX_REPEATS * 10ul ? n * 10 + (unsigned long)(*q - '0') : 0;
            most = n > most ? n : most;
        }
        product *= most ? most : 1;
        if (product > MAX_REPEATS)
            return false;
    }
    return true;
}

static ckpt_status check_replacement(const char *repl, size_t groups, ckpt_error *err)
{
    if (!utf8_check(str_c(repl), false, NULL))
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "the replacement is not UTF-8");
    for (const char *p = strchr(repl, '\\'); p; p = strchr(p + 2, '\\')) {
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

/* regcomp_error - returns the text of the error CODE of regcomp(). The texts of regerror() differ between C
 * libraries. */
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

static ckpt_status compile_rule(struct expression *x, const char *rule, ckpt_error *err)
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
    int code = regcomp(&x->re, pattern, REG_EXTENDED);
    if (code)
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "\"%s\": %s", pattern, regcomp_error(code));
    x->repl = arrow + 2;
    ckpt_status st = check_replacement(x->repl, x->re.re_nsub, err);
    if (st != CKPT_OK)
        regfree(&x->re);
    return st;
}

static void append_replacement(struct expression *x, const char *s, const regmatch_t *m)
{
    for (const char *p = x->repl; *p; p++) {
        if (*p != '\\') {
            buf_byte(&x->out, (unsigned char)*p);
        } else if (*++p == '\\') {
            buf_byte(&x->out, '\\');
        } else {
            const regmatch_t *g = &m[*p - '0'];
            if (g->rm_so >= 0)
                buf_put(&x->out, s + g->rm_so, (size_t)(g->rm_eo - g->rm_so));
        }
    }
}

/* replace_all - replaces each match in S of LEN bytes, from left to right; after an empty match, copies one
 * byte. Sets *ANY to true if there was a match. False: the result is too long, or out of memory. */
static bool replace_all(struct expression *x, const char *s, size_t len, bool *any)
{
    regmatch_t m[GROUPS];
    size_t at = 0;
    int code = 0;
    *any = false;
    while (at <= len && (code = regexec(&x->re, s + at, GROUPS, m, at ? REG_NOTBOL : 0)) == 0) {
        size_t from = (size_t)m[0].rm_so, to = (size_t)m[0].rm_eo;
        *any = true;
        buf_put(&x->out, s + at, from);
        append_replacement(x, s + at, m);
        if (to == from && at + to < len)
            buf_byte(&x->out, (unsigned char)s[at + to]);
        at += to + (to == from);
    }
    x->no_memory = code != 0 && code != REG_NOMATCH;
    if (at < len)
        buf_put(&x->out, s + at, len - at);
    return buf_ok(&x->out);
}

static ckpt_status regex_key(struct naming *n, ckpt_str s, ckpt_str *out, ckpt_error *err)
{
    struct expression *x = n->user;
    bool any;
    prefixes_add(&x->seen, s);
    *out = s;
    if (s.len && memchr(s.ptr, '\0', s.len)) /* POSIX expressions end at a NUL */
        return CKPT_OK;
    if (s.len > MAX_SUBJECT)
        return fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET,
                    "a key of %zu bytes is too long for an expression; %u are allowed", s.len, MAX_SUBJECT);
    if (s.len)
        memcpy(x->subject, s.ptr, s.len);
    x->subject[s.len] = '\0';
    x->out.len = 0;
    bool done = replace_all(x, x->subject, s.len, &any);
    if (x->out.no_memory || x->no_memory)
        return fail_memory(err);
    if (!done)
        return fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET, "\"%.*s\" would become longer than %u bytes",
                    STR_ARG(s), MAX_SUBJECT);
    if (!any)
        return CKPT_OK;
    *out = arena_str(n->p->a, buf_view(&x->out));
    return out->ptr ? CKPT_OK : fail_memory(err);
}

ckpt_status ckpt_plan_rename_regex(ckpt_plan *plan, const char *rule, ckpt_error *err)
{
    CKPT_REQUIRE(err, plan && rule);
    struct expression x = {.subject = malloc(MAX_SUBJECT + 1)};
    struct naming n = {.p = plan, .key = regex_key, .modules_follow = true, .user = &x};
    ckpt_status st = x.subject ? compile_rule(&x, rule, err) : fail_memory(err);
    if (st == CKPT_OK) {
        buf_init(&x.out, MAX_SUBJECT);
        st = keys_rename(&n, err);
        buf_free(&x.out);
        regfree(&x.re);
    }
    free(x.subject);
    if (st == CKPT_OK && !n.changed)
        plan_notice_no_match(plan, "matches", str_of(rule, (size_t)(strstr(rule, "=>") - rule)), &x.seen);
    return st;
}
