/* folder.h - the files in a folder, and the checkpoint that it stands for. */
#ifndef FORMAT_FOLDER_H
#define FORMAT_FOLDER_H

#include "format/format.h"

struct folder {
    char index[256], single[256]; /* file names; empty: none */
    unsigned nindex, nsingle;     /* how many there are */
    unsigned safetensors_indexes;
    unsigned nothers; /* other checkpoints, except companions of the weights */
    char other[256];  /* the first of them by name; empty: none */
    unsigned nsteps;  /* folders of a trainer's steps or epochs, by their names */
};

/* folder_list - the names in the folder PATH that MATCH, in the order that people expect, in A. */
ckpt_status folder_list(arena *a, const char *path, bool (*match)(ckpt_str name), ckpt_str **out, size_t *n,
                        ckpt_error *err);
/* folder_list_all - the same for the names of all files. */
ckpt_status folder_list_all(arena *a, const char *path, ckpt_str **out, size_t *n, ckpt_error *err);
/* folder_scan - finds the checkpoints among the N NAMES of a folder. */
void folder_scan(const ckpt_str *names, size_t n, struct folder *out);
/* folder_is_companion - is NAME a file that accompanies the weights of a model? */
bool folder_is_companion(ckpt_str name);
/* folder_has - is there a file in the folder PATH that NAME, which may have a `*`, matches? */
bool folder_has(const char *path, const char *name);
/* probe_has - is NAME in the folder P? */
bool probe_has(const struct probe *p, const char *name);
/* probe_matches - are there names in the folder P that MATCH? */
bool probe_matches(const struct probe *p, bool (*match)(ckpt_str name));
/* probe_open - the file NAME of the folder P; NULL: there is none that can be read. */
source *probe_open(const struct probe *p, const char *name);
/* folder_count - how many checkpoints D has by their names. */
static inline unsigned folder_count(const struct folder *d) { return d->nothers + d->nsingle + d->nsteps; }
/* folder_is_checkpoint - has NAME the suffix of a checkpoint, or is it an index or the folder of a step? */
bool folder_is_checkpoint(ckpt_str name);
/* folder_fail_ambiguous - CKPT_EUSAGE: the folder PATH has N checkpoints, whose names MATCH, but it is not
 * clear which one is meant. */
void folder_fail_ambiguous(const char *path, unsigned n, bool (*match)(ckpt_str name), ckpt_error *err);
/* folder_hint - sets the hint of ERR to the names in PATH that MATCH, as many as fit. */
void folder_hint(const char *path, bool (*match)(ckpt_str name), ckpt_error *err);
/* folder_find_prefix - the file that PATH, which does not exist, stands for: PATH.index, the checkpoint of
 * TensorFlow of which PATH is the prefix, or the first shard of a pattern NAME-?????-of-00003. To be freed;
 * NULL: none. */
char *folder_find_prefix(const char *path);

#endif
