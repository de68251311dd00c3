/* zarr.h - Zarr arrays of versions 2 and 3: reads their metadata and the keys of their chunks, and decodes
 * chunks. */
#pragma once

#include "core/value.h"
#include "io/spool.h"

#define ZARR_DIMS   32u
#define ZARR_CODECS 8u

enum zarr_codec { ZARR_ZSTD, ZARR_GZIP, ZARR_ZLIB, ZARR_BLOSC, ZARR_CRC32C };

/* How the elements of a chunk are stored. */
struct zarr_encoding {
    uint8_t order[ZARR_DIMS]; /* the dimensions of the array, the slowest first */
    bool big_endian;
    enum zarr_codec codecs[ZARR_CODECS]; /* in the order in which they were applied */
    unsigned ncodecs;
    uint64_t decoded_bytes; /* size of a decoded chunk */
};

struct zarr_array {
    uint32_t ndim;
    uint64_t *shape;
    uint64_t *key_shape;   /* of what one key stores: a shard if is_sharded, else a chunk */
    uint64_t *chunk_shape; /* of a chunk; if there are shards, of a chunk in a shard */
    bool is_sharded;       /* the value of a key is an index and the chunks of a shard */
    bool index_is_first;   /* the index is before the chunks, else after them */
    bool index_has_crc, index_big_endian;
    uint64_t chunks_in_shard; /* 1 if not sharded */
    const char *separator;
    bool keys_begin_with_c;
    ckpt_dtype dtype;
    uint32_t element_size;
    uint64_t nbytes; /* of all elements */
    struct zarr_encoding encoding;
    bool has_fill; /* missing elements are FILL, which is in the byte order of the array */
    unsigned char fill[16];
};

#define ZARR_V2 ".zarray"
#define ZARR_V3 "zarr.json"

/* zarr_read - sets *OUT to the array whose metadata are TEXT, the content of ZARR_V3 if V3, else of ZARR_V2.
 * Allocates from A. Refuses 2^63 bytes or more, and chunks without elements. Errors name the codecs and
 * dtypes that are not supported. */
ckpt_status zarr_read(ckpt_str text, bool v3, arena *a, struct zarr_array *out, ckpt_error *err);
/* zarr_is_chunk_key - returns true if KEY, without the prefix of the array ARRAY, is the key of one of its
 * chunks (or shards), and sets FIRST to the index of the first element there, by dimension. */
bool zarr_is_chunk_key(const struct zarr_array *array, ckpt_str key, uint64_t *first);
/* zarr_get_strides - sets STRIDE to the strides of the elements in a decoded chunk, by dimension. */
void zarr_get_strides(const struct zarr_array *array, uint64_t *stride);
/* zarr_decode - decodes STORED, which is encoded as ENCODING describes, and appends the elements to TO. */
ckpt_status zarr_decode(const struct zarr_encoding *encoding, source *stored, spool *to, ckpt_error *err);
/* zarr_has_checksums - returns true if the stored bytes have checksums, which zarr_decode compares. */
bool zarr_has_checksums(const struct zarr_encoding *encoding);

/* A chunk in a shard. */
struct zarr_stored_chunk {
    uint64_t at, nbytes; /* offset in the shard, and size; both UINT64_MAX: the chunk is missing */
};

/* zarr_read_index - reads the index of the shard in the NBYTES bytes at AT of SRC. Sets *OUT to the
 * ARRAY->chunks_in_shard chunks of the shard, allocated from A. Refuses a chunk that ends after the shard. */
ckpt_status zarr_read_index(const struct zarr_array *array, source *src, uint64_t at, uint64_t nbytes,
                            arena *a, struct zarr_stored_chunk **out, ckpt_error *err);
