/* unpack_archive.h - unpacks compressed files and archives that only libarchive reads. */
#ifndef CODEC_UNPACK_ARCHIVE_H
#define CODEC_UNPACK_ARCHIVE_H

#include "io/spool.h"

struct unpack {
    uint64_t max; /* limit on the bytes of all members; decremented by what was unpacked */
    /* member - called for each file of the archive; NAME is valid until it returns. Any status but
     * CKPT_OK stops. */
    ckpt_status (*member)(void *user, ckpt_str name, source *bytes, ckpt_error *err);
    void *user;
    uint64_t used; /* bytes of the source that were read */
};

/* unpack_archive - unpacks every member of SRC. CKPT_EUNSUPPORTED: built without libarchive, encrypted,
 * or of a kind not read here; CKPT_EFORMAT: damaged; CKPT_ELIMIT: more than max bytes. */
ckpt_status unpack_archive(source *src, struct unpack *u, ckpt_error *err);
/* unpack_zstd - appends to TO what SRC, zstd frames and nothing else, decompresses to. CKPT_EFORMAT: damaged,
 * or no frame; CKPT_ELIMIT: TO is full; CKPT_EUNSUPPORTED: there is no libarchive that can. */
ckpt_status unpack_zstd(source *src, spool *to, ckpt_error *err);
/* unpack_archive_ready - loads libarchive, so that it can be used after a sandbox forbids opening files.
 * False: it is not installed. */
bool unpack_archive_ready(void);

#endif
