/* dcp_metadata_write.h - the .metadata of a distributed checkpoint, as it is written. */
#ifndef FORMAT_DISTRIBUTED_DCP_METADATA_WRITE_H
#define FORMAT_DISTRIBUTED_DCP_METADATA_WRITE_H

#include "base/buf.h"
#include "format/distributed/dcp_flatten.h"

/* Where the one item of a leaf is. */
struct dcp_item_range {
    uint32_t file;
    uint64_t at, length;
};

/* dcp_file_name - the name of file number FILE: those of the first rank, as FileSystemWriter numbers them. */
void dcp_file_name(uint32_t file, char name[32]);
/* dcp_metadata_write - the leaves of F, each in one piece at the place of the same number, as a pickle of
 * torch's Metadata in OUT. */
ckpt_status dcp_metadata_write(const struct dcp_flat *f, const struct dcp_item_range *ranges, buf *out,
                               ckpt_error *err);

#endif
