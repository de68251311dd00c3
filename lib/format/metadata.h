/* metadata.h - the metadata of a file: keys with texts. */
#pragma once

#include "core/plan.h"

/* metadata_check_text - fails if the key or the text of PAIR is not UTF-8. */
ckpt_status metadata_check_text(const ckpt_pair *pair, ckpt_error *err);
/* metadata_drop - notes in P that the metadata of a safetensors header or an index are dropped, because
 * a torch file cannot hold them; if STRICT, fails. The key "format", which a torch file does not need, and
 * ties, which become shared storages, are not noted. */
ckpt_status metadata_drop(ckpt_plan *p, bool strict, ckpt_error *err);
