/* replace.h - replaces a set of shards by a new one, so that readers find one of the two complete at every
 * moment, even after a run was killed. */
#pragma once

#include "base/arena.h"
#include "base/error.h"

/* A set that is being replaced. */
struct replaced;

/* replaced_begin - gives the files of the old set second names, so that the caller can move the COUNT files
 * at PATHS (shards, then the index) into place. The shards are named STEM-00001-of-00002EXT and so on. If it
 * fails, nothing has changed. */
ckpt_status replaced_begin(const char *const *paths, size_t count, const char *stem, const char *ext,
                           bool sync, struct replaced **out, ckpt_error *err);
/* replaced_undo - restores the old set after the first PLACED new files were moved into place. New files that
 * replaced no old file are removed. Frees REPLACED. */
void replaced_undo(struct replaced *replaced, size_t placed);
/* replaced_remove_index - removes the old index after a single file has replaced the set. False: the index
 * still exists; errno is set. */
bool replaced_remove_index(const struct replaced *replaced);
/* replaced_done - removes the files that only the old set has, after all new files are in place. Frees
 * REPLACED, which may be NULL. */
void replaced_done(struct replaced *replaced);
