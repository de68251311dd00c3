/* hdf5.h - HDF5, read: what a file has in its groups, each object with all that its bytes take to be read.
 * It is the part of HDF5 that Keras and h5py write; the rest is refused by name. No other file is opened. */
#ifndef CODEC_HDF5_H
#define CODEC_HDF5_H

#include "base/arena.h"
#include "core/value.h"
#include "io/block_cache.h"

#define HDF5_MAX_RANK    32u
#define HDF5_MAX_FILTERS 4u /* deflate, shuffle, fletcher32, lzf: each once */

struct hdf5_type {
    enum {
        HDF5_NUMBER,     /* dtype */
        HDF5_LONGDOUBLE, /* of x86-64, in 16 bytes */
        HDF5_FIXED_TEXT,
        HDF5_TEXT, /* of any length */
        HDF5_OPAQUE,
        HDF5_RECORD,
        HDF5_OTHER
    } kind;
    ckpt_dtype dtype;
    bool big_endian;
    bool is_short_float; /* dtype is FLOAT32, but each element has the two bytes of a bfloat16 */
    bool space_padded;   /* of FIXED_TEXT; else NULs end it */
    uint32_t size;       /* bytes of an element as it is stored */
    ckpt_str what;       /* of RECORD: its fields; of OTHER: its name */
};

enum hdf5_filter_id { HDF5_DEFLATE = 1, HDF5_SHUFFLE = 2, HDF5_FLETCHER32 = 3, HDF5_LZF = 32000 };

struct hdf5_filter {
    uint16_t id;
    uint32_t unit; /* of shuffle: bytes of an element */
};

struct hdf5_chunk {
    uint64_t at, stored;
    uint32_t skipped; /* bit I: filter I was not applied */
};

struct hdf5_dataset {
    ckpt_str path;   /* without the first '/' */
    uint64_t header; /* address of its object header: data sets of one header are one */
    source *src;     /* what AT and the chunks count in */
    struct hdf5_type type;
    bool is_null; /* it has no elements and no shape */
    uint32_t ndim;
    const uint64_t *shape;
    const char *refused; /* why it cannot be read; NULL: it can */
    bool is_elsewhere;   /* its elements are in other files: set where it is refused for that */
    bool unwritten;      /* no bytes are stored: all elements are FILL */
    const void *fill;    /* an element as it is stored */
    uint64_t at, nbytes; /* if not chunked: its bytes */
    ckpt_str texts;      /* of FIXED_TEXT and TEXT: length (64 bits, little-endian) and bytes of each */
    bool chunked;
    const uint64_t *chunk_shape;
    const struct hdf5_chunk *chunk;
    const uint64_t *chunk_offset; /* NDIM for each chunk */
    size_t nchunks;
    uint64_t chunk_bytes; /* decoded */
    uint32_t nfilters;
    struct hdf5_filter filter[HDF5_MAX_FILTERS]; /* in the order in which they were applied */
};

/* What hdf5_visit finds; all that is passed lives until the callback returns, but for what is in the arena:
 * paths, values, shapes and texts. Any of them may be NULL but fault. */
struct hdf5_visitor {
    void *user;
    ckpt_status (*dataset)(void *user, const struct hdf5_dataset *d, ckpt_error *err);
    /* VALUE is that of attribute NAME of the object at PATH ("" is the root); NULL: it cannot be read, and
     * WHY not. */
    ckpt_status (*attribute)(void *user, ckpt_str path, ckpt_str name, ckpt_value *value, const char *why,
                             ckpt_error *err);
    /* What is listed and not followed: soft and external links, groups that have another path. */
    ckpt_status (*link)(void *user, ckpt_str path, const char *kind, ckpt_str target, ckpt_error *err);
    /* The object at PATH is faulty: ST and ERR. CKPT_OK: go on without it. */
    ckpt_status (*fault)(void *user, ckpt_str path, ckpt_status st, ckpt_error *err);
};

/* hdf5_find - *BASE is where HDF5 begins in SRC: at byte 0, 512, 1024, 2048 …; CKPT_EFORMAT: nowhere. */
ckpt_status hdf5_find(source *src, uint64_t *base, ckpt_error *err);
/* hdf5_visit - all objects of SRC in natural order of their paths, groups before what is in them, attributes
 * before data. Results are in A. */
ckpt_status hdf5_visit(source *src, arena *a, const struct hdf5_visitor *v, ckpt_error *err);
/* hdf5_decode - undoes the N filters FILTER but those in SKIPPED: STORED, all bytes of a chunk that has at
 * most CHUNK_BYTES then, go to TO. */
struct hdf5_decoding {
    const struct hdf5_filter *filter;
    uint32_t n, skipped;
    uint64_t chunk_bytes;
};
ckpt_status hdf5_decode(const struct hdf5_decoding *d, source *stored, spool *to, ckpt_error *err);

#endif
