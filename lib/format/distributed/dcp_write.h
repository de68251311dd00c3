/* dcp_write.h - a plan as a distributed checkpoint of torch. */
#ifndef FORMAT_DISTRIBUTED_DCP_WRITE_H
#define FORMAT_DISTRIBUTED_DCP_WRITE_H

#include "format/distributed/dcp_flatten.h"
#include "format/distributed/dcp_folder.h"

/* dcp_write - the format's write. */
ckpt_status dcp_write(ckpt_plan *p, const struct write_job *job, ckpt_error *err);
/* dcp_write_renamed - P, of a distributed checkpoint, if nothing but names changed: the files as they are,
 * and new metadata. *DONE: it was that. */
ckpt_status dcp_write_renamed(ckpt_plan *p, struct dcp_folder *d, bool *done, ckpt_error *err);

#endif
