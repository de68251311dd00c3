/* weights_only.h - would torch.load(weights_only=True) read this file? */
#ifndef OP_WEIGHTS_ONLY_H
#define OP_WEIGHTS_ONLY_H

#include "core/file.h"

/* weights_only_verdict - *VERDICT 1: it loads; 0: refused, and WHY (in F's arena)
 * is the first thing that torch 2.15 would object to; -1: not a torch.load file. */
ckpt_status weights_only_verdict(ckpt_file *f, int *verdict, ckpt_str *why, ckpt_error *err);
/* weights_only_lists - is MODULE.NAME, as a pickle spells it, a name that torch 2.15 allows? */
bool weights_only_lists(ckpt_str module, ckpt_str name);
/* weights_only_name - the I-th of them, or NULL. */
const char *weights_only_name(size_t i);

#endif
