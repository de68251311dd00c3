/* write.h - writes an adapter of LoRA as the folder that peft reads. */
#pragma once

#include "core/plan.h"

struct peft_adapter {
    ckpt_plan *p;    /* of the tensors, by peft's names */
    ckpt_str config; /* the text of adapter_config.json */
    ckpt_file *from; /* some of the tensors are those of this file */
};

/* peft_write - writes ADAPTER as the folder of JOB: it appears with both files or not at all. CKPT_ECHANGED:
 * adapter->from has changed since it was opened. */
ckpt_status peft_write(const struct peft_adapter *adapter, const struct write_job *job, ckpt_error *err);
