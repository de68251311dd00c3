/* block_codecs.h - decoders of small blocks of compressed bytes, as Blosc and the filters of HDF5 store them.
 * A block does not have its decoded size, which the caller knows. */
#pragma once

#include "base/cursor.h"
#include "base/error.h"

enum block_codec { BLOCK_LZ4, BLOCK_BLOSCLZ, BLOCK_SNAPPY, BLOCK_ZLIB, BLOCK_ZSTD };

/* block_decode - decompresses the block IN to the SIZE bytes at OUT. CKPT_EFORMAT: it is damaged, or has
 * another size. CKPT_EUNSUPPORTED: zstd, without libarchive. */
ckpt_status block_decode(enum block_codec codec, cursor in, unsigned char *out, size_t size, ckpt_error *err);
/* block_decode_lz4 - decompresses the block IN of LZ4 to the bytes from *COUNT to SIZE of BUFFER; copies may
 * be of the *COUNT bytes before. Sets *COUNT to where the result ends. False: IN ends too early, is damaged
 * or decodes to more; the result is then that of what precedes the fault. */
bool block_decode_lz4(cursor in, unsigned char *buffer, size_t size, size_t *count);
/* block_unshuffle_bytes - copies NBYTES elements of WIDTH bytes from IN, which has byte 0 of all elements,
 * byte 1 of all elements …, to OUT. */
void block_unshuffle_bytes(const unsigned char *in, size_t nbytes, size_t width, unsigned char *out);
/* block_unshuffle_bits - does the same for bits: IN has bit 0 of byte 0 of all elements, bit 1 of all …
 * Each of its bytes has a bit of eight elements, that of the first one lowest. NBYTES is a multiple of 8. */
void block_unshuffle_bits(const unsigned char *in, size_t nbytes, size_t width, unsigned char *out);
