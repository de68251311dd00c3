/* Tests ckpt_glob_match(). */
#include <time.h>

#include "base/str.h"
#include "unit.h"

static bool matches(const char *glob, const char *name)
{
    size_t g = strlen(glob), n = strlen(name);
    unsigned char *a = unit_guard(glob, g), *b = unit_guard(name, n);
    bool yes = ckpt_glob_match(str_of((char *)a, g), str_of((char *)b, n));
    unit_guard_free(a, g);
    unit_guard_free(b, n);
    return yes;
}

#define YES(glob, name) CU_ASSERT(matches(glob, name))
#define NO(glob, name)  CU_ASSERT(!matches(glob, name))

static void stars_and_question_marks_match(void)
{
    YES("", "");
    NO("", "a");
    YES("*", "");
    YES("*", "a.b.c");
    YES("*.weight", "fc.weight");
    NO("*.weight", "fc.weights");
    NO("fc", "fc.weight");
    YES("fc*", "fc");
    YES("*a*b*", "xaxxbx");
    NO("*a*b*", "xbxxax");
    YES("*ab", "aab");
    YES("a*b*c", "abxbcxc");
    YES("layer.?.bias", "layer.3.bias");
    NO("layer.?.bias", "layer.13.bias");
    NO("?", "");
    YES("**", "x");
    NO("*?", "");
}

static void question_marks_match_a_character_not_a_byte(void)
{
    YES("?", "\xc3\xa4");
    YES("?", "\xf0\x9f\x98\x80");
    YES("??", "\xff\xfe");
    YES("*\xc3\xa4", "xx\xc3\xa4");
    YES("[\xc3\xa0-\xc3\xbf]", "\xc3\xa4");
    NO("[\xc3\xa0-\xc3\xbf]", "a");
    YES("\xff", "\xff");
    NO("\xff", "\xfe");
    NO("*\xa4", "\xc3\xa4");
}

static void bracket_sets_match_one_character(void)
{
    YES("[abc]", "b");
    NO("[abc]", "d");
    YES("layer.[0-3].w", "layer.2.w");
    NO("layer.[0-3].w", "layer.4.w");
    YES("[!0-9]", "x");
    NO("[!0-9]", "5");
    NO("[!0-9]", "");
    YES("[]]", "]");
    YES("[!]]", "a");
    NO("[!]]", "]");
    YES("[a-]", "-");
    YES("[-a]", "-");
    YES("[\\]]", "]");
    YES("[\\!a]", "!");
    YES("[a\\-c]", "-");
    NO("[a\\-c]", "b");
    YES("*[0-9]", "a1b2");
    NO("[b-a]", "a");
}

static void an_unclosed_set_is_a_literal_bracket(void)
{
    YES("[", "[");
    YES("a[b", "a[b");
    NO("a[b", "ab");
    YES("[!", "[!");
    YES("[]", "[]");
    YES("*[", "x[");
}

static void backslash_escapes(void)
{
    YES("\\*", "*");
    NO("\\*", "a");
    YES("\\?\\[\\\\", "?[\\");
    YES("\\a", "a");
    YES("a\\", "a\\");
}

static void names_may_hold_nul(void)
{
    CU_ASSERT(ckpt_glob_match(STR_LIT("a?b"), STR_LIT("a\0b")));
    CU_ASSERT(!ckpt_glob_match(STR_LIT("a"), STR_LIT("a\0")));
}

static void many_stars_take_little_time(void)
{
    static char glob[400], name[4000];
    for (size_t i = 0; i < sizeof glob; i += 2)
        memcpy(glob + i, "*a", 2);
    memset(name, 'a', sizeof name);
    name[sizeof name - 1] = 'b';
    clock_t start = clock();
    CU_ASSERT(!ckpt_glob_match(str_of(glob, sizeof glob), str_of(name, sizeof name)));
    CU_ASSERT((double)(clock() - start) / CLOCKS_PER_SEC < 5);
}

void suite_glob(void)
{
    UNIT(stars_and_question_marks_match);
    UNIT(question_marks_match_a_character_not_a_byte);
    UNIT(bracket_sets_match_one_character);
    UNIT(an_unclosed_set_is_a_literal_bracket);
    UNIT(backslash_escapes);
    UNIT(names_may_hold_nul);
    UNIT(many_stars_take_little_time);
}
