/* onnx.h - the tensors of an ONNX model, in the order in which they stand, and the fields of the model. */
#ifndef CODEC_ONNX_H
#define CODEC_ONNX_H

#include "base/arena.h"
#include "core/dtype.h"
#include "io/source.h"

#define ONNX_RANK     32u
#define ONNX_DEPTH    100u /* of messages in each other, as protobuf itself has it */
#define ONNX_NAME_MAX 65536u

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
    ckpt_dtype dtype;      /* CKPT_DT_NP: strings; elements of fewer than 8 bits take a byte each there */
    uint8_t bits;          /* of an element in raw data */
    enum onnx_field field; /* where its values are that are no raw data … */
    uint8_t width;         /* … and the bytes of each number there: an element, half of a complex one */
    bool packs;            /* … which hold the bytes of raw data */
};

struct onnx_tensor {
    ckpt_str name;
    ckpt_str place; /* "node3/then_branch"; empty: the model's own initializer */
    enum { ONNX_DENSE, ONNX_SPARSE_VALUES, ONNX_SPARSE_INDICES } part;
    const struct onnx_type *type;
    uint32_t ndim;
    uint64_t shape[ONNX_RANK];
    uint64_t at, end;                              /* the message */
    enum onnx_field field;                         /* that it has; 0: none … */
    uint64_t nfields;                              /* … and how often */
    uint64_t values, bytes;                        /* the last of them: its content, and the bytes of all */
    bool is_external;                              /* its values are in a file … */
    uint64_t external_at;                          /* … as it stands here: */
    ckpt_str location, offset, length, checksum;   /* .ptr NULL: not there */
    uint64_t sparse_ndim, sparse_shape[ONNX_RANK]; /* of ONNX_SPARSE_VALUES: what it is a part of */
};

struct onnx_pair {
    ckpt_str key, value;
    uint64_t number; /* of an opset: its version */
};

struct onnx {
    source *src;
    arena *a;
    bool may_be_damaged; /* a malformed message ends where it is, one that is too long with what it is in */
    /* What is called for each; NULL: nothing. FAULT gets the error of a tensor, which reading goes on after
     * if it returns CKPT_OK. */
    ckpt_status (*tensor)(void *user, const struct onnx_tensor *t, ckpt_error *err);
    ckpt_status (*fault)(void *user, ckpt_status st, ckpt_error *err);
    ckpt_status (*node)(void *user, ckpt_str domain, ckpt_str op_type, uint64_t at, ckpt_error *err);
    void *user;
    uint64_t ir_version, model_version;
    ckpt_str producer, producer_version, domain, doc;
    struct onnx_pair *opset, *property;
    size_t nopsets, nproperties;
    uint64_t at; /* where it fails, in SRC */
};

/* onnx_read - reads all of O->src but the values; texts are in O->a. */
ckpt_status onnx_read(struct onnx *o, ckpt_error *err);

#endif
