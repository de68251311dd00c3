/* tar.h - lists the members of an uncompressed POSIX, GNU or pax tar. */
#pragma once

#include "io/source.h"

struct tar_entry {
    ckpt_str name;
    uint64_t data, size; /* offset and size of the payload in bytes */
    char type;           /* '0': a regular file; '1' to '6': a link, device or folder */
};

/* tar_list - sets *OUT, in the arena, to the *COUNT members of SRC in their order. Header checksums are
 * verified; links and sparse members are listed, never followed. If LENIENT, SRC may be truncated or
 * damaged: the last member ends with the file, and from a damaged header on, all bytes up to the next valid
 * header are one member. */
ckpt_status tar_list(source *src, arena *a, bool lenient, struct tar_entry **out, size_t *count,
                     ckpt_error *err);

#define TAR_BLOCK 512u
/* tar_is_header - returns true if BLOCK, of TAR_BLOCK bytes, has the checksum of a member's header, as
 * Python's tarfile requires; the signature "ustar" is not needed. */
bool tar_is_header(const unsigned char *block);
