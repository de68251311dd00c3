/* zip_lzma.h - members of an archive that are compressed by LZMA, which libzip may not have. */
#ifndef CODEC_ZIP_LZMA_H
#define CODEC_ZIP_LZMA_H

#include "codec/zip.h"

#define ZIP_LZMA 14u /* its method */

/* Where the data of such a member are, and what its header has about them. */
struct zip_lzma {
    source *src;
    uint64_t data, csize, usize;
    uint16_t flags;
};

/* zip_lzma_file - *OUT: the data of M as a file .lzma, which unpack_archive unpacks. */
ckpt_status zip_lzma_file(const struct zip_lzma *m, source **out, ckpt_error *err);
/* zip_lzma_member - entry I of Z, which has that method, unpacked into *OUT. CKPT_EUNSUPPORTED: encrypted, or
 * without libarchive. */
ckpt_status zip_lzma_member(zip *z, size_t i, source **out, ckpt_error *err);

#endif
