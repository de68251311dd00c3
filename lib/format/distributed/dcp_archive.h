/* dcp_archive.h - the items of a distributed checkpoint as they are written: a torch.save archive of one
 * tensor or of one value, whose offsets count from its own first byte. */
#ifndef FORMAT_DISTRIBUTED_DCP_ARCHIVE_H
#define FORMAT_DISTRIBUTED_DCP_ARCHIVE_H

#include "base/buf.h"
#include "core/plan.h"

/* The bytes around those of a tensor. */
struct dcp_archive {
    buf start, end;
    uint64_t crc_offset; /* in START: where the CRC-32 of the tensor belongs */
};

void dcp_archive_free(struct dcp_archive *x);
/* dcp_archive_tensor - X becomes the archive of ROW of P, its elements in row-major order, which have CRC. */
ckpt_status dcp_archive_tensor(struct dcp_archive *x, const ckpt_plan *p, uint32_t row, uint32_t crc,
                               ckpt_error *err);
/* dcp_archive_value - X becomes the archive of the value V of P, in which no tensor is: all of it is in
 * x->start. */
ckpt_status dcp_archive_value(struct dcp_archive *x, const ckpt_plan *p, const ckpt_value *v,
                              ckpt_error *err);

#endif
