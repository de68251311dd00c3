/* zip_salvage.h - finds what is intact in a truncated or damaged archive. */
#ifndef CODEC_ZIP_SALVAGE_H
#define CODEC_ZIP_SALVAGE_H

#include "codec/zip.h"

/* zip_salvage - like zip_open, for any archive that has a local header: by its directory if that is valid,
 * else by the local headers. Every record is read and its checksum compared; one that is not intact has a
 * fault, with which zip_open_member refuses it. */
ckpt_status zip_salvage(source *src, arena *a, zip **out, ckpt_error *err);

#endif
