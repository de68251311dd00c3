/* zip_lzma.h - unpacks members that are compressed by LZMA, for builds of libzip that cannot. */
#pragma once

#include "codec/zip.h"

#define ZIP_LZMA 14u /* the compression method in the headers */

/* Where the data of a member are, and what its header states about them. */
struct zip_lzma {
    source *src;
    uint64_t data, csize, usize; /* data: offset in SRC */
    uint16_t flags;
};

/* zip_lzma_open_file - sets *OUT to the data of LZMA in the form of a .lzma file, which unpack_archive
 * unpacks. */
ckpt_status zip_lzma_open_file(const struct zip_lzma *lzma, source **out, ckpt_error *err);
/* zip_lzma_open_member - unpacks entry INDEX of ARCHIVE into *OUT. The entry must have the method ZIP_LZMA
 * and must not be encrypted. CKPT_EUNSUPPORTED: libarchive is not installed. */
ckpt_status zip_lzma_open_member(zip *archive, size_t index, source **out, ckpt_error *err);
