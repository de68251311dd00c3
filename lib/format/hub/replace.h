/* replace.h - replaces a set of shards by a new one: readers find one of them complete at every moment,
 * even after a run was killed. */
#ifndef FORMAT_HUB_REPLACE_H
#define FORMAT_HUB_REPLACE_H

#include "base/arena.h"
#include "base/error.h"

struct replaced;

/* replaced_begin - gives the files of the old set other names, before the first of the N files at PATHS
 * (shards, then the index) is moved into place. STEM and EXT: as in STEM-00001-of-00002EXT. On failure
 * nothing has changed. */
ckpt_status replaced_begin(const char *const *paths, size_t n, const char *stem, const char *ext, bool sync,
                           struct replaced **out, ckpt_error *err);
/* replaced_undo - restores the old set, after only the first PLACED of the new files were moved into place;
 * those without an old file are removed. Frees R. */
void replaced_undo(struct replaced *r, size_t placed);
/* replaced_by_one - removes the old index, the last of PATHS, after a single file replaced the set. False
 * (errno): it is still there. */
bool replaced_by_one(const struct replaced *r);
/* replaced_done - all new files are in place: removes what only the old set had. Frees R. */
void replaced_done(struct replaced *r);

#endif
