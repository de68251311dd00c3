/* npy.h - the header of numpy's .npy. */
#ifndef CODEC_NPY_H
#define CODEC_NPY_H

#include "base/arena.h"
#include "core/numpy.h"
#include "io/source.h"

#define NPY_MAGIC      "\x93NUMPY"
#define NPY_MAGIC_SIZE 6u
#define NPY_DIMENSIONS 64u                 /* of numpy 2 */
#define NPY_MAX_HEADER (UINT32_C(1) << 20) /* numpy itself reads 10,000 unless it trusts the file */

struct npy {
    unsigned version;
    uint64_t data; /* offset of the elements, or of the pickle that arrays of objects are */
    /* simple - the header is as numpy writes it for one simple type; if not, nothing below is set: descr may
     * be a record, or spell objects ("object", '\x4f', a second 'descr'). */
    bool simple;
    ckpt_str descr; /* "<f4" */
    bool fortran_order;
    uint32_t ndim;
    uint64_t shape[NPY_DIMENSIONS]; /* outermost first */
    uint64_t nbytes;                /* of all elements; UINT64_MAX: more than can be counted */
};

/* npy_read - *OUT: the header of SRC, which begins as .npy and has at least 12 bytes; texts are in A. */
ckpt_status npy_read(source *src, arena *a, struct npy *out, ckpt_error *err);

/* An array, by any header that numpy takes. */
struct npy_array {
    struct numpy_dtype dtype;
    ckpt_str fields;    /* of a record: its descr as text; else empty */
    bool holds_objects; /* a pickle follows instead of elements; also where a field of a record does */
    bool fortran_order;
    uint32_t ndim;
    uint64_t shape[NPY_DIMENSIONS]; /* outermost first */
    uint64_t data_offset, nbytes;   /* of the elements, in the source */
};

/* npy_read_array - the array that begins at OFFSET of SRC; texts are in A. Refuses what numpy.load refuses,
 * but for elements that are missing. */
ckpt_status npy_read_array(source *src, uint64_t offset, arena *a, struct npy_array *out, ckpt_error *err);

#endif
