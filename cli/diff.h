/* diff.h - the result of a comparison, and how it is printed. */
#pragma once

#include "records.h"

struct report {
    ckpt_file *a, *b;
    const char *name_a, *name_b;
    ckpt_diff_event *events; /* none for tensors that are identical */
    size_t n;
    ckpt_diff_totals totals;
    ckpt_diff_value *values; /* only those that differ */
    size_t nvalues;
    ckpt_diff_value_totals value_totals;
    size_t nleft_out; /* how many changed tensors report_limit_changed removed */
};

/* The order of events: by name, or the largest change first. */
enum diff_order { BY_NAME, BY_REL_L2, BY_MAX_ABS };
/* report_sort - sorts the events of REPORT; unless ORDER is BY_NAME, changed tensors come first. */
void report_sort(struct report *report, enum diff_order order);
/* report_limit_changed - removes all changed tensors but the first MAX_CHANGED. */
void report_limit_changed(struct report *report, uint64_t max_changed);
/* report_is_equal - returns true if all was compared and nothing differs. */
bool report_is_equal(const struct report *report);
/* report_is_complete - returns false if a tensor or value could not be compared. */
bool report_is_complete(const struct report *report);
/* report_incomplete - prints the error that a tensor or value could not be compared. */
void report_incomplete(const struct report *report);
/* report_next_event - returns the next event of kind WHAT from index *INDEX on, or NULL; moves *INDEX past
 * the event. */
const ckpt_diff_event *report_next_event(const struct report *report, ckpt_diff_what what, size_t *index);

void report_text(const struct report *report);
void report_markdown(const struct report *report);
/* report_prefix_hint - if names differ only by a prefix, prints to stderr how to ignore it, and how to rename
 * them. */
void report_prefix_hint(const struct report *report);

/* A prefix that names have in one file only. */
struct prefix {
    ckpt_str text;  /* ends with a dot; .len 0: there is none */
    bool in_b;      /* the names of r->b have it */
    uint64_t pairs; /* how many names of one file are names of the other after the prefix */
};

/* report_find_prefix - returns the prefix by which most of the names differ that are in one file only,
 * renamed ones among them: at least two, and more than half of those in the file that has fewer. */
struct prefix report_find_prefix(const struct report *report);
void report_json(const struct report *report);
void report_records(const struct report *report); /* for --tsv and --csv */

/* These print only the values that are not tensors; values_json prints an object, or null. */
void values_text(const struct report *report);
void values_markdown(const struct report *report);
void values_json(const struct report *report, FILE *stream);
/* value_fields - adds the fields dtype and shape of both files: "value" and the value of VALUE, as `ls`
 * does. */
void value_fields(struct record *line, const ckpt_diff_value *value);

/* key_type_name - returns "an int", "a str" or "no str". */
const char *key_type_name(const ckpt_path_elem *key);
/* find_key_of_other_type - finds the last key that is a text in one of the paths LEFT and RIGHT (NA and NB
 * elements) and none in the other. Returns that key in LEFT and sets *IN_B to that in RIGHT, or returns
 * NULL. */
const ckpt_path_elem *find_key_of_other_type(const ckpt_path_elem *left, uint32_t na,
                                             const ckpt_path_elem *right, uint32_t nb,
                                             const ckpt_path_elem **in_b);

/* diff_style - returns the colour of a line about WHAT. */
enum style diff_style(ckpt_diff_what what);
/* text_markdown_code - adds CODE, without control characters, as code in a cell of a Markdown table.
 * text_markdown_name - adds NAME, escaped as by text_name, as such code. */
void text_markdown_code(struct text *out, const struct text *code);
void text_markdown_name(struct text *out, ckpt_str name);
