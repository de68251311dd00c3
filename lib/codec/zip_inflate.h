/* zip_inflate.h - inflates deflated members by libzip. It does not include codec/zip.h, which has names
 * that libzip's zip.h has, too (zip_open, struct zip): no file may include these two. */
#ifndef CODEC_ZIP_INFLATE_H
#define CODEC_ZIP_INFLATE_H

#include "io/source.h"

typedef struct inflater inflater;

/* inflater_open - opens ARCHIVE, which must hold one archive and nothing else. The inflater releases ARCHIVE,
 * also after a failure here. */
ckpt_status inflater_open(source *archive, inflater **out, ckpt_error *err);
/* inflater_has_method - returns true if this libzip can unpack members of zip's compression METHOD. */
bool inflater_has_method(uint16_t method);
/* inflater_available - returns true if libzip is installed. Loads it, so that it can also be used after a
 * sandbox has forbidden opening files. */
bool inflater_available(void);
void inflater_close(inflater *f); /* NULL is allowed */
/* inflater_open_member - opens entry INDEX of the central directory as a source. The entry must have this
 * NAME and SIZE. POS is the file offset of its deflated bytes, for errors. Reading forward is one pass;
 * reading backward starts again. A member of up to 256 KiB is cached until another such one is read. */
ckpt_status inflater_open_member(inflater *f, size_t index, ckpt_str name, uint64_t size, uint64_t pos,
                                 source **out, ckpt_error *err);

#endif
