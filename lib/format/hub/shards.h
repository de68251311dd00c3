/* shards.h - what the files for sharded checkpoints share. */
#ifndef FORMAT_HUB_SHARDS_H
#define FORMAT_HUB_SHARDS_H

#include "base/map.h"
#include "codec/json_scan.h"
#include "format/format.h"

#define MAX_SHARDS 10000u /* the limit of the Hub's clients */

/* One shard, while it is merged. */
struct shard {
    ckpt_str name;
    uint64_t at; /* offset of its first name in the index */
    ckpt_file *file;
    const value_pair *pairs;
    uint32_t npairs;
    map *pair_of;              /* key -> pair */
    map *note_of;              /* key -> pair of its metadata */
    bool missing;              /* there is no such file */
    uint32_t lost_storage;     /* salvage: one more than the storage for what is lost with it, 0: none */
    const char *why;           /* salvage: why it cannot be read at all */
    bool damaged;              /* not all of it can be read; that was reported */
    size_t nrows;              /* rows merged so far */
    bool *taken;               /* by pair */
    bool *own_row;             /* by row: is it the row of its node? */
    uint32_t *row_of;          /* by pair: its first row, or MAP_NONE; the others follow */
    uint32_t *leaf_of;         /* likewise */
    struct storage_more *more; /* for its storages: its name */
    uint32_t *storages;        /* storage of the shard -> of the set, MAP_NONE: not added yet */
};

struct weight {
    ckpt_str key;
    uint64_t at; /* offset in the index; CKPT_NO_OFFSET: it is not in it */
    uint32_t shard;
    bool is_group; /* Keras: KEY is the group of its tensors, which may be in several shards … */
    bool is_found; /* … and one of these has it */
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
    map *notes;        /* metadata of the set by key */
    bool has_map, has_size;
    bool lost; /* when checking or salvaging: tensors are missing; that was reported */
    uint64_t total_size, total_at;
    ckpt_error *err;
};

/* shards_is_index - is P a JSON object with a weight_map? */
bool shards_is_index(const struct probe *p);
/* shards_join_path - FOLDER/NAME, to be freed; NULL: no memory. */
char *shards_join_path(ckpt_str folder, ckpt_str name);
/* shards_open - opens the file at PATH of the set F; refuses pipes, which would block, and standard input.
 * NOTE is as for format_open_source. */
ckpt_status shards_open(const ckpt_file *f, const char *path, struct journal_note *note, source **out,
                        ckpt_error *err);
/* shards_become_file - F, which stands for the file NAME of FOLDER, becomes it. */
ckpt_status shards_become_file(ckpt_file *f, ckpt_str folder, ckpt_str name, ckpt_error *err);
/* shards_max_open - the number of shards of a set that stay open; leaves descriptors for a second set and
 * for outputs. */
size_t shards_max_open(void);
struct stat;
/* shards_contain_file - *YES: is WHAT one of the files of F? */
ckpt_status shards_contain_file(const ckpt_file *f, const struct stat *what, bool *yes, ckpt_error *err);
/* shards_contain_path - is PATH one of the files of F? True if that cannot be checked. */
bool shards_contain_path(const ckpt_file *f, const char *path);
/* shards_check_output - fails if a file written to PATH would replace one of F's. ALONE: it is the only
 * output, and may replace an input that is a single file; a set without one of its files is no checkpoint. */
ckpt_status shards_check_output(const ckpt_file *f, const char *path, bool alone, ckpt_error *err);
/* shards_notice_old_index - adds a notice to P if the index of a set is next to the single file written to
 * PATH. */
void shards_notice_old_index(ckpt_plan *p, const char *path);
/* shards_notice_incomplete - adds a notice to P if its file is one shard of several by its name, and OUTPUT
 * is not called one. */
void shards_notice_incomplete(ckpt_plan *p, const char *output);
/* shards_add_metadata - adds a pair to the metadata of the set; the first of a key counts. */
ckpt_status shards_add_metadata(struct index *x, ckpt_value *key, ckpt_value *text);
/* shards_merge - hub/merge.c: opens the shards of X and merges them into x->f. */
ckpt_status shards_merge(struct index *x);
/* shards_write_as_read - hub/write.c: writes one file of the format of the shards, inside PATH if that is a
 * folder. */
ckpt_status shards_write_as_read(ckpt_plan *p, const struct write_job *job, ckpt_error *err);

#endif
