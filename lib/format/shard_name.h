/* shard_name.h - file names of shards: STEM-00001-of-00003EXT. */
#ifndef FORMAT_SHARD_NAME_H
#define FORMAT_SHARD_NAME_H

#include "base/arena.h"

struct shard_name {
    ckpt_str stem, ext; /* EXT begins with a dot, or is empty */
    uint64_t number, count;
};

/* shard_name_parse - sets *OUT to the parts of NAME. False: NAME has a different form. The number ????? is
 * 0. */
bool shard_name_parse(ckpt_str name, struct shard_name *out);
/* shard_name_make - returns the name of shard NUMBER, in A. .ptr NULL: no memory. */
ckpt_str shard_name_make(arena *a, const struct shard_name *s, uint64_t number);

#endif
