/* legacy.h - reads a storage that a bare pickle holds as a legacy stream. */
#ifndef FORMAT_TORCH_LEGACY_H
#define FORMAT_TORCH_LEGACY_H

#include "core/file.h"

/* torch_read_legacy_storage - reads BYTES, the argument of torch.storage._load_from_bytes: a legacy stream
 * whose main pickle is one storage. Sets src (takes a reference), off, dtype, numel, nbytes and location
 * of S. */
ckpt_status torch_read_legacy_storage(ckpt_file *f, source *bytes, struct storage *s, ckpt_error *err);

#endif
