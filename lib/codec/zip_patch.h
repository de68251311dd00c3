/* zip_patch.h - one stored member of an archive changed where it stands: what to
 * write, not the writing. Only archives of which every byte behind the directory's
 * begin is known are touched; what is handed out lives in the zip's arena. */
#ifndef CODEC_ZIP_PATCH_H
#define CODEC_ZIP_PATCH_H

#include "codec/zip.h"
#include "io/journal.h"

/* zip_patch_replace - entry I holds BYTES, as many as before: payload and CRC-32
 * change, every size and offset stays. */
ckpt_status zip_patch_replace(zip *z, size_t i, ckpt_str bytes, struct patches *out, ckpt_error *err);
/* zip_patch_append - entry I is called ASIDE, which is as long as its name, and a new
 * entry of its name behind all others holds BYTES. It takes the place of the old
 * directory, so no byte is left that the new one does not tell of. */
ckpt_status zip_patch_append(zip *z, size_t i, ckpt_str aside, ckpt_str bytes, struct patches *out,
                             ckpt_error *err);
/* zip_patch_undoes - does UNDO put back what zip_patch_replace or zip_patch_append of entry I has changed, or
 * was about to, to make NOW of Z? The local headers show that Z holds the members that NOW has. */
bool zip_patch_undoes(zip *z, size_t i, source *now, const struct patches *undo);
/* zip_patch_is_intact - do all places in Z that a patch of entry I changes agree with each other? */
bool zip_patch_is_intact(zip *z, size_t i);

#endif
