/* checkpoint_names.h - the names of files that are checkpoints, and which of them in a folder is meant. */
#pragma once

#include "base/arena.h"

#define INDEX_SUFFIX ".index.json" /* of the index of a set, after the name that a single file would have */

struct folder {
    unsigned nindexes, nsingle;             /* how many indexes and single files there are */
    char index_file[256], single_file[256]; /* the preferred index and single file; empty: none */
    unsigned safetensors_indexes;
    unsigned nothers; /* other checkpoints; companions (folder_is_companion) do not count */
    char other[256];  /* the first other checkpoint by name; empty: none */
    unsigned nsteps;  /* how many names are those of a trainer's folder of a step or epoch */
    unsigned nlisted; /* how many names folder_is_checkpoint accepts */
};

/* folder_scan - finds the checkpoints among the COUNT NAMES of a folder. */
void folder_scan(const ckpt_str *names, size_t count, struct folder *out);
/* folder_shows_model - returns true if a folder with the file NAME is opened as one checkpoint: by an index,
 * a single file such as model.safetensors, or a shard. */
bool folder_shows_model(ckpt_str name);
/* folder_is_index - returns true for names such as model.safetensors.index.json,
 * model.safetensors.index.fp16.json and Keras' model.weights.json. */
bool folder_is_index(ckpt_str name);
/* folder_is_companion - returns true for files next to the weights of a model, such as optimizer.pt, and for
 * shards of the weights. */
bool folder_is_companion(ckpt_str name);
/* folder_is_later_part - returns true for all files of a split GGUF but the first, by which all are read. */
bool folder_is_later_part(ckpt_str name);
/* folder_is_data_file - returns true if NAME is that of a data file of a Distributed Checkpoint. */
static inline bool folder_is_data_file(ckpt_str name) { return str_ends(name, STR_LIT(".distcp")); }
/* folder_is_checkpoint - returns true if NAME has the suffix of a checkpoint, or is the name of an index or
 * of a step's folder. */
bool folder_is_checkpoint(ckpt_str name);

/* The file name of a shard, STEM-00001-of-00003EXT. */
struct shard_name {
    ckpt_str stem, ext; /* EXT begins with a dot, or is empty */
    uint64_t number, count;
};

/* names_differ_in_numbers - returns true if LEFT and RIGHT are equal except for the decimal numbers in
 * them. */
bool names_differ_in_numbers(ckpt_str left, ckpt_str right);
/* The files of a folder that are one checkpoint although no index says so. */
struct folder_set {
    ckpt_str first;   /* the first of their names; empty: there is no such set */
    bool is_numbered; /* they are called STEM-00001-of-00003EXT, so that missing ones are known */
    size_t n;         /* how many there are */
};
/* folder_find_set - finds among the COUNT NAMES of a folder without an index and without a single file the
 * shards that are there: those of one set STEM-00001-of-00003.safetensors (or .bin), or several .safetensors
 * whose names differ only in numbers. False: there are none, or there are other checkpoints, too. */
bool folder_find_set(const ckpt_str *names, size_t count, struct folder_set *out);
/* folder_set_has - returns true if NAME is one of the files of SET. */
bool folder_set_has(const struct folder_set *set, ckpt_str name);
/* shard_name_parse - sets *OUT to the parts of NAME. False: NAME has a different form. The number "?????" is
 * read as 0. */
bool shard_name_parse(ckpt_str name, struct shard_name *out);
/* shard_name_make - returns the name NAME with the number NUMBER, allocated from A. .ptr NULL: no memory. */
ckpt_str shard_name_make(arena *a, const struct shard_name *name, uint64_t number);
