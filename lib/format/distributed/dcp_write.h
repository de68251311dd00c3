/* dcp_write.h - writes a plan as a distributed checkpoint of torch. */
#ifndef FORMAT_DISTRIBUTED_DCP_WRITE_H
#define FORMAT_DISTRIBUTED_DCP_WRITE_H

#include "format/distributed/dcp_flatten.h"
#include "format/distributed/dcp_folder.h"

/* dcp_write - the `write` of format_dcp. */
ckpt_status dcp_write(ckpt_plan *p, const struct write_job *job, ckpt_error *err);
/* dcp_write_renamed - if P only changes names of a distributed checkpoint, copies its files to D, writes new
 * metadata and sets *DONE. Otherwise writes nothing. */
ckpt_status dcp_write_renamed(ckpt_plan *p, struct dcp_folder *d, bool *done, ckpt_error *err);

#endif
