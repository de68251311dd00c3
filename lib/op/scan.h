/* scan.h - the judge of what pickles do: names against lists, calls against what
 * their writers give them. */
#ifndef OP_SCAN_H
#define OP_SCAN_H

#include "core/scan.h"

struct judge;

/* judge_new - makes a judge that tells S, and puts itself there. */
ckpt_status judge_new(struct scan *s, struct judge **out, ckpt_error *err);
/* scan_name_verdict - of importing MODULE.NAME, in the names of either Python. */
ckpt_scan_verdict scan_name_verdict(ckpt_str module, ckpt_str name);
ckpt_status scan_sha256(source *src, uint8_t out[CKPT_DIGEST_MAX], ckpt_error *err);
ckpt_status scan_lists_sha256(uint8_t out[CKPT_DIGEST_MAX], ckpt_error *err);
void judge_free(struct judge *j); /* NULL is allowed */

#endif
