/* megatron_zarr.h - recognizes Megatron-LM's checkpoints of its back end zarr. */
#ifndef FORMAT_DISTRIBUTED_MEGATRON_ZARR_H
#define FORMAT_DISTRIBUTED_MEGATRON_ZARR_H

#include "io/source.h"

/* megatron_is_zarr - returns true if FOLDER is such a checkpoint, in ARCHIVE or, if that is NULL, on disk. */
bool megatron_is_zarr(source *archive, const char *folder);

#endif
