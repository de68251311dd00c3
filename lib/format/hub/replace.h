/* replace.h - a set of shards in the place of an older one: whoever reads meets one of them
 * whole at every moment, and so does who comes behind a run that was killed. */
#ifndef FORMAT_HUB_REPLACE_H
#define FORMAT_HUB_REPLACE_H

#include "base/arena.h"
#include "base/error.h"

struct replaced;

/* replaced_begin - before the first of the N files at PATHS, the index behind its shards, takes
 * its place: the old set gets other names. STEM and EXT: as in STEM-00001-of-00002EXT. On
 * failure nothing has changed. */
ckpt_status replaced_begin(const char *const *paths, size_t n, const char *stem, const char *ext, bool sync,
                           struct replaced **out, ckpt_error *err);
/* replaced_undo - the first PLACED of the new files are in their places and the others will never
 * be: the old set comes back, and what had a free place goes. Frees R. */
void replaced_undo(struct replaced *r, size_t placed);
/* replaced_by_one - the new file is a checkpoint by itself and needs no index: the old one, the last
 * of PATHS, goes, and with it the old set. False (errno): it is still there. */
bool replaced_by_one(const struct replaced *r);
/* replaced_done - all are there: what only the old set had goes. Frees R. */
void replaced_done(struct replaced *r);

#endif
