/* snappy.h - decodes blocks of raw Snappy data. */
#pragma once

#include "base/cursor.h"
#include "base/error.h"

/* snappy_read_size - sets *SIZE to the decoded size of the block IN. Refuses (CKPT_EFORMAT) a size that the
 * bytes of IN cannot decode to, so that the caller can allocate it. */
ckpt_status snappy_read_size(cursor in, size_t *size, ckpt_error *err);
/* snappy_decode - decodes IN to OUT, which has room for the SIZE bytes of snappy_read_size. */
ckpt_status snappy_decode(cursor in, unsigned char *out, size_t size, ckpt_error *err);
