/* zip_inflate.h - inflates deflated members by libzip. It does not include codec/zip.h: libzip has the same
 * names (zip_open, struct zip), so no file may include both. */
#ifndef CODEC_ZIP_INFLATE_H
#define CODEC_ZIP_INFLATE_H

#include "io/source.h"

typedef struct inflater inflater;

/* inflater_open - opens ARCHIVE, which it takes over; all of its bytes are one archive. */
ckpt_status inflater_open(source *archive, inflater **out, ckpt_error *err);
/* inflater_has_method - does the libzip here unpack members of zip's compression METHOD? */
bool inflater_has_method(uint16_t method);
void inflater_close(inflater *f); /* NULL is allowed */
/* inflater_open_member - entry INDEX of the directory, which must have this NAME and SIZE, as a source of
 * SIZE bytes. POS is the file offset of its deflated bytes, for errors. Reading forward is one pass;
 * reading backward starts again, but a member of up to 256 KiB is kept while it is the last one read. */
ckpt_status inflater_open_member(inflater *f, size_t index, ckpt_str name, uint64_t size, uint64_t pos,
                                 source **out, ckpt_error *err);

#endif
