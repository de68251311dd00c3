/* The JSON scanner accepts valid text and refuses malformed text. If the corpus has the JSONTestSuite, it is
 * scanned, too. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "codec/json_scan.h"
#include "unit.h"

/* list_events - scans TEXT as if it began at offset 100 of a file, and returns its events as characters:
 * brackets, k for a key, s string, n number, t true, f false, 0 null, '.' at the end, '!' for an error. */
static const char *list_events(const char *text, size_t len, ckpt_error *err)
{
    static char out[256];
    static const char letters[] = "!.{}[]ksntf0"; /* indexed by enum json_event */
    unsigned char *copy = unit_guard(text, len);
    arena *a = arena_new(1 << 20);
    json_scan j;
    size_t n = 0;
    enum json_event e;
    json_init(&j, str_of((const char *)copy, len), 100, a, err);
    do {
        e = json_next(&j);
        if (n < sizeof out - 1)
            out[n++] = letters[e];
    } while (e != JSON_END && e != JSON_ERROR);
    CU_ASSERT_EQUAL(json_next(&j), e);
    out[n] = 0;
    arena_free(a);
    unit_guard_free(copy, len);
    return out;
}

#define CHECK_EVENTS(text, want) CU_ASSERT_STRING_EQUAL(list_events(text, sizeof(text) - 1, NULL), want)

static void every_event_is_read(void)
{
    CHECK_EVENTS(" {\"a\" : [1, -2.5e+3,\"x\",true,false,null,{}, [ ]] }\n", "{k[nnstf0{}[]]}.");
    CHECK_EVENTS("0", "n.");
    CHECK_EVENTS("\"\"", "s.");
    CHECK_EVENTS("[[]]\t\r\n ", "[[]].");
}

static void malformed_documents_are_refused(void)
{
    CHECK_EVENTS("", "!");
    CHECK_EVENTS("  ", "!");
    CHECK_EVENTS("[1,]", "[n!");
    CHECK_EVENTS("{\"a\":1,}", "{kn!");
    CHECK_EVENTS("{a:1}", "{!");
    CHECK_EVENTS("{\"a\" 1}", "{!");
    CHECK_EVENTS("[1 2]", "[n!");
    CHECK_EVENTS("{} x", "{}!");
    CHECK_EVENTS("{}\0", "{}!");
    CHECK_EVENTS("\xef\xbb\xbf{}", "!");
    CHECK_EVENTS("[1}", "[n!");
    CHECK_EVENTS("{]", "{!");
    CHECK_EVENTS("]", "!");
    CHECK_EVENTS("tru", "!");
    CHECK_EVENTS("nul1", "!");
    CHECK_EVENTS("NaN", "!");
    CHECK_EVENTS("/**/1", "!");
}

static void malformed_numbers_are_refused(void)
{
    CHECK_EVENTS("01", "n!");
    CHECK_EVENTS("-", "!");
    CHECK_EVENTS("-01", "n!");
    CHECK_EVENTS("1.", "!");
    CHECK_EVENTS(".1", "!");
    CHECK_EVENTS("+1", "!");
    CHECK_EVENTS("1e", "!");
    CHECK_EVENTS("1e+", "!");
    CHECK_EVENTS("0x1", "n!");
    CHECK_EVENTS("-0", "n.");    /* valid */
    CHECK_EVENTS("1E400", "n."); /* valid */
}

static void malformed_strings_are_refused(void)
{
    CHECK_EVENTS("\"", "!");
    CHECK_EVENTS("\"abcdefgh\\", "!");
    CHECK_EVENTS("\"\\\"", "!");
    CHECK_EVENTS("\"a\nb\"", "!");
    CHECK_EVENTS("\"12345678\x1f\"", "!");
    CHECK_EVENTS("\"\0\"", "!");
    CHECK_EVENTS("\"\\x\"", "!");
    CHECK_EVENTS("\"\\u12\"", "!");
    CHECK_EVENTS("\"\\u123g\"", "!");
    CHECK_EVENTS("\"\\ud800\"", "!");
    CHECK_EVENTS("\"\\udc00\\ud800\"", "!");
    CHECK_EVENTS("\"\\ud800\\u0041\"", "!");
    CHECK_EVENTS("\"\xff\"", "!");
    CHECK_EVENTS("\"\xc0\xaf\"", "!");
    CHECK_EVENTS("\"\xed\xa0\x80\"", "!");
    CHECK_EVENTS("\"abcdefg\xe2\x82\"", "!");
    CHECK_EVENTS("\"\x7f\"", "s."); /* valid */
}

/* check_string - checks that TEXT is scanned as the string WANT. */
static void check_string(const char *text, ckpt_str want)
{
    arena *a = arena_new(1 << 16);
    json_scan j;
    json_init(&j, str_c(text), 0, a, NULL);
    CU_ASSERT_EQUAL(json_next(&j), JSON_STRING);
    CU_ASSERT(str_eq(j.str, want));
    arena_free(a);
}

