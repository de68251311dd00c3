/* zip_end.h - the end record of an archive, found and held against its place. */
#ifndef CODEC_ZIP_END_H
#define CODEC_ZIP_END_H

#include "io/source.h"

struct zip_end {
    uint64_t at;     /* of the end record */
    uint64_t end;    /* behind its comment */
    uint64_t n;      /* entries */
    uint64_t size;   /* of the directory */
    uint64_t offset; /* of the directory, in the file */
    uint64_t shift;  /* bytes before the archive */
    uint64_t stop;   /* where the directory must have ended */
};

/* zip_end_find - the last sound end record of SRC, at most 1 MiB before its
 * end. CKPT_ETRUNCATED when there is none. */
ckpt_status zip_end_find(source *src, struct zip_end *out, ckpt_error *err);

#endif
