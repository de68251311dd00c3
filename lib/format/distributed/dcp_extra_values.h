/* dcp_extra_values.h - values that a trainer keeps in a file of their own next to a distributed checkpoint. */
#ifndef FORMAT_DISTRIBUTED_DCP_EXTRA_VALUES_H
#define FORMAT_DISTRIBUTED_DCP_EXTRA_VALUES_H

#include "core/file.h"

/* dcp_read_extra_values - the values of meta.pt (Lightning) and common.pt (Megatron-LM) become entries of F's root,
 * a dict, unless it has their keys; LIKE is as for part_file_read. */
ckpt_status dcp_read_extra_values(ckpt_file *f, const char *trusted, ckpt_error *err);

#endif
