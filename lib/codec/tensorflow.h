/* tensorflow.h - what both checkpoint formats of TensorFlow store alike: shapes, slices, element types,
 * strings, the object graph. */
#pragma once

#include "base/buf.h"
#include "base/cursor.h"
#include "core/file.h"

struct tf_dtype {
    uint64_t number;
    const char *name;
    ckpt_dtype dtype; /* CKPT_DT_NAMED: torch has no such type, and NAME is its name */
    uint8_t width;    /* bytes of an element; 0: not fixed */
    uint8_t swap;     /* bytes of the unit that byte order applies to */
    uint8_t field;    /* the field of TensorProto with the values, in files of TensorFlow 1; 0: none */
};

#define TF_STRING 7u

struct tf_shape {
    uint32_t ndim;
    uint64_t *sizes;
    uint64_t elements;
};

/* A slice of a partitioned tensor: in each dimension SIZE elements from OFFSET on. */
struct tf_slice {
    uint64_t *offset, *size;
    bool *covers_all; /* [i]: the slice has all of dimension i, and is stored without offset and size there */
};

/* tf_find_dtype - returns the element type NUMBER of DataType; NULL: there is none. */
const struct tf_dtype *tf_find_dtype(uint64_t number);
/* tf_read_shape - reads the TensorShapeProto IN. Refuses negative sizes, an unknown rank, and more than 2^64
 * elements. */
ckpt_status tf_read_shape(arena *a, cursor in, struct tf_shape *shape, ckpt_error *err);
/* tf_read_slice - reads the TensorSliceProto IN of a tensor of SHAPE. Refuses a slice that is not inside of
 * the tensor. */
ckpt_status tf_read_slice(arena *a, cursor in, const struct tf_shape *shape, struct tf_slice *slice,
                          ckpt_error *err);
/* tf_put_slice_key - appends to KEY the key under which slice SLICE of the tensor NAME is stored. */
void tf_put_slice_key(buf *key, ckpt_str name, const struct tf_slice *slice, uint32_t ndim);
uint64_t tf_count_elements(const struct tf_slice *slice, uint32_t ndim);

/* Where the bytes of a tensor of a bundle are. */
struct tf_bytes {
    source *src;
    uint64_t at, size;
    uint32_t crc;          /* their CRC-32C */
    const char *path;      /* of the file SRC, for errors */
    const ckpt_file *file; /* the checkpoint; if its ignore_crc is set, checksums are not compared */
};

/* tf_checked_source - sets *OUT to a source of the bytes of BYTES, which compares their checksum at the first
 * read. */
ckpt_status tf_checked_source(const struct tf_bytes *bytes, source **out, ckpt_error *err);
/* tf_strings_source - sets *OUT to a source of the COUNT strings of TF_BYTES. Each string is its length (64
 * bits, little-endian), then its bytes. Compares checksums as tf_checked_source does. Allocates from A.
 * Refuses lengths that do not add up to the bytes that TF_BYTES has after them. */
ckpt_status tf_strings_source(arena *a, const struct tf_bytes *tf_bytes, uint64_t count, source **out,
                              ckpt_error *err);

/* Called for each variable of an object graph: the tensor KEY of the checkpoint has the name VARIABLE in the
 * model. */
typedef ckpt_status tf_name_variable(void *user, ckpt_str key, ckpt_str variable, ckpt_error *err);
/* tf_read_object_graph - calls CALL with USER for each variable of the TrackableObjectGraph IN. */
ckpt_status tf_read_object_graph(cursor in, tf_name_variable *call, void *user, ckpt_error *err);
