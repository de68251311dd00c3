/* shards.h - what the parts of sharded checkpoints share. */
#ifndef FORMAT_HUB_SHARDS_H
#define FORMAT_HUB_SHARDS_H

#include "base/map.h"
#include "codec/json_scan.h"
#include "format/format.h"

#define MAX_SHARDS 10000u /* the Hub's clients read no more */

/* One shard, while it is merged. */
struct shard {
    ckpt_str name;
    uint64_t at; /* where the index names it first */
    ckpt_file *file;
    const value_pair *pairs;
    uint32_t npairs;
    map *pair_of;       /* key -> pair */
    map *note_of;       /* key of its metadata -> pair of those */
    bool missing;       /* there is no such file */
    uint32_t gone;      /* salvage: one more than the storage that stands for what it held, 0: none */
    const char *why;    /* salvage: why nothing of it can be had */
    bool damaged;       /* not all of it can be read, and that was told */
    size_t nrows;       /* rows taken so far */
    bool *taken;        /* by pair */
    bool *own_row;      /* by row: its node points back at it */
    uint32_t *row_of;   /* by pair: its first row, or MAP_NONE; its rows follow one another */
    uint32_t *leaf_of;  /* likewise */
    struct storage_more *beside; /* what its storages have: its name */
    uint32_t *storages; /* storage of the shard -> of the whole, MAP_NONE: not there yet */
};

struct weight {
    ckpt_str key;
    uint64_t at; /* in the index; CKPT_NO_OFFSET: it is not there */
    uint32_t shard;
};

/* An index, while it is read. */
struct index {
    ckpt_file *f;
    json_scan j;
    struct weight *weights;
    size_t n, cap;
    struct shard *shards;
    size_t nshards, cap_shards;
    map *keys, *names; /* weight and shard by name */
    map *notes;        /* metadata of the whole by key */
    bool has_map, has_size;
    bool lost; /* of a set that is being checked or salvaged: not all tensors are there, and that was told */
    uint64_t total_size, total_at;
    ckpt_error *err;
};

/* shards_is_index - is P a JSON object with a weight_map? */
bool shards_is_index(const struct probe *p);
/* shards_join - FOLDER/NAME, to be freed; NULL: no memory. */
char *shards_join(ckpt_str folder, ckpt_str name);
/* shards_open - the file at PATH, which a set names: never a pipe, which would
 * be waited for, nor standard input. */
ckpt_status shards_open(const char *path, source **out, ckpt_error *err);
/* shards_open_most - so many shards of a set stay open, of two sets, and of what is written, at a time. */
size_t shards_open_most(void);
struct stat;
/* shards_made_of - *YES: WHAT is one of the files that F was read from. */
ckpt_status shards_made_of(const ckpt_file *f, const struct stat *what, bool *yes, ckpt_error *err);
/* shards_hold - is PATH one of the files that F was read from? In doubt it is. */
bool shards_hold(const ckpt_file *f, const char *path);
/* shards_guard - an error where a file at PATH would be in the place of one that F was read from.
 * ALONE: it is all that is written, and may replace an input that is one file; a set that lost one
 * of its files is no checkpoint. */
ckpt_status shards_guard(const ckpt_file *f, const char *path, bool alone, ckpt_error *err);
/* shards_beside - a notice of P where the one file written to PATH has the index of a set beside it. */
void shards_beside(ckpt_plan *p, const char *path);
/* shards_note - metadata of the whole; the first of a key stays. */
ckpt_status shards_note(struct index *x, ckpt_value *key, ckpt_value *text);
/* shards_merge - hub/merge.c: opens the shards of X and makes x->f of them. */
ckpt_status shards_merge(struct index *x);
/* shards_write_as_read - hub/write.c: one file of the kind that the shards
 * read were, inside PATH where that is a folder. */
ckpt_status shards_write_as_read(ckpt_plan *p, const struct write_job *job, ckpt_error *err);

#endif
