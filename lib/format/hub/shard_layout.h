/* shard_layout.h - assigns tensors to shards. */
#ifndef FORMAT_HUB_SHARD_LAYOUT_H
#define FORMAT_HUB_SHARD_LAYOUT_H

#include "core/plan.h"

/* What cannot be split: a tensor, or everything below one key of the root. */
struct unit {
    ckpt_str name; /* in the weight_map */
    uint32_t up;   /* another unit of its group, which shares storages; itself: it is the head */
    uint32_t shard;
    uint64_t size; /* of the unit; at the head, of the group */
};

struct shard_layout {
    ckpt_plan *p;
    const ckpt_write_options *opts;
    bool shares;
    struct plan_entry *entries; /* a copy: those of the plan depend on its mask */
    size_t n;
    uint32_t *unit_of; /* by entry */
    struct unit *units;
    uint32_t nunits, nshards;
    uint64_t total;
};

/* shards_lay_out - SHARES: tensors of the format may share a storage; else ties are removed from the plan's
 * mask, and only names and tensors are kept. There is at least one shard. C must be freed also on failure. */
ckpt_status shards_lay_out(ckpt_plan *p, const ckpt_write_options *opts, bool shares, struct shard_layout *c,
                           ckpt_error *err);
void shard_layout_free(struct shard_layout *c);

#endif
