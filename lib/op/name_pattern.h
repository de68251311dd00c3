/* name_pattern.h - the names in a rule of `ckpt edit`: a pattern that matches names of tensors and binds
 * parts of them, and templates that put these parts into other names. man/ckpt-rules.5 has the syntax:
 *
 *   h.{i}.*.weight      a glob in which {i} is at least one character without a dot
 *   /^h\.([0-9]+)\./    a regular expression (base/regexp.h), found anywhere in the name
 *
 * In a template, {i} and \1 are what they matched, and the first * is what the first * matched. */
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/regexp.h"

#define NAME_VARIABLES (REGEXP_GROUPS - 1)

struct name_pattern {
    ckpt_str text;                      /* as it was written */
    ckpt_str variables[NAME_VARIABLES]; /* the names of those in braces; empty: a star, a group */
    size_t nvariables;
    bool is_expression;
    regexp *regex; /* variable I is its group I + 1 */
};

/* Bytes of a name. */
struct name_span {
    uint32_t start, len;
};

/* What the variables of a pattern matched in one name. */
struct name_match {
    const char *name;
    const struct name_span *bound; /* by variable of the pattern */
};

/* name_match_bound - returns what VARIABLE of the pattern matched. */
static inline ckpt_str name_match_bound(const struct name_match *match, size_t variable)
{
    return (ckpt_str){match->name + match->bound[variable].start, match->bound[variable].len};
}

/* name_pattern_compile - makes *OUT from TEXT, which outlives it. The caller calls name_pattern_free, also
 * after an error. CKPT_EUSAGE: TEXT is malformed, has too many variables, or one name in braces twice. */
ckpt_status name_pattern_compile(struct name_pattern *out, ckpt_str text, ckpt_error *err);
void name_pattern_free(struct name_pattern *pattern);
/* name_pattern_match - sets *MATCHES to whether PATTERN matches NAME and, if it does, BOUND to what each of
 * its variables matched. CKPT_ELIMIT: NAME would take an expression too long. */
ckpt_status name_pattern_match(const struct name_pattern *pattern, ckpt_str name,
                               struct name_span bound[NAME_VARIABLES], bool *matches, ckpt_error *err);

/* A text, then the value of a variable. */
struct name_piece {
    ckpt_str text;
    size_t variable; /* of the pattern; NAME_NOTHING, or NAME_EXTRA */
};
#define NAME_NOTHING NAME_VARIABLES
#define NAME_EXTRA   (NAME_VARIABLES + 1)

struct name_template {
    ckpt_str text; /* as it was written */
    struct name_piece *pieces;
    size_t npieces, cap_pieces;
    ckpt_str extra;            /* the name in braces that the pattern lacks; empty: there is none */
    bool uses[NAME_VARIABLES]; /* by variable of the pattern */
};

/* name_template_compile - makes *OUT from TEXT, which outlives it, for matches of PATTERN; the pieces are in
 * A. CKPT_EUSAGE: TEXT is malformed, has a star or group that PATTERN lacks, or two different names in braces
 * that it lacks. */
ckpt_status name_template_compile(struct name_template *out, ckpt_str text,
                                  const struct name_pattern *pattern, arena *a, ckpt_error *err);
/* name_template_fill - returns the name that TEMPLATE makes of MATCH and EXTRA, NUL-terminated, in A; .ptr
 * NULL: no memory. */
ckpt_str name_template_fill(const struct name_template *template, const struct name_match *match,
                            ckpt_str extra, arena *a);
/* name_template_put - adds this name to OUT. */
void name_template_put(const struct name_template *template, const struct name_match *match, ckpt_str extra,
                       buf *out);
