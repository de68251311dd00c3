/* listed_names.h - refuses to edit one shard if an index lists names that it would lack. */
#ifndef FORMAT_HUB_LISTED_NAMES_H
#define FORMAT_HUB_LISTED_NAMES_H

#include "core/plan.h"

/* shards_check_index - fails with CKPT_EUNSUPPORTED if PATH, which is to get the names of P, is a shard of a
 * set whose index lists other names, which PATH has now: the set could not be read. The entries of P are
 * up to date. */
ckpt_status shards_check_index(const ckpt_plan *p, const char *path, ckpt_error *err);

#endif
