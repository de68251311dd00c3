/* snappy.h - decodes blocks of raw Snappy data. */
#ifndef CODEC_SNAPPY_H
#define CODEC_SNAPPY_H

#include "base/cursor.h"
#include "base/error.h"

/* snappy_size - *SIZE is the decoded size of the block C; refuses (CKPT_EFORMAT) one that so few bytes cannot
 * decode to, so that memory can be taken for it. */
ckpt_status snappy_size(cursor c, size_t *size, ckpt_error *err);
/* snappy_decode - decodes C to OUT, which has the SIZE bytes of snappy_size. */
ckpt_status snappy_decode(cursor c, unsigned char *out, size_t size, ckpt_error *err);

#endif
