/* blosc.h - decompresses buffers of Blosc 1, the default compressor of Zarr 2, and a filter of HDF5. */
#pragma once

#include "io/spool.h"

/* blosc_decode - decompresses the Blosc buffer of NBYTES bytes at BYTES, and appends the result to TO.
 * Refuses a result of more than MAX bytes before it allocates memory (CKPT_EFORMAT). */
ckpt_status blosc_decode(const unsigned char *bytes, size_t nbytes, uint64_t max, spool *to, ckpt_error *err);
