/* arrays.h - reads the Zarr arrays in a key-value store as tensors of a file. */
#pragma once

#include "format/parts/sharded_tensors.h"
#include "format/zarr/store.h"
#include "io/block_cache.h"

/* An array as a tensor of the file. */
struct zarr_tensor {
    struct joined_tensor joined; /* without name and node */
    ckpt_str why_unreadable;     /* empty: it can be read */
};

struct zarr_arrays {
    ckpt_file *f; /* must be first, for part_graph_find_storage */
    ckpt_error *err;
    block_cache *cache;
    struct zarr_tensor *tensors;
    size_t ntensors, cap;
    bool lists_unsupported;     /* what is not supported becomes a row without data; else it is refused */
    size_t nunsupported;        /* how many such arrays there are */
    ckpt_str first_unsupported; /* name of the first one */
};

/* What the elements of a missing chunk are. */
enum zarr_missing {
    MISSING_FILL,  /* the fill value; an error if the array has none */
    MISSING_ZERO,  /* the fill value, or 0 if the array has none */
    MISSING_FAULT, /* an error, because the writer wrote all chunks */
};

ckpt_status zarr_arrays_begin(struct zarr_arrays *arrays, ckpt_file *f, ckpt_error *err);
void zarr_arrays_end(struct zarr_arrays *arrays);
/* Where an array is: under the keys of STORE that begin with PREFIX. NAME is its name in messages. */
struct zarr_source {
    struct store *store;
    ckpt_str prefix, name;
    enum zarr_missing missing;
};
/* zarr_add_array - sets *NODE to a new tensor for the array FROM. A fault of the array makes the tensor lost
 * if the file is salvaged, is reported if the file is checked, and otherwise is returned. */
ckpt_status zarr_add_array(struct zarr_arrays *arrays, const struct zarr_source *from, ckpt_value **node);
/* zarr_read_scalar - sets *NODE to the number in the array FROM. If that has dimensions, or a dtype that no
 * number of the graph has, does what zarr_add_array does. *NODE is NULL if the number is lost. */
ckpt_status zarr_read_scalar(struct zarr_arrays *arrays, const struct zarr_source *from, ckpt_value **node);
/* zarr_add_bytes - sets *NODE to a new tensor of bytes for the value of entry INDEX of STORE. */
ckpt_status zarr_add_bytes(struct zarr_arrays *arrays, struct store *store, size_t index, ckpt_value **node);
/* zarr_arrays_make_graph - makes ROOT, which holds the nodes of all arrays, the graph of the file, and adds
 * its tensors to the table. */
ckpt_status zarr_arrays_make_graph(struct zarr_arrays *arrays, ckpt_value *root);
