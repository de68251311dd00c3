/* Functions on ckpt_str. */
#include "base/cursor.h"
#include "unit.h"

static bool after_last_dot_is(const char *s, const char *want)
{
    return str_is(str_after_last(str_c(s), '.'), want);
}

static void the_text_after_the_last_dot_is_found(void)
{
    CU_ASSERT(after_last_dot_is("a.b.c", "c") && after_last_dot_is("a.", "") && after_last_dot_is(".", "") &&
              after_last_dot_is(".a", "a"));
    CU_ASSERT(after_last_dot_is("abc", "abc") && after_last_dot_is("", ""));
    unsigned char *at = unit_guard("no dot", 6);
    CU_ASSERT(str_after_last(str_of((const char *)at, 6), '.').len == 6);
    unit_guard_free(at, 6);
}

static void only_digits_that_fit_64_bits_are_parsed(void)
{
    static const char *const bad[] = {
        "", "-1", "+1", " 1", "1 ", "1.0", "1e2", "0x1", "18446744073709551616"};
    uint64_t n = 7;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CU_ASSERT(!str_uint(str_c(bad[i]), &n) && n == 7);
    CU_ASSERT(!str_uint(str_of("1\0", 2), &n) && n == 7);
    CU_ASSERT(str_uint(str_c("0"), &n) && n == 0);
    CU_ASSERT(str_uint(str_c("007"), &n) && n == 7);
    CU_ASSERT(str_uint(str_c("18446744073709551615"), &n) && n == UINT64_MAX);
}

/* Every byte may follow 0 to 8 digits; what is after it does not matter. */
static void the_digits_at_the_beginning_of_eight_bytes_are_read(void)
{
    static const char digits[] = "90817269";
    for (size_t n = 0; n <= 8; n++)
        for (unsigned next = 0; next < 256; next++) {
            unsigned char bytes[8];
            uint64_t want = 0, number = 7;
            memset(bytes, (int)(next ^ 0x37), sizeof bytes);
            memcpy(bytes, digits, n);
            for (size_t i = 0; i < n; i++)
                want = 10 * want + (uint64_t)(digits[i] - '0');
            if (n < 8)
                bytes[n] = (unsigned char)next;
            if (n == 8 || next < '0' || next > '9')
                CU_ASSERT(load_digits8(bytes, &number) == n && number == want);
        }
}

static void a_text_is_found(void)
{
    CU_ASSERT_EQUAL(str_find(STR_LIT("a.module.b"), STR_LIT("module."), 0), 2);
    CU_ASSERT_EQUAL(str_find(STR_LIT("a.module.b"), STR_LIT("module."), 3), SIZE_MAX);
    CU_ASSERT_EQUAL(str_find(STR_LIT("a\0b"), STR_LIT("b"), 0), 2);
    CU_ASSERT_EQUAL(str_find(STR_LIT("ab"), STR_LIT(""), 2), 2);
    CU_ASSERT_EQUAL(str_find(STR_LIT("ab"), STR_LIT(""), 3), SIZE_MAX);
    CU_ASSERT_EQUAL(str_find(str_of(NULL, 0), STR_LIT("a"), 0), SIZE_MAX);
}

static void words_are_taken_one_by_one(void)
{
    ckpt_str list = STR_LIT("one two");
    CU_ASSERT(str_is(str_take_until(&list, ' '), "one"));
    CU_ASSERT(str_is(str_take_until(&list, ' '), "two"));
    CU_ASSERT_EQUAL(str_take_until(&list, ' ').len, 0);
    CU_ASSERT_EQUAL(str_take_until(&list, ' ').len, 0);
}

static void one_of_several_words_matches(void)
{
    CU_ASSERT(str_matches_word(STR_LIT("m.pth"), ".pt .pth", str_ends));
    CU_ASSERT(!str_matches_word(STR_LIT("m.bin"), ".pt .pth", str_ends));
    CU_ASSERT(!str_matches_word(STR_LIT("m.bin"), "", str_ends));
}

static void the_folder_ends_with_the_last_slash(void)
{
    CU_ASSERT(str_is(str_folder(STR_LIT("a/b/c.pt")), "a/b/"));
    CU_ASSERT(str_is(str_folder(STR_LIT("/c.pt")), "/"));
    CU_ASSERT(str_is(str_folder(STR_LIT("c.pt")), ""));
}

static void suffixes_match_in_any_case(void)
{
    CU_ASSERT(str_ends_any_case(STR_LIT("m.PT"), STR_LIT(".pt")));
    CU_ASSERT(str_ends_any_case(STR_LIT("m.Pth.taR"), STR_LIT(".pth.tar")));
    CU_ASSERT(str_ends_any_case(STR_LIT(".pt"), STR_LIT(".pt")));
    CU_ASSERT(!str_ends_any_case(STR_LIT("pt"), STR_LIT(".pt")));
    CU_ASSERT(!str_ends_any_case(STR_LIT("m.pts"), STR_LIT(".pt")));
    CU_ASSERT(!str_ends_any_case(STR_LIT("m\x0ept"), STR_LIT(".pt"))); /* '.' ^ 0x20: '.' has no case */
}

void suite_str(void)
{
    UNIT(the_text_after_the_last_dot_is_found);
    UNIT(only_digits_that_fit_64_bits_are_parsed);
    UNIT(the_digits_at_the_beginning_of_eight_bytes_are_read);
    UNIT(a_text_is_found);
    UNIT(words_are_taken_one_by_one);
    UNIT(one_of_several_words_matches);
    UNIT(the_folder_ends_with_the_last_slash);
    UNIT(suffixes_match_in_any_case);
}
