/* zip_salvage.h - what is still whole in a cut or damaged archive. */
#ifndef CODEC_ZIP_SALVAGE_H
#define CODEC_ZIP_SALVAGE_H

#include "codec/zip.h"

/* zip_salvage - like zip_open, of any archive that has a local header: by its directory
 * where that holds, else by what stands in the file. Every record is read and held
 * against its checksum; those that are not whole have a fault, and are refused by
 * zip_member with it. */
ckpt_status zip_salvage(source *src, arena *a, zip **out, ckpt_error *err);

#endif
