/* UTF-8: all code points are encoded and decoded, and all malformed sequences are refused. */
#include "base/utf8.h"
#include "unit.h"

static uint32_t decode(const char *bytes, size_t n, bool surrogates, size_t *used)
{
    unsigned char *at = unit_guard(bytes, n);
    *used = 0;
    uint32_t cp = utf8_next(str_of((char *)at, n), used, surrogates);
    unit_guard_free(at, n);
    return cp;
}

static void every_code_point_is_encoded_and_decoded(void)
{
    for (uint32_t cp = 0; cp <= 0x10ffff; cp++) {
        char bytes[4];
        size_t n = utf8_put(cp, bytes), pos = 0;
        bool surrogate = cp >= 0xd800 && cp <= 0xdfff;
        if (utf8_next(str_of(bytes, n), &pos, true) != cp || pos != n)
            CU_FAIL("a code point is not decoded as it was encoded");
        pos = 0;
        if (surrogate != (utf8_next(str_of(bytes, n), &pos, false) == UTF8_BAD) || pos != (surrogate ? 1 : n))
            CU_FAIL("a surrogate is accepted, or another code point is refused");
    }
}

/* is_well_formed - returns whether the N bytes B decode to a code point that encodes to the same bytes. */
static bool is_well_formed(const unsigned char *b, size_t n)
{
    uint32_t cp = n == 1 ? b[0] : n == 2 ? b[0] & 0x1fu : n == 3 ? b[0] & 0xfu : b[0] & 7u;
    char encoded[4];
    for (size_t i = 1; i < n; i++)
        cp = cp << 6 | (b[i] & 0x3fu);
    return cp <= 0x10ffff && utf8_put(cp, encoded) == n && memcmp(encoded, b, n) == 0;
}

static void malformed_sequences_are_refused(void)
{
    static const unsigned char next_bytes[] = {0x00, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xff};
    enum { K = sizeof next_bytes };
    for (unsigned lead = 0; lead < 256; lead++) {
        for (unsigned k = 0; k < K * K * K; k++) {
            unsigned char b[4] = {(unsigned char)lead, next_bytes[k % K], next_bytes[k / K % K],
                                  next_bytes[k / K / K]};
            size_t want = 0, pos = 0;
            for (size_t n = 1; n <= 4 && !want; n++)
                want = is_well_formed(b, n) ? n : 0;
            uint32_t cp = utf8_next(str_of((char *)b, 4), &pos, true);
            if ((cp == UTF8_BAD) != (want == 0) || pos != (want ? want : 1))
                CU_FAIL("a malformed sequence is accepted, or a well-formed one is refused");
        }
    }
}

static void truncated_characters_are_refused(void)
{
    static const char *const characters[] = {"\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x98\x80"};
    for (size_t i = 0; i < 3; i++) {
        for (size_t n = 1; n < i + 2; n++) {
            size_t used;
            CU_ASSERT_EQUAL(decode(characters[i], n, false, &used), UTF8_BAD);
            CU_ASSERT_EQUAL(used, 1);
        }
    }
}

static void text_is_checked_and_counted(void)
{
    uint64_t n = 7;
    CU_ASSERT(utf8_check(STR_LIT(""), false, &n));
    CU_ASSERT_EQUAL(n, 0);
    CU_ASSERT(utf8_check(STR_LIT("0123456789abcde\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"
                                 "0123456789"),
                         false, &n));
    CU_ASSERT_EQUAL(n, 15 + 3 + 10);
    CU_ASSERT(utf8_check(str_of(NULL, 0), false, NULL));
    for (size_t at = 0; at < 20; at++) { /* one bad byte at every offset of the fast path */
        char text[20];
        memset(text, 'a', sizeof text);
        text[at] = '\xff';
        unsigned char *guarded = unit_guard(text, sizeof text);
        CU_ASSERT(!utf8_check(str_of((char *)guarded, sizeof text), true, NULL));
        unit_guard_free(guarded, sizeof text);
    }
    CU_ASSERT(!utf8_check(STR_LIT("\xed\xa0\x80"), false, NULL));
    CU_ASSERT(utf8_check(STR_LIT("\xed\xa0\x80"), true, NULL));
}

