/* zip_inflate.h - deflated members through libzip. It knows nothing of codec/zip.h:
 * the two libraries share names (zip_open, struct zip), so no file sees both. */
#ifndef CODEC_ZIP_INFLATE_H
#define CODEC_ZIP_INFLATE_H

#include "io/source.h"

typedef struct inflater inflater;

/* inflater_open - opens the archive that ARCHIVE, which it takes over, holds
 * from its first to its last byte. */
ckpt_status inflater_open(source *archive, inflater **out, ckpt_error *err);
void inflater_close(inflater *f); /* NULL is allowed */
/* inflater_member - entry INDEX of the directory, which must have this NAME and
 * SIZE, as a source of SIZE bytes. POS is where its deflated bytes lie, for
 * errors. Forward reading is one pass; going back starts again, but members of
 * up to 256 KiB are kept whole while they are the last one read. */
ckpt_status inflater_member(inflater *f, size_t index, ckpt_str name, uint64_t size, uint64_t pos,
                            source **out, ckpt_error *err);

#endif
