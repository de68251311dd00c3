/* tensorflow.h - what is stored alike in TensorFlow's two formats of checkpoints: shapes, slices, element
 * types, strings, the graph of objects. */
#ifndef CODEC_TENSORFLOW_H
#define CODEC_TENSORFLOW_H

#include "base/buf.h"
#include "base/cursor.h"
#include "core/file.h"

struct tf_dtype {
    uint64_t number;
    const char *name;
    ckpt_dtype dtype; /* CKPT_DT_NP: none of torch's; NAME is its name */
    uint8_t width;    /* bytes of an element; 0: not fixed */
    uint8_t swap;     /* the unit that byte order applies to */
    uint8_t field;    /* of TensorProto, in files of the first format; 0: none */
};

#define TF_STRING 7u

struct tf_shape {
    uint32_t ndim;
    uint64_t *size;
    uint64_t elements;
};

/* A slice of a partitioned tensor: by dimension, where it begins and how many there are. */
struct tf_slice {
    uint64_t *offset, *size;
    bool *all; /* by dimension: it is all of it, and stored so */
};

/* tf_find_dtype - NULL: there is no such number. */
const struct tf_dtype *tf_find_dtype(uint64_t number);
/* tf_read_shape - the TensorShapeProto C. Refuses negative sizes, an unknown rank, and more than 2^64
 * elements. */
ckpt_status tf_read_shape(arena *a, cursor c, struct tf_shape *s, ckpt_error *err);
/* tf_read_slice - the TensorSliceProto C of a tensor of SHAPE; refuses what is not inside of it. */
ckpt_status tf_read_slice(arena *a, cursor c, const struct tf_shape *shape, struct tf_slice *s,
                          ckpt_error *err);
/* tf_slice_key - appends to KEY the one that slice S of the tensor NAME is stored under. */
void tf_slice_key(buf *key, ckpt_str name, const struct tf_slice *s, uint32_t ndim);
/* tf_slice_elements - how many elements S has. */
uint64_t tf_slice_elements(const struct tf_slice *s, uint32_t ndim);

/* The bytes of an entry of a bundle, as they are stored. */
struct tf_bytes {
    source *src;
    uint64_t at, size;
    uint32_t crc;        /* CRC-32C of them */
    const char *path;    /* of the file that SRC is, for errors */
    const ckpt_file *of; /* ignore_crc: the checksum is not compared */
};

/* tf_checked_source - *OUT: the bytes of B, whose checksum is compared before they are read first. */
ckpt_status tf_checked_source(const struct tf_bytes *b, source **out, ckpt_error *err);
/* tf_strings_source - *OUT: COUNT strings of B, each as its length in 8 bytes, the least first, and its
 * bytes; checked like those of tf_checked_source. Lengths are in A. Refuses lengths that do not add up to the
 * size of B. */
ckpt_status tf_strings_source(arena *a, const struct tf_bytes *b, uint64_t count, source **out,
                              ckpt_error *err);

/* Called for a variable that the object graph names: the tensor KEY of the checkpoint is that of VARIABLE. */
typedef ckpt_status tf_name_variable(void *user, ckpt_str key, ckpt_str variable, ckpt_error *err);
/* tf_read_object_graph - calls NAME with USER for each variable of the TrackableObjectGraph C. */
ckpt_status tf_read_object_graph(cursor c, tf_name_variable *name, void *user, ckpt_error *err);

#endif
