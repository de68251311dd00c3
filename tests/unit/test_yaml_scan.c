/* The tokens of YAML: where scalars end, what is a key, and what is refused. */
#include "codec/yaml_scan.h"

#include <stdio.h>
#include <stdlib.h>

#include "unit.h"

/* describe_tokens - writes the tokens of TEXT to OUT: scalars as (text), "!tag", &, *, ":" after a key, "="
 * without a key, "%", "!!" for a failure. Returns OUT. */
static const char *describe_tokens(const char *text, char out[512])
{
    static const char *const marks[] = {[YAML_ERROR] = "!!", [YAML_KEY] = ":",   [YAML_VALUE] = "=",
                                        [YAML_ANCHOR] = "&", [YAML_ALIAS] = "*", [YAML_TAG_DIRECTIVE] = "%"};
    yaml_scan *y = malloc(sizeof *y);
    ckpt_error err;
    enum yaml_token token;
    size_t n = 0;
    CU_ASSERT_PTR_NOT_NULL_FATAL(y);
    yaml_init(y, str_c(text), &err);
    out[0] = '\0';
    do {
        token = yaml_next(y);
        ckpt_str t = yaml_text(y);
        if (token == YAML_SCALAR)
            n += (size_t)snprintf(out + n, 512 - n, "(%.*s)", (int)t.len, t.ptr);
        else if (token == YAML_TAG)
            n += (size_t)snprintf(out + n, 512 - n, "%.*s ", (int)t.len, t.ptr);
        else if (token != YAML_OTHER && token != YAML_END)
            n += (size_t)snprintf(out + n, 512 - n, "%s", marks[token]);
    } while (token != YAML_ERROR && token != YAML_END && n < 400);
    CU_ASSERT(token != YAML_ERROR || (err.status == CKPT_EFORMAT && yaml_next(y) == YAML_ERROR));
    free(y);
    return out;
}

static void check_tokens(const char *text, const char *expected, int line)
{
    char out[512];
    if (strcmp(describe_tokens(text, out), expected) != 0)
        printf("    line %d: %s\n", line, out);
    CU_ASSERT_STRING_EQUAL(out, expected);
}
#define CHECK_TOKENS(text, expected) check_tokens(text, expected, __LINE__)

static void scalars_end_where_yaml_says(void)
{
    CHECK_TOKENS("a: b\n", "(a):(b)");
    CHECK_TOKENS("\xef\xbb\xbf"
                 "a: b c # d\n",
                 "(a):(b c)");
    CHECK_TOKENS("a:b: c#d\n", "(a:b):(c#d)");
    CHECK_TOKENS("a: b\n  c\n  'd\ne: f", "(a):(b c 'd)(e):(f)");
    CHECK_TOKENS("{a: b, c, ? d}", "(a):(b)(c)(d)");
    CHECK_TOKENS("[a:b, {c: }]", "(a:b)(c):");
    CHECK_TOKENS("- - a\n  - -b\n- ?c\n- :d", "(a)(-b)(?c)(:d)");
    CHECK_TOKENS("? a\n: b\n", "(a)=(b)");
    CHECK_TOKENS("'it''s': \"\\x41\\u00e9\\n\\\"\\\n   z\"", "(it's):(A\xc3\xa9\n\"z)");
    CHECK_TOKENS("\"_\\x74arget_\": \"x\\\n  y\"", "(_target_):(xy)");
    CHECK_TOKENS("\"a\n b\": c", "(a\n b)!!"); /* a key is on one line */
    CHECK_TOKENS("--- a\n...\n--- b\n", "(a)(b)");
    CHECK_TOKENS("%YAML 1.1\n---\n&x a: *x\n", "&(a):*");
    CHECK_TOKENS("%TAG ! tag:a,2002:\n--- !b c", "%!b (c)");
    CHECK_TOKENS("!!a%2Fb [!<tag:c,d> e]", "!!a/b !<tag:c,d> (e)");
}

