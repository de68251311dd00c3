/* diff.h - the result of a comparison, and how it is printed. */
#ifndef CLI_DIFF_H
#define CLI_DIFF_H

#include "out.h"

struct report {
    ckpt_file *a, *b;
    const char *name_a, *name_b;
    ckpt_diff_event *events; /* all but what is plainly the same, in the order they came */
    size_t n, cap;
    ckpt_diff_totals totals;
    ckpt_diff_value *values; /* all but the same ones */
    size_t nvalues, cap_values;
    ckpt_diff_value_totals value_totals;
    bool norms;      /* show them in text */
    size_t left_out; /* tensors that changed, and are not among the events */
};

/* What the events are sorted by: the names, or the largest first. */
enum diff_order { BY_NAME, BY_REL_L2, BY_MAX_ABS };
/* report_sort - what changed comes first, unless it stays in the order of names. */
void report_sort(struct report *r, enum diff_order order);
/* report_cut - keeps only the first MOST of the tensors that changed. */
void report_cut(struct report *r, uint64_t most);
/* report_is_equal - nothing differs. */
bool report_is_equal(const struct report *r);

void report_text(const struct report *r);
void report_markdown(const struct report *r);
/* report_prefix_hint - how to compare names that differ by a prefix alone, to standard error. */
void report_prefix_hint(const struct report *r);
void report_json(const struct report *r);

/* The same of the values alone; as JSON, the object or null. */
void values_text(const struct report *r);
void values_markdown(const struct report *r);
void values_json(const struct report *r, FILE *to);

/* text_markdown_code - a cell of code in a Markdown table: S, which is harmless already. */
void text_markdown_code(struct text *out, ckpt_str s);

#endif
