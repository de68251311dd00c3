/* unpack.h - reads checkpoints in compressed files. */
#pragma once

#include "format/recognize.h"

/* recognize_compression - returns the signature of the compression of PROBE. NULL: PROBE is an archive
 * (7-Zip, RAR) or is not compressed. */
const struct signature *recognize_compression(const struct probe *probe);
/* unpack_head - unpacks SRC, which is compressed as SIGNATURE describes, and sets *OUT to the first MAX bytes
 * of the result, and *USED to how many bytes of SRC that took. After a failure, *OUT has what could be
 * unpacked, or is NULL. CKPT_ELIMIT: there are more bytes. CKPT_EUNSUPPORTED: ckpt was built without
 * libarchive. */
ckpt_status unpack_head(source *src, const struct signature *signature, uint64_t max, source **out,
                        uint64_t *used, ckpt_error *err);
/* unpack_all - sets *OUT to all that F unpacks to, and *STRAY to the number of bytes after the compressed
 * data, or to 0 if they are only zeros, with which tapes are filled up. Refuses more than
 * file_max_unpacked. */
ckpt_status unpack_all(ckpt_file *f, const struct signature *signature, source **out, uint64_t *stray,
                       ckpt_error *err);
/* unpack_report_stray - reports the STRAY bytes, if any, at the end of the compressed file SRC, which is
 * read as F: to CHECK, or if that is NULL, as a notice. */
ckpt_status unpack_report_stray(ckpt_file *f, struct check *check, const source *src, uint64_t stray,
                                ckpt_error *err);
