/* hdf5.h - reads HDF5 files: visits their groups and data sets, and decodes chunks. Supports what Keras
 * and h5py write of HDF5, and names in its errors what it does not support. Opens no other file. */
#pragma once

#include "core/value.h"
#include "io/block_cache.h"

#define HDF5_MAX_RANK    32u
#define HDF5_MAX_FILTERS 6u  /* most filters of a data set */
#define HDF5_MIN_VALUES  10u /* least numbers in hdf5_filter.values */

/* Where the bits of a number are, from the lowest on. */
struct hdf5_bits {
    uint32_t offset, precision; /* the first bit that is no padding, and how many there are */
    bool is_signed;             /* of an integer; it has no other fields */
    uint32_t sign_at, exponent_at, exponent_bits, fraction_at, fraction_bits, bias;
};

struct hdf5_type {
    enum {
        HDF5_NUMBER,     /* a number; .dtype is its dtype */
        HDF5_LONGDOUBLE, /* a long double of x86-64, in 16 bytes */
        HDF5_FIXED_TEXT, /* a text of .size bytes, with padding */
        HDF5_TEXT,       /* a text of variable length */
        HDF5_OPAQUE,
        HDF5_RECORD,
        HDF5_UNREADABLE
    } kind;
    ckpt_dtype dtype;
    bool big_endian;
    bool is_converted;     /* elements are stored with BITS, and converted to the dtype by hdf5_numbers */
    struct hdf5_bits bits; /* of a NUMBER */
    bool space_padded;     /* FIXED_TEXT is padded with spaces, not with NULs */
    uint32_t size;         /* bytes of an element as it is stored */
    ckpt_str what;         /* RECORD: description of its members. UNREADABLE: name of the datatype */
};

enum hdf5_filter_id {
    HDF5_DEFLATE = 1,
    HDF5_SHUFFLE = 2,
    HDF5_FLETCHER32 = 3,
    HDF5_SZIP = 4,
    HDF5_NBIT = 5,
    HDF5_SCALEOFFSET = 6,
    HDF5_LZF = 32000,
    HDF5_BLOSC = 32001,
    HDF5_LZ4 = 32004,
    HDF5_BITSHUFFLE = 32008,
    HDF5_ZSTD = 32015
};

struct hdf5_filter {
    uint16_t id;
    uint32_t nvalues;       /* number of its parameters */
    const uint32_t *values; /* its parameters, and zeros up to HDF5_MIN_VALUES */
};

struct hdf5_chunk {
    uint64_t offset, stored_size; /* range in hdf5_dataset.src */
    uint32_t skipped_filters;     /* bit I: filter I was not applied */
};

struct hdf5_dataset {
    ckpt_str path;        /* without the first '/' */
    uint64_t header_addr; /* address of its object header, which other paths (hard links) may share */
    source *src;          /* source of its bytes */
    struct hdf5_type type;
    bool is_null; /* true: the dataspace is null, without elements and shape */
    uint32_t ndim;
    const uint64_t *shape;
    const char *why_unreadable;   /* reason why its elements cannot be read; NULL: they can */
    bool in_other_files;          /* true: its elements are in other files, and cannot be read */
    bool is_unwritten;            /* true: no bytes are stored, all elements are FILL */
    const void *fill;             /* bytes of the fill value, as stored */
    uint64_t data_offset, nbytes; /* offset of its elements in SRC, unless it is chunked; their size */
    ckpt_str texts;               /* elements of FIXED_TEXT or TEXT: each a length (u64le) and its bytes */
    bool is_chunked;
    const uint64_t *chunk_shape;
    const struct hdf5_chunk *chunks;
    const uint64_t *chunk_offsets; /* position of each chunk in the data set: NDIM numbers of elements */
    size_t nchunks;
    uint64_t chunk_bytes; /* size of a decoded chunk */
    uint32_t nfilters;
    struct hdf5_filter filters[HDF5_MAX_FILTERS]; /* in the order in which they were applied */
};

/* The callbacks of hdf5_visit. All but on_fault may be NULL. Paths, values, shapes and texts are in the
 * arena; everything else that is passed is valid until the callback returns. */
struct hdf5_visitor {
    void *user;
    uint64_t max_unstored; /* bytes that the data sets may have beyond those that the stored bytes can decode
                            * to, mostly fill values; 0: 1 GiB, or 8,192 times the file */
    ckpt_status (*on_dataset)(void *user, const struct hdf5_dataset *d, ckpt_error *err);
    /* VALUE is the value of attribute NAME of the object at PATH ("" is the root). NULL: it cannot be read,
     * and WHY is the reason. */
    ckpt_status (*on_attribute)(void *user, ckpt_str path, ckpt_str name, ckpt_value *value, const char *why,
                                ckpt_error *err);
    /* What is listed but not visited, as KIND names it: a soft, external or user-defined link, a hard link to
     * a group that was visited under another path, or a committed datatype. */
    ckpt_status (*on_link)(void *user, ckpt_str path, const char *kind, ckpt_str target, ckpt_error *err);
    /* The elements of the data set at PATH are in other files. KIND: how it refers to them. */
    ckpt_status (*on_other_files)(void *user, ckpt_str path, const char *kind, ckpt_error *err);
    /* The object at PATH is faulty: ST and ERR are its error. Returns CKPT_OK to go on without the object. */
    ckpt_status (*on_fault)(void *user, ckpt_str path, ckpt_status st, ckpt_error *err);
};

/* hdf5_find - sets *BASE to the offset in SRC of the signature of HDF5: 0, 512, 1024, 2048 … CKPT_EFORMAT:
 * there is none. */
ckpt_status hdf5_find(source *src, uint64_t *base, ckpt_error *err);
/* hdf5_visit - visits all objects of SRC in the natural order of their paths: a group before its members, the
 * attributes of an object before its data. A is the arena for results. */
ckpt_status hdf5_visit(source *src, arena *a, const struct hdf5_visitor *visitor, ckpt_error *err);
/* hdf5_decode - undoes the filters of DECODING except those that were skipped, and appends the result to TO.
 * STORED has all bytes of one chunk. The caller limits TO to CHUNK_BYTES. */
struct hdf5_decoding {
    const struct hdf5_filter *filters;
    uint32_t nfilters, skipped_filters; /* number of filters; hdf5_chunk.skipped_filters of the chunk */
    uint64_t chunk_bytes;
};
ckpt_status hdf5_decode(const struct hdf5_decoding *decoding, source *stored, spool *to, ckpt_error *err);
/* hdf5_get_number - returns the number that is stored at BYTES, in the bits of the dtype of TYPE. */
uint64_t hdf5_get_number(const struct hdf5_type *type, const unsigned char *bytes);
/* hdf5_numbers - returns a source of NBYTES bytes of little-endian numbers. Reading it converts those that
 * are stored in FROM from OFFSET on; TYPE is their struct hdf5_type. NULL: no memory. */
source *hdf5_numbers(source *from, uint64_t offset, uint64_t nbytes, const void *type);
