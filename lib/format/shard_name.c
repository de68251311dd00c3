/* shard_name.c - see shard_name.h. */
#include "format/shard_name.h"

#include <inttypes.h>

#include "base/error.h"

#define DIGITS 5u

bool shard_name_parse(ckpt_str name, struct shard_name *out)
{
    static const char unknown[DIGITS] = {'?', '?', '?', '?', '?'};
    const size_t n = strlen("-00000-of-00000");
    for (size_t at = name.len; at-- > 0;) {
        ckpt_str rest = str_skip(name, at);
        if (rest.len < n || rest.ptr[0] != '-' || (rest.len > n && rest.ptr[n] != '.'))
            continue;
        ckpt_str number = str_of(rest.ptr + 1, DIGITS), count = str_of(rest.ptr + n - DIGITS, DIGITS);
        *out = (struct shard_name){.stem = str_of(name.ptr, at), .ext = str_skip(rest, n)};
        if (str_eq(str_of(rest.ptr + 1 + DIGITS, 4), STR_LIT("-of-")) && str_uint(count, &out->count) &&
            (str_uint(number, &out->number) || memcmp(number.ptr, unknown, DIGITS) == 0))
            return true;
    }
    return false;
}

ckpt_str shard_name_make(arena *a, const struct shard_name *s, uint64_t number)
{
    return arena_printf(a, "%.*s-%05" PRIu64 "-of-%05" PRIu64 "%.*s", STR_ARG(s->stem), number, s->count,
                        STR_ARG(s->ext));
}
