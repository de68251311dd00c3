/* unpack_archive.h - unpacks compressed files and archives that only libarchive reads. */
#pragma once

#include "io/spool.h"

struct unpack {
    uint64_t max_bytes; /* that may still be unpacked: unpack_archive subtracts the size of each member */
    /* member - is called for each file of the archive. NAME is valid until it returns. Any status but
     * CKPT_OK stops. */
    ckpt_status (*member)(void *user, ckpt_str name, source *bytes, ckpt_error *err);
    void *user;
    uint64_t bytes_read;    /* of the source */
    bool is_decoder_failed; /* after CKPT_EUNSUPPORTED: a decoder failed, so compressed data are damaged */
};

/* unpack_archive - unpacks every member of SRC. CKPT_EUNSUPPORTED: there is no libarchive, or SRC is
 * encrypted or of a kind not read here; CKPT_EFORMAT: damaged; CKPT_ELIMIT: more than max_bytes. */
ckpt_status unpack_archive(source *src, struct unpack *unpack, ckpt_error *err);
/* unpack_zstd - decompresses SRC, which must be zstd frames and nothing else, and appends the result to TO.
 * CKPT_EFORMAT: damaged, or no frame; CKPT_ELIMIT: TO is full; CKPT_EUNSUPPORTED: there is no libarchive, or
 * it lacks zstd. */
ckpt_status unpack_zstd(source *src, spool *to, ckpt_error *err);
/* Kinds of compressed files: their methods in a zip. */
enum unpack_method { UNPACK_BZIP2 = 12, UNPACK_LZMA = 14, UNPACK_ZSTD = 93, UNPACK_XZ = 95 };
/* unpack_truncated - decompresses SRC, a file of METHOD that ends too early, up to its end, and appends the
 * result to TO. libarchive's filters, which the functions above use, drop a block of the result that is not
 * full when they fail; its reader of zip returns all that was decoded, so SRC is read as a member of a zip.
 * Also succeeds if the data are damaged; TO then has what precedes the damage. CKPT_ELIMIT: TO is full;
 * CKPT_EUNSUPPORTED: there is no libarchive. */
ckpt_status unpack_truncated(source *src, enum unpack_method method, spool *to, ckpt_error *err);
/* unpack_archive_available - returns true if libarchive is installed. Loads it, so that it can also be used
 * after a sandbox has forbidden opening files. */
bool unpack_archive_available(void);