/* A block scalar goes on only in lines that are indented more than the collection around it. */
static void block_scalars_end_with_their_indentation(void)
{
    CHECK_TOKENS("a: |\n  b: c\n\n   d\ne: f", "(a):(b: c\n\n d\n)(e):(f)");
    CHECK_TOKENS("a: |\nb: c\n", "(a):()(b):(c)");
    CHECK_TOKENS("- a: >-\n  b: c\n", "(a):()(b):(c)");
    CHECK_TOKENS("- |\n b\n- c", "(b\n)(c)");
    CHECK_TOKENS("a: |\n      \n  b: c\n", "(a):()(b):(c)"); /* an empty line is longer */
    CHECK_TOKENS("a: |2 # d\n   b\n", "(a):( b\n)");
    CHECK_TOKENS("a: | b\n", "(a):!!");
}

/* "-" drops line breaks at the end, "+" keeps all; a line without an end has none. */
static void block_scalars_end_as_their_header_says(void)
{
    CHECK_TOKENS("? |-\n  a\n: b\n", "(a)=(b)");
    CHECK_TOKENS("? >-\n  a\n\n: b\n", "(a)=(b)");
    CHECK_TOKENS("- ? |-2\n     a\n  : b\n", "( a)=(b)");
    CHECK_TOKENS("- ? |2-\n    a\n  : b\n", "(a)=(b)");
    CHECK_TOKENS("? |\n  a\n\n: b\n", "(a\n)=(b)");
    CHECK_TOKENS("? |+\n  a\n\n: b\n", "(a\n\n)=(b)");
    CHECK_TOKENS("? |-\n\n  a\n: b\n", "(\na)=(b)");
    CHECK_TOKENS("a: |\n  b", "(a):(b)");
    CHECK_TOKENS("a: |\n\nb: |+\n\nc: d", "(a):()(b):(\n)(c):(d)");
}

static void what_is_no_yaml_is_refused(void)
{
    CHECK_TOKENS("a: b: c", "(a):(b)!!");
    CHECK_TOKENS("'a", "!!");
    CHECK_TOKENS("\"\\q\"", "!!");
    CHECK_TOKENS("\"\\ud800\"", "!!");
    CHECK_TOKENS("\"a\n---\n\"", "!!");
    CHECK_TOKENS("[a", "(a)!!");
    CHECK_TOKENS("[a\n---\n", "(a)!!");
    CHECK_TOKENS("a]", "(a])");
    CHECK_TOKENS("]", "!!");
    CHECK_TOKENS(", a", "!!");
    CHECK_TOKENS("@a", "!!");
    CHECK_TOKENS("\ta", "!!");
    CHECK_TOKENS("& a", "!!");
    CHECK_TOKENS("# a\xe2\x80\xa8_target_: b", "!!");
    char deep[1200];
    memset(deep, '[', sizeof deep - 1);
    deep[sizeof deep - 1] = '\0';
    CHECK_TOKENS(deep, "!!");
}

static void long_scalars_are_cut(void)
{
    char text[YAML_TEXT_MAX + 2];
    yaml_scan *y = malloc(sizeof *y);
    ckpt_error err;
    CU_ASSERT_PTR_NOT_NULL_FATAL(y);
    memset(text, 'a', sizeof text);
    yaml_init(y, str_of(text, YAML_TEXT_MAX), &err);
    CU_ASSERT(yaml_next(y) == YAML_SCALAR && yaml_text(y).len == YAML_TEXT_MAX);
    yaml_init(y, str_of(text, YAML_TEXT_MAX + 1), &err);
    CU_ASSERT(yaml_next(y) == YAML_SCALAR && !yaml_text(y).ptr && yaml_next(y) == YAML_END);
    free(y);
}

void suite_yaml_scan(void)
{
    UNIT(scalars_end_where_yaml_says);
    UNIT(block_scalars_end_with_their_indentation);
    UNIT(block_scalars_end_as_their_header_says);
    UNIT(what_is_no_yaml_is_refused);
    UNIT(long_scalars_are_cut);
}
