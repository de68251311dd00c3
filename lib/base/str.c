/* str.c - see str.h. */
#include "base/str.h"

#include "base/checked.h"

size_t str_find(ckpt_str text, ckpt_str needle, size_t from)
{
    if (from > text.len)
        return SIZE_MAX;
    if (needle.len == 0)
        return from;
    if (text.len - from < needle.len)
        return SIZE_MAX;
    const char *at = memmem(text.ptr + from, text.len - from, needle.ptr, needle.len);
    return at ? (size_t)(at - text.ptr) : SIZE_MAX;
}

ckpt_str str_after_last(ckpt_str text, char character)
{
    size_t i = text.len;
    while (i && text.ptr[i - 1] != character)
        i--;
    return str_skip(text, i);
}

ckpt_str str_trim_start(ckpt_str text, const char *chars)
{
    while (text.len && *text.ptr && strchr(chars, *text.ptr))
        text = str_skip(text, 1);
    return text;
}

ckpt_str str_trim_end(ckpt_str text, const char *chars)
{
    while (text.len && text.ptr[text.len - 1] && strchr(chars, text.ptr[text.len - 1]))
        text.len--;
    return text;
}

ckpt_str str_take_until(ckpt_str *text, char character)
{
    ckpt_str first = str_before(*text, character);
    *text = str_skip(*text, first.len + 1);
    return first;
}

bool str_matches_word(ckpt_str text, const char *words, bool (*test)(ckpt_str text, ckpt_str word))
{
    ckpt_str rest = str_c(words);
    for (ckpt_str word = str_take_until(&rest, ' '); word.len; word = str_take_until(&rest, ' '))
        if (test(text, word))
            return true;
    return false;
}

bool str_uint(ckpt_str text, uint64_t *out)
{
    uint64_t v = 0;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (c < '0' || c > '9' || !checked_mul(v, 10, &v) || !checked_add(v, (uint64_t)(c - '0'), &v))
            return false;
    }
    if (text.len == 0)
        return false;
    *out = v;
    return true;
}

bool str_ends_any_case(ckpt_str text, ckpt_str suffix)
{
    if (text.len < suffix.len)
        return false;
    for (size_t i = 0; i < suffix.len; i++) {
        char c = text.ptr[text.len - suffix.len + i];
        if ((c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c) != suffix.ptr[i])
            return false;
    }
    return true;
}

ckpt_str format_number(uint64_t number, char out[STR_NUMBER_MAX])
{
    size_t digits = 1;
    for (uint64_t left = number; left >= 10; left /= 10)
        digits++;
    for (size_t i = digits; COUNT_DOWN(i); number /= 10)
        out[i] = (char)('0' + number % 10);
    return str_of(out, digits);
}

bool has_no_null(const char *const *texts, size_t count)
{
    size_t i = 0;
    while (texts && i < count && texts[i])
        i++;
    return i == count;
}