static void strings_are_unescaped(void)
{
    check_string("\"long, without escapes, for the fast path\"",
                 STR_LIT("long, without escapes, for the fast path"));
    check_string("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", STR_LIT("\"\\/\b\f\n\r\t"));
    check_string("\"a\\u0000b\"", STR_LIT("a\0b"));
    check_string("\"\\u00e9\\u20AC\\ud83d\\ude00\"", STR_LIT("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"));
    check_string("\"12345678\xc3\xa9z\"", STR_LIT("12345678\xc3\xa9z"));
    check_string("\"\"", STR_LIT(""));
}

static void strings_without_escapes_are_not_copied(void)
{
    static const char text[] = "\"fc.weight\"";
    json_scan j;
    json_init(&j, str_c(text), 0, NULL, NULL);
    CU_ASSERT_EQUAL(json_next(&j), JSON_STRING);
    CU_ASSERT_PTR_EQUAL(j.str.ptr, text + 1);
}

static bool parse_uint(const char *text, uint64_t *out)
{
    json_scan j;
    json_init(&j, str_c(text), 0, NULL, NULL);
    return json_next(&j) == JSON_NUMBER && json_get_uint(&j, out);
}

static void integers_are_exact_or_refused(void)
{
    uint64_t u = 7;
    CU_ASSERT(parse_uint("9007199254740993", &u) && u == 9007199254740993u);
    CU_ASSERT(parse_uint("18446744073709551615", &u) && u == UINT64_MAX);
    CU_ASSERT(parse_uint("0", &u) && u == 0);
    CU_ASSERT_FALSE(parse_uint("18446744073709551616", &u));
    CU_ASSERT_FALSE(parse_uint("-0", &u));
    CU_ASSERT_FALSE(parse_uint("-1", &u));
    CU_ASSERT_FALSE(parse_uint("1.0", &u));
    CU_ASSERT_FALSE(parse_uint("1e2", &u));
}

static void nesting_is_limited(void)
{
    char text[2 * JSON_DEPTH + 2];
    json_scan j;
    ckpt_error err = {0};
    memset(text, '[', JSON_DEPTH);
    memset(text + JSON_DEPTH, ']', JSON_DEPTH);
    json_init(&j, str_of(text, 2 * JSON_DEPTH), 0, NULL, &err);
    CU_ASSERT_EQUAL(json_skip(&j, json_next(&j)), CKPT_OK);
    CU_ASSERT_EQUAL(json_next(&j), JSON_END);
    memset(text, '[', sizeof text);
    json_init(&j, str_of(text, sizeof text), 0, NULL, &err);
    CU_ASSERT_NOT_EQUAL(json_skip(&j, json_next(&j)), CKPT_OK);
    CU_ASSERT_EQUAL(err.status, CKPT_ELIMIT);
    CU_ASSERT_EQUAL(err.offset, JSON_DEPTH);
}

static void whole_values_are_skipped(void)
{
    json_scan j;
    json_init(&j, str_c("{\"a\":{\"b\":[1,{\"c\":[]}]},\"d\":2}"), 0, NULL, NULL);
    CU_ASSERT_EQUAL(json_next(&j), JSON_OBJECT);
    CU_ASSERT_EQUAL(json_next(&j), JSON_KEY);
    CU_ASSERT_EQUAL(json_skip(&j, json_next(&j)), CKPT_OK);
    CU_ASSERT_EQUAL(json_next(&j), JSON_KEY);
    CU_ASSERT(str_is(j.str, "d"));
    CU_ASSERT_EQUAL(json_skip(&j, json_next(&j)), CKPT_OK);
    CU_ASSERT_EQUAL(json_next(&j), JSON_OBJECT_END);
}

static void errors_have_an_offset(void)
{
    ckpt_error err = {0};
    CU_ASSERT_STRING_EQUAL(list_events("{\"a\":?}", 7, &err), "{k!");
    CU_ASSERT_EQUAL(err.status, CKPT_EFORMAT);
    CU_ASSERT_EQUAL(err.offset, 105);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.what, "'?'"));
    CU_ASSERT_STRING_EQUAL(list_events("{\"a\":", 5, &err), "{k!");
    CU_ASSERT_EQUAL(err.status, CKPT_ETRUNCATED);
    CU_ASSERT_EQUAL(err.offset, 105);
    CU_ASSERT_STRING_EQUAL(list_events("\"ab\\u12\"", 8, &err), "!");
    CU_ASSERT_EQUAL(err.offset, 104);
}

static void truncated_documents_are_refused(void)
{
    static const char text[] = "{\"k\\u00e9\":[1,-2.5e3,\"\\ud83d\\ude00\xc3\xa9\",true,null,{\"x\":{}}]}";
    for (size_t n = 0; n < sizeof text - 1; n++) {
        const char *events = list_events(text, n, NULL);
        CU_ASSERT_EQUAL(events[strlen(events) - 1], '!');
    }
    const char *events = list_events(text, sizeof text - 1, NULL);
    CU_ASSERT_EQUAL(events[strlen(events) - 1], '.');
}

