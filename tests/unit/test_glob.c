/* Tests ckpt_glob_match(). */
#include <time.h>

#include "base/str.h"
#include "unit.h"

static bool matches(const char *glob, const char *name)
{
    size_t glob_length = strlen(glob), name_length = strlen(name);
    unsigned char *glob_bytes = unit_guard(glob, glob_length), *name_bytes = unit_guard(name, name_length);
    bool is_match = ckpt_glob_match(str_of((char *)glob_bytes, glob_length),
                                    str_of((char *)name_bytes, name_length));
    unit_guard_free(glob_bytes, glob_length);
    unit_guard_free(name_bytes, name_length);
    return is_match;
}

#define CHECK_MATCH(glob, name)    CU_ASSERT(matches(glob, name))
#define CHECK_NO_MATCH(glob, name) CU_ASSERT(!matches(glob, name))

static void stars_and_question_marks_match(void)
{
    CHECK_MATCH("", "");
    CHECK_NO_MATCH("", "a");
    CHECK_MATCH("*", "");
    CHECK_MATCH("*", "a.b.c");
    CHECK_MATCH("*.weight", "fc.weight");
    CHECK_NO_MATCH("*.weight", "fc.weights");
    CHECK_NO_MATCH("fc", "fc.weight");
    CHECK_MATCH("fc*", "fc");
    CHECK_MATCH("*a*b*", "xaxxbx");
    CHECK_NO_MATCH("*a*b*", "xbxxax");
    CHECK_MATCH("*ab", "aab");
    CHECK_MATCH("a*b*c", "abxbcxc");
    CHECK_MATCH("layer.?.bias", "layer.3.bias");
    CHECK_NO_MATCH("layer.?.bias", "layer.13.bias");
    CHECK_NO_MATCH("?", "");
    CHECK_MATCH("**", "x");
    CHECK_NO_MATCH("*?", "");
}

static void question_marks_match_a_character_not_a_byte(void)
{
    CHECK_MATCH("?", "\xc3\xa4");
    CHECK_MATCH("?", "\xf0\x9f\x98\x80");
    CHECK_MATCH("??", "\xff\xfe");
    CHECK_MATCH("*\xc3\xa4", "xx\xc3\xa4");
    CHECK_MATCH("[\xc3\xa0-\xc3\xbf]", "\xc3\xa4");
    CHECK_NO_MATCH("[\xc3\xa0-\xc3\xbf]", "a");
    CHECK_MATCH("\xff", "\xff");
    CHECK_NO_MATCH("\xff", "\xfe");
    CHECK_NO_MATCH("*\xa4", "\xc3\xa4");
}

static void bracket_sets_match_one_character(void)
{
    CHECK_MATCH("[abc]", "b");
    CHECK_NO_MATCH("[abc]", "d");
    CHECK_MATCH("layer.[0-3].w", "layer.2.w");
    CHECK_NO_MATCH("layer.[0-3].w", "layer.4.w");
    CHECK_MATCH("[!0-9]", "x");
    CHECK_NO_MATCH("[!0-9]", "5");
    CHECK_NO_MATCH("[!0-9]", "");
    CHECK_MATCH("[]]", "]");
    CHECK_MATCH("[!]]", "a");
    CHECK_NO_MATCH("[!]]", "]");
    CHECK_MATCH("[a-]", "-");
    CHECK_MATCH("[-a]", "-");
    CHECK_MATCH("[\\]]", "]");
    CHECK_MATCH("[\\!a]", "!");
    CHECK_MATCH("[a\\-c]", "-");
    CHECK_NO_MATCH("[a\\-c]", "b");
    CHECK_MATCH("*[0-9]", "a1b2");
    CHECK_NO_MATCH("[b-a]", "a");
}

static void an_unclosed_set_is_a_literal_bracket(void)
{
    CHECK_MATCH("[", "[");
    CHECK_MATCH("a[b", "a[b");
    CHECK_NO_MATCH("a[b", "ab");
    CHECK_MATCH("[!", "[!");
    CHECK_MATCH("[]", "[]");
    CHECK_MATCH("*[", "x[");
}

static void backslash_escapes(void)
{
    CHECK_MATCH("\\*", "*");
    CHECK_NO_MATCH("\\*", "a");
    CHECK_MATCH("\\?\\[\\\\", "?[\\");
    CHECK_MATCH("\\a", "a");
    CHECK_MATCH("a\\", "a\\");
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
