/* arrays.h - Zarr's arrays in a store, as tensors of a file. */
#ifndef FORMAT_ZARR_ARRAYS_H
#define FORMAT_ZARR_ARRAYS_H

#include "format/store.h"
#include "io/block_cache.h"

struct zarr_tensor {
    ckpt_dtype dtype;
    uint32_t ndim;
    const uint64_t *shape; /* NULL: not known */
    uint32_t storage;
};

struct zarr_arrays {
    ckpt_file *f;
    ckpt_error *err;
    block_cache *cache;
    struct zarr_tensor *tensor;
    size_t n, cap;
};

/* What an array has where a chunk is missing. */
enum zarr_missing {
    MISSING_FILL,  /* its fill value; a fault where it has none */
    MISSING_ZERO,  /* the same, but 0 where it has none */
    MISSING_FAULT, /* all chunks were written */
};

ckpt_status zarr_arrays_begin(struct zarr_arrays *x, ckpt_file *f, ckpt_error *err);
void zarr_arrays_end(struct zarr_arrays *x);
/* An array: the keys of S that begin with PREFIX, by its NAME in the file. */
struct zarr_source {
    struct store *s;
    ckpt_str prefix, name;
    enum zarr_missing missing;
};
/* zarr_array_add - *NODE: the tensor that FROM is. What is wrong with it is the error, is reported where the
 * file is checked, and makes it lost where it is salvaged. */
ckpt_status zarr_array_add(struct zarr_arrays *x, const struct zarr_source *from, ckpt_value **node);
/* zarr_scalar_read - *NODE: the number that FROM, an array of one element, is. */
ckpt_status zarr_scalar_read(struct zarr_arrays *x, const struct zarr_source *from, ckpt_value **node);
/* zarr_bytes_add - *NODE: the value of entry I of S as a tensor of bytes. */
ckpt_status zarr_bytes_add(struct zarr_arrays *x, struct store *s, size_t i, ckpt_value **node);
/* zarr_arrays_graph - ROOT, with all those nodes, is what the file has. */
ckpt_status zarr_arrays_graph(struct zarr_arrays *x, ckpt_value *root);

#endif
