/* legacy.h - reads a storage that torch.save wrote as a legacy stream inside a pickle. */
#ifndef FORMAT_TORCH_LEGACY_H
#define FORMAT_TORCH_LEGACY_H

#include "format/torch/graph.h"

/* torch_legacy_storage - reads BYTES, the argument of torch.storage._load_from_bytes: a legacy stream whose
 * main pickle is one storage. Sets src (takes a reference), off, dtype, numel, s.nbytes and s.location of
 * S. */
ckpt_status torch_legacy_storage(ckpt_file *f, source *bytes, struct storage *s, ckpt_error *err);

#endif
