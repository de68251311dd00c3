/* legacy.h - the stream format, where other formats meet it. */
#ifndef FORMAT_TORCH_LEGACY_H
#define FORMAT_TORCH_LEGACY_H

#include "format/torch/graph.h"

/* torch_legacy_storage - a stream whose main pickle is one bare storage, as
 * torch.storage._load_from_bytes takes it: fills src (a reference to keep),
 * off, dtype, numel, s.nbytes and s.location. */
ckpt_status torch_legacy_storage(ckpt_file *f, source *bytes, struct storage *s, ckpt_error *err);

#endif
