/* unpack.h - files that are compressed as a whole, by gzip, zstd, xz, … */
#ifndef FORMAT_UNPACK_H
#define FORMAT_UNPACK_H

#include "format/recognize.h"

/* unpack_kind - returns the signature of the compression of P, or NULL: P is an archive or not compressed. */
const struct signature *unpack_kind(const struct probe *p);
/* unpack_some - sets *OUT to the first MOST bytes that SRC, which is compressed as S describes, unpacks to.
 * Even on failure *OUT has what could be unpacked, or is NULL. CKPT_ELIMIT: SRC unpacks to more.
 * CKPT_EUNSUPPORTED: ckpt was built without libarchive. */
ckpt_status unpack_some(source *src, const struct signature *s, uint64_t most, source **out, ckpt_error *err);
/* unpack_whole - sets *OUT to all that F unpacks to. Refuses more than file_max_unpacked. */
ckpt_status unpack_whole(ckpt_file *f, const struct signature *s, source **out, ckpt_error *err);

#endif
