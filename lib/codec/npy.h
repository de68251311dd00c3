/* npy.h - the header of numpy's .npy. */
#ifndef CODEC_NPY_H
#define CODEC_NPY_H

#include "base/arena.h"
#include "io/source.h"

#define NPY_DIMENSIONS 64u /* of numpy 2 */

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

/* npy_read - SRC, which begins as one and has at least 12 bytes; DESCR is in A. */
ckpt_status npy_read(source *src, arena *a, struct npy *out, ckpt_error *err);

#endif
