/* gather.h - reads the elements of a view in row-major order, whatever its strides, in a few large reads. */
#pragma once

#include "core/table.h"

#define GATHER_MAX_DIMS 64 /* the product of more sizes above 1 does not fit 64 bits */

struct gather_dim {
    uint64_t size;
    uint64_t stride;     /* elements of the storage from one index to the next */
    uint64_t out_stride; /* elements of the output from one index to the next */
};

struct gather {
    source *src;
    uint64_t data_offset; /* byte of src at which the first element of the view begins */
    uint32_t width;       /* bytes of an element, at most 64 */
    uint32_t ndim;        /* without those of size 1; adjacent dimensions are merged if possible */
    struct gather_dim dim[GATHER_MAX_DIMS]; /* outermost first */
    unsigned char *window;                  /* allocated on first use */
};

/* gather_init - sets the dimensions of GATHER to the shape and strides of TENSOR; false: more than 2^64
 * elements. The caller sets src, data_offset and width, and has checked the view against its storage. */
bool gather_init(struct gather *gather, const ckpt_tensor *tensor);
/* gather_split - splits each element of GATHER into COUNT consecutive units; false: more than 2^64 units. */
bool gather_split(struct gather *gather, uint64_t count);
/* gather_set_contiguous - makes GATHER a run of COUNT units that are contiguous in the storage. */
void gather_set_contiguous(struct gather *gather, uint64_t count);
void gather_free(struct gather *gather);
/* gather_is_contiguous - returns true if the elements are contiguous in the storage. */
bool gather_is_contiguous(const struct gather *gather);
/* gather_period - returns the number of elements after which the output repeats, for a view that is
 * expanded in its outermost dimension; 0: it is not expanded there. */
uint64_t gather_period(const struct gather *gather);
/* gather_block_size - returns how many bytes a call of gather_read should read at most, for speed. */
size_t gather_block_size(const struct gather *gather);
/* gather_read - reads COUNT elements from FIRST, which must exist, to OUT. */
ckpt_status gather_read(struct gather *gather, uint64_t first, uint64_t count, unsigned char *out,
                        ckpt_error *err);
/* gather_scatter - copies all elements of IN, which have WIDTH bytes each, to their positions in OUT, as the
 * NDIM >= 1 dimensions describe. */
void gather_scatter(const struct gather_dim *dim, uint32_t ndim, const unsigned char *in, unsigned char *out,
                    size_t width);
/* gather_copy - copies all elements of GATHER, whose dimensions may be in any order, to OUT by their
 * out_stride; there may be gaps in OUT. */
ckpt_status gather_copy(struct gather *gather, unsigned char *out, ckpt_error *err);
