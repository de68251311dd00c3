/* zipped.h - writes zip archives. */
#ifndef ZIPPED_H
#define ZIPPED_H

#include "base/buf.h"

/* A member of an archive, as its headers describe it. */
struct member {
    const char *name;
    ckpt_str bytes; /* the payload as it is stored */
    unsigned method, flags;
    uint32_t usize;       /* the uncompressed size; ignored if METHOD is 0 (stored) */
    uint32_t crc;         /* the CRC-32; if METHOD and CRC are 0, the true one is written */
    bool reuses_previous; /* the entry has the local header and bytes of the previous member */
};

/* zip_put - appends an archive of the N members M to B. Its offsets count from byte BEFORE of B. */
void zip_put(buf *b, const struct member *m, size_t n, size_t before);

#endif
