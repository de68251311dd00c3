/* Tests ckpt_glob_match() and core/glob. */
#include <time.h>

#include "core/glob.h"
#include "pseudo_random.h"
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
    CHECK_MATCH("*\\ab", "xab");
    CHECK_NO_MATCH("\\a", "\\a");
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
    memcpy(glob + sizeof glob - 4, "*[b]", 4);
    memset(name, 'a', sizeof name);
    clock_t start = clock();
    CU_ASSERT(!ckpt_glob_match(str_of(glob, sizeof glob), str_of(name, sizeof name)));
    CU_ASSERT((double)(clock() - start) / CLOCKS_PER_SEC < 5);
}

static void append(char *text, const char *more) { memcpy(text + strlen(text), more, strlen(more) + 1); }

/* A set is not on the fast path of literals. */
static void a_character_matches_as_a_set_of_it(void)
{
    static const char *const chars[] = {"*", "?", "a", "a", "b", ".", "\xc3\xa4", "\xa4"};
    for (int round = 0; round < 100000; round++) {
        char glob[32] = "", sets[32] = "", name[32] = "";
        for (uint64_t i = next_random() % 6; i > 0; i--)
            append(name, chars[2 + next_random() % 6]);
        for (uint64_t i = next_random() % 6; i > 0; i--) {
            const char *c = chars[next_random() % 8];
            bool is_wildcard = strchr("*?", *c) != NULL;
            append(glob, c);
            append(sets, is_wildcard ? "" : "[");
            append(sets, c);
            append(sets, is_wildcard ? "" : "]");
        }
        bool is_match = ckpt_glob_match(str_c(glob), str_c(name));
        if (is_match != ckpt_glob_match(str_c(sets), str_c(name)))
            CU_FAIL("a set of one character differs from the character");
    }
}

static void numbers_are_read(void)
{
    uint32_t numbers[2] = {7, 7};
    CU_ASSERT(glob_match_numbers(STR_LIT("layer#.#.conv1.*"), STR_LIT("layer2.13.conv1.weight"), numbers));
    CU_ASSERT(numbers[0] == 2 && numbers[1] == 13);
    CU_ASSERT(glob_match_numbers(STR_LIT("h.#"), STR_LIT("h.0"), numbers) && !numbers[0] && !numbers[1]);
    CU_ASSERT(glob_match_numbers(STR_LIT("h.#"), STR_LIT("h.987654321"), numbers));
    CU_ASSERT_EQUAL(numbers[1], 987654321);
    CU_ASSERT(!glob_match_numbers(STR_LIT("h.#"), STR_LIT("h.9876543210"), numbers));
    CU_ASSERT(!glob_match_numbers(STR_LIT("h.#"), STR_LIT("h.01"), numbers));
    CU_ASSERT(!glob_match_numbers(STR_LIT("h.#"), STR_LIT("h."), numbers));
    CU_ASSERT(!glob_match_numbers(STR_LIT("h.#"), STR_LIT("h.x"), numbers));
    CHECK_MATCH("h.#", "h.#");
    CHECK_NO_MATCH("h.#", "h.1");
}

void suite_glob(void)
{
    UNIT(stars_and_question_marks_match);
    UNIT(question_marks_match_a_character_not_a_byte);
    UNIT(bracket_sets_match_one_character);
    UNIT(an_unclosed_set_is_a_literal_bracket);
    UNIT(backslash_escapes);
    UNIT(names_may_hold_nul);
    UNIT(a_character_matches_as_a_set_of_it);
    UNIT(numbers_are_read);
    UNIT(many_stars_take_little_time);
}
