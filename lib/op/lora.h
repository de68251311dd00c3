/* lora.h - `ckpt lora`: adds low-rank adapters to the weights of a plan. Nothing is computed before it is
 * written. */
#pragma once

#include "core/plan.h"

/* How lora_merge opens files. */
struct lora_files {
    /* open - opens the adapter PATH as *OUT, which the file of the plan then owns. */
    ckpt_status (*open)(ckpt_plan *p, const char *path, ckpt_file **out, ckpt_error *err);
    /* read_beside - reads the file NAME, of at most MAX bytes, in the folder of ADAPTER to *OUT in the
     * arena of ADAPTER; out->ptr NULL: there is none. */
    ckpt_status (*read_beside)(ckpt_file *adapter, const char *name, uint64_t max, ckpt_str *out,
                               ckpt_error *err);
};

/* lora_merge - adds the COUNT ADAPTERS to the weights of P, in this order, and lists in P which tensor met
 * which weight. If a tensor met none, or does not fit, nothing changes, and the list has the reasons. */
ckpt_status lora_merge(ckpt_plan *p, const ckpt_lora_adapter *adapters, size_t count,
                       const ckpt_lora_options *opts, const struct lora_files *files, ckpt_error *err);
