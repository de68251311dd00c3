/* adapters.h - finds LoRA: pairs of small tensors whose product is added to a weight of a base model. */
#pragma once

#include "core/file.h"

/* adapters_find - counts the LoRA pairs of FILE, by their names and shapes, in *OUT; `modules` is 0 if there
 * are none. */
ckpt_status adapters_find(ckpt_file *file, ckpt_adapter *out, ckpt_error *err);
