/* unpack_archive.h - compressed files and archives that only libarchive opens. */
#ifndef CODEC_UNPACK_ARCHIVE_H
#define CODEC_UNPACK_ARCHIVE_H

#include "io/spool.h"

struct unpack {
    uint64_t max; /* bytes in all; less what was given is left of it */
    /* member - one file of the archive; NAME lives until it returns. Not CKPT_OK: stop. */
    ckpt_status (*member)(void *user, ckpt_str name, source *bytes, ckpt_error *err);
    void *user;
    uint64_t used; /* bytes of the source that were needed */
};

/* unpack_archive - every member of SRC. CKPT_EUNSUPPORTED: built without libarchive, encrypted,
 * or of no kind it reads here; CKPT_EFORMAT: broken; CKPT_ELIMIT: more than max. */
ckpt_status unpack_archive(source *src, struct unpack *u, ckpt_error *err);
/* unpack_archive_ready - loads libarchive, so that it is there when opening files is forbidden later. */
bool unpack_archive_ready(void);

#endif
