/* judge.h - judges the imports and calls of a pickle: names by the lists of known names, calls by the
 * arguments that picklers write. */
#ifndef SCAN_JUDGE_H
#define SCAN_JUDGE_H

#include "core/findings.h"

struct judge;

/* judge_new - makes a judge that reports to S, and sets its callbacks in S. */
ckpt_status judge_new(struct scan *s, struct judge **out, ckpt_error *err);
void judge_free(struct judge *j); /* NULL is allowed */

#endif
