/* str.c - searching text that carries its length. */
#include "base/str.h"

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
