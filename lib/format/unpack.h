/* unpack.h - files that are compressed as a whole, by gzip, zstd, xz, … */
#ifndef FORMAT_UNPACK_H
#define FORMAT_UNPACK_H

#include "format/recognize.h"

/* unpack_kind - how P is compressed, if it is no archive; NULL: it is not. */
const struct signature *unpack_kind(const struct probe *p);
/* unpack_some - the first MOST bytes that SRC, compressed as S says, unpacks to; what could be unpacked is in
 * *OUT (may be NULL) in any case. CKPT_ELIMIT: there are more. CKPT_EUNSUPPORTED: no libarchive. */
ckpt_status unpack_some(source *src, const struct signature *s, uint64_t most, source **out,
                        ckpt_error *err);
/* unpack_whole - all that F unpacks to, within file_max_unpacked. */
ckpt_status unpack_whole(ckpt_file *f, const struct signature *s, source **out, ckpt_error *err);

#endif
