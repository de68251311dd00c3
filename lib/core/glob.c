/* glob.c - names against a pattern. A mismatch goes back to the last `*` only,
 * never to one before it: that one could not do better, so the time is at most
 * length of the pattern times length of the name. */
#include "base/str.h"
#include "base/utf8.h"

/* A character, or, beyond all characters, a byte that is not UTF-8. */
static uint32_t next(ckpt_str s, size_t *pos)
{
    size_t at = *pos;
    uint32_t cp = utf8_next(s, pos, true);
    return cp == UTF8_BAD ? 0x80000000u | (unsigned char)s.ptr[at] : cp;
}

/* A character of the pattern, `\` taken off. */
static uint32_t next_quoted(ckpt_str s, size_t *pos)
{
    if (s.ptr[*pos] == '\\' && *pos + 1 < s.len)
        ++*pos;
    return next(s, pos);
}

/* Is CP in the set that opens at *POS? Moves *POS behind its `]`. A set that
 * never closes is no set: *POS stays and the answer is about a plain `[`. */
static bool in_set(ckpt_str g, size_t *pos, uint32_t cp)
{
    size_t at = *pos + 1;
    bool not = at < g.len && g.ptr[at] == '!', found = false;
    at += not ;
    for (bool first = true; at < g.len && (first || g.ptr[at] != ']'); first = false) {
        uint32_t low = next_quoted(g, &at), high = low;
        if (at + 1 < g.len && g.ptr[at] == '-' && g.ptr[at + 1] != ']') {
            at++;
            high = next_quoted(g, &at);
        }
        found |= low <= cp && cp <= high;
    }
    if (at >= g.len) {
        ++*pos;
        return cp == '[';
    }
    *pos = at + 1;
    return found != not ;
}

/* Does the one character at *J match the pattern's piece at *I (no `*`)? Both
 * move on. */
static bool match_one(ckpt_str g, size_t *i, ckpt_str name, size_t *j)
{
    uint32_t cp = next(name, j);
    if (g.ptr[*i] == '?') {
        ++*i;
        return true;
    }
    if (g.ptr[*i] == '[')
        return in_set(g, i, cp);
    return next_quoted(g, i) == cp;
}

bool ckpt_glob_match(ckpt_str glob, ckpt_str name)
{
    size_t i = 0, j = 0, star = SIZE_MAX, held = 0; /* behind the last `*`; where its run ends */
    while (j < name.len) {
        if (i < glob.len && glob.ptr[i] == '*') {
            star = ++i;
            held = j;
            continue;
        }
        if (i < glob.len && match_one(glob, &i, name, &j))
            continue;
        if (star == SIZE_MAX)
            return false;
        next(name, &held);
        i = star;
        j = held;
    }
    while (i < glob.len && glob.ptr[i] == '*')
        i++;
    return i == glob.len;
}
