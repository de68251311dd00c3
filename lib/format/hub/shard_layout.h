/* shard_layout.h - assigns tensors to shards. */
#pragma once

#include "core/plan.h"

/* What must be in one shard: a tensor, or everything below one key of the root. Units that share a storage
 * are a group, whose first unit is its head; the group is in one shard, too. */
struct unit {
    ckpt_str name;   /* in the weight_map */
    uint32_t parent; /* union-find: an earlier unit of the group; of the head, the head itself */
    uint32_t shard;
    uint64_t size; /* of the unit; sum_group_sizes adds the units of a group to its head */
};

struct shard_layout {
    ckpt_plan *p;
    const ckpt_write_options *opts;
    bool shares_storages;             /* the format has shared storages */
    const struct plan_entry *entries; /* those of the plan, and at last SORTED */
    struct plan_entry *sorted;        /* by shard: a copy, because those of the plan change with its mask */
    size_t n;
    uint32_t *unit_of; /* by entry, until the entries are sorted by shard */
    struct unit *units;
    uint32_t nunits, nshards;
    uint32_t *begins; /* the entries of shard K are [begins[K], begins[K + 1]), in the order of rows */
    uint64_t *sizes;  /* [shard]: bytes of its tensors */
    uint64_t total;
};

/* shards_lay_out - assigns the tensors of P to at least one shard. If SHARES_STORAGES is false, the format
 * has no shared storages: then removes ties from the mask of P and ignores values that are not tensors. The
 * caller calls shard_layout_free even on failure. */
ckpt_status shards_lay_out(ckpt_plan *p, const ckpt_write_options *opts, bool shares_storages,
                           struct shard_layout *layout, ckpt_error *err);
/* shard_layout_free_entries - frees what only writing the shards needs, not the index: for a million tensors
 * it takes 24 MB. */
void shard_layout_free_entries(struct shard_layout *layout);
void shard_layout_free(struct shard_layout *layout);
