/* str.h - ckpt_str: text with a length, which need not end in NUL. */
#ifndef BASE_STR_H
#define BASE_STR_H

#include <string.h>

#include "ckpt.h"

/* STR_LIT - a string literal as a ckpt_str. */
#define STR_LIT(s) ((ckpt_str){"" s, sizeof(s) - 1})

static inline ckpt_str str_of(const char *ptr, size_t len) { return (ckpt_str){ptr, len}; }
static inline ckpt_str str_c(const char *z) { return (ckpt_str){z, strlen(z)}; }
static inline bool str_eq(ckpt_str a, ckpt_str b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}
static inline bool str_is(ckpt_str a, const char *z) { return str_eq(a, str_c(z)); }
static inline bool str_starts(ckpt_str s, ckpt_str prefix)
{
    return s.len >= prefix.len && (prefix.len == 0 || memcmp(s.ptr, prefix.ptr, prefix.len) == 0);
}
static inline bool str_ends(ckpt_str s, ckpt_str suffix)
{
    return s.len >= suffix.len &&
           (suffix.len == 0 || (s.ptr[s.len - 1] == suffix.ptr[suffix.len - 1] &&
                                memcmp(s.ptr + s.len - suffix.len, suffix.ptr, suffix.len) == 0));
}
/* str_first - returns the first N bytes of S, or all of a shorter S. */
static inline ckpt_str str_first(ckpt_str s, size_t n) { return str_of(s.ptr, s.len < n ? s.len : n); }
static inline ckpt_str str_skip(ckpt_str s, size_t n)
{
    return n >= s.len ? (ckpt_str){"", 0} : (ckpt_str){s.ptr + n, s.len - n};
}
/* str_take - removes PREFIX from the beginning of *S; false: *S begins otherwise. */
static inline bool str_take(ckpt_str *s, ckpt_str prefix)
{
    bool starts = str_starts(*s, prefix);
    if (starts)
        *s = str_skip(*s, prefix.len);
    return starts;
}
/* str_ends_any_case - as str_ends, but ignores the case of ASCII letters in S; SUFFIX is in lower case. */
bool str_ends_any_case(ckpt_str s, ckpt_str suffix);
/* str_compare - compares by bytes, like memcmp; a prefix comes first. */
static inline int str_compare(ckpt_str a, ckpt_str b)
{
    size_t n = a.len < b.len ? a.len : b.len;
    int c = n ? memcmp(a.ptr, b.ptr, n) : 0;
    return c ? c : (a.len > b.len) - (a.len < b.len);
}
/* str_find - returns the offset of NEEDLE in S at or after FROM, or SIZE_MAX. */
size_t str_find(ckpt_str s, ckpt_str needle, size_t from);
static inline bool str_has(ckpt_str s, ckpt_str needle) { return str_find(s, needle, 0) != SIZE_MAX; }
/* str_before - returns the text before the first C in S; S itself if it has no C. */
static inline ckpt_str str_before(ckpt_str s, char c) { return str_first(s, str_find(s, str_of(&c, 1), 0)); }
/* str_after_last - returns the text after the last C in S; S itself if it has no C. */
ckpt_str str_after_last(ckpt_str s, char c);
/* str_trim_start, str_trim_end - return S without those of CHARS that it begins with, or ends in. */
ckpt_str str_trim_start(ckpt_str s, const char *chars);
ckpt_str str_trim_end(ckpt_str s, const char *chars);
/* is_ascii_alnum - returns true if C is a letter or digit of ASCII. */
static inline bool is_ascii_alnum(char c)
{
    return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
}
/* str_folder - returns the start of PATH up to and including its last '/'; an empty text if it has none. */
static inline ckpt_str str_folder(ckpt_str path)
{
    while (path.len && path.ptr[path.len - 1] != '/')
        path.len--;
    return path;
}
/* str_take_until - removes the text before the first C, or else all, from *S, and that C. Returns it. */
ckpt_str str_take_until(ckpt_str *s, char c);
/* str_matches_word - returns true if TEST holds for S and a word of WORDS, which one space separates. */
bool str_matches_word(ckpt_str s, const char *words, bool (*test)(ckpt_str s, ckpt_str word));
/* str_digit - returns the value of the hexadecimal digit C; 99: C is no digit. */
static inline unsigned str_digit(char c)
{
    char low = (char)(c | 0x20);
    return c >= '0' && c <= '9'       ? (unsigned)(c - '0')
           : low >= 'a' && low <= 'f' ? (unsigned)(low - 'a') + 10
                                      : 99;
}
/* has_no_null - returns true if TEXTS has N texts; TEXTS may be NULL if N is 0. */
bool has_no_null(const char *const *texts, size_t n);
/* format_number - writes N in decimal digits to OUT and returns them. */
enum { STR_NUMBER_MAX = 24 };
ckpt_str format_number(uint64_t n, char out[STR_NUMBER_MAX]);
/* str_uint - parses S, which must be decimal digits only. False: it is not a number, or it does not fit. */
bool str_uint(ckpt_str s, uint64_t *out);

#endif
