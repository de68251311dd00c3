/* Regular expressions: the matches of random ones are those of the C library, and no expression takes more
 * than a time that is linear in the text's length. */
#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include "base/regexp.h"
#include "unit.h"

static uint64_t random_state;

static unsigned random_below(unsigned n)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(random_state >> 33) % n;
}

/* Random expressions: atoms and groups in sequences and branches. Groups are not repeated in them, because in
 * repetitions the C library finds groups by rules of its own. */
struct generator {
    char text[200];
    size_t n;
    int depth;
};

static void put(struct generator *g, const char *s)
{
    size_t n = strlen(s);
    if (g->n + n >= sizeof g->text)
        return;
    memcpy(g->text + g->n, s, n + 1);
    g->n += n;
}

static void put_expression(struct generator *g);

static void put_atom(struct generator *g)
{
    static const char *const atoms[] = {"a", "a", "b", ".", "[ab]", "[^a]", "[[:alpha:]]", "[b-d]"};
    static const char *const repeats[] = {"", "", "", "*", "+", "?", "{2}", "{1,2}", "{0,2}", "{2,}"};
    if (g->depth < 3 && random_below(4) == 0 && g->n < 150) {
        g->depth++;
        put(g, "(");
        put_expression(g);
        put(g, ")");
        g->depth--;
        return;
    }
    put(g, atoms[random_below(sizeof atoms / sizeof *atoms)]);
    put(g, repeats[random_below(sizeof repeats / sizeof *repeats)]);
}

static void put_expression(struct generator *g)
{
    for (unsigned n = 1 + random_below(3); n > 0; n--)
        put_atom(g);
    if (random_below(4) == 0 && g->n < 150) {
        put(g, "|");
        put_expression(g);
    }
}

static size_t length_of(const struct regexp_group *g)
{
    return g->start == REGEXP_NO_MATCH ? 0 : g->end - g->start;
}

/* are_same_groups - returns true if the non-empty groups of both are the same. An empty group, and one that
 * is not in the match, are replaced by the same text. */
static bool are_same_groups(const struct regexp_group *ours, const regmatch_t *theirs, size_t n)
{
    for (size_t i = 0; i <= n && i < REGEXP_GROUPS; i++) {
        size_t length = theirs[i].rm_so < 0 ? 0 : (size_t)(theirs[i].rm_eo - theirs[i].rm_so);
        if (length_of(&ours[i]) != length || (length && ours[i].start != (size_t)theirs[i].rm_so))
            return false;
    }
    return true;
}

/* How many matches of the C library may begin after the leftmost one: musl 1.2.3 finds 28 of them there. */
#ifdef __GLIBC__
enum { MAX_LATER = 0 };
#else
enum { MAX_LATER = 50 };
#endif

static void matches_are_those_of_the_c_library(void)
{
    size_t compared = 0, matched = 0, ngroups_differ = 0, nlater = 0;
    for (unsigned i = 0; i < 6000; i++) {
        struct generator g = {.n = 0};
        regex_t theirs;
        regexp *ours = NULL;
        ckpt_error err;
        random_state = i;
        put(&g, i % 7 == 0 ? "^" : "");
        put_expression(&g);
        put(&g, i % 11 == 0 ? "$" : "");
        int code = regcomp(&theirs, g.text, REG_EXTENDED);
        ckpt_status st = regexp_compile(g.text, &ours, &err);
        CU_ASSERT_EQUAL((code != 0), (st != CKPT_OK));
        for (int k = 0; k < 8 && code == 0 && st == CKPT_OK; k++) {
            char text[12];
            size_t n = random_below(sizeof text - 1);
            regmatch_t expected[REGEXP_GROUPS];
            struct regexp_group found[REGEXP_GROUPS];
            for (size_t c = 0; c < n; c++)
                text[c] = "aabc"[random_below(4)];
            text[n] = '\0';
            bool matches = regexec(&theirs, text, REGEXP_GROUPS, expected, 0) == 0;
            regexp_begin(ours, str_of(text, n));
            CU_ASSERT_EQUAL_FATAL(regexp_find(ours, str_of(text, n), 0, found, &err), CKPT_OK);
            bool same = matches == (found[0].start != REGEXP_NO_MATCH) &&
                        (!matches || are_same_groups(found, expected, 0));
            bool later = matches && (regoff_t)found[0].start < expected[0].rm_so;
            CU_ASSERT(same || later);
            nlater += later;
            compared++;
            matched += matches;
            ngroups_differ += matches && !are_same_groups(found, expected, theirs.re_nsub);
        }
        if (code == 0)
            regfree(&theirs);
        regexp_free(ours);
    }
    CU_ASSERT(compared > 40000 && matched > 20000 && nlater <= MAX_LATER);
    CU_ASSERT(ngroups_differ * 200 < matched); /* 122 of 29583, all with branches in groups in groups */
}

