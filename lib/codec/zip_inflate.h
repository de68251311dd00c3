/* zip_inflate.h - opens the compressed members of an archive as sources. It does not include codec/zip.h,
 * which has names that libzip's zip.h has, too (zip_open, struct zip): no file may include these two. */
#pragma once

#include "io/source.h"

typedef struct inflater inflater;

/* inflater_new - returns what opens the members of ARCHIVE, which must hold one archive and nothing else if
 * any of them is_listed. NULL: out of memory. Takes over ARCHIVE, also then. */
inflater *inflater_new(source *archive);
/* inflater_has_method - returns true if this libzip can unpack members of zip's compression METHOD. */
bool inflater_has_method(uint16_t method);
/* inflater_available - returns true if libzip is installed. Loads it, so that it can also be used after a
 * sandbox has forbidden opening files. */
bool inflater_available(void);
void inflater_close(inflater *inflate); /* NULL is allowed */

/* A compressed member. */
struct inflater_member {
    ckpt_str name;
    uint64_t size; /* of its bytes when they are decompressed */
    source *src;   /* has CSIZE compressed bytes at DATA; must outlive the member */
    uint64_t data, csize;
    bool is_deflated; /* else libzip decompresses it */
    bool is_listed;   /* libzip must find NAME and SIZE as entry INDEX of the central directory */
    size_t index;
};

/* inflater_open_member - opens MEMBER as a source. Reading forward is one pass; reading backward starts
 * again. A member of up to 256 KiB is cached until another such one is read. */
ckpt_status inflater_open_member(inflater *inflate, const struct inflater_member *member, source **out,
                                 ckpt_error *err);
