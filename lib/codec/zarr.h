/* zarr.h - Zarr arrays of version 2 and 3: their metadata, the keys of their chunks, what chunks decode to.
 * */
#ifndef CODEC_ZARR_H
#define CODEC_ZARR_H

#include "core/dtype.h"
#include "core/value.h"
#include "io/spool.h"

#define ZARR_DIMS   32u
#define ZARR_CODECS 8u

enum zarr_codec { ZARR_ZSTD, ZARR_GZIP, ZARR_ZLIB, ZARR_BLOSC, ZARR_CRC32C };

/* How the elements of a chunk are stored. */
struct zarr_encoding {
    uint8_t order[ZARR_DIMS]; /* the dimensions of the array, the slowest first */
    bool big_endian;
    enum zarr_codec codec[ZARR_CODECS]; /* in the order in which they were applied */
    unsigned n;
    uint64_t bytes; /* of a chunk when it is decoded */
};

struct zarr_array {
    uint32_t ndim;
    uint64_t *shape;
    uint64_t *chunk; /* what one key has */
    uint64_t *inner; /* what is encoded by itself: parts of a shard; else the same as CHUNK */
    bool sharded;    /* each key has an index and parts */
    bool index_first, index_crc, index_big_endian;
    uint64_t parts; /* of a shard, or 1 */
    const char *separator;
    bool c_before; /* keys begin with "c" */
    ckpt_dtype dtype;
    uint32_t width;  /* bytes of an element */
    uint64_t nbytes; /* of all elements */
    struct zarr_encoding encoding;
    bool filled; /* FILL is what elements of missing chunks are, in the byte order of others */
    unsigned char fill[16];
};

#define ZARR_V2 ".zarray"
#define ZARR_V3 "zarr.json"

/* zarr_read - *OUT: the array whose metadata TEXT is, that of ZARR_V3 if V3, in A. Refuses more than 2^63
 * bytes, chunks without elements, and by their names codecs and dtypes that are not read here. */
ckpt_status zarr_read(ckpt_str text, bool v3, arena *a, struct zarr_array *out, ckpt_error *err);
/* zarr_chunk_of - is KEY, which follows that of the array Z, the key of one of its chunks? Then AT is the
 * first element of it. */
bool zarr_chunk_of(const struct zarr_array *z, ckpt_str key, uint64_t *at);
/* zarr_strides - the strides, in elements, of what is encoded by itself, by dimension. */
void zarr_strides(const struct zarr_array *z, uint64_t *stride);
/* zarr_decode - appends to TO the elements that STORED, encoded as E describes, decodes to. */
ckpt_status zarr_decode(const struct zarr_encoding *e, source *stored, spool *to, ckpt_error *err);
/* zarr_checks - do the stored bytes have checksums that are compared when they are decoded? */
bool zarr_checks(const struct zarr_encoding *e);

/* A part of a shard: N bytes at AT of it. */
struct zarr_part {
    uint64_t at, n; /* both UINT64_MAX: it is missing */
};

/* zarr_index - *OUT: the parts of a shard, N bytes at AT of SRC, in A. Refuses parts beyond its end. */
ckpt_status zarr_index(const struct zarr_array *z, source *src, uint64_t at, uint64_t n, arena *a,
                       struct zarr_part **out, ckpt_error *err);

#endif
