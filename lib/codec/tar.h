/* tar.h - members of an uncompressed POSIX/GNU/PAX tar as slices. */
#ifndef CODEC_TAR_H
#define CODEC_TAR_H

#include "base/arena.h"
#include "io/source.h"

struct tar_entry {
    ckpt_str name;
    uint64_t data, size; /* payload */
    char type;           /* '0' regular … */
};

/* tar_list - every member of SRC in order, in the arena. Header checksums are
 * verified; links and sparse members are listed, never followed. */
ckpt_status tar_list(source *src, arena *a, struct tar_entry **out, size_t *n, ckpt_error *err);
/* tar_salvage - the same of an archive that may be cut or damaged: what its last member lacks is not counted,
 * a member with a damaged header goes as far as the next header that is sound. */
ckpt_status tar_salvage(source *src, arena *a, struct tar_entry **out, size_t *n, ckpt_error *err);

#endif
