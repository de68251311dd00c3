/* legacy.h - the legacy stream inside other formats. */
#ifndef FORMAT_TORCH_LEGACY_H
#define FORMAT_TORCH_LEGACY_H

#include "format/torch/graph.h"

/* torch_legacy_storage - reads a stream whose main pickle is one storage, as torch.storage._load_from_bytes
 * takes it: sets src (takes a reference), off, dtype, numel, s.nbytes and s.location. */
ckpt_status torch_legacy_storage(ckpt_file *f, source *bytes, struct storage *s, ckpt_error *err);

#endif
