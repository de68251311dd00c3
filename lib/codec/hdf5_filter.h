/* hdf5_filter.h - what the files that undo filters of HDF5 share. */
#pragma once

#include "base/cursor.h"
#include "codec/hdf5.h"

/* The input of a filter: the first N bytes of SRC. */
struct hdf5_input {
    source *src;
    uint64_t n;
};

/* hdf5_fail_chunk - fails because the chunk has WHAT, which its filters would not have written. */
ckpt_status hdf5_fail_chunk(const struct hdf5_input *in, ckpt_error *err, const char *what);
/* hdf5_undo_shuffle - undoes shuffle for elements of UNIT bytes, and appends them to TO. */
ckpt_status hdf5_undo_shuffle(const struct hdf5_input *in, uint32_t unit, spool *to, ckpt_error *err);
/* hdf5_decompress - undoes FILTER, any filter but those of hdf5_filter.c, and appends the result, of at most
 * MAX_BYTES, to TO. It loads IN into memory, and refuses one that is much larger than the result. */
ckpt_status hdf5_decompress(const struct hdf5_filter *filter, const struct hdf5_input *in, uint64_t max_bytes,
                            spool *to, ckpt_error *err);
/* hdf5_undo_scaleoffset - undoes the filter scaleoffset for the numbers in INPUT, and appends them to TO. */
ckpt_status hdf5_undo_scaleoffset(const struct hdf5_filter *filter, const struct hdf5_input *in, cursor input,
                                  spool *to, ckpt_error *err);
/* hdf5_undo_szip - undoes the filter szip for the data in INPUT, and appends the result, of at most
 * MAX_BYTES, to TO. */
ckpt_status hdf5_undo_szip(const struct hdf5_filter *filter, const struct hdf5_input *in, cursor input,
                           uint64_t max_bytes, spool *to, ckpt_error *err);
/* hdf5_undo_nbit - does the same for the filter nbit. */
ckpt_status hdf5_undo_nbit(const struct hdf5_filter *filter, const struct hdf5_input *in, cursor input,
                           uint64_t max_bytes, spool *to, ckpt_error *err);
