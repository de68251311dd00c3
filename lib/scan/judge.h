/* judge.h - the judge of what pickles do: names against lists, calls against what
 * their writers give them. */
#ifndef SCAN_JUDGE_H
#define SCAN_JUDGE_H

#include "core/findings.h"

struct judge;

/* judge_new - makes a judge that tells S, and puts itself there. */
ckpt_status judge_new(struct scan *s, struct judge **out, ckpt_error *err);
void judge_free(struct judge *j); /* NULL is allowed */

#endif
