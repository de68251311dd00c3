/* dcp_metadata_write.h - writes the .metadata of a distributed checkpoint. */
#ifndef FORMAT_DISTRIBUTED_DCP_METADATA_WRITE_H
#define FORMAT_DISTRIBUTED_DCP_METADATA_WRITE_H

#include "base/buf.h"
#include "format/distributed/dcp_flatten.h"

/* The bytes of an item: a range of the file with this number. */
struct dcp_item_range {
    uint32_t file;
    uint64_t at, length;
};

/* dcp_file_name - writes the name of file number FILE to NAME: "__0_2.distcp", the third file of rank 0. */
void dcp_file_name(uint32_t file, char name[32]);
/* dcp_metadata_write - appends the pickle of torch's Metadata to OUT. Leaf I of F is one item, at
 * RANGES[I]. */
ckpt_status dcp_metadata_write(const struct dcp_flat *f, const struct dcp_item_range *ranges, buf *out,
                               ckpt_error *err);

#endif
