/* rename.h - strip, add and rename (ckpt_plan_* of ckpt.h), as far as other files need them. */
#ifndef OP_RENAME_H
#define OP_RENAME_H

#include "core/plan.h"
#include "op/prefix.h"

/* plan_notice_no_match - adds the notice that no key VERB WHAT ("begins with", "module."), with the prefixes
 * that were SEEN. */
void plan_notice_no_match(ckpt_plan *plan, const char *verb, ckpt_str what, const struct prefixes *seen);

#endif
