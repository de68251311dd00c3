/* pickle.h - reads a bare pickle. */
#pragma once

#include "core/file.h"

/* pickle_read_bare - fills F from SRC, a file of one pickle, in which joblib may have put arrays. SRC must
 * live as long as F. */
ckpt_status pickle_read_bare(ckpt_file *f, source *src, ckpt_error *err);
