/* zip_salvage.h - finds what is intact in a truncated or damaged archive. */
#ifndef CODEC_ZIP_SALVAGE_H
#define CODEC_ZIP_SALVAGE_H

#include "codec/zip.h"

/* zip_salvage - opens an archive like zip_open, by its directory if that is valid, else by its local headers.
 * Reads every record and compares its checksum. Sets the fault of each record that is not intact;
 * zip_open_member fails with this fault. */
ckpt_status zip_salvage(source *src, arena *a, zip **out, ckpt_error *err);

#endif
