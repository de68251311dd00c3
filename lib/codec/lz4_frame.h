/* lz4_frame.h - unpacks an .lz4 file that ends too early: libarchive, which reads intact ones, returns only
 * complete blocks, and a block may have 4 MiB. */
#pragma once

#include "io/spool.h"

/* lz4_unpack_truncated - appends to TO what the frames of SRC decode to, up to its end or to what is not of a
 * frame. CKPT_ELIMIT: TO is full; CKPT_ENOMEM, CKPT_EIO. */
ckpt_status lz4_unpack_truncated(source *src, spool *to, ckpt_error *err);
