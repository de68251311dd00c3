/* placements.h - which part of a tensor one rank has. */
#pragma once

#include "core/file.h"

/* torch_get_part_offset - sets *OFFSET to where a component of row ROW of F begins in the tensor of this row:
 * an index for each dimension, in A. COMPONENT is 0 for a DTensor, or the number of a local shard of a
 * ShardedTensor; COMPONENT_ROW is its row. Refuses placements other than shards and replicas, and a component
 * whose size is not the one that its placement gives it. */
ckpt_status torch_get_part_offset(arena *a, const ckpt_file *f, uint32_t row, uint32_t component,
                                  uint32_t component_row, const uint64_t **offset, ckpt_error *err);
/* torch_count_shard_ranks - returns how many ranks hold row ROW, a DTensor or ShardedTensor; 0: unknown. */
uint64_t torch_count_shard_ranks(const ckpt_file *f, uint32_t row);
/* torch_note_missing_ranks - adds a notice to F if F has the shards of only one of several ranks. */
void torch_note_missing_ranks(ckpt_file *f);
