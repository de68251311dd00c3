/* zip_end.h - finds the end record of an archive, and with it the directory. */
#ifndef CODEC_ZIP_END_H
#define CODEC_ZIP_END_H

#include "io/source.h"

#define ZIP_MAX_CANDIDATES 6
/* How far from the end lenient readers find an end record: Python searches 65,558 bytes, since 3.14 76 more,
 * miniz steps of 4,093 bytes until they pass 65,557. */
#define ZIP_END_REACH (65557u + 4096u)

struct zip_end {
    uint64_t at;     /* offset of the end record */
    uint64_t end;    /* first byte after its comment */
    uint64_t n;      /* entries */
    uint64_t size;   /* of the directory */
    uint64_t offset; /* of the directory, in the file */
    uint64_t shift;  /* bytes before the archive */
    uint64_t stop;   /* the directory must end here or before */
};

/* zip_end_find - finds the last valid end record of SRC, at most 1 MiB before its end. CKPT_ETRUNCATED if
 * there is none. */
ckpt_status zip_end_find(source *src, struct zip_end *out, ckpt_error *err);

/* The last end record that some reader accepts, and the directories to which it may lead: readers use its
 * offset, or its size backwards from the record, or those of a zip64 record. */
struct zip_directory_candidates {
    uint64_t at;
    struct {
        uint64_t directory, stop; /* its first byte, and the first byte after it, by the record */
        uint64_t shift;           /* what readers add to the offsets of members, modulo 2^64 */
    } by[ZIP_MAX_CANDIDATES];
    size_t n;
};

/* zip_find_directory_candidates - searches the last ZIP_END_REACH bytes of SRC; n is 0 if no record leads
 * to a directory. */
ckpt_status zip_find_directory_candidates(source *src, struct zip_directory_candidates *out, ckpt_error *err);

/* zip_find_concatenated - *START is where the archive begins that ends at END of SRC, without a comment;
 * false: none does. A .distcp file of torch's Distributed Checkpoint is a concatenation of archives, one
 * for each tensor. */
bool zip_find_concatenated(source *src, uint64_t end, uint64_t *start);

#endif
