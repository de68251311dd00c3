/* str.h - ckpt_str: text with a length, which need not end in NUL. */
#pragma once

#include <string.h>

#include "ckpt.h"

/* STR_LIT - a string literal as a ckpt_str. */
#define STR_LIT(s) ((ckpt_str){"" s, sizeof(s) - 1})

static inline ckpt_str str_of(const char *ptr, size_t len) { return (ckpt_str){ptr, len}; }
static inline ckpt_str str_c(const char *text) { return (ckpt_str){text, strlen(text)}; }
static inline bool str_eq(ckpt_str left, ckpt_str right)
{
    return left.len == right.len &&
           (left.len == 0 || left.ptr == right.ptr || memcmp(left.ptr, right.ptr, left.len) == 0);
}
static inline bool str_is(ckpt_str text, const char *string) { return str_eq(text, str_c(string)); }
static inline bool str_starts(ckpt_str text, ckpt_str prefix)
{
    return text.len >= prefix.len && (prefix.len == 0 || memcmp(text.ptr, prefix.ptr, prefix.len) == 0);
}
static inline bool str_ends(ckpt_str text, ckpt_str suffix)
{
    return text.len >= suffix.len &&
           (suffix.len == 0 || (text.ptr[text.len - 1] == suffix.ptr[suffix.len - 1] &&
                                memcmp(text.ptr + text.len - suffix.len, suffix.ptr, suffix.len) == 0));
}
/* str_first - returns the first COUNT bytes of TEXT, or all of a shorter TEXT. */
static inline ckpt_str str_first(ckpt_str text, size_t count)
{
    return str_of(text.ptr, text.len < count ? text.len : count);
}
static inline ckpt_str str_skip(ckpt_str text, size_t count)
{
    return count >= text.len ? (ckpt_str){"", 0} : (ckpt_str){text.ptr + count, text.len - count};
}
/* str_take - removes PREFIX from the beginning of *TEXT; false: *TEXT begins otherwise. */
static inline bool str_take(ckpt_str *text, ckpt_str prefix)
{
    bool starts = str_starts(*text, prefix);
    if (starts)
        *text = str_skip(*text, prefix.len);
    return starts;
}
/* str_ends_any_case - as str_ends, but ignores the case of ASCII letters in TEXT; SUFFIX is in lower case. */
bool str_ends_any_case(ckpt_str text, ckpt_str suffix);
/* str_compare - compares by bytes, like memcmp; a prefix comes first. */
static inline int str_compare(ckpt_str left, ckpt_str right)
{
    size_t n = left.len < right.len ? left.len : right.len;
    int c = n ? memcmp(left.ptr, right.ptr, n) : 0;
    return c ? c : (left.len > right.len) - (left.len < right.len);
}
/* str_find - returns the offset of NEEDLE in TEXT at or after FROM, or SIZE_MAX. */
size_t str_find(ckpt_str text, ckpt_str needle, size_t from);
static inline bool str_has(ckpt_str text, ckpt_str needle) { return str_find(text, needle, 0) != SIZE_MAX; }
/* str_before - returns the text before the first CHARACTER in TEXT; TEXT itself if it has no CHARACTER. */
static inline ckpt_str str_before(ckpt_str text, char character)
{
    return str_first(text, str_find(text, str_of(&character, 1), 0));
}
/* str_after_last - returns the text after the last CHARACTER in TEXT; TEXT itself if it has no CHARACTER. */
ckpt_str str_after_last(ckpt_str text, char character);
/* str_trim_start, str_trim_end - return TEXT without those of CHARS that it begins with, or ends in. */
ckpt_str str_trim_start(ckpt_str text, const char *chars);
ckpt_str str_trim_end(ckpt_str text, const char *chars);
/* is_ascii_alnum - returns true if CHARACTER is a letter or digit of ASCII. */
static inline bool is_ascii_alnum(char character)
{
    return (character >= '0' && character <= '9') || ((character | 0x20) >= 'a' && (character | 0x20) <= 'z');
}
/* str_folder - returns the start of PATH up to and including its last '/'; an empty text if it has none. */
static inline ckpt_str str_folder(ckpt_str path)
{
    while (path.len && path.ptr[path.len - 1] != '/')
        path.len--;
    return path;
}
/* str_take_until - removes the text before the first CHARACTER, or else all, from *TEXT, and that CHARACTER.
 * Returns it. */
ckpt_str str_take_until(ckpt_str *text, char character);
/* str_matches_word - returns true if TEST holds for TEXT and a word of WORDS, which one space separates. */
bool str_matches_word(ckpt_str text, const char *words, bool (*test)(ckpt_str s, ckpt_str word));
/* str_digit - returns the value of the hexadecimal digit CHARACTER; 99: CHARACTER is no digit. */
static inline unsigned str_digit(char character)
{
    char low = (char)(character | 0x20);
    return character >= '0' && character <= '9' ? (unsigned)(character - '0')
           : low >= 'a' && low <= 'f'           ? (unsigned)(low - 'a') + 10
                                                : 99;
}
/* has_no_null - returns true if TEXTS has COUNT texts; TEXTS may be NULL if COUNT is 0. */
bool has_no_null(const char *const *texts, size_t count);
/* format_number - writes NUMBER in decimal digits to OUT and returns them. */
enum { STR_NUMBER_MAX = 24 };
ckpt_str format_number(uint64_t number, char out[STR_NUMBER_MAX]);
/* str_uint - parses TEXT, which must be decimal digits only. False: it is not a number, or it does not
 * fit. */
bool str_uint(ckpt_str text, uint64_t *out);
