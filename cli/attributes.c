#include "attributes.h"

#include <string.h>

#define BLANKS " \t\r"
#define DRIVER "diff=ckpt"

/* A word of a line, as offsets into the text. */
struct word {
    size_t start, end;
};

/* find_quote_end - returns the offset after the quoted pattern that begins at START. */
static size_t find_quote_end(const struct text *lines, size_t start, size_t line_end)
{
    size_t at = start + 1;
    while (at < line_end && lines->ptr[at] != '"')
        at += lines->ptr[at] == '\\' ? 2 : 1;
    return at < line_end ? at + 1 : line_end;
}

/* next_word - sets WORD to the next word of the line that ends at LINE_END; false: there is none. */
static bool next_word(const struct text *lines, size_t line_end, struct word *word)
{
    word->start = word->end;
    while (word->start < line_end && strchr(BLANKS, lines->ptr[word->start]))
        word->start++;
    bool is_quoted = word->start < line_end && lines->ptr[word->start] == '"';
    word->end = is_quoted ? find_quote_end(lines, word->start, line_end) : word->start;
    while (word->end < line_end && !strchr(BLANKS, lines->ptr[word->end]))
        word->end++;
    return word->end > word->start;
}

static bool is_word(const struct text *lines, const struct word *word, const char *text)
{
    return word->end - word->start == strlen(text) &&
           memcmp(lines->ptr + word->start, text, strlen(text)) == 0;
}

/* is_diff - returns true if WORD is the attribute diff: set, unset, unspecified, or with a value. */
static bool is_diff(const struct text *lines, const struct word *word)
{
    static const char *const words[] = {"diff", "-diff", "!diff"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (is_word(lines, word, words[i]))
            return true;
    return word->end - word->start > 5 && memcmp(lines->ptr + word->start, "diff=", 5) == 0;
}

/* find_line_end - returns the offset of the newline, or of the end of LINES, after START. */
static size_t find_line_end(const struct text *lines, size_t start)
{
    const char *newline = start < lines->len ? memchr(lines->ptr + start, '\n', lines->len - start) : NULL;
    return newline ? (size_t)(newline - lines->ptr) : lines->len;
}

/* replace - puts TEXT in the place of WORD. */
static void replace(struct text *lines, const struct word *word, const char *text)
{
    struct text out = {0};
    text_bytes(&out, lines->ptr, word->start);
    text_add(&out, text);
    text_bytes(&out, lines->ptr + word->end, lines->len - word->end);
    text_free(lines);
    *lines = out;
}

/* What the lines of a pattern say: the last one counts. */
struct found {
    bool has_line, has_diff;
    struct word diff; /* the attribute */
    size_t words_end; /* the end of the last word of the last line */
};

static struct found find_pattern(const struct text *lines, const char *pattern)
{
    struct found found = {0};
    for (size_t start = 0, end; start < lines->len; start = end + 1) {
        struct word word = {start, start};
        end = find_line_end(lines, start);
        if (!next_word(lines, end, &word) || !is_word(lines, &word, pattern))
            continue;
        found.has_line = true;
        do {
            found.words_end = word.end;
            if (is_diff(lines, &word)) {
                found.has_diff = true;
                found.diff = word;
            }
        } while (next_word(lines, end, &word));
    }
    return found;
}

enum attribute_change attributes_add_driver(struct text *lines, const char *pattern)
{
    struct found found = find_pattern(lines, pattern);
    if (found.has_diff && is_word(lines, &found.diff, DRIVER))
        return ATTRIBUTE_KEPT;
    if (found.has_diff && !is_word(lines, &found.diff, "diff=lfs"))
        return ATTRIBUTE_FOREIGN;
    if (found.has_diff) {
        replace(lines, &found.diff, DRIVER);
        return ATTRIBUTE_CHANGED;
    }
    if (found.has_line) {
        const struct word end = {found.words_end, found.words_end};
        replace(lines, &end, " " DRIVER);
    } else {
        text_addf(lines, "%s%s %s\n", lines->len && lines->ptr[lines->len - 1] != '\n' ? "\n" : "", pattern,
                  DRIVER);
    }
    return ATTRIBUTE_ADDED;
}

/* remove_from_line - adds the line from START to END to OUT without the driver. Returns false if the line
 * does not have it. */
static bool remove_from_line(const struct text *lines, size_t start, size_t end, struct text *out)
{
    struct word word = {start, start}, driver = {0, 0};
    unsigned others = 0;
    bool is_lfs = false;
    while (next_word(lines, end, &word)) {
        if (is_word(lines, &word, DRIVER))
            driver = word;
        else
            others++;
        is_lfs = is_lfs || is_word(lines, &word, "filter=lfs");
    }
    if (!driver.end || lines->ptr[start] == '#')
        return false;
    if (others < 2)
        return true; /* only the pattern is left */
    size_t before = driver.start;
    while (!is_lfs && before > start && strchr(BLANKS, lines->ptr[before - 1]))
        before--;
    text_bytes(out, lines->ptr + start, before - start);
    text_add(out, is_lfs ? "diff=lfs" : "");
    text_bytes(out, lines->ptr + driver.end, end - driver.end);
    text_add(out, "\n");
    return true;
}

unsigned attributes_remove_driver(struct text *lines)
{
    struct text out = {0};
    unsigned changed = 0;
    for (size_t start = 0, end; start < lines->len; start = end + 1) {
        end = find_line_end(lines, start);
        if (remove_from_line(lines, start, end, &out))
            changed++;
        else
            text_bytes(&out, lines->ptr + start, end + (end < lines->len) - start);
    }
    if (!changed) {
        text_free(&out);
        return 0;
    }
    text_free(lines);
    *lines = out;
    return changed;
}

bool attributes_is_pattern(const char *pattern)
{
    return *pattern && *pattern != '#' && *pattern != '!' && *pattern != '"' && *pattern != '[' &&
           !strpbrk(pattern, " \t\r\n");
}
