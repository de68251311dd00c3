/* glob.c - names against a pattern. A mismatch goes back to the last `*` only,
 * never to one before it: that one could not do better, so the time is at most
 * length of the pattern times length of the name. */
#include "base/str.h"
#include "base/utf8.h"

/* A pattern; FOLD: ASCII letters are lower case in it and in the name. */
struct pattern {
    ckpt_str s;
    bool fold;
};

/* A character, or, beyond all characters, a byte that is not UTF-8. */
static uint32_t next(ckpt_str s, size_t *pos, bool fold)
{
    size_t at = *pos;
    uint32_t cp = utf8_next(s, pos, true);
    if (fold && cp >= 'A' && cp <= 'Z')
        return cp - 'A' + 'a';
    return cp == UTF8_BAD ? 0x80000000u | (unsigned char)s.ptr[at] : cp;
}

/* A character of the pattern, `\` taken off. */
static uint32_t next_quoted(struct pattern g, size_t *pos)
{
    if (g.s.ptr[*pos] == '\\' && *pos + 1 < g.s.len)
        ++*pos;
    return next(g.s, pos, g.fold);
}

/* Is CP in the set that opens at *POS? Moves *POS behind its `]`. A set that
 * never closes is no set: *POS stays and the answer is about a plain `[`. */
static bool in_set(struct pattern p, size_t *pos, uint32_t cp)
{
    ckpt_str g = p.s;
    size_t at = *pos + 1;
    bool not = at < g.len && g.ptr[at] == '!', found = false;
    at += not ;
    for (bool first = true; at < g.len && (first || g.ptr[at] != ']'); first = false) {
        uint32_t low = next_quoted(p, &at), high = low;
        if (at + 1 < g.len && g.ptr[at] == '-' && g.ptr[at + 1] != ']') {
            at++;
            high = next_quoted(p, &at);
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
static bool match_one(struct pattern g, size_t *i, ckpt_str name, size_t *j)
{
    uint32_t cp = next(name, j, g.fold);
    if (g.s.ptr[*i] == '?') {
        ++*i;
        return true;
    }
    if (g.s.ptr[*i] == '[')
        return in_set(g, i, cp);
    return next_quoted(g, i) == cp;
}

static bool match(struct pattern g, ckpt_str name)
{
    ckpt_str glob = g.s;
    size_t i = 0, j = 0, star = SIZE_MAX, held = 0; /* behind the last `*`; where its run ends */
    while (j < name.len) {
        if (i < glob.len && glob.ptr[i] == '*') {
            star = ++i;
            held = j;
            continue;
        }
        if (i < glob.len && match_one(g, &i, name, &j))
            continue;
        if (star == SIZE_MAX)
            return false;
        next(name, &held, false);
        i = star;
        j = held;
    }
    while (i < glob.len && glob.ptr[i] == '*')
        i++;
    return i == glob.len;
}

bool ckpt_glob_match(ckpt_str glob, ckpt_str name) { return match((struct pattern){glob, false}, name); }

bool ckpt_glob_match_any_case(ckpt_str glob, ckpt_str name)
{
    return match((struct pattern){glob, true}, name);
}
