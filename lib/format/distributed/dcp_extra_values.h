/* dcp_extra_values.h - values that a trainer keeps in a file of its own next to a distributed checkpoint. */
#ifndef FORMAT_DISTRIBUTED_DCP_EXTRA_VALUES_H
#define FORMAT_DISTRIBUTED_DCP_EXTRA_VALUES_H

#include "core/file.h"

/* dcp_read_extra_values - adds the entries of meta.pt (Lightning) and common.pt (Megatron-LM) to f->root, a
 * dict, except keys that it has already. TRUSTED is as for part_file_path. */
ckpt_status dcp_read_extra_values(ckpt_file *f, const char *trusted, ckpt_error *err);

#endif
