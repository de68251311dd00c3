/* rename.h - prefix work and renames (the ckpt_plan_* functions of ckpt.h). */
#ifndef OP_RENAME_H
#define OP_RENAME_H

#include "core/plan.h"
#include "op/prefix.h"

/* plan_rename_pairs - key FROM[i] becomes TO[i]. A name is a key of a state
 * dict or its joined name in the file; CKPT_ENOTFOUND names one that is neither. */
ckpt_status plan_rename_pairs(ckpt_plan *p, size_t n, const ckpt_str *from, const ckpt_str *to,
                              ckpt_error *err);
/* plan_notice_no_match - no key VERB WHAT ("begins with", "module."), so nothing is renamed; SEEN are the
 * prefixes that there are. */
void plan_notice_no_match(ckpt_plan *plan, const char *verb, ckpt_str what, const struct prefixes *seen);

#endif
