/* shards.h - declarations for the files that read and write sharded checkpoints of Hugging Face. */
#pragma once

#include "codec/json_scan.h"
#include "format/registry.h"

#define MAX_SHARDS     10000u       /* the limit of the Hub's clients */
#define MAX_INDEX_FILE (256u << 20) /* the default of max_header: no more of a JSON file is searched */

/* One shard, such as model-00001-of-00005.safetensors, while it is merged. Its pairs are those of its
 * root dict, or of its weights: the name of a tensor and the value with that name. */
struct shard {
    ckpt_str name;
    const char *path; /* NULL: NAME, in the folder of the index */
    uint64_t at;      /* offset of the first use of its name in the index */
    ckpt_file *file;
    struct merged_part part; /* whose entries are PAIRS */
    const value_pair *pairs;
    uint32_t npairs;
    const ckpt_value *mapping; /* the node whose entries are PAIRS */
    bool is_table;         /* it has only tensors: they are rows of the set, from FIRST_ROW on, until these */
    size_t first_row;      /* are ordered, in place of PAIRS */
    map *pair_of;          /* key -> pair, for keys that the index does not list for this shard */
    map *metadata_of;      /* key -> pair of the metadata of the shard */
    bool is_missing;       /* the file does not exist */
    bool is_unwanted;      /* the caller needs none of its tensors */
    uint32_t lost_storage; /* salvage: 1 + the storage of the tensors that are lost with the shard; 0: none */
    const char *why_unreadable;  /* salvage: why the shard cannot be read; or NULL */
    bool is_damaged;             /* a part of it cannot be read, which was reported */
    size_t nrows, nrows_of_part; /* rows merged so far, and in all */
    bool *is_merged;             /* by pair: it was merged */
    bool *own_row;               /* by row: t.value->row is this row, not an earlier row of that value */
    uint32_t *pair_of_row;       /* by row: its pair, or MAP_NONE */
    uint32_t *row_of;            /* by pair: its first row, or MAP_NONE; the others follow */
    uint32_t *leaf_of;           /* by pair: its first leaf, or MAP_NONE; the others follow */
    struct storage_extra *extra; /* what its storages share: the name of the shard, and a location */
    uint32_t *storages;          /* storage of the shard -> storage of the set; MAP_NONE: not added yet */
};

/* An entry of the weight_map. */
struct weight {
    ckpt_str key;
    uint64_t at; /* offset in the index; CKPT_NO_OFFSET: the index does not have it, only the shard */
    uint32_t shard;
    uint32_t pair; /* of the shard; MAP_NONE: not found yet, or a group */
    bool is_group; /* Keras: KEY is a group of tensors, which may be in several shards */
    bool is_found; /* the group is in a shard */
};

struct index {
    ckpt_file *f;
    json_scan j;
    ckpt_str file, quoted_file; /* the file of the last weight, decoded and as the index writes it */
    arena *temp;                /* what is not needed after merging */
    struct weight *weights;
    size_t nweights, cap_weights;
    struct shard *shards;
    size_t nshards, cap_shards;
    map *keys, *names;  /* key -> weight; name -> shard */
    map *metadata_keys; /* the keys of the metadata of the set */
    bool has_weight_map, has_total_size;
    bool has_no_index;             /* the set is that of the files in the folder, or that the caller named */
    const struct merging *merging; /* the shards are checkpoints of any kind, to be merged; NULL: a set */
    bool is_guess;                 /* that they are a set is a guess, which fails if a name comes twice */
    bool is_partial;               /* there are unwanted shards */
    bool has_graph;                /* there are shards that have more than tensors */
    uint32_t *order;               /* the rows of the set in the order they will have */
    size_t norder, cap_order;
    bool is_incomplete; /* in `verify` and salvage: tensors are missing, which was reported */
    uint64_t total_size, total_size_at;
    ckpt_error *err;
};

/* shards_is_index - returns true if PROBE is a JSON object with a weight_map. */
bool shards_is_index(const struct probe *probe);
/* shards_add_weight - adds WEIGHT to the weights of INDEX. False: no memory. */
bool shards_add_weight(struct index *index, const struct weight *weight);
/* shards_find_next_file - moves SCAN, at the beginning of the text of an index, to the next file name in the
 * weight_map, and sets *KEY to the name of the tensor in it. *FOUND_MAP is false before the first call.
 * False: there are no more, or SCAN has an error. */
bool shards_find_next_file(json_scan *scan, bool *found_map, ckpt_str *key);
/* shards_hint_without_index - if FOLDER (empty: the current one), where F or its index is, has shards that
 * can be read without the index, sets the hint of ERR to WHY and the command for that, and returns true. In
 * an archive, no command does that. */
bool shards_hint_without_index(ckpt_file *f, ckpt_str folder, const char *why, ckpt_error *err);
/* shards_merge_files - merges the checkpoints of MERGING into F, which has nothing yet; no tensor may be in
 * two of them. */
ckpt_status shards_merge_files(ckpt_file *f, const struct merging *merging, ckpt_error *err);
/* shards_is_set - returns true if F was read from shards. */
bool shards_is_set(const ckpt_file *f);
