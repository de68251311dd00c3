/* glob.c - matches names against a pattern. After a mismatch only the last `*` is tried with a longer match,
 * because other matches of an earlier `*` would not help. Therefore the time is at most the length of the
 * pattern times the length of the name. */
#include "base/str.h"
#include "base/utf8.h"

/* A pattern; FOLD: ignore the case of ASCII letters. */
struct glob_pattern {
    ckpt_str text;
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
    if (g.text.ptr[*pos] == '\\' && *pos + 1 < g.text.len)
        ++*pos;
    return next_char(g.text, pos, g.fold);
}

/* is_in_set - returns true if CP is in the set that opens at *POS. Moves *POS after its `]`. A set that is
 * never closed is a literal `[`: *POS moves after it and CP is compared with it. */
static bool is_in_set(struct glob_pattern g, size_t *pos, uint32_t cp)
{
    ckpt_str glob = g.text;
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

/* match_element - returns true if the character at NAME[*NAME_POS] matches the element of the pattern at
 * *GLOB_POS, which is not `*`. Moves both positions after what was compared. */
static bool match_element(struct glob_pattern g, size_t *glob_pos, ckpt_str name, size_t *name_pos)
{
    uint32_t cp = next_char(name, name_pos, g.fold);
    if (g.text.ptr[*glob_pos] == '?') {
        ++*glob_pos;
        return true;
    }
    if (g.text.ptr[*glob_pos] == '[')
        return is_in_set(g, glob_pos, cp);
    return next_pattern_char(g, glob_pos) == cp;
}

static bool matches_glob(struct glob_pattern g, ckpt_str name)
{
    ckpt_str glob = g.text;
    size_t i = 0, j = 0;          /* positions in GLOB and in NAME */
    size_t after_star = SIZE_MAX; /* position in GLOB after its last `*` so far */
    size_t star_end = 0;          /* end of what this `*` matches in NAME */
    while (j < name.len) {
        if (i < glob.len && glob.ptr[i] == '*') {
            after_star = ++i;
            star_end = j;
            continue;
        }
        if (i < glob.len && match_element(g, &i, name, &j))
            continue;
        if (after_star == SIZE_MAX)
            return false;
        next_char(name, &star_end, false);
        i = after_star;
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
