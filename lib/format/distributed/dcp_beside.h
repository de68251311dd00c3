/* dcp_beside.h - values that a trainer keeps in a file of their own next to a distributed checkpoint. */
#ifndef FORMAT_DISTRIBUTED_DCP_BESIDE_H
#define FORMAT_DISTRIBUTED_DCP_BESIDE_H

#include "core/file.h"

/* dcp_read_beside - the values of meta.pt (Lightning) and common.pt (Megatron-LM) become entries of F's root,
 * a dict, unless it has their keys; LIKE is as for rank_file_part. */
ckpt_status dcp_read_beside(ckpt_file *f, const char *like, ckpt_error *err);

#endif
