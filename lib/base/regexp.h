/* regexp.h - regular expressions on names, matched in time that is linear in the name's length.
 * Syntax: POSIX extended, and of Python \d \D \w \W \s \S \b \B, (?:…), and (?i) at the start. A character
 * is a code point of UTF-8, or a byte that is none; classes such as [:alpha:] and (?i) know ASCII alone.
 * References to groups in an expression are refused, because nothing matches them in linear time, and so are
 * Python's .*? and .*+, which in POSIX mean something else. */
#pragma once

#include "base/error.h"
#include "base/str.h"

#define REGEXP_MAX_PATTERN 1000u /* bytes of an expression */
#define REGEXP_GROUPS      10    /* the complete match, and \1 to \9 */
#define REGEXP_NO_MATCH    SIZE_MAX

typedef struct regexp regexp;

struct regexp_group {
    size_t start, end; /* offsets in the text; REGEXP_NO_MATCH: the group is not in the match */
};

/* regexp_compile - sets *OUT to the compiled PATTERN, which the caller frees. Fails with CKPT_EUSAGE and the
 * column of the fault. */
ckpt_status regexp_compile(const char *pattern, regexp **out, ckpt_error *err);
void regexp_free(regexp *re); /* NULL is allowed */
/* regexp_group_count - returns how many groups RE has that have a number. */
size_t regexp_group_count(const regexp *re);
/* regexp_begin - sets the work that may be spent on TEXT: enough for reading it once, whatever RE is. */
void regexp_begin(regexp *re, ckpt_str text);
/* regexp_find - finds the leftmost match in TEXT at or after FROM and, of several there, the longest. Fills
 * in all REGEXP_GROUPS; groups[0].start is REGEXP_NO_MATCH if there is none. Of several ways to match the
 * same text, each group outside of repetitions is as long as possible, from left to right; in a repetition,
 * the first alternative counts. CKPT_ELIMIT: the work since regexp_begin() exceeds its limit. */
ckpt_status regexp_find(regexp *re, ckpt_str text, size_t from, struct regexp_group groups[REGEXP_GROUPS],
                        ckpt_error *err);
