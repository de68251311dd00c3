/* zip_patch.h - computes patches that change one stored member of an archive in place; io/journal writes
 * them. Refuses an archive that has more than the end records after its central directory. The patches are
 * in the arena of the zip. */
#pragma once

#include "codec/zip.h"
#include "io/journal.h"

/* zip_patch_replace - replaces the payload of entry INDEX by BYTES of the same length: payload and CRC-32
 * change, every size and offset stays. */
ckpt_status zip_patch_replace(zip *archive, size_t index, ckpt_str bytes, struct patches *out,
                              ckpt_error *err);
/* zip_patch_append - renames entry INDEX to NEW_NAME, which must be as long as its name, and appends an entry
 * with the old name and the payload BYTES. That entry overwrites the central directory, and a new central
 * directory follows it, so that no byte of the file is unused. */
ckpt_status zip_patch_append(zip *archive, size_t index, ckpt_str new_name, ckpt_str bytes,
                             struct patches *out, ckpt_error *err);
/* zip_patch_undoes - returns true if UNDO restores exactly what zip_patch_replace or zip_patch_append of
 * entry INDEX changes. NOW is the file, ARCHIVE the archive that UNDO would make of it. The local headers,
 * which UNDO does not change, must match the central directory of ARCHIVE. */
bool zip_patch_undoes(zip *archive, size_t index, source *now, const struct patches *undo);
/* zip_patch_is_consistent - returns true if the payload of entry INDEX, its CRC-32 and all local headers
 * match the central directory. */
bool zip_patch_is_consistent(zip *archive, size_t index);
