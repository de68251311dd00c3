/* npy.h - reads the headers of NumPy's .npy files, and Python literals, of which such a header is one. */
#pragma once

#include "core/numpy.h"

#define NPY_MAGIC      "\x93NUMPY"
#define NPY_MAGIC_SIZE 6u
#define NPY_DIMENSIONS 64u                 /* most dimensions that NumPy 2 allows */
#define NPY_MAX_HEADER (UINT32_C(1) << 20) /* NumPy itself reads 10,000 bytes unless it trusts the file */

struct npy {
    unsigned version;
    uint64_t data_offset; /* offset of the elements, or of the pickle of an array of objects */
    /* is_simple - the header has the form that NumPy writes for a simple type. If not, the fields below are
     * not set: descr may be a record, or mean objects without an O ('object', '\x4f', a second 'descr'). */
    bool is_simple;
    ckpt_str descr; /* "<f4" */
    bool fortran_order;
    uint32_t ndim;
    uint64_t shape[NPY_DIMENSIONS]; /* outermost first */
    uint64_t nbytes;                /* bytes of all elements; UINT64_MAX: 2^64 or more */
};

/* npy_read - reads the header of SRC, which begins with NPY_MAGIC and has at least 12 bytes, to *OUT; texts
 * are in A. */
ckpt_status npy_read(source *src, arena *a, struct npy *out, ckpt_error *err);

/* An array, with any header that NumPy accepts. */
struct npy_array {
    struct numpy_dtype dtype;
    ckpt_str fields;    /* descr of a record, as text; else empty */
    bool holds_objects; /* the elements or their fields are objects, which are stored as a pickle */
    bool fortran_order;
    uint32_t ndim;
    uint64_t shape[NPY_DIMENSIONS]; /* outermost first */
    uint64_t data_offset, nbytes;   /* offset and size of the elements in the source */
};

/* npy_read_array - reads the header of the array at OFFSET of SRC to *OUT; texts are in A. Refuses what
 * numpy.load refuses, except missing elements. */
ckpt_status npy_read_array(source *src, uint64_t offset, arena *a, struct npy_array *out, ckpt_error *err);

#define LITERAL_MAX_DEPTH 64u
/* literal_read - sets *OUT to the value graph of TEXT, in A: dicts, lists, tuples, texts, integers, True,
 * False and None. TEXT is UTF-8. OFFSET is where TEXT is in the file, for errors. CKPT_EFORMAT: TEXT is
 * anything else, even if Python could evaluate it. */
ckpt_status literal_read(arena *a, ckpt_str text, uint64_t offset, ckpt_value **out, ckpt_error *err);
