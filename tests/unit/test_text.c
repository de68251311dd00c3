/* Escaping text, sorting names, and quoting for a shell. */
#include "base/text.h"
#include "unit.h"

static const char *escaped(ckpt_str s)
{
    static char out[256];
    size_t n = ckpt_text_escape(s, out, sizeof out);
    CU_ASSERT_EQUAL(n, strlen(out));
    return out;
}

static void characters_that_affect_terminals_are_escaped(void)
{
    CU_ASSERT_STRING_EQUAL(escaped(STR_LIT("fc.weight")), "fc.weight");
    CU_ASSERT_STRING_EQUAL(escaped(STR_LIT("")), "");
    CU_ASSERT_STRING_EQUAL(escaped(str_of(NULL, 0)), "");
    CU_ASSERT_STRING_EQUAL(escaped(STR_LIT("\x1b]0;x\x07")), "\\u{1b}]0;x\\u{7}");
    CU_ASSERT_STRING_EQUAL(escaped(STR_LIT("a\0b\nc\\d")), "a\\u{0}b\\u{a}c\\\\d");
    CU_ASSERT_STRING_EQUAL(escaped(STR_LIT("\xff\xc3(\xed\xa0\x80")), "\\xff\\xc3(\\xed\\xa0\\x80");
    CU_ASSERT_STRING_EQUAL(escaped(STR_LIT("\xe2\x80\xae\xef\xbb\xbf\xf3\xa0\x80\x81")),
                           "\\u{202e}\\u{feff}\\u{e0001}");
    CU_ASSERT_STRING_EQUAL(escaped(STR_LIT("\xc3\xa4\xe4\xb8\xad\xf0\x9f\x98\x80")),
                           "\xc3\xa4\xe4\xb8\xad\xf0\x9f\x98\x80");
}

static void text_is_truncated_between_characters(void)
{
    ckpt_str s = STR_LIT("ab\x1b\xe2\x82\xac z");
    char escaped_text[64], out[64];
    size_t n = ckpt_text_escape(s, escaped_text, sizeof escaped_text);
    CU_ASSERT_EQUAL(n, 2 + 6 + 3 + 2);
    CU_ASSERT_EQUAL(ckpt_text_escape(s, NULL, 0), n);
    for (size_t cap = 1; cap <= n + 1; cap++) {
        memset(out, 'x', sizeof out);
        CU_ASSERT_EQUAL(ckpt_text_escape(s, out, cap), n);
        size_t shown = strlen(out);
        CU_ASSERT(shown < cap);
        CU_ASSERT_EQUAL(memcmp(escaped_text, out, shown), 0);
        /* "ab\u{1b}", a character of three bytes, a blank and "z": only whole units are shown */
        CU_ASSERT_EQUAL(shown, cap - 1 >= 13   ? 13
                               : cap - 1 >= 12 ? 12
                               : cap - 1 >= 11 ? 11
                               : cap - 1 >= 8  ? 8
                               : cap - 1 >= 2  ? 2
                                               : cap - 1);
        CU_ASSERT_EQUAL(out[cap], 'x');
    }
}

static void different_names_stay_different(void)
{
    /* text that looks like an escape sequence is escaped itself */
    CU_ASSERT_STRING_EQUAL(escaped(STR_LIT("\\x1b")), "\\\\x1b");
    CU_ASSERT_STRING_EQUAL(escaped(STR_LIT("\x1b")), "\\u{1b}");
    CU_ASSERT_STRING_EQUAL(escaped(STR_LIT("\\u{1b}")), "\\\\u{1b}");
}

/* Each byte at each place of a text that is looked at by sixteen bytes is escaped as it is alone. */
static void a_byte_is_escaped_wherever_it_is(void)
{
    char text[40], expected[128], json[64];
    for (unsigned byte = 0; byte < 0x100; byte++)
        for (size_t at = 0; at < sizeof text; at++) {
            const char character = (char)byte;
            memset(text, 'x', sizeof text);
            text[at] = character;
            snprintf(expected, sizeof expected, "%.*s%s%.*s", (int)at,
                     "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", escaped(str_of(&character, 1)),
                     (int)(sizeof text - at - 1), "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx");
            CU_ASSERT_STRING_EQUAL(escaped(str_of(text, sizeof text)), expected);
            size_t alone = ckpt_text_json(str_of(&character, 1), json, sizeof json, NULL);
            CU_ASSERT_EQUAL(ckpt_text_json(str_of(text, sizeof text), json, sizeof json, NULL), alone + 39);
        }
}

