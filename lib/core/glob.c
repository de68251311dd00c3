/* glob.c - matches names against a pattern. A mismatch returns only to the last `*`: no earlier one
 * could do better. So the time is at most the length of the pattern times the length of the name. */
#include "base/str.h"
#include "base/utf8.h"

/* A pattern; FOLD: ignore the case of ASCII letters. */
struct glob_pattern {
    ckpt_str s;
    bool fold;
};

/* next_char - returns the character at S[*POS]; if it is not UTF-8, a number above all characters. */
static uint32_t next_char(ckpt_str s, size_t *pos, bool fold)
{
    size_t at = *pos;
    uint32_t cp = utf8_next(s, pos, true);
    if (fold && cp >= 'A' && cp <= 'Z')
        return cp - 'A' + 'a';
    return cp == UTF8_BAD ? 0x80000000u | (unsigned char)s.ptr[at] : cp;
}

/* next_pattern_char - returns the next character of the pattern, without its `\`. */
static uint32_t next_pattern_char(struct glob_pattern g, size_t *pos)
{
    if (g.s.ptr[*pos] == '\\' && *pos + 1 < g.s.len)
        ++*pos;
    return next_char(g.s, pos, g.fold);
}

/* is_in_set - returns true if CP is in the set that opens at *POS. Moves *POS after its `]`. A set that is
 * never closed is a literal `[`: *POS moves after it and CP is compared with it. */
static bool is_in_set(struct glob_pattern g, size_t *pos, uint32_t cp)
{
    ckpt_str glob = g.s;
    size_t at = *pos + 1;
    bool negated = at < glob.len && glob.ptr[at] == '!', found = false;
    at += negated;
    for (bool first = true; at < glob.len && (first || glob.ptr[at] != ']'); first = false) {
        uint32_t low = next_pattern_char(g, &at), high = low;
        if (at + 1 < glob.len && glob.ptr[at] == '-' && glob.ptr[at + 1] != ']') {
            at++;
            high = next_pattern_char(g, &at);
        }
        found |= low <= cp && cp <= high;
    }
    if (at >= glob.len) {
        ++*pos;
        return cp == '[';
    }
    *pos = at + 1;
    return found != negated;
}

/* match_one - returns true if the character at NAME[*J] matches the element of the pattern at *I, which is
 * not `*`. Moves both after them. */
static bool match_one(struct glob_pattern g, size_t *i, ckpt_str name, size_t *j)
{
    uint32_t cp = next_char(name, j, g.fold);
    if (g.s.ptr[*i] == '?') {
        ++*i;
        return true;
    }
    if (g.s.ptr[*i] == '[')
        return is_in_set(g, i, cp);
    return next_pattern_char(g, i) == cp;
}

static bool matches_glob(struct glob_pattern g, ckpt_str name)
{
    ckpt_str glob = g.s;
    size_t i = 0, j = 0;                  /* in the pattern; in NAME */
    size_t star = SIZE_MAX, star_end = 0; /* after the last `*`; the end of what it matches in NAME */
    while (j < name.len) {
        if (i < glob.len && glob.ptr[i] == '*') {
            star = ++i;
            star_end = j;
            continue;
        }
        if (i < glob.len && match_one(g, &i, name, &j))
            continue;
        if (star == SIZE_MAX)
            return false;
        next_char(name, &star_end, false);
        i = star;
        j = star_end;
    }
    while (i < glob.len && glob.ptr[i] == '*')
        i++;
    return i == glob.len;
}

bool ckpt_glob_match(ckpt_str glob, ckpt_str name)
{
    return matches_glob((struct glob_pattern){glob, false}, name);
}

bool ckpt_glob_match_any_case(ckpt_str glob, ckpt_str name)
{
    return matches_glob((struct glob_pattern){glob, true}, name);
}
