/* companion_values.h - the values that a trainer keeps in a file next to a checkpoint. */
#pragma once

#include "core/file.h"

/* companion_values_read - adds the entries of meta.pt (Lightning) and common.pt (Megatron-LM) to f->root, a
 * dict, except keys that it has already. TRUSTED is as in part_files.h. */
ckpt_status companion_values_read(ckpt_file *f, const char *trusted, ckpt_error *err);