static void text_is_converted_to_latin1(void)
{
    unsigned char out[512];
    char text[512];
    size_t len = 0;
    for (uint32_t cp = 0; cp < 256; cp++)
        len += utf8_put(cp, text + len);
    CU_ASSERT_EQUAL(utf8_latin1(str_of(text, len), out), 256);
    for (unsigned i = 0; i < 256; i++)
        CU_ASSERT_EQUAL(out[i], i);
    CU_ASSERT_EQUAL(utf8_latin1(STR_LIT("a\xc4\x80"), out), SIZE_MAX);
    CU_ASSERT_EQUAL(utf8_latin1(STR_LIT("a\xff"), out), SIZE_MAX);
}

static void characters_that_affect_terminals_are_unsafe(void)
{
    static const uint32_t unsafe[] = {0,      7,       0x0a,    0x1b,     0x1f,    0x7f,   0x80,   0x9b,
                                      0x9f,   0xad,    0x61c,   0x200b,   0x200d,  0x200f, 0x2028, 0x2029,
                                      0x202a, 0x202e,  0x2060,  0x2066,   0x2069,  0xd800, 0xfe0f, 0xfeff,
                                      0xfffb, 0xe0001, 0xe007f, 0x110000, UTF8_BAD};
    static const uint32_t safe[] = {' ',    '~',    0xa0,   0xe4,   0x3b1,  0x4e2d,  0x2010,
                                    0x2027, 0x2030, 0x2070, 0xac00, 0xfffd, 0x1f600, 0x20000};
    for (size_t i = 0; i < sizeof unsafe / sizeof *unsafe; i++)
        CU_ASSERT(utf8_unsafe(unsafe[i]));
    for (size_t i = 0; i < sizeof safe / sizeof *safe; i++)
        CU_ASSERT(!utf8_unsafe(safe[i]));
}

/* The ranges of Default_Ignorable_Code_Point (DerivedCoreProperties.txt), of Cc, Zl and Zp, and of the format
 * controls (Cf) without a glyph are unsafe; the code points next to them are not. */
static void invisible_characters_are_unsafe(void)
{
    static const uint32_t ranges[][2] = {
        {0x0000, 0x001f}, {0x007f, 0x009f},   {0x00ad, 0x00ad},   {0x034f, 0x034f},   {0x061c, 0x061c},
        {0x115f, 0x1160}, {0x17b4, 0x17b5},   {0x180b, 0x180f},   {0x200b, 0x200f},   {0x2028, 0x202e},
        {0x2060, 0x206f}, {0x3164, 0x3164},   {0xfe00, 0xfe0f},   {0xfeff, 0xfeff},   {0xffa0, 0xffa0},
        {0xfff0, 0xfffb}, {0x13430, 0x1343f}, {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a}, {0xe0000, 0xe0fff}};
    char out[4];
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        for (uint32_t cp = ranges[i][0]; cp <= ranges[i][1]; cp++) {
            size_t pos = 0, n = utf8_put(cp, out);
            bool unsafe = false;
            CU_ASSERT(utf8_unsafe(cp));
            CU_ASSERT_EQUAL(ckpt_text_next(str_of(out, n), &pos, &unsafe), cp);
            CU_ASSERT(unsafe && pos == n);
        }
        CU_ASSERT(ranges[i][0] == 0 || !utf8_unsafe(ranges[i][0] - 1));
        CU_ASSERT(!utf8_unsafe(ranges[i][1] + 1));
    }
}

void suite_utf8(void)
{
    UNIT(every_code_point_is_encoded_and_decoded);
    UNIT(malformed_sequences_are_refused);
    UNIT(truncated_characters_are_refused);
    UNIT(text_is_checked_and_counted);
    UNIT(text_is_converted_to_latin1);
    UNIT(characters_that_affect_terminals_are_unsafe);
    UNIT(invisible_characters_are_unsafe);
}
