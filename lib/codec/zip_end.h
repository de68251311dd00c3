/* zip_end.h - the end record of an archive, found and held against its place. */
#ifndef CODEC_ZIP_END_H
#define CODEC_ZIP_END_H

#include "io/source.h"

#define ZIP_CLAIMS 6

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

/* Where the last end record is that some reader follows, and to which directories: readers go by its offset,
 * or by its size backwards from the record, and by those of a zip64 record. */
struct zip_claim {
    uint64_t at;
    uint64_t directories[ZIP_CLAIMS];
    size_t n;
};

/* zip_end_claim - searches the last 65,557 bytes of SRC, as all readers do; n is 0 where no record leads to a
 * directory. */
ckpt_status zip_end_claim(source *src, struct zip_claim *out, ckpt_error *err);

/* zip_find_concatenated - where the archive begins that ends at END of SRC, without a comment; false: none
 * does. A .distcp of torch's distributed checkpoints is one archive after the other, one for each tensor. */
bool zip_find_concatenated(source *src, uint64_t end, uint64_t *start);

#endif
