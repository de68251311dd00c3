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

/* inflate_measure - what the N bare deflated bytes at OFF of SRC unpack to, kept nowhere: *SIZE bytes with
 * this CRC-32, out of *USED. It fails likewise. */
ckpt_status inflate_measure(source *src, uint64_t off, uint64_t n, uint64_t *used, uint64_t *size,
                            uint32_t *crc, ckpt_error *err);
/* inflate_source - the SIZE bytes that the N bare deflated ones at OFF of SRC unpack to. Forward reading is
 * one pass, going back starts again. */
ckpt_status inflate_source(source *src, uint64_t off, uint64_t n, uint64_t size, source **out,
                           ckpt_error *err);

#endif
