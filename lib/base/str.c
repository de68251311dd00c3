/* str.c - see str.h. */
#include "base/str.h"

#include "base/checked.h"

size_t str_find(ckpt_str s, ckpt_str needle, size_t from)
{
    if (from > s.len)
        return SIZE_MAX;
    if (needle.len == 0)
        return from;
    if (s.len - from < needle.len)
        return SIZE_MAX;
    const char *at = memmem(s.ptr + from, s.len - from, needle.ptr, needle.len);
    return at ? (size_t)(at - s.ptr) : SIZE_MAX;
}

ckpt_str str_after_last(ckpt_str s, char c)
{
    size_t i = s.len;
    while (i && s.ptr[i - 1] != c)
        i--;
    return str_skip(s, i);
}

ckpt_str str_trim_start(ckpt_str s, const char *chars)
{
    while (s.len && *s.ptr && strchr(chars, *s.ptr))
        s = str_skip(s, 1);
    return s;
}

ckpt_str str_trim_end(ckpt_str s, const char *chars)
{
    while (s.len && s.ptr[s.len - 1] && strchr(chars, s.ptr[s.len - 1]))
        s.len--;
    return s;
}

ckpt_str str_take_until(ckpt_str *s, char c)
{
    ckpt_str first = str_before(*s, c);
    *s = str_skip(*s, first.len + 1);
    return first;
}

bool str_matches_word(ckpt_str s, const char *words, bool (*test)(ckpt_str s, ckpt_str word))
{
    ckpt_str rest = str_c(words);
    for (ckpt_str word = str_take_until(&rest, ' '); word.len; word = str_take_until(&rest, ' '))
        if (test(s, word))
            return true;
    return false;
}

bool str_uint(ckpt_str s, uint64_t *out)
{
    uint64_t v = 0;
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        if (c < '0' || c > '9' || !checked_mul(v, 10, &v) || !checked_add(v, (uint64_t)(c - '0'), &v))
            return false;
    }
    if (s.len == 0)
        return false;
    *out = v;
    return true;
}

bool str_ends_any_case(ckpt_str s, ckpt_str suffix)
{
    if (s.len < suffix.len)
        return false;
    for (size_t i = 0; i < suffix.len; i++) {
        char c = s.ptr[s.len - suffix.len + i];
        if ((c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c) != suffix.ptr[i])
            return false;
    }
    return true;
}

ckpt_str format_number(uint64_t n, char out[STR_NUMBER_MAX])
{
    size_t digits = 1;
    for (uint64_t left = n; left >= 10; left /= 10)
        digits++;
    for (size_t i = digits; COUNT_DOWN(i); n /= 10)
        out[i] = (char)('0' + n % 10);
    return str_of(out, digits);
}

bool has_no_null(const char *const *texts, size_t n)
{
    size_t i = 0;
    while (texts && i < n && texts[i])
        i++;
    return i == n;
}
