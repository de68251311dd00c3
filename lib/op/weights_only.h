/* weights_only.h - predicts whether torch.load(weights_only=True) loads a file. */
#ifndef OP_WEIGHTS_ONLY_H
#define OP_WEIGHTS_ONLY_H

#include "core/file.h"

/* weights_only_verdict - sets *VERDICT to 1: torch 2.15 would load F; 0: it would refuse it, and *WHY (in A)
 * is its first reason; -1: F is not a file of torch.load. */
ckpt_status weights_only_verdict(ckpt_file *f, arena *a, int *verdict, ckpt_str *why, ckpt_error *err);
/* weights_only_allows - returns true if torch 2.15 allows the import MODULE.NAME, as spelled in a pickle. */
bool weights_only_allows(ckpt_str module, ckpt_str name);
/* weights_only_allowed_name - returns the I-th allowed name, or NULL. */
const char *weights_only_allowed_name(size_t i);

#endif
