/* shard_layout.h - which tensor goes into which shard. */
#ifndef FORMAT_HUB_SHARD_LAYOUT_H
#define FORMAT_HUB_SHARD_LAYOUT_H

#include "core/plan.h"

/* What cannot be split: a tensor, or all that is below one key of the root. */
struct unit {
    ckpt_str name; /* in the weight_map */
    uint32_t up;   /* another unit that shares a storage with it; itself: none */
    uint32_t shard;
    uint64_t size; /* of all units that share with it, kept by the first */
};

struct cut {
    ckpt_plan *p;
    const ckpt_write_options *opts;
    bool shares;
    struct plan_entry *entries; /* a copy: the plan's own follow its mask */
    size_t n;
    uint32_t *unit_of; /* by entry */
    struct unit *units;
    uint32_t nunits, nshards;
    uint64_t total;
};

/* shards_cut - SHARES: tensors of the format may share a storage; else ties leave the plan's mask
 * and only names and tensors are kept. There is always one shard. C is to be freed in any case. */
ckpt_status shards_cut(ckpt_plan *p, const ckpt_write_options *opts, bool shares, struct cut *c,
                       ckpt_error *err);
void shards_cut_free(struct cut *c);

#endif
