/* zip_lzma.h - members of an archive that are compressed by LZMA, which libzip may not have. */
#ifndef CODEC_ZIP_LZMA_H
#define CODEC_ZIP_LZMA_H

#include "codec/zip.h"

#define ZIP_LZMA 14u /* its method */

/* zip_lzma_member - entry I of Z, which has that method, unpacked into *OUT. CKPT_EUNSUPPORTED: encrypted, or
 * without libarchive. */
ckpt_status zip_lzma_member(zip *z, size_t i, source **out, ckpt_error *err);

#endif
