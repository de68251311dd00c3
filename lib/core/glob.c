/* glob.c - matches names against a pattern. After a mismatch only the last `*` is tried with a longer match,
 * because other matches of an earlier `*` would not help. Therefore the time is at most the length of the
 * pattern times the length of the name. */
#include "core/glob.h"

#include "base/utf8.h"

/* A pattern; FOLD: ignore the case of ASCII letters; NUMBERS: not NULL if `#` matches a number. */
struct glob_pattern {
    ckpt_str text;
    bool fold;
    uint32_t *numbers;
};

/* is_literal - returns true if the byte of the pattern at AT surely matches only itself. */
static bool is_literal(struct glob_pattern pattern, size_t at)
{
    unsigned char c = (unsigned char)pattern.text.ptr[at], lower = c | 0x20;
    return c == '.' || c == '_' || (!pattern.fold && lower >= 'a' && lower <= 'z');
}

/* next_char - returns the character at TEXT[*POS]; if it is not UTF-8, a number above all characters. */
static uint32_t next_char(ckpt_str text, size_t *pos, bool fold)
{
    size_t at = *pos;
    uint32_t cp = utf8_next(text, pos, true);
    if (fold && cp >= 'A' && cp <= 'Z')
        return cp - 'A' + 'a';
    return cp == UTF8_BAD ? 0x80000000u | (unsigned char)text.ptr[at] : cp;
}

/* next_pattern_char - returns the next character of the pattern, without its `\`. */
static uint32_t next_pattern_char(struct glob_pattern pattern, size_t *pos)
{
    if (pattern.text.ptr[*pos] == '\\' && *pos + 1 < pattern.text.len)
        ++*pos;
    return next_char(pattern.text, pos, pattern.fold);
}

/* is_in_set - returns true if CP is in the set that opens at *POS. Moves *POS after its `]`. A set that is
 * never closed is a literal `[`: *POS moves after it and CP is compared with it. */
static bool is_in_set(struct glob_pattern pattern, size_t *pos, uint32_t cp)
{
    ckpt_str glob = pattern.text;
    size_t at = *pos + 1;
    bool negated = at < glob.len && glob.ptr[at] == '!', found = false;
    at += negated;
    for (bool first = true; at < glob.len && (first || glob.ptr[at] != ']'); first = false) {
        uint32_t low = next_pattern_char(pattern, &at), high = low;
        if (at + 1 < glob.len && glob.ptr[at] == '-' && glob.ptr[at + 1] != ']') {
            at++;
            high = next_pattern_char(pattern, &at);
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

/* match_number - matches a number of at most nine digits without superfluous zeros, and appends it to
 * NUMBERS. Moves *POS after it. */
static bool match_number(ckpt_str name, size_t *pos, uint32_t numbers[2])
{
    size_t start = *pos;
    numbers[0] = numbers[1];
    numbers[1] = 0;
    for (; *pos < name.len && *pos - start < 9 && str_digit(name.ptr[*pos]) < 10; ++*pos)
        numbers[1] = numbers[1] * 10 + str_digit(name.ptr[*pos]);
    return *pos == start + 1 || (*pos > start && name.ptr[start] != '0');
}

/* match_element - returns true if the character at NAME[*NAME_POS] matches the element of the pattern at
 * *GLOB_POS, which is not `*`. Moves both positions after what was compared. */
static bool match_element(struct glob_pattern pattern, size_t *glob_pos, ckpt_str name, size_t *name_pos)
{
    if (is_literal(pattern, *glob_pos))
        return pattern.text.ptr[(*glob_pos)++] == name.ptr[(*name_pos)++];
    if (pattern.numbers && pattern.text.ptr[*glob_pos] == '#') {
        ++*glob_pos;
        return match_number(name, name_pos, pattern.numbers);
    }
    uint32_t cp = next_char(name, name_pos, pattern.fold);
    if (pattern.text.ptr[*glob_pos] == '?') {
        ++*glob_pos;
        return true;
    }
    if (pattern.text.ptr[*glob_pos] == '[')
        return is_in_set(pattern, glob_pos, cp);
    return next_pattern_char(pattern, glob_pos) == cp;
}

/* find_literal - moves *POS to the next byte of NAME that is the literal at AT in the pattern, and before the
 * literal after that, if there is one. Returns false if there is none. */
static bool find_literal(struct glob_pattern pattern, size_t at, ckpt_str name, size_t *pos)
{
    bool two = at + 1 < pattern.text.len && is_literal(pattern, at + 1);
    const char *found, *from = name.ptr + *pos, *end = name.ptr + name.len;
    for (; (found = memchr(from, pattern.text.ptr[at], (size_t)(end - from))) != NULL; from = found + 1)
        if (!two || (found + 1 < end && found[1] == pattern.text.ptr[at + 1]))
            break;
    *pos = found ? (size_t)(found - name.ptr) : *pos;
    return found != NULL;
}

static bool matches_glob(struct glob_pattern pattern, ckpt_str name)
{
    ckpt_str glob = pattern.text;
    size_t i = 0, j = 0;          /* positions in GLOB and in NAME */
    size_t after_star = SIZE_MAX; /* position in GLOB after its last `*` so far */
    size_t star_end = 0;          /* end of what this `*` matches in NAME */
    /* the ends first: that is all to compare for `*.weight` */
    for (; glob.len && is_literal(pattern, glob.len - 1); glob.len--, name.len--) {
        if (glob.len > 1 && glob.ptr[glob.len - 2] == '\\')
            break;
        if (!name.len || name.ptr[name.len - 1] != glob.ptr[glob.len - 1])
            return false;
    }
    pattern.text = glob;
    while (j < name.len) {
        if (i < glob.len && glob.ptr[i] == '*') {
            after_star = ++i;
            star_end = j;
            if (i == glob.len)
                return true;
            continue;
        }
        if (i < glob.len && match_element(pattern, &i, name, &j))
            continue;
        if (after_star == SIZE_MAX)
            return false;
        next_char(name, &star_end, false);
        if (is_literal(pattern, after_star) && !find_literal(pattern, after_star, name, &star_end))
            return false;
        i = after_star;
        j = star_end;
    }
    while (i < glob.len && glob.ptr[i] == '*')
        i++;
    return i == glob.len;
}

bool ckpt_glob_match(ckpt_str glob, ckpt_str name)
{
    return matches_glob((struct glob_pattern){.text = glob}, name);
}

bool ckpt_glob_match_any_case(ckpt_str glob, ckpt_str name)
{
    return matches_glob((struct glob_pattern){.text = glob, .fold = true}, name);
}

bool glob_match_numbers(ckpt_str glob, ckpt_str name, uint32_t numbers[2])
{
    numbers[0] = numbers[1] = 0;
    return matches_glob((struct glob_pattern){.text = glob, .numbers = numbers}, name);
}
