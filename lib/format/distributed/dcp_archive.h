/* dcp_archive.h - makes the items of a distributed checkpoint: each is a complete torch.save archive of one
 * tensor or of one value, whose zip offsets count from the first byte of the item. */
#ifndef FORMAT_DISTRIBUTED_DCP_ARCHIVE_H
#define FORMAT_DISTRIBUTED_DCP_ARCHIVE_H

#include "base/buf.h"
#include "core/plan.h"

/* The bytes of an archive before and after those of its tensor. */
struct dcp_archive {
    buf start, end;
    uint64_t crc_offset; /* in START: of the CRC-32 in the local header of the tensor */
};

void dcp_archive_free(struct dcp_archive *x);
/* dcp_archive_tensor - sets X to the archive of row ROW of P, whose elements in row-major order have the
 * checksum CRC. */
ckpt_status dcp_archive_tensor(struct dcp_archive *x, const ckpt_plan *p, uint32_t row, uint32_t crc,
                               ckpt_error *err);
/* dcp_archive_value - sets X to the archive of the value V of P, which holds no tensor; x->end stays
 * empty. */
ckpt_status dcp_archive_value(struct dcp_archive *x, const ckpt_plan *p, const ckpt_value *v,
                              ckpt_error *err);

#endif
