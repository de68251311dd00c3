/* pickle.h - reads a bare pickle, for joblib's files. */
#ifndef FORMAT_TORCH_PICKLE_H
#define FORMAT_TORCH_PICKLE_H

#include "core/file.h"

/* torch_read_pickle - fills F from SRC, a file of one pickle, in which joblib may have put arrays. SRC must
 * live as long as F. */
ckpt_status torch_read_pickle(ckpt_file *f, source *src, ckpt_error *err);

#endif
