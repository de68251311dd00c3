/* onnx.h - reads the tensors of an ONNX model in the order of the file, and the fields of the model. */
#pragma once

#include "core/dtype.h"
#include "io/source.h"

#define ONNX_RANK     32u    /* most dimensions of a tensor */
#define ONNX_DEPTH    100u   /* most levels of nested messages, as in protobuf itself */
#define ONNX_NAME_MAX 65536u /* most bytes of a name */

/* The fields of a TensorProto that hold values. */
enum onnx_field {
    ONNX_FLOATS = 4, /* FIXED32 */
    ONNX_INT32S = 5, /* varints */
    ONNX_STRINGS = 6,
    ONNX_INT64S = 7, /* varints */
    ONNX_RAW = 9,
    ONNX_DOUBLES = 10, /* FIXED64 */
    ONNX_UINT64S = 11  /* varints */
};

/* A data type of TensorProto. */
struct onnx_type {
    const char *name;
    ckpt_dtype dtype;      /* of the elements, unpacked to a byte or more each; NAMED: strings */
    uint8_t bits;          /* bits of an element in raw data */
    enum onnx_field field; /* field that has the values if raw_data is absent */
    uint8_t width;         /* bytes that a number of that field gives: an element, or half a complex one */
    bool holds_packed;     /* true: a number of that field is a byte of packed elements, as in raw_data */
};

struct onnx_tensor {
    ckpt_str name;
    ckpt_str graph_path; /* path of its graph, such as "node3/then_branch"; empty: the main graph */
    enum { ONNX_DENSE, ONNX_SPARSE_VALUES, ONNX_SPARSE_INDICES } component;
    const struct onnx_type *type;
    uint32_t ndim;
    uint64_t shape[ONNX_RANK];
    uint64_t at, end;                              /* offsets of the TensorProto's beginning and end */
    enum onnx_field field;                         /* the field that has the values; 0: none */
    uint64_t nfields;                              /* number of times FIELD occurs */
    uint64_t values, bytes;                        /* offset of its last occurrence; bytes of all of them */
    bool is_external;                              /* true: the values are in another file */
    uint64_t external_at;                          /* offset of the last entry of external_data */
    ckpt_str location, offset, length, checksum;   /* entries of external_data; .ptr is NULL: no such entry */
    uint64_t sparse_ndim, sparse_shape[ONNX_RANK]; /* shape of the tensor of ONNX_SPARSE_VALUES */
};

struct onnx_pair {
    ckpt_str key, value;
    uint64_t number; /* version of an opset */
};

struct onnx {
    source *src;
    arena *a;
    bool may_be_damaged; /* true: read what is valid in malformed messages; cut messages that are too long */
    bool is_cut;         /* set if a message was cut off or damaged: what it had after that was not found */
    /* Callbacks, each of which may be NULL. on_fault is called with the error of a tensor; if it returns
     * CKPT_OK, reading continues after that tensor. */
    ckpt_status (*on_tensor)(void *user, const struct onnx_tensor *t, ckpt_error *err);
    ckpt_status (*on_fault)(void *user, ckpt_status st, ckpt_error *err);
    ckpt_status (*on_node)(void *user, ckpt_str domain, ckpt_str op_type, uint64_t at, ckpt_error *err);
    /* is called for the texts of attributes, also bytes, up to ONNX_NAME_MAX */
    ckpt_status (*on_attribute)(void *user, ckpt_str name, ckpt_str text, uint64_t at, ckpt_error *err);
    void *user;
    uint64_t ir_version, model_version;
    ckpt_str producer, producer_version, domain, doc;
    struct onnx_pair *opsets, *properties;
    size_t nopsets, nproperties;
    uint64_t error_offset; /* offset of an error in SRC */
};

/* onnx_read - reads all of ONNX->src but the values of tensors; allocates texts from ONNX->a. */
ckpt_status onnx_read(struct onnx *onnx, ckpt_error *err);
