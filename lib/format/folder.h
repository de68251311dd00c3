/* folder.h - finds the checkpoint that a folder stands for. */
#ifndef FORMAT_FOLDER_H
#define FORMAT_FOLDER_H

#include "base/error.h"

struct folder {
    char index[256], single[256]; /* file names; empty: none */
    unsigned nindex, nsingle;     /* how many there are */
    unsigned safetensors_indexes;
    unsigned nothers; /* other checkpoints, except companions of the weights */
    char other[256];  /* the first of them by name; empty: none */
};

/* folder_scan - lists the checkpoints in the folder PATH, by their names only. */
void folder_scan(const char *path, struct folder *out);
/* folder_fail_ambiguous - CKPT_EUSAGE: the folder PATH has checkpoints, but it is not clear which one is
 * meant. */
void folder_fail_ambiguous(const char *path, const struct folder *d, ckpt_error *err);
/* folder_hint - sets the hint of ERR to the checkpoints in PATH, as many as fit. */
void folder_hint(const char *path, ckpt_error *err);
/* folder_find_prefix - the file that PATH, which does not exist, stands for: PATH.index, the checkpoint of
 * TensorFlow of which PATH is the prefix, or the first shard of a pattern NAME-?????-of-00003. To be freed;
 * NULL: none. */
char *folder_find_prefix(const char *path);

#endif