/* Finds PATTERN in TEXT; returns "start-end,start-end…" of the match and its groups, "-" for none. */
static const char *find(const char *pattern, const char *text)
{
    static char out[200];
    regexp *re;
    ckpt_error err;
    struct regexp_group groups[REGEXP_GROUPS];
    size_t n = 0;
    if (regexp_compile(pattern, &re, &err) != CKPT_OK)
        return "malformed";
    regexp_begin(re, str_c(text));
    CU_ASSERT_EQUAL(regexp_find(re, str_c(text), 0, groups, &err), CKPT_OK);
    for (size_t i = 0; i <= regexp_group_count(re) && i < REGEXP_GROUPS; i++) {
        if (groups[i].start == REGEXP_NO_MATCH)
            n += (size_t)snprintf(out + n, sizeof out - n, "%s-", i ? "," : "");
        else
            n += (size_t)snprintf(out + n, sizeof out - n, "%s%zu-%zu", i ? "," : "", groups[i].start,
                                  groups[i].end);
    }
    regexp_free(re);
    return out;
}

static void the_longest_of_the_leftmost_matches_is_found(void)
{
    static const struct {
        const char *pattern, *text, *found;
    } cases[] = {
        {"a|ab|abc", "xabcd", "1-4"},
        {"(a|ab)(c|bcd)(d*)", "abcd", "0-4,0-2,2-3,3-4"},
        {"(.*)\\.(.*)", "a.b.c", "0-5,0-3,4-5"},
        {"(a*)(ab)*(b*)", "abb", "0-3,0-1,-,1-3"},
        {"b*", "abb", "0-0"},
        {"(a)|b", "b", "0-1,-"},
        {"(|a)*b", "aab", "0-3,1-2"},
        {"(a*)*", "b", "0-0,-"},
        {"((a)|(b))*", "ab", "0-2,1-2,0-1,1-2"},
        {"^a", "ba", "-"},
        {"a$", "ab", "-"},
        {"\\bb\\d{2,3}\\B.", "ab12 b1234", "5-10"},
        {".", "\xc3\xbc", "0-2"},
        {"[\xc3\xa0-\xc3\xbf]x", "\xc3\xbcx", "0-3"},
        {".x", "\xc3x", "0-2"}, /* a byte that is not UTF-8 is a character */
        {"(?i)[b-c]D", "Cd", "0-2"},
        {"(?i)[^b]", "B", "-"},
        {"[]a]+[^]]", "]a]b", "0-4"},
        {"[a-]+", "-a", "0-2"},
        {"[[.a.]-[=c=]]+", "abcd", "0-3"},
        {"(?:a(b))+(?:c)?", "ababc", "0-5,3-4"},
        {"a{0}b{,2}c{1,}", "abbcc", "1-5"},
        {"x**", "xx", "0-2"},
        {"^ab", "abab", "0-2"}, /* this one and those after it are literals */
        {"^ab", "a", "-"},
        {"^^a", "aa", "0-1"},
        {"^", "a", "0-0"},
        {"ab{2}\\.", "abb abbb.abb.", "9-13"},
        {"x", "\xc3x", "1-2"},
        {"\xc3\xbc", "\xc3\xc3\xbc", "1-3"},
        {"(?i)^aB", "Abx", "0-2"},
        {"(ab)", "xab", "1-3,1-3"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CU_ASSERT_STRING_EQUAL(find(cases[i].pattern, cases[i].text), cases[i].found);
}

#define NOT_GREEDY "a repetition that matches as little as possible is not supported"

static void faults_are_reported_with_their_column(void)
{
    static const struct {
        const char *pattern, *fault;
    } cases[] = {
        {"a(b", "column 2 of \"a(b\": unmatched parenthesis"},
        {"ab)", "column 3 of \"ab)\": unmatched parenthesis"},
        {"a[b", "column 2 of \"a[b\": unmatched ["},
        {"[b-a]", "column 2 of \"[b-a]\": invalid range of characters"},
        {"[[:word:]]", "column 2 of \"[[:word:]]\": unknown character class"},
        {"[[.ab.]]", "column 2 of \"[[.ab.]]\": unknown collating element"},
        {"a|*", "column 3 of \"a|*\": nothing to repeat"},
        {"^+", "column 2 of \"^+\": nothing to repeat"},
        {"a\\", "column 2 of \"a\\\": backslash at the end"},
        {"(a)\\1", "column 4 of \"(a)\\1\": references to a group are not supported in an expression"},
        {"\\q", "column 1 of \"\\q\": unknown escape"},
        {"a{2", "column 2 of \"a{2\": unmatched {"},
        {"a{3,2}", "column 2 of \"a{3,2}\": malformed repetition count: {m}, {m,} or {m,n}, up to 255"},
        {".*?a", "column 2 of \".*?a\": " NOT_GREEDY},
        {"a+?", "column 2 of \"a+?\": " NOT_GREEDY},
        {"(a)?\?", "column 4 of \"(a)?\?\": " NOT_GREEDY},
        {"a{1,2}?", "column 6 of \"a{1,2}?\": " NOT_GREEDY},
        {"a*+", "column 2 of \"a*+\": a repetition that gives nothing back is not supported"},
        {"(?<a>b)",
         "column 1 of \"(?<a>b)\": only (?:…) is understood, and (?i) at the start of the expression"},
        {"((a{200}){200}){200}", "column 15 of \"((a{200}){200}){200}\": too large an expression"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        regexp *re;
        ckpt_error err = {0};
        CU_ASSERT_EQUAL(regexp_compile(cases[i].pattern, &re, &err), CKPT_EUSAGE);
        CU_ASSERT_STRING_EQUAL(err.what, cases[i].fault);
    }
}

/* A text of 100,000 "a" is searched once from its start to its end, not once from each position. */
static void time_is_linear_in_the_length(void)
{
    enum { LENGTH = 100000 };
    static const char *const patterns[] = {"a+b",       "(a*)*b",      "(a|aa)+$b",
                                           "a.*b|a.*c", "[a-z]+[0-9]", "(.*)(.*)(.*)x"};
    char *text = malloc(LENGTH);
    CU_ASSERT_FATAL(text != NULL);
    memset(text, 'a', LENGTH);
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        regexp *re;
        ckpt_error err;
        struct regexp_group groups[REGEXP_GROUPS];
        CU_ASSERT_EQUAL_FATAL(regexp_compile(patterns[i], &re, &err), CKPT_OK);
        regexp_begin(re, str_of(text, LENGTH));
        CU_ASSERT_EQUAL(regexp_find(re, str_of(text, LENGTH), 0, groups, &err), CKPT_OK);
        CU_ASSERT_EQUAL(groups[0].start, REGEXP_NO_MATCH);
        regexp_free(re);
    }
    /* each match of one "a" needs the rest of the text: the work is limited */
    regexp *re;
    ckpt_error err = {0};
    struct regexp_group groups[REGEXP_GROUPS] = {{0, 0}};
    ckpt_status st = regexp_compile("a|a*b", &re, &err);
    CU_ASSERT_EQUAL_FATAL(st, CKPT_OK);
    regexp_begin(re, str_of(text, LENGTH));
    for (size_t at = 0; st == CKPT_OK && at < LENGTH; at++)
        st = regexp_find(re, str_of(text, LENGTH), at, groups, &err);
    CU_ASSERT_EQUAL(st, CKPT_ELIMIT);
    regexp_free(re);
    free(text);
}

void suite_regexp(void)
{
    UNIT(matches_are_those_of_the_c_library);
    UNIT(the_longest_of_the_leftmost_matches_is_found);
    UNIT(faults_are_reported_with_their_column);
    UNIT(time_is_linear_in_the_length);
}
