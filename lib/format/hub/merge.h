/* merge.h - merges shards into one file. */
#pragma once

#include "format/hub/shards.h"

/* shards_warn_of_old_index - adds a notice to P if the index of a set is next to PATH, a single file that was
 * written. */
void shards_warn_of_old_index(ckpt_plan *p, const char *path);
/* shards_warn_if_incomplete - adds a notice to P if the name of its file is that of a shard, and OUTPUT is
 * not. */
void shards_warn_if_incomplete(ckpt_plan *p, const char *output);
/* shards_add_metadata - adds the pair KEY, TEXT to the metadata of the set, unless it has KEY. */
ckpt_status shards_add_metadata(struct index *index, ckpt_value *key, ckpt_value *text);
/* shards_check_names - fails if two tensors of F, which was merged, have one name by different paths: "a.b",
 * and "b" in "a". */
ckpt_status shards_check_names(const ckpt_file *f, ckpt_error *err);
/* shards_merge - opens the shards of INDEX and merges them into index->f. */
ckpt_status shards_merge(struct index *index);
