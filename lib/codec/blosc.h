/* blosc.h - decompresses the buffers of Blosc 1, which Zarr's chunks are by default. */
#ifndef CODEC_BLOSC_H
#define CODEC_BLOSC_H

#include "io/spool.h"

/* blosc_decode - appends to TO what the N bytes at P, one buffer, decompress to. Refuses more than MOST bytes
 * before memory is taken (CKPT_EFORMAT), and by name what is not read here: blosclz, Snappy, bits that are
 * shuffled (CKPT_EUNSUPPORTED). */
ckpt_status blosc_decode(const unsigned char *p, size_t n, uint64_t most, spool *to, ckpt_error *err);

#endif
