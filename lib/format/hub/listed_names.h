/* listed_names.h - the names that the indexes of a set list for one of its files. */
#pragma once

#include "core/plan.h"

/* shards_check_index - fails with CKPT_EUNSUPPORTED if PATH, which is to get the names of P, is a shard of a
 * set whose index lists other names, which PATH has now: the set could not be read. The entries of P are
 * up to date. */
ckpt_status shards_check_index(const ckpt_plan *p, const char *path, ckpt_error *err);
/* shards_list_siblings - sets *NAMES, which the caller frees with map_free, to the names of the tensors that
 * an index in the folder of F lists in other files; NULL: no index there lists F, or none can be read.
 * Allocates the names from A. Only CKPT_ENOMEM is an error. */
ckpt_status shards_list_siblings(const ckpt_file *f, arena *a, map **names, ckpt_error *err);
