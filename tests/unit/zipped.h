/* zipped.h - zip archives, byte by byte. */
#ifndef ZIPPED_H
#define ZIPPED_H

#include "base/buf.h"

struct member {
    const char *name;
    ckpt_str bytes; /* as they are stored */
    unsigned method, flags;
    uint32_t usize, crc; /* of a packed one */
    bool shares;         /* the local header and bytes of the member before it */
};

/* zip_put - appends an archive of N members to B, whose first BEFORE bytes are no part of it. */
void zip_put(buf *b, const struct member *m, size_t n, size_t before);

#endif
