/* inflate.h - deflated bytes, with or without a wrapper, to a spool. */
#ifndef CODEC_INFLATE_H
#define CODEC_INFLATE_H

#include "io/spool.h"

enum inflate_kind { INFLATE_RAW, INFLATE_ZLIB, INFLATE_GZIP };

/* inflate_into - what the N bytes at OFF of SRC unpack to; *USED of them were needed. Several
 * gzip members one behind the other are one stream. CKPT_EFORMAT: broken, CKPT_ETRUNCATED:
 * it ends early, CKPT_ELIMIT: TO is full; what came before is in TO. */
ckpt_status inflate_into(source *src, uint64_t off, uint64_t n, enum inflate_kind kind, spool *to,
                         uint64_t *used, ckpt_error *err);

#endif