static void styles_differ_in_backslash_and_quote(void)
{
    char out[TEXT_CHAR_MAX];
    size_t pos = 0;
    CU_ASSERT_EQUAL(text_escape_char(STR_LIT("\\"), &pos, TEXT_MESSAGE, out), 1);
    pos = 0;
    CU_ASSERT_EQUAL(text_escape_char(STR_LIT("'"), &pos, TEXT_NAME, out), 1);
    pos = 0;
    CU_ASSERT_EQUAL(text_escape_char(STR_LIT("'"), &pos, TEXT_QUOTED, out), 2);
    pos = 0;
    CU_ASSERT_EQUAL(text_escape_char(STR_LIT("\n"), &pos, TEXT_QUOTED, out), 2);
    pos = 0;
    CU_ASSERT_EQUAL(text_escape_char(STR_LIT("\xc3\xa4"), &pos, TEXT_BYTES, out), 4);
    CU_ASSERT_EQUAL(pos, 1);
    CU_ASSERT_EQUAL(memcmp(out, "\\xc3", 4), 0);
}

static void truncated_text_ends_in_an_ellipsis(void)
{
    char out[8];
    text_fit(STR_LIT("1234567"), out, sizeof out);
    CU_ASSERT_STRING_EQUAL(out, "1234567");
    text_fit(STR_LIT("12345678"), out, sizeof out);
    CU_ASSERT_STRING_EQUAL(out, "1234\xe2\x80\xa6");
    text_fit(STR_LIT("123\x1b"), out, sizeof out);
    CU_ASSERT_STRING_EQUAL(out, "123\xe2\x80\xa6");
    text_fit(STR_LIT("12"), out, 2);
    CU_ASSERT_STRING_EQUAL(out, "");
    text_fit(STR_LIT("12"), out, 0);
}

/* compare - returns the order of A and B (-1, 0 or 1), and checks that B and A have the opposite order. */
static int compare(const char *a, const char *b)
{
    int order = ckpt_natural_compare(str_c(a), str_c(b));
    CU_ASSERT_EQUAL(ckpt_natural_compare(str_c(b), str_c(a)), -order);
    return order;
}

static void numbers_in_names_sort_by_value(void)
{
    CU_ASSERT_EQUAL(compare("layer.2", "layer.10"), -1);
    CU_ASSERT_EQUAL(compare("layer.2.weight", "layer.2.bias"), 1);
    CU_ASSERT_EQUAL(compare("layer.2", "layer.2.bias"), -1);
    CU_ASSERT_EQUAL(compare("a", "a"), 0);
    CU_ASSERT_EQUAL(compare("", "a"), -1);
    CU_ASSERT_EQUAL(compare("a01", "a1"), -1);
    CU_ASSERT_EQUAL(compare("a01b", "a1a"), 1);
    CU_ASSERT_EQUAL(compare("a00", "a0"), 1);
    CU_ASSERT_EQUAL(compare("layer.1.mlp.up", "layer.10.mlp.up"), -1);
    CU_ASSERT_EQUAL(compare("layer.12.mlp.up", "layer.13.mlp.down"), -1);
    CU_ASSERT_EQUAL(compare("layer.010.mlp.up", "layer.9.mlp.up"), 1);
    CU_ASSERT_EQUAL(compare("a10b", "a10"), 1);
    CU_ASSERT_EQUAL(compare("99999999999999999999999", "100000000000000000000000"), -1);
    CU_ASSERT_EQUAL(compare("1a", "a1"), -1);
    CU_ASSERT_EQUAL(compare("\xc3\xa4", "z"), 1);
}

/* Compares all words of up to three letters with each other. */
static void the_order_is_total_and_transitive(void)
{
    static const char letters[] = "0127a.";
    char words[6 + 36 + 216][4];
    size_t n = 0;
    for (int i = 0; i < 6; i++)
        for (int j = -1; j < 6; j++)
            for (int k = -1; k < 6; k++)
                if (j >= 0 || k < 0) {
                    char w[4] = {letters[i], j < 0 ? '\0' : letters[j], k < 0 ? '\0' : letters[k], '\0'};
                    memcpy(words[n++], w, sizeof w);
                }
    CU_ASSERT_EQUAL(n, sizeof words / sizeof *words);
    static signed char order[258][258]; /* -1, 0 or 1 */
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++)
            order[i][j] = (signed char)ckpt_natural_compare(str_c(words[i]), str_c(words[j]));
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++) {
            if ((order[i][j] == 0) != (i == j) || order[i][j] != -order[j][i])
                CU_FAIL("the order is not total");
            for (size_t k = 0; k < n; k++)
                if (order[i][j] < 0 && order[j][k] < 0 && order[i][k] >= 0)
                    CU_FAIL("the order is not transitive");
        }
}

