/* zip_end.h - finds the end record of an archive, and with it the central directory. */
#pragma once

#include "io/source.h"

#define ZIP_MAX_CANDIDATES 6
/* How many bytes at the end lenient readers search for an end record: Python 65,558 (65,634 since
 * version 3.14); miniz steps back by 4,093 bytes until it has searched more than 65,557. */
#define ZIP_END_REACH (65557u + 4096u)

struct zip_end {
    uint64_t record_at;       /* offset of the end record */
    uint64_t archive_end;     /* first byte after its comment */
    uint64_t entries;         /* number of entries */
    uint64_t directory_size;  /* bytes of the central directory */
    uint64_t directory_at;    /* offset of the central directory in the file */
    uint64_t prefix_size;     /* bytes before the archive */
    uint64_t first_record_at; /* offset of the zip64 end record if there is one, else of the end record */
};

/* zip_end_find - finds the last valid end record in the last MiB of SRC. CKPT_ETRUNCATED if there is none. */
ckpt_status zip_end_find(source *src, struct zip_end *out, ckpt_error *err);

/* The last end record that some reader accepts, and the central directories that readers may find by it: by
 * the offset in the record, by the size in it (the directory ends where the record begins), or by the offset
 * or size in a zip64 record. */
struct zip_directory_candidates {
    uint64_t record_at;
    struct {
        uint64_t begin;       /* offset of the central directory */
        uint64_t end;         /* offset of the first byte after it, by the size in the record */
        uint64_t prefix_size; /* what readers add to the offsets of members, modulo 2^64 */
    } directories[ZIP_MAX_CANDIDATES];
    size_t n;
};

/* zip_find_directory_candidates - searches the last ZIP_END_REACH bytes of SRC; sets n to 0 if no record
 * leads to a central directory. */
ckpt_status zip_find_directory_candidates(source *src, struct zip_directory_candidates *out, ckpt_error *err);

/* zip_find_concatenated - sets *START to the first byte of the archive, without a comment, that ends at END
 * of SRC; false: there is none. A .distcp file of torch's Distributed Checkpoint is a concatenation of
 * archives, one for each tensor. */
bool zip_find_concatenated(source *src, uint64_t end, uint64_t *start);
