/* zip_end.h - finds the end record of an archive, and with it the central directory. */
#ifndef CODEC_ZIP_END_H
#define CODEC_ZIP_END_H

#include "io/source.h"

#define ZIP_MAX_CANDIDATES 6
/* How far from the end lenient readers search for an end record: Python 65,558 bytes, since 3.14 76 more;
 * miniz in steps of 4,093 bytes until they exceed 65,557. */
#define ZIP_END_REACH (65557u + 4096u)

struct zip_end {
    uint64_t at;     /* offset of the end record */
    uint64_t end;    /* first byte after its comment */
    uint64_t n;      /* entries */
    uint64_t size;   /* of the central directory */
    uint64_t offset; /* of the central directory, in the file */
    uint64_t shift;  /* bytes before the archive */
    uint64_t stop;   /* offset of the end record, or of the zip64 one: the central directory ends before */
};

/* zip_end_find - finds the last valid end record in the last MiB of SRC. CKPT_ETRUNCATED if there is none. */
ckpt_status zip_end_find(source *src, struct zip_end *out, ckpt_error *err);

/* The last end record that some reader accepts, and the central directories that readers may find by it: at
 * its offset, or as many bytes before the record as its size, or by the same fields of a zip64 record. */
struct zip_directory_candidates {
    uint64_t at;
    struct {
        uint64_t directory, stop; /* offsets of its first byte, and of the first byte after it by its size */
        uint64_t shift;           /* what readers add to the offsets of members, modulo 2^64 */
    } by[ZIP_MAX_CANDIDATES];
    size_t n;
};

/* zip_find_directory_candidates - searches the last ZIP_END_REACH bytes of SRC; sets n to 0 if no record
 * leads to a central directory. */
ckpt_status zip_find_directory_candidates(source *src, struct zip_directory_candidates *out, ckpt_error *err);

/* zip_find_concatenated - sets *START to the first byte of the archive, without a comment, that ends at END
 * of SRC; false: there is none. A .distcp file of torch's Distributed Checkpoint is a concatenation of
 * archives, one for each tensor. */
bool zip_find_concatenated(source *src, uint64_t end, uint64_t *start);

#endif
