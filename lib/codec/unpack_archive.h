/* unpack_archive.h - unpacks compressed files and archives that only libarchive reads. */
#ifndef CODEC_UNPACK_ARCHIVE_H
#define CODEC_UNPACK_ARCHIVE_H

#include "io/spool.h"

struct unpack {
    uint64_t max_bytes; /* that may still be unpacked: unpack_archive subtracts the size of each member */
    /* member - is called for each file of the archive. NAME is valid until it returns. Any status but
     * CKPT_OK stops. */
    ckpt_status (*member)(void *user, ckpt_str name, source *bytes, ckpt_error *err);
    void *user;
    uint64_t bytes_read;    /* of the source */
    bool is_decoder_failed; /* after CKPT_EUNSUPPORTED: a decoder failed, so compressed data are damaged */
};

/* unpack_archive - unpacks every member of SRC. CKPT_EUNSUPPORTED: there is no libarchive, or SRC is
 * encrypted or of a kind not read here; CKPT_EFORMAT: damaged; CKPT_ELIMIT: more than max_bytes. */
ckpt_status unpack_archive(source *src, struct unpack *u, ckpt_error *err);
/* unpack_zstd - decompresses SRC, which must be zstd frames and nothing else, and appends the result to TO.
 * CKPT_EFORMAT: damaged, or no frame; CKPT_ELIMIT: TO is full; CKPT_EUNSUPPORTED: there is no libarchive, or
 * it lacks zstd. */
ckpt_status unpack_zstd(source *src, spool *to, ckpt_error *err);
/* unpack_archive_available - returns true if libarchive is installed. Loads it, so that it can also be used
 * after a sandbox has forbidden opening files. */
bool unpack_archive_available(void);

#endif