static void strings_are_quoted_as_by_serde_and_python(void)
{
    buf b;
    buf_init(&b, 1000);
    json_quote(&b, STR_LIT("a\"b\\c/\b\f\n\r\t\0\x1f\x7f\xc3\xa9"));
    CU_ASSERT(str_is(buf_view(&b), "\"a\\\"b\\\\c/\\b\\f\\n\\r\\t\\u0000\\u001f\x7f\xc3\xa9\""));
    buf_free(&b);
}

/* --------------------------------------------------------- JSONTestSuite */

/* is_accepted - returns true if the file at PATH is scanned without an error. */
static bool is_accepted(const char *path)
{
    static char text[1 << 20];
    FILE *f = fopen(path, "rb");
    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    size_t n = fread(text, 1, sizeof text, f);
    fclose(f);
    const char *events = list_events(text, n, NULL);
    arena *a = arena_new(1 << 22);
    json_scan j;
    enum json_event e;
    json_init(&j, str_of(text, n), 0, a, NULL);
    while ((e = json_next(&j)) != JSON_END && e != JSON_ERROR)
        ;
    arena_free(a);
    CU_ASSERT(strlen(events) > 0);
    return e == JSON_END;
}

static void json_test_suite_passes(void)
{
    const char *folder = getenv("CORPUS_PUBLIC");
    char dir[512], path[1024];
    snprintf(dir, sizeof dir, "%s/json/test_parsing", folder ? folder : "../shared/corpus/public");
    DIR *d = opendir(dir);
    if (!d) {
        printf(" [SKIPPED: no %s] ", dir);
        return;
    }
    int naccepted = 0, nrefused = 0;
    for (struct dirent *e; (e = readdir(d));) {
        if (e->d_name[1] != '_' || (e->d_name[0] != 'y' && e->d_name[0] != 'n'))
            continue;
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        bool accepted = is_accepted(path);
        if (accepted != (e->d_name[0] == 'y'))
            printf(" [%s: %s] ", e->d_name, accepted ? "accepted" : "refused");
        naccepted += e->d_name[0] == 'y' && accepted;
        nrefused += e->d_name[0] == 'n' && !accepted;
    }
    closedir(d);
    CU_ASSERT_EQUAL(naccepted, 95); /* all files whose names begin with y_ */
    CU_ASSERT_EQUAL(nrefused, 188); /* all files whose names begin with n_ */
}

/* prints_as - returns true if the value of TEXT is printed as WANT, or if TEXT is refused and WANT is
 * "refused". */
static bool prints_as(const char *text, const char *want)
{
    char shown[200] = "";
    ckpt_error err = {0};
    ckpt_value *v;
    arena *a = arena_new(1 << 20);
    ckpt_status st = json_read_value(str_of(text, strlen(text)), 0, a, &v, &err);
    if (st == CKPT_OK)
        ckpt_value_text(v, 100, shown, sizeof shown);
    bool same = st == CKPT_OK ? strcmp(shown, want) == 0 : strcmp(want, "refused") == 0 && err.what[0];
    if (!same)
        printf(" [%s is printed as %s] ", text, shown);
    arena_free(a);
    return same;
}

static void values_are_built(void)
{
    CU_ASSERT(prints_as(" {\"a\": [1, -2.5e3, true, false, null, \"\\u00e9\"], \"b\": {}, \"c\": []} ",
                        "{'a': [1, -2500.0, True, False, None, '\xc3\xa9'], 'b': {}, 'c': []}"));
    CU_ASSERT(prints_as("18446744073709551616", "18446744073709551616"));
    CU_ASSERT(prints_as("-9223372036854775808", "-9223372036854775808"));
    CU_ASSERT(prints_as("[[1], {\"x\": [2]}, 3]", "[[1], {'x': [2]}, 3]"));
    CU_ASSERT(prints_as("", "refused"));
    CU_ASSERT(prints_as("[1", "refused"));
    CU_ASSERT(prints_as("NaN", "refused"));
}

void suite_json_scan(void)
{
    UNIT(values_are_built);
    UNIT(every_event_is_read);
    UNIT(malformed_documents_are_refused);
    UNIT(malformed_numbers_are_refused);
    UNIT(malformed_strings_are_refused);
    UNIT(strings_are_unescaped);
    UNIT(strings_without_escapes_are_not_copied);
    UNIT(integers_are_exact_or_refused);
    UNIT(nesting_is_limited);
    UNIT(whole_values_are_skipped);
    UNIT(errors_have_an_offset);
    UNIT(truncated_documents_are_refused);
    UNIT(strings_are_quoted_as_by_serde_and_python);
    UNIT(json_test_suite_passes);
}
