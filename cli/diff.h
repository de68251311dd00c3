/* diff.h - a comparison that was made, and the ways to tell it. */
#ifndef CLI_DIFF_H
#define CLI_DIFF_H

#include "out.h"

struct report {
    ckpt_file *a, *b;
    const char *name_a, *name_b;
    ckpt_diff_event *events; /* all but what is plainly the same, in the order they came */
    size_t n, cap;
    ckpt_diff_totals totals;
};

void report_text(const struct report *r);
void report_markdown(const struct report *r);
/* report_hint - how to compare names that differ by a prefix alone, to standard error. */
void report_hint(const struct report *r);
void report_json(const struct report *r, bool equal);

#endif
