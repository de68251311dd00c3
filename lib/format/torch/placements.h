/* placements.h - computes which part of a tensor the DTensor or ShardedTensor of one rank holds. */
#ifndef FORMAT_TORCH_PLACEMENTS_H
#define FORMAT_TORCH_PLACEMENTS_H

#include "core/file.h"

/* torch_get_part_offset - sets *OFFSET to where in the tensor of row ROW of F its component begins: an index
 * for each dimension, in A. COMPONENT is 0 for a DTensor, or the number of a local shard of a ShardedTensor;
 * LOCAL is the row of the component. Refuses placements other than shards and replicas, and a component whose
 * size is not the one that its placement gives it. */
ckpt_status torch_get_part_offset(arena *a, const ckpt_file *f, uint32_t row, uint32_t component,
                                  uint32_t local, const uint64_t **offset, ckpt_error *err);
/* torch_count_part_ranks - returns the number of ranks that row ROW is sharded over; 0: one, or unknown. */
uint64_t torch_count_part_ranks(const ckpt_file *f, uint32_t row);

/* torch_note_ranks - adds a notice to F if its tensors are only the parts that one rank of several holds. */
void torch_note_ranks(ckpt_file *f);

#endif