/* A shell reads the quoted word as the original name; names that cannot be quoted are replaced by a word. */
static void names_are_quoted_for_a_shell(void)
{
    char out[SHELL_WORD_MAX], name[256];
    CU_ASSERT_STRING_EQUAL(shell_word(STR_LIT("a/b-c.pt"), "", "FALLBACK", out), "a/b-c.pt");
    CU_ASSERT_STRING_EQUAL(shell_word(STR_LIT(""), "", "FALLBACK", out), "''");
    CU_ASSERT_STRING_EQUAL(shell_word(STR_LIT("a b"), "", "FALLBACK", out), "'a b'");
    CU_ASSERT_STRING_EQUAL(shell_word(STR_LIT("~"), "", "FALLBACK", out), "'~'");
    CU_ASSERT_STRING_EQUAL(shell_word(STR_LIT("it's"), "", "FALLBACK", out), "'it'\\''s'");
    CU_ASSERT_STRING_EQUAL(shell_word(STR_LIT("a\nb"), "", "FALLBACK", out), "FALLBACK");
    CU_ASSERT_STRING_EQUAL(shell_word(STR_LIT("a\0b"), "", "FALLBACK", out), "FALLBACK");
    CU_ASSERT_STRING_EQUAL(shell_word(STR_LIT("\xff"), "", "FALLBACK", out), "FALLBACK");
    CU_ASSERT_STRING_EQUAL(shell_path("-rf", out), "./-rf");
    CU_ASSERT_STRING_EQUAL(shell_path("-", out), "-");
    /* a name with a glob character or an equals sign is replaced by the word NAME */
    CU_ASSERT_STRING_EQUAL(shell_glob(STR_LIT("fc.*"), out), "NAME");
    CU_ASSERT_STRING_EQUAL(shell_glob(STR_LIT("a=b"), out), "NAME");
    memset(name, '\'', sizeof name);
    for (size_t n = 0; n <= sizeof name; n++) { /* no word is truncated; an apostrophe takes 4 characters */
        const char *word = shell_word(str_of(name, n), "", "FALLBACK", out);
        CU_ASSERT(strcmp(word, "FALLBACK") == 0 || strlen(word) == 2 + 4 * n);
    }
}

/* Bytes that are text are shown as text, others in hexadecimal. */
static void bytes_in_messages_are_text_or_hex(void)
{
    char out[TEXT_BYTES_SIZE];
    CU_ASSERT_STRING_EQUAL(text_describe_bytes("PK12", 4, out), "\"PK12\"");
    CU_ASSERT_STRING_EQUAL(text_describe_bytes("a\n\\b", 4, out), "\"a\\n\\\\b\"");
    CU_ASSERT_STRING_EQUAL(text_describe_bytes("PK\3\4", 4, out), "50 4b 03 04");
    CU_ASSERT_STRING_EQUAL(text_describe_bytes("\xff", 1, out), "byte 0xff");
    CU_ASSERT_STRING_EQUAL(text_describe_bytes("\n", 1, out), "byte 0x0a");
    CU_ASSERT_STRING_EQUAL(text_describe_bytes("x", 1, out), "'x'");
    CU_ASSERT_STRING_EQUAL(text_describe_bytes("", 0, out), "");
    CU_ASSERT_STRING_EQUAL(text_describe_bytes("\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n", 17, out),
                           "\"\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n\"");
    CU_ASSERT_EQUAL(strlen(text_describe_bytes("\0\1\2\3\4\5\6\7\10\11\12\13\14\15\16\17\20", 17, out)),
                    16 * 2 + 15); /* the first 16 bytes, with blanks between them */
}

void suite_text(void)
{
    UNIT(bytes_in_messages_are_text_or_hex);
    UNIT(characters_that_affect_terminals_are_escaped);
    UNIT(text_is_truncated_between_characters);
    UNIT(different_names_stay_different);
    UNIT(a_byte_is_escaped_wherever_it_is);
    UNIT(styles_differ_in_backslash_and_quote);
    UNIT(truncated_text_ends_in_an_ellipsis);
    UNIT(numbers_in_names_sort_by_value);
    UNIT(the_order_is_total_and_transitive);
    UNIT(names_are_quoted_for_a_shell);
}
