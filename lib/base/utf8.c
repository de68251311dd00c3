/* utf8.c - UTF-8 by the Unicode standard, table 3-7: every byte sequence that is not in it is malformed,
 * which rules out overlong forms and code points above U+10FFFF without computing them. */
#include "base/utf8.h"

/* What a lead byte determines: the length of the sequence (0: not a lead byte) and the range of
 * the second byte; all later ones are 80..BF. */
struct utf8_lead {
    unsigned char length, low, high;
};

static struct utf8_lead classify_lead(unsigned char character, bool surrogates)
{
    if (character >= 0xc2 && character <= 0xdf)
        return (struct utf8_lead){2, 0x80, 0xbf};
    if (character == 0xed && !surrogates)
        return (struct utf8_lead){3, 0x80, 0x9f};
    if (character >= 0xe0 && character <= 0xef)
        return (struct utf8_lead){3, character == 0xe0 ? 0xa0 : 0x80, 0xbf};
    if (character >= 0xf0 && character <= 0xf4)
        return (struct utf8_lead){4, character == 0xf0 ? 0x90 : 0x80, character == 0xf4 ? 0x8f : 0xbf};
    return (struct utf8_lead){0, 0, 0};
}

uint32_t utf8_next(ckpt_str text, size_t *pos, bool surrogates)
{
    size_t at = (*pos)++;
    unsigned char c = (unsigned char)text.ptr[at];
    if (c < 0x80)
        return c;
    struct utf8_lead lead = classify_lead(c, surrogates);
    if (lead.length == 0 || lead.length > text.len - at)
        return UTF8_BAD;
    uint32_t cp = c & (0x7fu >> lead.length);
    for (size_t i = 1; i < lead.length; i++) {
        unsigned char d = (unsigned char)text.ptr[at + i];
        if (d < (i == 1 ? lead.low : 0x80) || d > (i == 1 ? lead.high : 0xbf))
            return UTF8_BAD;
        cp = cp << 6 | (d & 0x3fu);
    }
    *pos = at + lead.length;
    return cp;
}

static uint64_t load_eight(const char *text)
{
    uint64_t word;
    memcpy(&word, text, sizeof word);
    return word;
}

/* is_ascii - does not stop at the first byte that is not: nearly all texts are ASCII. */
static bool is_ascii(ckpt_str text)
{
    uint64_t bits = 0;
    size_t i = 0;
    for (; text.len - i >= 8; i += 8)
        bits |= load_eight(text.ptr + i);
    if (i)
        bits |= load_eight(text.ptr + text.len - 8);
    for (; !i && text.len; text.len--)
        bits |= (unsigned char)text.ptr[text.len - 1];
    return !(bits & UINT64_C(0x8080808080808080));
}

bool utf8_check(ckpt_str text, bool surrogates, uint64_t *count)
{
    uint64_t n = 0;
    if (is_ascii(text))
        n = text.len;
    else
        for (size_t pos = 0; pos < text.len; n++)
            if (utf8_next(text, &pos, surrogates) == UTF8_BAD)
                return false;
    if (count)
        *count = n;
    return true;
}

size_t utf8_complete_length(const char *text, size_t nbytes)
{
    size_t lead = nbytes;
    while (lead > 0 && nbytes - lead < 3 && ((unsigned char)text[lead - 1] & 0xc0) == 0x80)
        lead--;
    return lead > 0 && (unsigned char)text[lead - 1] >= 0xc0 ? lead - 1 : nbytes;
}

size_t utf8_put(uint32_t cp, char out[4])
{
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    size_t n = cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--, cp >>= 6)
        out[i] = (char)(0x80 | (cp & 0x3f));
    out[0] = (char)((0xf00u >> n & 0xf0u) | cp);
    return n;
}

size_t utf8_latin1(ckpt_str text, unsigned char *out)
{
    size_t n = 0;
    for (size_t pos = 0; pos < text.len;) {
        uint32_t cp = utf8_next(text, &pos, false);
        if (cp > 0xff)
            return SIZE_MAX;
        out[n++] = (unsigned char)cp;
    }
    return n;
}

bool utf8_unsafe(uint32_t cp)
{
    static const struct {
        uint32_t first, last;
    } unsafe[] = {
        {0x0000, 0x001f},   /* C0 */
        {0x007f, 0x009f},   /* DEL, C1 */
        {0x00ad, 0x00ad},   /* soft hyphen */
        {0x034f, 0x034f},   /* combining grapheme joiner */
        {0x061c, 0x061c},   /* Arabic letter mark: bidi */
        {0x115f, 0x1160},   /* Hangul fillers: no width */
        {0x17b4, 0x17b5},   /* Khmer inherent vowels: no width */
        {0x180b, 0x180f},   /* Mongolian selectors and separator */
        {0x200b, 0x200f},   /* zero width, bidi marks */
        {0x2028, 0x202e},   /* line and paragraph separator, bidi */
        {0x2060, 0x206f},   /* invisible operators, bidi isolates */
        {0x3164, 0x3164},   /* Hangul filler */
        {0xd800, 0xdfff},   /* surrogates: no characters */
        {0xfe00, 0xfe0f},   /* variation selectors */
        {0xfeff, 0xfeff},   /* byte order mark, zero width */
        {0xffa0, 0xffa0},   /* halfwidth Hangul filler */
        {0xfff0, 0xfffb},   /* interlinear annotation */
        {0x13430, 0x1343f}, /* hieroglyph format controls */
        {0x1bca0, 0x1bca3}, /* shorthand format controls */
        {0x1d173, 0x1d17a}, /* musical format controls */
        {0xe0000, 0xe0fff}, /* tags, more selectors */
    };
    for (size_t i = 0; i < sizeof unsafe / sizeof *unsafe && cp >= unsafe[i].first; i++)
        if (cp <= unsafe[i].last)
            return true;
    return cp > 0x10ffff;
}

bool utf8_find_control(ckpt_str text, uint32_t *cp)
{
    for (size_t i = 0; i < text.len;) {
        unsigned char c = (unsigned char)text.ptr[i];
        if (c >= 0x20 && c < 0x7f) {
            i++;
            continue;
        }
        uint32_t u = utf8_next(text, &i, true);
        bool is_control = u < 0x20 || (u >= 0x7f && u <= 0x9f);
        bool turns_text = u == 0x061c || u == 0x200e || u == 0x200f || (u >= 0x2028 && u <= 0x202e) ||
                          (u >= 0x2066 && u <= 0x2069);
        *cp = u;
        if (is_control || turns_text)
            return true;
    }
    return false;
}
