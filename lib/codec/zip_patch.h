/* zip_patch.h - patches that change one stored member of an archive in place, for io/journal to write. Only
 * for archives in which every byte from the directory on is known. The patches are in the arena of the
 * zip. */
#ifndef CODEC_ZIP_PATCH_H
#define CODEC_ZIP_PATCH_H

#include "codec/zip.h"
#include "io/journal.h"

/* zip_patch_replace - replaces the payload of entry I by BYTES of the same length: payload and CRC-32
 * change, every size and offset stays. */
ckpt_status zip_patch_replace(zip *z, size_t i, ckpt_str bytes, struct patches *out, ckpt_error *err);
/* zip_patch_append - renames entry I to ASIDE, which is as long as its name, and appends a new entry with
 * that name and BYTES. It overwrites the old directory, so that every byte belongs to an entry of the new
 * one. */
ckpt_status zip_patch_append(zip *z, size_t i, ckpt_str aside, ckpt_str bytes, struct patches *out,
                             ckpt_error *err);
/* zip_patch_undoes - would UNDO restore exactly what zip_patch_replace or zip_patch_append of entry I
 * changes? Z is the archive after UNDO, NOW before; the local headers show that both have the same
 * members. */
bool zip_patch_undoes(zip *z, size_t i, source *now, const struct patches *undo);
/* zip_patch_is_consistent - do all fields of Z that a patch of entry I would change agree with each other? */
bool zip_patch_is_consistent(zip *z, size_t i);

#endif
