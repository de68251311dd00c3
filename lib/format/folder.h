/* folder.h - which checkpoints a folder holds, and which of them it stands for. */
#ifndef FORMAT_FOLDER_H
#define FORMAT_FOLDER_H

#include "base/error.h"

struct folder {
    char index[256], whole[256]; /* file names; empty: none */
    unsigned nindex, nwhole;     /* how many there are to choose from */
    unsigned safetensors_indexes;
    unsigned nothers; /* checkpoints that are neither, nor come along with one */
    char other[256];  /* the first of them by name; empty: none */
};

/* folder_scan - what is in the folder PATH, by names alone. */
void folder_scan(const char *path, struct folder *out);
/* folder_fail_unclear - CKPT_EUSAGE: the folder PATH holds checkpoints, and none that it stands for. */
void folder_fail_unclear(const char *path, const struct folder *d, ckpt_error *err);
/* folder_hint - the hint of ERR lists checkpoints in PATH, to name one, as far as there is room. */
void folder_hint(const char *path, ckpt_error *err);

#endif
