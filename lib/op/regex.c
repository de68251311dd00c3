/* regex.c - `ckpt rename -s 'REGEX=>REPLACEMENT'`: replaces what matches in keys. */

#include "base/buf.h"
#include "base/regexp.h"
#include "base/utf8.h"
#include "op/keys.h"

#define MAX_SUBJECT (1u << 20) /* bytes of a key, old or new */

struct expression {
    regexp *regex;
    const char *replacement;
    buf out;              /* the new key */
    bool any_matched;     /* some key has a match */
    struct prefixes seen; /* until then: the first components of the keys, for a hint */
};

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

/* fail_no_arrow - fails because RULE has no "=>"; the hint for s/A/B/, a rule of sed, is 'A=>B'. */
static ckpt_status fail_no_arrow(const char *rule, ckpt_error *err)
{
    ckpt_status st = fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET,
                          "\"%s\" is not a rule of the form REGEX=>REPLACEMENT", rule);
    const char *from = rule[0] == 's' && rule[1] == '/' ? rule + 2 : NULL;
    const char *to = from ? strchr(from, '/') : NULL;
    if (to && to > from && !strchr(rule, '\'') && to[1 + strcspn(to + 1, "/")])
        error_add_hint(err, "did you mean '%.*s=>%.*s'?", (int)(to - from), from, (int)strcspn(to + 1, "/"),
                       to + 1);
    error_add_hint(err, "'^module\\.=>' removes a prefix, '^=>module.' adds it");
    return st;
}

static ckpt_status compile_rule(struct expression *expr, const char *rule, ckpt_error *err)
{
    const char *arrow = strstr(rule, "=>");
    char pattern[REGEXP_MAX_PATTERN + 1];
    if (!arrow)
        return fail_no_arrow(rule, err);
    size_t n = (size_t)(arrow - rule);
    if (n == 0 || n > REGEXP_MAX_PATTERN)
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "an expression of %zu bytes; 1 to %u are allowed", n,
                    REGEXP_MAX_PATTERN);
    memcpy(pattern, rule, n);
    pattern[n] = '\0';
    CKPT_TRY(regexp_compile(pattern, &expr->regex, err));
    expr->replacement = arrow + 2;
    return check_replacement(expr->replacement, regexp_group_count(expr->regex), err);
}

/* note_dollar - adds a notice if the replacement has $1, the group of other programs, which is text here. */
static void note_dollar(ckpt_plan *p, const struct expression *expr)
{
    const char *dollar = regexp_group_count(expr->regex) ? strchr(expr->replacement, '$') : NULL;
    if (dollar && dollar[1] >= '0' && dollar[1] <= '9')
        plan_notice(p, "\"$%c\" in the replacement is text; the group is \\%c", dollar[1], dollar[1]);
}

static void append_replacement(struct expression *expr, ckpt_str key, const struct regexp_group *groups)
{
    for (const char *p = expr->replacement; *p; p++) {
        if (*p != '\\') {
            buf_byte(&expr->out, (unsigned char)*p);
        } else if (*++p == '\\') {
            buf_byte(&expr->out, '\\');
        } else {
            const struct regexp_group *group = &groups[*p - '0'];
            if (group->start != REGEXP_NO_MATCH)
                buf_put(&expr->out, key.ptr + group->start, group->end - group->start);
        }
    }
}

/* replace_all - copies KEY to expr->out with each match replaced; after an empty match, copies a character.
 * *MATCHED: there was a match. */
static ckpt_status replace_all(struct expression *expr, ckpt_str key, bool *matched, ckpt_error *err)
{
    struct regexp_group groups[REGEXP_GROUPS];
    size_t at = 0;
    *matched = false;
    regexp_begin(expr->regex, key);
    while (at <= key.len) {
        CKPT_TRY(regexp_find(expr->regex, key, at, groups, err));
        size_t from = groups[0].start, to = groups[0].end, next = to;
        if (from == REGEXP_NO_MATCH)
            break;
        *matched = true;
        buf_put(&expr->out, key.ptr + at, from - at);
        append_replacement(expr, key, groups);
        if (to == from && to < key.len) {
            (void)utf8_next(key, &next, false);
            buf_put(&expr->out, key.ptr + to, next - to);
        }
        at = next + (to == from && to == key.len);
    }
    if (at < key.len)
        buf_put(&expr->out, key.ptr + at, key.len - at);
    if (buf_ok(&expr->out))
        return CKPT_OK;
    if (expr->out.no_memory)
        return fail_memory(err);
    return fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET, "\"%.*s\" would become longer than %u bytes", STR_ARG(key),
                MAX_SUBJECT);
}

static ckpt_status rename_key_by_regex(struct rename_rule *rule, ckpt_str key, ckpt_str *out, ckpt_error *err)
{
    struct expression *expr = rule->user;
    bool matched;
    if (!expr->any_matched)
        prefixes_add(&expr->seen, key);
    *out = key;
    if (key.len > MAX_SUBJECT)
        return fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET,
                    "a key of %zu bytes is too long for an expression; %u are allowed", key.len, MAX_SUBJECT);
    expr->out.len = 0;
    CKPT_TRY(replace_all(expr, key.len ? key : STR_LIT(""), &matched, err));
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
    struct expression expr = {.regex = NULL};
    struct rename_rule by_regex = {
        .plan = plan, .rename_key = rename_key_by_regex, .modules_follow_keys = true, .user = &expr};
    buf_init(&expr.out, MAX_SUBJECT);
    ckpt_status st = compile_rule(&expr, rule, err);
    if (st == CKPT_OK)
        note_dollar(plan, &expr);
    CKPT_THEN(st, keys_rename(&by_regex, err));
    buf_free(&expr.out);
    regexp_free(expr.regex);
    if (st == CKPT_OK && !expr.any_matched)
        return plan_no_key_matches(plan, "matches", str_of(rule, (size_t)(strstr(rule, "=>") - rule)),
                                   &expr.seen, err);
    return st;
}
