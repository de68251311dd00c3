/* placements.h - which part of a tensor the DTensor or ShardedTensor of one rank has. */
#ifndef FORMAT_TORCH_PLACEMENTS_H
#define FORMAT_TORCH_PLACEMENTS_H

#include "core/file.h"

/* torch_part_offset - where component COMPONENT (0 of a DTensor, any of the local shards of a ShardedTensor)
 * of row ROW of F begins in the tensor, as an array in A; LOCAL is the row of that component. Refuses
 * placements other than shards and replicas, and a component that is not of the size that its placement gives
 * it. */
ckpt_status torch_part_offset(arena *a, const ckpt_file *f, uint32_t row, uint32_t component, uint32_t local,
                              const uint64_t **offset, ckpt_error *err);
/* torch_part_ranks - over how many ranks row ROW is cut; 0: it is not, or that is not known. */
uint64_t torch_part_ranks(const ckpt_file *f, uint32_t row);

/* torch_note_ranks - a notice of F where its tensors are the parts that one rank of several has. */
void torch_note_ranks(ckpt_file *f);

#endif
