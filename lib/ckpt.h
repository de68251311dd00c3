/*
 * ckpt.h - the public interface of libckpt: read, fix, convert and compare
 * deep-learning checkpoints without running anything they contain.
 *
 * Rules that hold everywhere:
 *  - A function that can fail returns ckpt_status and takes a ckpt_error * as
 *    its last argument (may be NULL). Nothing prints, exits or aborts.
 *  - An argument may be NULL only where its function's comment allows it. Otherwise, and for an
 *    enumerator that does not exist, a function that returns ckpt_status returns CKPT_EUSAGE, and any
 *    other function returns 0, false, an empty text or NULL. A function first sets its results (*OUT,
 *    a digest) to NULL or 0, and leaves them so if it fails; only ckpt_scan and ckpt_mem_plan set
 *    some even then. Options and limits may always be NULL, which means 0 for each of their fields.
 *    Callbacks that report and their USER may be NULL.
 *  - A ckpt_str carries its length and may hold NUL bytes. Print text from a file
 *    through ckpt_text_escape(), because it could control the terminal.
 *  - A pointer obtained from a file or plan belongs to it and is valid until the file is closed or the
 *    plan is freed. The caller must not free or change what the pointer points to.
 *  - Several threads may read one ckpt_file at the same time: by the functions that take a const
 *    ckpt_file or a pointer obtained from it, by ckpt_tensor_read, _borrow and _stream, ckpt_digest_tensor,
 *    _tensors, _file and _payload, and ckpt_stat. A call may use several threads of its own, see
 *    ckpt_work. While any other function runs with a ckpt_file (to close, narrow, locate, inspect,
 *    compare, plan or write, or to set what is ignored), or with a plan of it, no other thread may
 *    use that file. Different files are independent: they share nothing but a lock-free list of
 *    temporary files, for ckpt_emergency_cleanup.
 *  - Sizes are bytes; shapes, strides and storage offsets count elements.
 *  - A struct that the caller allocates begins with struct_size, its sizeof in the caller's
 *    program: `ckpt_tensor t = {.struct_size = sizeof t};` or CKPT_INIT(ckpt_tensor). Later
 *    versions add fields at the end; in options 0 is the default of each field. A struct_size that
 *    was not set, or an option that a newer program sets and this library does not have, is
 *    CKPT_EUSAGE. Structs that only the library makes are passed by pointer and grow, too.
 *    ckpt_str, ckpt_pair, ckpt_path_elem, ckpt_error, ckpt_mem_amount, ckpt_mem_segment and
 *    ckpt_mem_group never change their size and have no struct_size.
 *  - Enums grow: a program has to accept values that are not in its header. A flag is 0 or 1.
 */
#ifndef CKPT_H
#define CKPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define CKPT_API          __attribute__((visibility("default")))
#define CKPT_PRINTF(f, a) __attribute__((format(printf, f, a)))
#define CKPT_MUST_CHECK   __attribute__((warn_unused_result))
#else
#define CKPT_API
#define CKPT_PRINTF(f, a)
#define CKPT_MUST_CHECK
#endif

#define CKPT_VERSION       "0.1.0"
#define CKPT_VERSION_MAJOR 0
#define CKPT_VERSION_MINOR 1
#define CKPT_VERSION_PATCH 0

/* CKPT_INIT - an empty TYPE for the caller to pass: all fields are 0 except for struct_size. */
#ifdef __cplusplus
} /* a template has no C linkage */
template <typename T> inline T CkptEmpty()
{
    T made = T();
    made.struct_size = sizeof made;
    return made;
}
extern "C" {
#define CKPT_INIT(type) CkptEmpty<type>()
#else
#define CKPT_INIT(type) {.struct_size = sizeof(type)}
#endif

/* ckpt_version - returns the version of the library that is running, e.g. "0.1.0". */
CKPT_API const char *ckpt_version(void);

/* ------------------------------------------------------------------ text */

typedef struct {
    const char *ptr; /* NUL-terminated only where a comment states it; may contain NUL */
    size_t len;
} ckpt_str;

/* Two texts: a key and its text, an old name and its new one. */
typedef struct {
    ckpt_str key, text;
} ckpt_pair;

/* ckpt_text_escape - writes TEXT into OUT so that it cannot act on a terminal: control, bidi and zero-width
 * characters become \u{..}, bytes that are not UTF-8 become \xNN, backslash becomes \\. Returns the length
 * of the whole result; as with snprintf, a result >= CAP means that the text in OUT was cut. OUT is always
 * NUL-terminated if CAP > 0. */
CKPT_API size_t ckpt_text_escape(ckpt_str text, char *out, size_t cap);

/* ckpt_text_json - writes TEXT into OUT as a JSON string with its quotes, which cannot act on a terminal
 * either. Returns the full length as ckpt_text_escape does; if OUT is too small, it has a part of unspecified
 * length. Each byte that is not UTF-8 becomes U+FFFD; *EXACT, which may be NULL, is false then. */
CKPT_API size_t ckpt_text_json(ckpt_str text, char *out, size_t cap, bool *exact);

/* ckpt_text_next - returns the code point at TEXT[*POS], where *POS < TEXT.len, and moves *POS after it.
 * Returns UINT32_MAX for a byte that is not UTF-8. *UNSAFE: ckpt_text_escape would escape it, and it is no
 * backslash. */
CKPT_API uint32_t ckpt_text_next(ckpt_str text, size_t *pos, bool *unsafe);

/* ckpt_natural_compare - compares names as people expect: runs of digits compare as numbers, so layer.2
 * comes before layer.10. Returns <0, 0 or >0; 0 only if all bytes are equal. */
CKPT_API int ckpt_natural_compare(ckpt_str left, ckpt_str right);

/* ckpt_glob_match - returns true if NAME matches GLOB: `*` matches any run of characters, `?` one, `[a-z]`
 * one of a set, `[!..]` one that is not in the set; `\` quotes. The whole name must match; `.` is not
 * special. */
CKPT_API bool ckpt_glob_match(ckpt_str glob, ckpt_str name);
/* ckpt_glob_match_any_case - matches as ckpt_glob_match does, but ignores the case of ASCII letters. */
CKPT_API bool ckpt_glob_match_any_case(ckpt_str glob, ckpt_str name);

/* ----------------------------------------------------------------- errors */

typedef enum {
    CKPT_OK = 0,
    /* The same as in base/errors.def, which has their names and texts; a test compares the two lists. */
    CKPT_EIO,          /* the system refused to read or write */
    CKPT_ENOMEM,       /* out of memory */
    CKPT_EUSAGE,       /* the caller asked for something invalid */
    CKPT_EUNKNOWN,     /* not a recognized format */
    CKPT_EUNSUPPORTED, /* known, but not read or written by this build */
    CKPT_EFORMAT,      /* the bytes violate the rules of the format */
    CKPT_ETRUNCATED,   /* the bytes end too early */
    CKPT_ECHECKSUM,    /* stored and computed checksum differ */
    CKPT_ELIMIT,       /* valid, but beyond a limit of ckpt_limits */
    CKPT_ENOTFOUND,    /* no such tensor, key or file */
    CKPT_EEXIST,       /* would overwrite a file, or two names would become one */
    CKPT_ELOSSY,       /* the target cannot hold this */
    CKPT_ECHANGED,     /* the input changed while it was read */
    CKPT_ECANCELLED    /* a callback of the caller requested it, or another part of an output failed */
} ckpt_status;

#define CKPT_NO_OFFSET UINT64_MAX

/* An error has 2,048 bytes in every version: new fields replace a part of `reserved`. The caller need not
 * initialize it. */
typedef struct {
    uint32_t status;    /* ckpt_status */
    int32_t sys_errno;  /* errno of the failed system call; ENOSYS: a library is missing; or 0 */
    uint64_t offset;    /* absolute, in `file`; CKPT_NO_OFFSET: none */
    char file[512];     /* path of the file at fault, escaped; may be empty */
    char where[256];    /* "archive/data.pkl: state_dict.fc.weight", escaped */
    char what[384];     /* what was found and what is allowed, escaped */
    char hint[256];     /* what to do next; may be empty */
    char found[96];     /* what is at fault, in the words of `what`: the value in the file; may be empty */
    char allowed[96];   /* what would have been valid there; may be empty */
    uint32_t innermost; /* its last part, which is inside of the others, begins at where[innermost] */
    char reserved[428]; /* not set */
} ckpt_error;

/* ckpt_status_name - returns "truncated", "malformed" …, the `code` of JSON errors. */
CKPT_API const char *ckpt_status_name(ckpt_status status);

/* ckpt_error_text - writes one line "FILE: byte 0x1f: WHERE: WHAT" into OUT, always
 * NUL-terminated. The hint is not part of it. Returns OUT. */
CKPT_API const char *ckpt_error_text(const ckpt_error *err, char *out, size_t cap);

/* ----------------------------------------------------------------- servers */

/* How to read from servers: paths that begin with https://, http://, hf:// or s3://, see ckpt-remote(7). Its
 * texts, which may be NULL, must outlive the files that are opened with it. A secret is sent only to the
 * server that it is for, and is never in an error. Proxies are those of the environment. */
typedef struct {
    uint32_t struct_size;
    uint32_t max_requests;      /* at a time: 16 */
    uint8_t offline;            /* nothing is requested: each URL is refused */
    uint8_t netrc;              /* names and passwords are those of ~/.netrc */
    uint8_t reserved[6];        /* 0 */
    const char *ca_file;        /* certificates of the authorities to trust, in PEM; NULL: the system's */
    const char *hub_endpoint;   /* what hf:// stands for; NULL: https://huggingface.co */
    const char *hub_token;      /* sent to hub_endpoint; NULL: none */
    const char *hub_token_from; /* what errors call the source of hub_token, such as "HF_TOKEN" */
    const char *s3_endpoint;    /* NULL: https://s3.REGION.amazonaws.com */
    const char *s3_region;      /* NULL: us-east-1 */
    const char *s3_key_id;      /* with s3_secret, signs requests to s3_endpoint; NULL: they are not signed */
    const char *s3_secret;
    const char *s3_session; /* a temporary token; NULL: none */
} ckpt_remote;

/* ----------------------------------------------------------------- limits */

/* How to name the tensors of tf.train.Checkpoint; other formats ignore it. */
typedef enum {
    CKPT_NAMES_STORED,  /* as in the file: layer/kernel/.ATTRIBUTES/VARIABLE_VALUE */
    CKPT_NAMES_OBJECT,  /* by the path of attributes: layer/kernel */
    CKPT_NAMES_VARIABLE /* by the variable: dense/kernel; by the path if the variable has no name, or its
                         * name is not unique */
} ckpt_names;

/* Limits that guard against hostile files (0 keeps the default). */
typedef struct {
    uint32_t struct_size;
    uint32_t max_depth;    /* nesting of containers: 1000 */
    uint64_t max_metadata; /* heap for parsed metadata: 64 MiB, and 16 bytes for each byte of metadata in
                              the file, of which at most max_header count */
    uint64_t max_header;   /* a JSON header, index or map: 256 MiB */
    uint64_t max_tensors;  /* tensors: 10,000,000 */
    uint64_t max_expanded; /* bytes of all views that are larger than their storages: 64 MiB, or 8 times
                              the size of the file, whichever is more. Also the bytes that compressed data
                              unpack to: 1 GiB, or 100 times their size, whichever is more */
    const char *parallel;  /* not a limit: path of a JSON file, read while a file is opened: how tensor-
                              parallel ranks divide tensors, see ckpt-formats(7); NULL: built-in rules */
    int32_t names;         /* not a limit: a value of ckpt_names */
    uint32_t reserved;
    const char *void_dtypes; /* not a limit: what elements without a dtype are in .npy and .npz, read while a
                                file is opened, such as "V1=float8_e4m3fn,V2=bfloat16": a number of bytes and
                                a dtype of that size; NULL: as described in ckpt-formats(7) */
    const ckpt_remote *remote; /* how to read from servers; NULL: a path that is a URL is refused */
} ckpt_limits;

/* ----------------------------------------------------------------- dtypes */

typedef enum {
    CKPT_DT_NONE = 0, /* unknown or not applicable */
    /* In the order of core/dtype.def, which the compiler compares with this list. */
    /* clang-format off */
    CKPT_DT_F64, CKPT_DT_F32, CKPT_DT_F16, CKPT_DT_BF16,
    CKPT_DT_F8_E4M3, CKPT_DT_F8_E5M2, CKPT_DT_F8_E4M3FNUZ, CKPT_DT_F8_E5M2FNUZ,
    CKPT_DT_F8_E8M0, CKPT_DT_F4, CKPT_DT_F6_E2M3, CKPT_DT_F6_E3M2,
    CKPT_DT_I64, CKPT_DT_I32, CKPT_DT_I16, CKPT_DT_I8,
    CKPT_DT_U64, CKPT_DT_U32, CKPT_DT_U16, CKPT_DT_U8, CKPT_DT_BOOL,
    CKPT_DT_C32, CKPT_DT_C64, CKPT_DT_C128, CKPT_DT_BC32,
    CKPT_DT_QI8, CKPT_DT_QU8, CKPT_DT_QI32, CKPT_DT_QU4X2, CKPT_DT_QU2X4,
    CKPT_DT_BITS8, CKPT_DT_BITS16, CKPT_DT_BITS1X8, CKPT_DT_BITS2X4, CKPT_DT_BITS4X2,
    CKPT_DT_NAMED, /* any other dtype (strings, dates, records …); its name is the tensor's dtype_name */
    /* Numbers of few bits, each in a byte, as in ml_dtypes. F4_E2M1 is "float4_e2m1fn", the F6_…_BYTE are
     * "float6_e2m3fn" and "float6_e3m2fn", and F8_E4M3_INF is "float8_e4m3". */
    CKPT_DT_I4, CKPT_DT_U4, CKPT_DT_I2, CKPT_DT_U2, CKPT_DT_I1, CKPT_DT_U1, CKPT_DT_F4_E2M1,
    CKPT_DT_F6_E2M3_BYTE, CKPT_DT_F6_E3M2_BYTE, CKPT_DT_F8_E3M4, CKPT_DT_F8_E4M3_INF,
    CKPT_DT_F8_E4M3B11FNUZ,
    /* Blocks of ggml, in GGUF. A shape counts elements; the bytes are whole blocks. */
    CKPT_DT_Q4_0, CKPT_DT_Q4_1, CKPT_DT_Q5_0, CKPT_DT_Q5_1, CKPT_DT_Q8_0, CKPT_DT_Q8_1,
    CKPT_DT_Q2_K, CKPT_DT_Q3_K, CKPT_DT_Q4_K, CKPT_DT_Q5_K, CKPT_DT_Q6_K, CKPT_DT_Q8_K,
    CKPT_DT_IQ2_XXS, CKPT_DT_IQ2_XS, CKPT_DT_IQ3_XXS, CKPT_DT_IQ1_S, CKPT_DT_IQ4_NL,
    CKPT_DT_IQ3_S, CKPT_DT_IQ2_S, CKPT_DT_IQ4_XS, CKPT_DT_IQ1_M, CKPT_DT_TQ1_0, CKPT_DT_TQ2_0,
    CKPT_DT_MXFP4, CKPT_DT_NVFP4, CKPT_DT_Q1_0, CKPT_DT_Q2_0
    /* clang-format on */
} ckpt_dtype;

/* ckpt_dtype_name - returns torch's name ("float32", "float8_e4m3fn"); "" for CKPT_DT_NONE. */
CKPT_API const char *ckpt_dtype_name(ckpt_dtype dtype);

/* ckpt_dtype_parse - returns the dtype with the name NAME in torch or safetensors
 * ("float16", "F16", "f16", "fp16"), or CKPT_DT_NONE. */
CKPT_API ckpt_dtype ckpt_dtype_parse(ckpt_str name);

/* ckpt_dtype_bits - returns the bits of one element, as the shape counts it; 0: not fixed. */
CKPT_API unsigned ckpt_dtype_bits(ckpt_dtype dtype);

/* ---------------------------------------------------------------- tensors */

typedef enum {
    CKPT_DENSE = 0,
    CKPT_QUANTIZED,  /* the bytes of int_repr(); components scales, zero_points */
    CKPT_SPARSE_COO, /* composite: indices, values */
    CKPT_SPARSE_CSR,
    CKPT_SPARSE_CSC,
    CKPT_SPARSE_BSR,
    CKPT_SPARSE_BSC,
    CKPT_NESTED,        /* composite: buffer, sizes, strides, offsets */
    CKPT_NESTED_JAGGED, /* composite: values, offsets[, lengths] */
    CKPT_DTENSOR,       /* composite: _local_tensor is this rank's part */
    CKPT_SHARDED,       /* composite: local_shards.N */
    CKPT_WRAPPER,       /* composite: a tensor subclass made of tensors */
    CKPT_META,          /* shape, no bytes */
    CKPT_UNINITIALIZED, /* not even a shape */
    CKPT_STORAGE,       /* a bare storage */
    CKPT_NDARRAY,       /* numpy array or scalar inside a pickle */
    CKPT_OPAQUE         /* made by a constructor that is not understood */
} ckpt_kind;

/* ckpt_kind_name - returns the name in JSON: "dense", "sparse_coo" … */
CKPT_API const char *ckpt_kind_name(ckpt_kind kind);

/* An element of a path: a key of a mapping, or an index of a sequence. */
typedef struct {
    uint32_t is_int;   /* 1: the element is `num`; 0: it is `str` */
    uint32_t is_other; /* 1: a key that is neither int nor str, such as (1, 2); `str` is its repr */
    int64_t num;
    ckpt_str str;
} ckpt_path_elem;

#define CKPT_NO_STORAGE UINT32_MAX
#define CKPT_NO_TENSOR  UINT32_MAX

/* A tensor, a composite (a tensor made of tensors), or a component of the composite before it. */
typedef struct {
    uint32_t struct_size;
    uint16_t dtype;             /* ckpt_dtype */
    uint16_t kind;              /* ckpt_kind */
    ckpt_str name;              /* path joined with '.'; NUL-terminated */
    const ckpt_path_elem *path; /* npath of them */
    uint32_t npath;
    uint32_t ndim;
    uint8_t has_shape; /* 0: nested, uninitialized */
    uint8_t has_data;  /* bytes can be read */
    uint8_t conj, neg; /* the view is conjugated; the view is negated */
    uint8_t requires_grad, parameter;
    uint8_t reserved[2];
    const uint64_t *shape;          /* outermost first */
    const uint64_t *stride;         /* elements; NULL: dense row-major */
    uint64_t elements;              /* product of shape */
    uint64_t nbytes;                /* how many bytes its elements take, contiguous and row-major */
    uint32_t storage;               /* index into the file's storages or CKPT_NO_STORAGE */
    uint64_t storage_offset;        /* elements */
    uint64_t file_offset;           /* of its first byte if it is stored raw, else CKPT_NO_OFFSET */
    uint32_t alias_of;              /* number of the first tensor with the same view, or CKPT_NO_TENSOR */
    uint32_t part_of;               /* number of its composite, or CKPT_NO_TENSOR */
    ckpt_str klass;                 /* "module.Class" of a subclass or wrapper, else empty */
    ckpt_str location;              /* "cpu", "cuda:0"; empty: unknown */
    ckpt_str note;                  /* "local part of [8, 4], Shard(0)", numpy dtype …, or empty */
    const struct ckpt_value *value; /* the node it was made from; NULL: none */
    const char *dtype_name; /* of CKPT_DT_NAMED: "S4", "U2", "datetime64[ns]", "struct" …; else NULL */
} ckpt_tensor;

/* ckpt_tensor_is_unread - returns true if TENSOR has contents that this library cannot read: it has no bytes
 * (a meta tensor, or one of an unknown constructor or compression), no components that hold them, and is not
 * known to be empty. Numpy arrays of objects count as read: their elements are values. */
CKPT_API bool ckpt_tensor_is_unread(const ckpt_tensor *tensor);
/* Tensors that are no weights, in a file in which only names tell those from the weights: Keras, TensorFlow,
 * Paddle. */
typedef enum {
    CKPT_STATE_NONE,      /* it may be a weight */
    CKPT_STATE_OPTIMIZER, /* a variable of an optimizer */
    CKPT_STATE_METRIC,    /* what a metric of Keras has counted */
    CKPT_STATE_CHECKPOINT /* the object graph of tf.train.Checkpoint, how often it saved */
} ckpt_state;
/* ckpt_tensor_state - returns which state TENSOR belongs to by its name. CKPT_STATE_NONE for the states that
 * torch's optimizers have in a container of their own (optimizer_path of ckpt_info). */
CKPT_API ckpt_state ckpt_tensor_state(const ckpt_tensor *tensor);
/* ckpt_tensor_is_optimizer_state - returns true if ckpt_tensor_state of TENSOR is CKPT_STATE_OPTIMIZER. */
CKPT_API bool ckpt_tensor_is_optimizer_state(const ckpt_tensor *tensor);
/* ckpt_tensor_dtype_name - returns dtype_name if TENSOR has one, else ckpt_dtype_name of its dtype. */
CKPT_API const char *ckpt_tensor_dtype_name(const ckpt_tensor *tensor);

/* A storage: bytes that one or more tensors are views of. */
typedef struct {
    uint32_t struct_size;
    uint32_t has_crc;     /* the container records a CRC-32 of it */
    uint64_t nbytes;      /* of the whole storage */
    uint64_t file_offset; /* absolute if it is stored raw, else CKPT_NO_OFFSET */
    ckpt_str key;         /* its name in the file ("0", "94121…") */
    ckpt_str location;
    ckpt_str file; /* the shard that has it; empty for single files */
} ckpt_storage;

/* ----------------------------------------------------------------- values */

/* A node of the value graph: the tensors of the file, the containers that they are in,
 * and all other values. Containers may be shared, or contain themselves. */
typedef struct ckpt_value ckpt_value;

typedef enum {
    /* clang-format off */
    CKPT_V_NONE, CKPT_V_BOOL, CKPT_V_INT, CKPT_V_BIGINT, CKPT_V_FLOAT,
    CKPT_V_STR,       /* text, UTF-8 (lone surrogates possible) */
    CKPT_V_STR8,      /* str of Python 2: bytes, mostly text */
    CKPT_V_BYTES, CKPT_V_BYTEARRAY,
    CKPT_V_LIST, CKPT_V_TUPLE, CKPT_V_DICT, CKPT_V_SET, CKPT_V_FROZENSET,
    CKPT_V_GLOBAL,    /* the name of a class or function; never resolved */
    CKPT_V_CALL,      /* REDUCE, NEWOBJ, OBJ, INST …: an inert node */
    CKPT_V_PERSID,    /* persistent id: a storage or a legacy module */
    CKPT_V_TENSOR     /* a tensor of a format without a pickle */
    /* clang-format on */
} ckpt_value_type;

/* ckpt_value_get_type - returns the type of VALUE; CKPT_V_NONE if VALUE is NULL. */
CKPT_API ckpt_value_type ckpt_value_get_type(const ckpt_value *value);

/* ckpt_value_type_name - writes the name of VALUE's type in Python into BUF of CAP bytes,
 * escaped and NUL-terminated: "int", "dict", "collections.OrderedDict",
 * "numpy.float64", "my.module.Class" … Returns BUF. */
CKPT_API const char *ckpt_value_type_name(const ckpt_value *value, char *buf, size_t cap);

/* ckpt_value_text - writes VALUE into BUF as one short, escaped line, as Python prints it
 * ("0.001", "'adam'", "{…} 3 items"), with "…" for what follows the first NODES
 * nodes. Returns the full length as ckpt_text_escape does. */
CKPT_API size_t ckpt_value_text(const ckpt_value *value, size_t nodes, char *buf, size_t cap);

/* ckpt_value_bool, ckpt_value_int, ckpt_value_float - return the value of a BOOL; of an INT or BOOL; of a
 * FLOAT, INT or BOOL. For other types, and integers beyond 64 bits, they return false or 0. */
CKPT_API bool ckpt_value_bool(const ckpt_value *value);
CKPT_API int64_t ckpt_value_int(const ckpt_value *value);
CKPT_API double ckpt_value_float(const ckpt_value *value);

/* ckpt_value_str - returns the text of a STR, STR8 or BYTES; empty if it was not read into memory. */
CKPT_API ckpt_str ckpt_value_str(const ckpt_value *value);

/* ckpt_value_count, ckpt_value_item - return the number of children, and child INDEX, of a
 * LIST, TUPLE, SET or DICT, or of an object that behaves like one (OrderedDict, an
 * object with attributes). *KEY is NULL in sequences. False: past the end. */
CKPT_API size_t ckpt_value_count(const ckpt_value *value);
CKPT_API bool ckpt_value_item(const ckpt_value *value, size_t index, const ckpt_value **key,
                              const ckpt_value **val);

/* ckpt_value_tensor - returns the number of the tensor that VALUE is, or CKPT_NO_TENSOR. */
CKPT_API uint32_t ckpt_value_tensor(const ckpt_value *value);

/* ckpt_value_offset - returns the offset in the pickle at which VALUE is made. */
CKPT_API uint64_t ckpt_value_offset(const ckpt_value *value);

/* A value that is neither a tensor nor a container with children. */
typedef struct {
    ckpt_str name;
    const ckpt_path_elem *path;
    uint32_t npath;
    const ckpt_value *value;
    const ckpt_value *const *containers; /* npath: the container of each path element; NULL: not known */
} ckpt_leaf;

/* ------------------------------------------------------------------ files */

typedef struct ckpt_file ckpt_file;

/* ckpt_open - opens PATH, a file or a directory of shards, and reads its metadata, but no tensor. The
 * format is recognized by content alone. "-" is standard input (a pipe is first spooled to an unlinked
 * temporary file). LIMITS may be NULL. The caller passes *OUT to ckpt_close(). */
CKPT_API CKPT_MUST_CHECK ckpt_status ckpt_open(const char *path, const ckpt_limits *limits, ckpt_file **out,
                                               ckpt_error *err);
/* ckpt_open_merged - opens the COUNT >= 1 checkpoints PATHS, of any formats, as one that has the tensors of
 * all, in the order of PATHS. ROOT: the container in each whose entries are merged, a joined name; "": all of
 * the file; NULL or "auto": its weights, without what is next to them, which a notice reports. CKPT_EEXIST:
 * two of them have a tensor of the same name; the error names both. CKPT_ENOTFOUND: one has no ROOT. A value
 * or metadata that several of them have are those of the first, with a notice. LIMITS, *OUT and errors are as
  * for ckpt_open. */
CKPT_API CKPT_MUST_CHECK ckpt_status ckpt_open_merged(const char *const *paths, size_t count,
                                                      const char *root, const ckpt_limits *limits,
                                                      ckpt_file **out, ckpt_error *err);

/* ckpt_open_names - opens PATH as ckpt_open does, or as a text of names: one on each line, which ends at a
 * tab, two blanks or the end of the line; or in quotes, as Python prints lists and dicts. A shape may
 * follow a name. The file then has tensors with these names and shapes and nothing else, for ckpt_diff with
 * keys_only. The text may be the error by which torch's load_state_dict refused a checkpoint: the tensors
 * are then those that it names, and ckpt_diff takes all others as the same. */
CKPT_API CKPT_MUST_CHECK ckpt_status ckpt_open_names(const char *path, const ckpt_limits *limits,
                                                     ckpt_file **out, ckpt_error *err);

/* ckpt_salvage - opens a file that may be damaged, and reads all of it. Tensors are lost if some of their
 * bytes are missing or their checksum is wrong: they become tensors without data, which plans of the file do
 * not write. */
CKPT_API CKPT_MUST_CHECK ckpt_status ckpt_salvage(const char *path, const ckpt_limits *limits,
                                                  ckpt_file **out, ckpt_error *err);
/* A tensor that ckpt_salvage could not read, and why. */
typedef struct {
    uint32_t row;
    ckpt_str why;
    uint64_t offset; /* of the damage, or CKPT_NO_OFFSET */
    ckpt_str shard;  /* the file of a set that OFFSET is in; empty: the file that was opened */
} ckpt_lost;
/* ckpt_lost_count, ckpt_lost_at - return the number of tensors that are lost, and number INDEX of them; NULL
 * past the end. */
CKPT_API size_t ckpt_lost_count(const ckpt_file *file);
CKPT_API const ckpt_lost *ckpt_lost_at(const ckpt_file *file, size_t index);
/* ckpt_lost_parts - returns how many parts of the file ckpt_salvage could not read without knowing which
 * tensors they had, such as the list of the members of an archive. There is a notice about each. */
CKPT_API uint64_t ckpt_lost_parts(const ckpt_file *file);

/* ckpt_open_memory - opens the SIZE bytes at DATA, which must exist as long as the
 * file and its plans. NAME is used in error messages. */
CKPT_API CKPT_MUST_CHECK ckpt_status ckpt_open_memory(const void *data, size_t size, const char *name,
                                                      const ckpt_limits *limits, ckpt_file **out,
                                                      ckpt_error *err);

/* Bytes that the program reads by itself: from an object store, an archive, a sandbox … */
typedef struct {
    uint32_t struct_size;
    uint32_t serialize; /* call read_at from one thread at a time; 0: it may be called from several at once */
    uint64_t size;      /* number of bytes; it must not change */
    /* read_at - reads up to N bytes from OFFSET on into BUF, as pread(2) does. N is 1 or more, and OFFSET + N
     * is not beyond `size`. Returns how many it read; after fewer than N it is called again for the others.
     * A negative result is a negated errno. That, 0 and more than N are CKPT_EIO at that offset. It must
     * return the same bytes each time, and must not call the library with the file that it reads for. */
    int64_t (*read_at)(void *user, uint64_t offset, void *buf, size_t n);
    /* close - is called once, after the last call of read_at. NULL: nothing to do. */
    void (*close)(void *user);
    void *user;
    /* will_read - is called before the NBYTES bytes at OFFSET are read, perhaps: they, and others that were
     * announced, can be fetched at once when the first of them is read. NULL: reading takes no time. */
    void (*will_read)(void *user, uint64_t offset, uint64_t nbytes);
} ckpt_callbacks;

/* ckpt_open_callbacks - opens the bytes that CALLBACKS read; the struct is copied. NAME is used in error
 * messages. If the call fails, close is not called. */
CKPT_API CKPT_MUST_CHECK ckpt_status ckpt_open_callbacks(const ckpt_callbacks *callbacks, const char *name,
                                                         const ckpt_limits *limits, ckpt_file **out,
                                                         ckpt_error *err);

/* ckpt_remote_open - sets OUT to callbacks that read the file at URL, with the checks of ckpt_open, for a
 * program that passes its bytes on, such as to a process without rights. It begins with https://, http://,
 * hf:// or s3://; REMOTE must outlive OUT. The caller releases OUT by OUT->close(OUT->user), once, unless
 * a file or builder took it over. After a read that failed, all others fail. Errors are as for ckpt_open.
 * CKPT_EUNSUPPORTED: a folder. */
CKPT_API CKPT_MUST_CHECK ckpt_status ckpt_remote_open(const char *url, const ckpt_remote *remote,
                                                      ckpt_callbacks *out, ckpt_error *err);
/* ckpt_remote_failure - sets ERR to why a read by CALLBACKS, which ckpt_remote_open made and nothing has
 * closed, failed, and returns its status; CKPT_OK: none did. */
CKPT_API ckpt_status ckpt_remote_failure(const ckpt_callbacks *callbacks, ckpt_error *err);

typedef struct {
    uint32_t struct_size;
    uint32_t salvage; /* open as ckpt_salvage does */
    uint32_t names;   /* open as ckpt_open_names does; not with salvage */
    uint32_t reserved;
    const ckpt_limits *limits; /* or NULL */
    /* Where the bytes come from: data, as for ckpt_open_memory, or callbacks. Both NULL: the file at PATH. */
    const void *data;
    size_t size; /* of data */
    const ckpt_callbacks *callbacks;
    /* progress - is called after each read, on the calling thread; nonzero stops with CKPT_ECANCELLED. DONE:
     * the bytes read so far; those read twice count twice. TOTAL: the bytes to be read as far as known; it
     * grows, because sizes are in metadata that are read one after the other, and is never less than DONE.
     * With salvage it is the size of the file. Not called while a pipe is spooled. */
    int (*progress)(void *user, uint64_t done, uint64_t total);
    void *user;
    /* The names of the NWANTED tensors that the caller needs, each perhaps with "[slice]" after it; 0: all.
     * If PATH is a set of shards whose index lists them, only the shards that hold them are read, with all
     * their tensors, and faults of the others are not noticed. Any other file is opened completely. */
    const char *const *wanted;
    size_t nwanted;
} ckpt_open_options;

/* ckpt_open_with - opens a file with the options OPTS; the functions above are short forms of it. PATH is
 * the file or, if OPTS have the bytes, the name for error messages. The other files of an index of
 * shards are always expected in the folder of PATH. CKPT_EUSAGE: both data and callbacks, or both salvage
 * and names. */
CKPT_API CKPT_MUST_CHECK ckpt_status ckpt_open_with(const char *path, const ckpt_open_options *opts,
                                                    ckpt_file **out, ckpt_error *err);

/* ckpt_close - frees FILE and all that was obtained from it, at once or with the last of its plans. NULL is
 * allowed. */
CKPT_API void ckpt_close(ckpt_file *file);

/* ckpt_file_path - returns the path, or the name, with which FILE was opened. */
CKPT_API const char *ckpt_file_path(const ckpt_file *file);
/* ckpt_file_format, ckpt_file_title - return the name of FILE's format, "torch-zip", and the same for people,
 * "torch zip". */
CKPT_API const char *ckpt_file_format(const ckpt_file *file);
CKPT_API const char *ckpt_file_title(const ckpt_file *file);
/* ckpt_file_contains_path - returns true if PATH, by any of its names, is one of the files that FILE consists
 * of, such as a shard; also if that cannot be examined. A program that writes there can read FILE no more. */
CKPT_API bool ckpt_file_contains_path(const ckpt_file *file, const char *path);
/* ckpt_file_bytes - returns the size of FILE on disk, with all its shards. */
CKPT_API uint64_t ckpt_file_bytes(const ckpt_file *file);
/* ckpt_tensor_count - returns the number of tensors, including components and ties. */
CKPT_API uint32_t ckpt_tensor_count(const ckpt_file *file);
/* ckpt_file_count_unread - returns for how many tensors of FILE ckpt_tensor_is_unread is true. Sets *FIRST,
 * which may be NULL, to the number of the first; CKPT_NO_TENSOR: there is none. */
CKPT_API uint64_t ckpt_file_count_unread(const ckpt_file *file, uint32_t *first);

/* ckpt_tensor_at - sets *OUT to tensor INDEX in document order. What it points to exists until FILE
 * is closed. False: past the end, and *OUT is empty. */
CKPT_API bool ckpt_tensor_at(const ckpt_file *file, uint32_t index, ckpt_tensor *out);

/* ckpt_tensor_name - returns the name of tensor INDEX at less cost than ckpt_tensor_at; empty past the
 * end. */
CKPT_API ckpt_str ckpt_tensor_name(const ckpt_file *file, uint32_t index);
/* ckpt_tensor_names - sets OUT to the names of at most COUNT tensors from FIRST on, for bindings in which a
 * call is dear. Returns how many there are. */
CKPT_API uint32_t ckpt_tensor_names(const ckpt_file *file, uint32_t first, uint32_t count, ckpt_str *out);

/* ckpt_file_narrow - keeps in FILE only the tensors and values below ROOT whose names match GLOBS ("!GLOB"
 * excludes; none: all), and removes ROOT from their names. ROOT is a path of containers, as many as exist,
 * which may end in a common prefix of names in the last one. "auto": the weights; NULL: all. No plan can be
 * made of FILE afterwards. CKPT_ENOTFOUND: nothing is below ROOT. */
CKPT_API CKPT_MUST_CHECK ckpt_status ckpt_file_narrow(ckpt_file *file, const char *root,
                                                      const char *const *globs, size_t nglobs,
                                                      ckpt_error *err);

/* ckpt_tensor_json - writes tensor INDEX into OUT as an object of the list `tensors` in ckpt.ls.v1.json.
 * Returns and cuts as ckpt_text_escape does; 0: past the end, or out of memory. */
CKPT_API size_t ckpt_tensor_json(const ckpt_file *file, uint32_t index, char *out, size_t cap);

typedef struct {
    uint32_t struct_size;
    uint32_t reserved;
    const uint32_t *rows; /* only these, in this order; NULL: all, in document order */
    size_t nrows;
} ckpt_table_json_options;

/* ckpt_table_json - sets *TEXT to the table as one JSON document, that of `ckpt ls --json`
 * (ckpt.ls.v1.json), for programs in other languages. It has *LEN bytes and a NUL; the caller passes it to
 * ckpt_free(). A file_offset that is null may be known after ckpt_file_locate. OPTS may be NULL.
 * CKPT_EUSAGE: a tensor in `rows` does not exist. */
CKPT_API CKPT_MUST_CHECK ckpt_status ckpt_table_json(const ckpt_file *file,
                                                     const ckpt_table_json_options *opts, char **text,
                                                     size_t *len, ckpt_error *err);

/* ckpt_tensor_find - returns the number of the first tensor with the joined name NAME, or CKPT_NO_TENSOR. */
CKPT_API uint32_t ckpt_tensor_find(const ckpt_file *file, ckpt_str name);
/* ckpt_storage_count, ckpt_storage_at - return the number of storages, and set *OUT to storage INDEX, as
 * ckpt_tensor_at does for tensors. False: past the end. */
CKPT_API uint32_t ckpt_storage_count(const ckpt_file *file);
CKPT_API bool ckpt_storage_at(const ckpt_file *file, uint32_t index, ckpt_storage *out);
/* ckpt_file_root - returns the root of the value graph; NULL: there is none. */
CKPT_API const ckpt_value *ckpt_file_root(const ckpt_file *file);
/* ckpt_leaf_count, ckpt_leaf_at - return the number of values that are not tensors, and number INDEX of them;
 * NULL past the end. */
CKPT_API size_t ckpt_leaf_count(const ckpt_file *file);
CKPT_API const ckpt_leaf *ckpt_leaf_at(const ckpt_file *file, size_t index);

/* ckpt_notice_at - returns notice INDEX, escaped: what a user should know though it is
 * no error ("two tensors are both called …"). NULL past the end. */
CKPT_API const char *ckpt_notice_at(const ckpt_file *file, size_t index);

/* ckpt_file_locate - sets the file_offset of tensors and storages. In most formats
 * it is known at once. In a zip archive it depends on the local header of each
 * record, and is CKPT_NO_OFFSET until this is called. */
CKPT_API CKPT_MUST_CHECK ckpt_status ckpt_file_locate(ckpt_file *file, ckpt_error *err);

/* ckpt_file_ignore_crc - makes a wrong CRC-32 of a record a notice instead of an error. Of a member of an
 * archive, this function compares the checksum itself, and reads all of the member. */
CKPT_API void ckpt_file_ignore_crc(ckpt_file *file, bool ignore);

/* ckpt_file_ignore_case - makes the globs of ckpt_file_narrow ignore the case of ASCII letters. */
CKPT_API void ckpt_file_ignore_case(ckpt_file *file, bool ignore);

/* ckpt_tensor_read - reads COUNT elements of tensor INDEX, from FIRST on in row-major order,
 * into OUT: contiguous, little-endian, conj and neg applied. OUT must have room for
 * COUNT elements of ckpt_dtype_bits()/8 bytes (packed sub-byte types and ggml's
 * block types count bytes). CKPT_ELOSSY: the tensor has no bytes of its own. */
CKPT_API CKPT_MUST_CHECK ckpt_status ckpt_tensor_read(ckpt_file *file, uint32_t index, uint64_t first,
                                                      uint64_t count, void *out, ckpt_error *err);

/* ckpt_tensor_read_as - reads as ckpt_tensor_read does, each element converted to DTYPE as ckpt_plan_cast
 * does. Elements of ggml's blocks are counted as the shape counts them. CKPT_ELOSSY: the tensor cannot become
 * DTYPE. */
CKPT_API CKPT_MUST_CHECK ckpt_status ckpt_tensor_read_as(ckpt_file *file, uint32_t index, ckpt_dtype dtype,
                                                         uint64_t first, uint64_t count, void *out,
                                                         ckpt_error *err);

/* ckpt_tensor_borrow - sets *BYTES to the *NBYTES bytes of tensor INDEX where they are stored, without a
 * copy. They are the bytes that ckpt_tensor_read gives, at any alignment, and must not be changed. They are
 * valid until FILE and its plans are closed. In a file opened by ckpt_open_memory they are in the memory of
 * the caller. Any other file is mapped: if a program truncates it, reading the bytes ends this process with
 * SIGBUS, so use this only for files that nobody writes to. Checksums are not compared. CKPT_EUNSUPPORTED,
 * with the reason: a copy is needed, because the bytes are compressed, strided, big-endian, in pieces,
 * conjugated or negated, or come from callbacks. CKPT_ELOSSY: the tensor has no bytes of its own. */
CKPT_API CKPT_MUST_CHECK ckpt_status ckpt_tensor_borrow(ckpt_file *file, uint32_t index, const void **bytes,
                                                        size_t *nbytes, ckpt_error *err);

/* ckpt_tensor_stream - passes all bytes of tensor INDEX to TAKE, in chunks of at most 256 KiB, with USER;
 * nonzero stops with CKPT_ECANCELLED. Checks the CRC of the record if there is one. */
CKPT_API CKPT_MUST_CHECK ckpt_status ckpt_tensor_stream(ckpt_file *file, uint32_t index,
                                                        int (*take)(void *user, const void *bytes, size_t n),
                                                        void *user, ckpt_error *err);

/* ---------------------------------------------------------------- builder */

/* A checkpoint from scratch: the program adds names, dtypes, shapes and the places of the bytes, and
 * ckpt_builder_finish makes a ckpt_file of them, which can be used like any other file. Tensor bytes are
 * neither copied nor read before the file is written, digested or compared. Entries keep the order in which
 * they were added. All texts are UTF-8, and are copied.
 *
 * After the first call that fails, each later call returns the same status and error, so that a program may
 * check ckpt_builder_finish alone. A builder may be used by one thread at a time. */
typedef struct ckpt_builder ckpt_builder;

/* ckpt_builder_new - sets *OUT to an empty builder, which the caller passes to ckpt_builder_finish() or
 * ckpt_builder_free(). NAME becomes the result of ckpt_file_path, and is used in error messages. */
CKPT_API CKPT_MUST_CHECK ckpt_status ckpt_builder_new(const char *name, ckpt_builder **out, ckpt_error *err);
/* ckpt_builder_free - frees BUILDER with all entries, and calls `close` of their callbacks. NULL is
 * allowed. */
CKPT_API void ckpt_builder_free(ckpt_builder *builder);

/* A tensor's bytes are contiguous, row-major and little-endian, as ckpt_tensor_read gives them. */
typedef struct {
    uint32_t struct_size;
    uint32_t dtype;        /* ckpt_dtype; float4 counts pairs, as torch does */
    const uint64_t *shape; /* ndim sizes, outermost first; copied */
    uint32_t ndim;         /* 0: a scalar */
    uint32_t reserved;
    const void *data; /* the bytes, which must exist as long as the file and its plans; or NULL */
    size_t nbytes;    /* of data: as many as dtype and shape take */
    const ckpt_callbacks *callbacks; /* read the bytes if data is NULL. The struct is copied */
} ckpt_builder_tensor;

/* ckpt_builder_add_tensor - adds TENSOR as the entry KEY of the open dict. CKPT_EEXIST: the dict has an
 * entry of this name. CKPT_EUSAGE: the number of bytes is not that of dtype and shape, or is above 2^64; the
 * dtype is quantized or exists only in numpy. If the call succeeds, the callbacks belong to BUILDER, and are
 * closed with BUILDER or with the file. `serialize` applies to one tensor: callbacks of two tensors may be
 * called at the same time. If a callback fails, a write fails with CKPT_EIO and leaves nothing. */
CKPT_API ckpt_status ckpt_builder_add_tensor(ckpt_builder *builder, const char *key,
                                             const ckpt_builder_tensor *tensor, ckpt_error *err);

/* ckpt_builder_add_tie - adds KEY as one more name of the tensor with the joined name TENSOR_NAME. Both names
 * share a storage in formats that have storages; for others, see `ties` of ckpt_write_options.
 * CKPT_ENOTFOUND: TENSOR_NAME was not added. */
CKPT_API ckpt_status ckpt_builder_add_tie(ckpt_builder *builder, const char *key, const char *tensor_name,
                                          ckpt_error *err);

/* ckpt_builder_add_none, _bool, _int, _float, _text - add a value that is no tensor. Formats that hold only
 * tensors leave values out, which ckpt_plan_dropped_at lists. */
CKPT_API ckpt_status ckpt_builder_add_none(ckpt_builder *builder, const char *key, ckpt_error *err);
CKPT_API ckpt_status ckpt_builder_add_bool(ckpt_builder *builder, const char *key, bool value,
                                           ckpt_error *err);
CKPT_API ckpt_status ckpt_builder_add_int(ckpt_builder *builder, const char *key, int64_t value,
                                          ckpt_error *err);
CKPT_API ckpt_status ckpt_builder_add_float(ckpt_builder *builder, const char *key, double value,
                                            ckpt_error *err);
CKPT_API ckpt_status ckpt_builder_add_text(ckpt_builder *builder, const char *key, const char *text,
                                           ckpt_error *err);

/* ckpt_builder_begin_dict - adds a dict as KEY and opens it: the entries up to its ckpt_builder_end_dict are
 * in it, and their joined names begin with "KEY.". Formats that hold only tensors have the joined
 * names. Dicts may be nested 1000 deep. */
CKPT_API ckpt_status ckpt_builder_begin_dict(ckpt_builder *builder, const char *key, ckpt_error *err);
/* ckpt_builder_end_dict - closes the dict that was opened last. CKPT_EUSAGE: none is open. */
CKPT_API ckpt_status ckpt_builder_end_dict(ckpt_builder *builder, ckpt_error *err);

/* ckpt_builder_add_metadata - adds a pair to the metadata, which safetensors have; other formats leave it
 * out, and ckpt_plan_dropped_at lists it. CKPT_EEXIST: KEY was added before. */
CKPT_API ckpt_status ckpt_builder_add_metadata(ckpt_builder *builder, const char *key, const char *text,
                                               ckpt_error *err);

/* ckpt_builder_finish - sets *OUT to the file, which the caller passes to ckpt_close(). Its format is
 * "memory", its ckpt_file_bytes are those of its tensors. Frees BUILDER even if it fails. CKPT_EUSAGE: a dict
 * is still open. */
CKPT_API CKPT_MUST_CHECK ckpt_status ckpt_builder_finish(ckpt_builder *builder, ckpt_file **out,
                                                         ckpt_error *err);

/* ------------------------------------------------------------------- info */

/* A prefix that a wrapper, such as DataParallel, has added to the keys of a mapping. */
typedef struct {
    ckpt_str prefix;   /* "module." */
    ckpt_str where;    /* joined name of the mapping, "" for the root */
    uint64_t tensors;  /* tensors of that mapping whose keys have the prefix */
    uint64_t of;       /* all tensors of that mapping */
    uint32_t anywhere; /* some keys have the prefix after their start (_orig_mod.) */
    uint32_t certain;  /* ckpt_plan_strip_auto removes it */
} ckpt_wrapper;

/* A mapping of names to one network's parameters and buffers, or to averaged copies (EMA, SWA) of them. */
typedef struct {
    ckpt_str name; /* joined name of the mapping, "" for the root */
    uint32_t averaged;
    uint64_t tensors, elements, bytes; /* of its own keys; tied tensors count once */
    ckpt_str prefix;   /* "net.": at least three quarters of its keys begin with it. A quarter is enough for
                        * a name of averaged copies ("ema."). Empty: none, or that of a wrapper or layer */
    uint64_t prefixed; /* how many of its keys begin with PREFIX */
} ckpt_weights;

/* The ranks of the training run that wrote a folder. A number that is not known is 0. */
typedef struct {
    uint64_t ranks; /* how many ranks wrote the folder */
    uint64_t data_parallel, tensor_parallel, pipeline_parallel;
    uint64_t step;
    uint32_t has_step;
    uint32_t reserved;
} ckpt_ranks;

/* The LoRA weights of a file: pairs of tensors whose product is added to a weight of a base model. */
typedef struct {
    uint64_t modules;            /* how many pairs there are */
    uint64_t rank_min, rank_max; /* the smallest and the largest rank */
} ckpt_adapter;

typedef struct {
    uint32_t struct_size;
    uint32_t has_weights;
    ckpt_str producer;     /* "torch >= 2.7", "safetensors, format=pt"; empty: unknown */
    ckpt_str weights_root; /* joined name of the weights mapping; "" = the root */
    ckpt_str weights_why;  /* why that mapping was chosen */
    size_t nweights;       /* how many ckpt_weights_at returns */
    size_t nwrappers;      /* how many ckpt_wrapper_at returns */
    ckpt_str optimizer;    /* "Adam-like, 42 states" or empty */
    ckpt_str optimizer_path;
    uint64_t elements, nbytes; /* every dense tensor once (aliases not counted) */
    uint64_t unreferenced;     /* bytes of storages that no tensor uses */
    uint64_t aliases;          /* tensors that alias an earlier one */
    ckpt_str weights_only_why; /* "GLOBAL numpy.core.multiarray.scalar at 0x1f …" */
    int32_t weights_only;      /* torch.load(weights_only=True) 1: accepts; 0: refuses; -1: does not apply */
    uint32_t executes_code;    /* it contains code that loading runs: TorchScript, packages */
    const ckpt_ranks *ranks;   /* of a folder that many ranks wrote; NULL: of any other file */
    size_t nquantized;         /* how many ckpt_quantized_at returns */
    const ckpt_adapter *adapter; /* NULL: there are no LoRA weights */
} ckpt_info;

/* A scheme by which weights are quantized: their numbers need scales, which are tensors of their own. */
typedef struct {
    ckpt_str scheme;  /* "GPTQ", "ComfyUI scaled fp8" … */
    uint64_t weights; /* weights that are quantized so */
} ckpt_quantized;

/* ckpt_inspect - sets all of *OUT; its texts exist until the next ckpt_inspect or ckpt_close of FILE. */
CKPT_API CKPT_MUST_CHECK ckpt_status ckpt_inspect(ckpt_file *file, ckpt_info *out, ckpt_error *err);
/* ckpt_weights_at, ckpt_wrapper_at - return weights INDEX and wrapper INDEX that the last ckpt_inspect of
 * FILE found. ckpt_plan_strip and ckpt_plan_add rename the keys of these weights, and a cast without a glob
 * casts their tensors. The prefixes of wrappers are in their keys. NULL past the end. */
CKPT_API const ckpt_weights *ckpt_weights_at(const ckpt_file *file, size_t index);
CKPT_API const ckpt_wrapper *ckpt_wrapper_at(const ckpt_file *file, size_t index);
/* ckpt_quantized_at - returns scheme INDEX of the quantized weights that the last ckpt_inspect of FILE found;
 * NULL past the end. */
CKPT_API const ckpt_quantized *ckpt_quantized_at(const ckpt_file *file, size_t index);

/* ------------------------------------------------------------------- work */

/* How to read large amounts of data. Results do not depend on it. */
typedef struct {
    uint32_t struct_size;
    uint32_t threads; /* 0: as many as there are processors, at most 4 */
    /* progress - is called on the calling thread, with the bytes DONE of TOTAL; nonzero stops */
    int (*progress)(void *user, uint64_t done, uint64_t total);
    void *user;
    /* PARTS not 0: several processes share the work, and this one reads the tensors of part PART, below
     * PARTS, which is at most 65,536. For ckpt_digest_tensors, ckpt_stat, ckpt_diff and ckpt_verify; others
     * ignore it */
    uint32_t part, parts;
    /* exchange - brings the results of all parts together; required if PARTS is not 0. It is called on the
     * calling thread: first, before any tensor is read, with OWN NULL and OWN_BYTES 0. If it then sets *ALL,
     * nothing is read. Else it is called again, unless reading fails, with the results of this part, which it
     * copies; then it must set *ALL. The ALL_BYTES bytes at *ALL, valid until the operation returns, are what
     * OWN was in each of the parts, one after the other in any order; they are checked. The operation goes on
     * as if it had read all tensors. ID, 32 hexadecimal digits, is equal in all processes with the same input
     * and options. Nonzero stops with CKPT_ECANCELLED */
    int (*exchange)(void *user, const char *id, const void *own, size_t own_bytes, const void **all,
                    size_t *all_bytes);
    void *exchange_user; /* the USER of exchange */
} ckpt_work;

/* ----------------------------------------------------------------- digest */

typedef enum { CKPT_SHA256, CKPT_XXH3 } ckpt_algorithm;
#define CKPT_DIGEST_MAX 32

/* ckpt_file_digest_as - makes later digests of FILE convert floats, and the numbers in ggml's blocks, to
 * DTYPE first; other tensors are digested as they are. CKPT_ELOSSY: a tensor cannot become DTYPE. */
CKPT_API CKPT_MUST_CHECK ckpt_status ckpt_file_digest_as(ckpt_file *file, ckpt_dtype dtype, ckpt_error *err);
/* ckpt_digest_dtype - returns the dtype in which tensor INDEX of FILE is digested; CKPT_DT_NONE past the
 * end. */
CKPT_API ckpt_dtype ckpt_digest_dtype(const ckpt_file *file, uint32_t index);

/* ckpt_digest_tensor - computes the digest of the row-major contiguous little-endian
 * bytes of tensor INDEX: 32 bytes (SHA-256) or 16 (XXH3-128, canonical big-endian) in OUT. */
CKPT_API CKPT_MUST_CHECK ckpt_status ckpt_digest_tensor(ckpt_file *file, uint32_t index, ckpt_algorithm alg,
                                                        uint8_t out[CKPT_DIGEST_MAX], ckpt_error *err);

/* ckpt_digest_tensors - computes the digests of all tensors that have data. The digest of tensor I
 * is at DIGESTS + I * CKPT_DIGEST_MAX; there are zeros if it has no data. HOW may be NULL. */
CKPT_API CKPT_MUST_CHECK ckpt_status ckpt_digest_tensors(ckpt_file *file, ckpt_algorithm alg,
                                                         const ckpt_work *how, uint8_t *digests,
                                                         ckpt_error *err);

/* ckpt_digest_file - computes one digest of the names, dtypes, shapes and DIGESTS of all tensors, sorted by
 * name, with kind and note if bytes alone do not determine the values. DIGESTS has ckpt_tensor_count()
 * digests of CKPT_DIGEST_MAX bytes; those of tensors without data are ignored. */
CKPT_API CKPT_MUST_CHECK ckpt_status ckpt_digest_file(ckpt_file *file, ckpt_algorithm alg,
                                                      const uint8_t *digests, uint8_t out[CKPT_DIGEST_MAX],
                                                      ckpt_error *err);

/* ckpt_digest_bytes - computes the digest of the bytes of any file at PATH: with
 * CKPT_SHA256, what sha256sum prints. HOW may be NULL. */
CKPT_API CKPT_MUST_CHECK ckpt_status ckpt_digest_bytes(const char *path, ckpt_algorithm alg,
                                                       const ckpt_work *how, uint8_t out[CKPT_DIGEST_MAX],
                                                       ckpt_error *err);

/* ckpt_digest_payload - computes the digest of the bytes after the header of a safetensors file, which
 * edits of names and metadata do not change. CKPT_EUNSUPPORTED: FILE is not safetensors. */
CKPT_API CKPT_MUST_CHECK ckpt_status ckpt_digest_payload(ckpt_file *file, ckpt_algorithm alg,
                                                         const ckpt_work *how, uint8_t out[CKPT_DIGEST_MAX],
                                                         ckpt_error *err);

/* ------------------------------------------------------------------- stat */

#define CKPT_STAT_BINS 16

/* Statistics of a tensor's numbers. Complex numbers count by their magnitude, a float4
 * pair as two numbers, and quantized tensors by their stored integers. */
typedef struct {
    uint32_t struct_size;
    uint32_t numeric;          /* 0: no data, or not numbers; everything else is 0 */
    uint64_t finite, nan, inf; /* counts; together, all numbers */
    uint64_t zeros;
    double min, max, mean; /* of the finite numbers; NaN: there are none */
    double std;            /* divided by n - 1, as torch.std does; NaN: fewer than two */
    double norm;           /* root of the sum of squares; infinite beyond 1e154 */
    uint32_t wide;         /* int64 or uint64: exact extremes are in min_bits, max_bits */
    uint32_t reserved;
    uint64_t min_bits, max_bits; /* those of int64 have to be converted to int64_t */
    /* how many of `sampled` finite numbers are in each of CKPT_STAT_BINS equal parts of min to max.
     * All numbers are sampled if there are at most 4096 or the type has 8 bits or fewer; otherwise up
     * to 4096, at evenly spread positions that depend only on the number of elements */
    uint64_t histogram[CKPT_STAT_BINS], sampled;
} ckpt_stats;

/* ckpt_stat - computes the statistics of NROWS tensors into as many items of OUT, and reads each tensor once.
 * HOW may be NULL. Only the struct_size of the first item has to be set; it applies to all. */
CKPT_API CKPT_MUST_CHECK ckpt_status ckpt_stat(ckpt_file *file, const uint32_t *rows, size_t nrows,
                                               const ckpt_work *how, ckpt_stats *out, ckpt_error *err);

/* ------------------------------------------------------------------- plan */

/* What to write: a part of a file, and the names and dtypes of its tensors. Making and changing a plan
 * reads no tensor. The file may be closed before the plan is freed. */
typedef struct ckpt_plan ckpt_plan;

/* A new name: of a tensor, or of a key that was renamed together with the tensors. */
typedef struct {
    ckpt_str from, to;
    uint32_t metadata;  /* a module path of _metadata */
    uint32_t value;     /* a key of a value without tensors, or a name in an optimizer's list */
    uint32_t component; /* a component of a composite tensor */
    uint32_t mapping;   /* index for ckpt_plan_mapping_at; past the end: inside a value of a mapping */
} ckpt_rename;

/* A mapping whose keys are renamed. */
typedef struct {
    ckpt_str name; /* joined, below the root of the plan; "": that root */
    uint32_t averaged, optimizer;
    uint64_t tensors, renamed; /* its tensors, and how many of them have new names */
    uint64_t metadata, values; /* how many of its ckpt_rename have these flags */
} ckpt_mapping;

/* ckpt_plan_new - sets *OUT to a plan to write all of FILE without changes. The caller passes it to
 * ckpt_plan_free(), before or after ckpt_close() of FILE. */
CKPT_API CKPT_MUST_CHECK ckpt_status ckpt_plan_new(ckpt_file *file, ckpt_plan **out, ckpt_error *err);
/* ckpt_plan_free - frees PLAN and all that was obtained from it, and its file if that is closed. NULL is
 * allowed. */
CKPT_API void ckpt_plan_free(ckpt_plan *plan);

/* ckpt_plan_root - limits PLAN to the container with the joined name PATH; "auto": to
 * the weights, which a notice names. */
CKPT_API CKPT_MUST_CHECK ckpt_status ckpt_plan_root(ckpt_plan *plan, const char *path, ckpt_error *err);

/* ckpt_plan_allow_none - sets whether a glob, prefix or rule of the calls below may match nothing: that is
 * only a notice then. By default the call fails: CKPT_ENOTFOUND. */
CKPT_API void ckpt_plan_allow_none(ckpt_plan *plan, bool allow);

/* ckpt_plan_keep, ckpt_plan_drop - keep only, or leave out, the tensors whose names match
 * GLOB; further calls keep, or leave out, more. CKPT_ENOTFOUND: GLOB matches nothing. */
CKPT_API CKPT_MUST_CHECK ckpt_status ckpt_plan_keep(ckpt_plan *plan, const char *glob, ckpt_error *err);
CKPT_API CKPT_MUST_CHECK ckpt_status ckpt_plan_drop(ckpt_plan *plan, const char *glob, ckpt_error *err);

/* ckpt_plan_strip, _strip_auto, _add - remove PREFIX, or the prefixes of known wrappers, or add PREFIX: in
 * the mappings that ckpt_weights_at lists, in their _metadata and in optimizer state keyed by name; or, after
 * ckpt_plan_root, in every state dict below the root. Nothing inside a value of a mapping is renamed.
 * CKPT_EEXIST names both keys of a collision. CKPT_ENOTFOUND: no key has PREFIX, or there is none to add it
 * to; _strip_auto gives a notice instead. */
CKPT_API CKPT_MUST_CHECK ckpt_status ckpt_plan_strip(ckpt_plan *plan, const char *prefix, bool anywhere,
                                                     ckpt_error *err);
CKPT_API CKPT_MUST_CHECK ckpt_status ckpt_plan_strip_auto(ckpt_plan *plan, ckpt_error *err);
CKPT_API CKPT_MUST_CHECK ckpt_status ckpt_plan_add(ckpt_plan *plan, const char *prefix, ckpt_error *err);

/* ckpt_plan_rename_regex - replaces each match in each key. RULE is "REGEX=>REPL": a POSIX
 * extended expression, and a text with \1..\9 for its groups and \0 for the match. CKPT_ENOTFOUND: no key
 * matches. */
CKPT_API CKPT_MUST_CHECK ckpt_status ckpt_plan_rename_regex(ckpt_plan *plan, const char *rule,
                                                            ckpt_error *err);

/* ckpt_plan_rename_pairs - renames the key of each of the COUNT PAIRS to its text. A key is a name in a state
 * dict, or the joined name in the file, and then the new name is joined, too. Both are UTF-8, and are
 * copied. All are renamed at the same time, so that two names can be swapped. CKPT_ENOTFOUND names a key
 * that does not exist, CKPT_EEXIST two keys that would get the same name; nothing is renamed then. */
CKPT_API CKPT_MUST_CHECK ckpt_status ckpt_plan_rename_pairs(ckpt_plan *plan, const ckpt_pair *pairs,
                                                            size_t count, ckpt_error *err);

/* ckpt_plan_rename_map - renames by the pairs in the file at PATH, a JSON object {"old":"new"}. */
CKPT_API CKPT_MUST_CHECK ckpt_status ckpt_plan_rename_map(ckpt_plan *plan, const char *path, ckpt_error *err);

/* A number that rules of ckpt_plan_edit name as $NAME. */
typedef struct {
    ckpt_str name;
    int64_t value;
} ckpt_parameter;
typedef struct {
    uint32_t struct_size;
    uint32_t reserved;
    const char *file; /* with the rules, which errors name; NULL: none */
    const ckpt_parameter *parameters;
    size_t nparameters;
    const char *recipe;        /* the rules are those of this recipe; NULL: none */
    const char *const *shards; /* files with the names of PLAN's file: each has a part of every tensor */
    size_t nshards;
} ckpt_edit_options;
/* ckpt_plan_edit - applies RULES, a text as ckpt-rules(5) describes it (NULL: read from opts->file, or those
 * of opts->recipe), to the tensors of PLAN. Names are those below the root of PLAN. It changes the file of
 * PLAN, which must have no other plan; the rules are to come before a cast of all weights. A rule may name
 * other files: they are opened with the limits of PLAN's file. A parameter that opts->parameters lacks may
 * come from config.json or params.json next to PLAN's file.
 * CKPT_EUSAGE: a rule is malformed, or does not fit the tensors; CKPT_ENOTFOUND: it matches nothing. */
CKPT_API CKPT_MUST_CHECK ckpt_status ckpt_plan_edit(ckpt_plan *plan, const char *rules,
                                                    const ckpt_edit_options *opts, ckpt_error *err);
/* A parameter that the rules define. */
typedef struct {
    ckpt_str name;
    int64_t value;
    ckpt_str key;      /* of the config.json that it comes from; empty: it was given or computed */
    uint32_t is_given; /* by the options */
} ckpt_edit_parameter;
/* ckpt_plan_edit_parameter_at - returns parameter INDEX of all calls of ckpt_plan_edit; NULL past the end. */
CKPT_API const ckpt_edit_parameter *ckpt_plan_edit_parameter_at(const ckpt_plan *plan, size_t index);
/* What one rule did. */
typedef struct {
    uint32_t line, column; /* of its verb; both count from 1 */
    ckpt_str text;
    const char *verb;
    uint64_t tensors, made; /* tensors that it was about, and that it made of them */
    uint64_t values;        /* values that are not tensors, and that it set */
} ckpt_edit_step;
/* A tensor or value that a rule read or made. Those of one application of a rule follow each other, those
 * that it read first. */
typedef struct {
    uint32_t step, application; /* index of the rule, number of the application in it */
    uint32_t is_made;
    uint32_t dtype, ndim;
    ckpt_str name;
    const uint64_t *shape;
    const ckpt_value *value; /* NULL: it is a tensor */
} ckpt_edited;
/* ckpt_plan_edit_step_at, ckpt_plan_edited_at - return what rule INDEX of all calls of ckpt_plan_edit did,
 * and number INDEX of the tensors that they read and made; NULL past the end. */
CKPT_API const ckpt_edit_step *ckpt_plan_edit_step_at(const ckpt_plan *plan, size_t index);
CKPT_API const ckpt_edited *ckpt_plan_edited_at(const ckpt_plan *plan, size_t index);

/* Rules that come with ckpt: from the layout of one library to that of another. */
typedef struct {
    uint32_t struct_size;
    uint32_t joins; /* it takes the files of tensor-parallel ranks: see opts->shards of ckpt_plan_edit */
    const char *name;
    ckpt_str title, source; /* a line; the library and version that it was checked against */
    ckpt_str text;
} ckpt_recipe;
/* A parameter of a recipe. */
typedef struct {
    ckpt_str name, definition, help; /* the keys of config.json that it comes from; what it is */
} ckpt_recipe_parameter;
/* ckpt_recipe_at - sets *OUT to recipe INDEX, in the order of their names. False: there are fewer. */
CKPT_API bool ckpt_recipe_at(size_t index, ckpt_recipe *out);
/* ckpt_recipe_parameter_at - sets *OUT to parameter INDEX of the recipe with TEXT. False: there are fewer. */
CKPT_API bool ckpt_recipe_parameter_at(ckpt_str text, size_t index, ckpt_recipe_parameter *out);

typedef enum {
    CKPT_AVERAGE_LINEAR, /* the sum of w x, divided by that of w; or base + the sum of w (x - base) */
    CKPT_AVERAGE_TIES,   /* with a base: of each difference the largest elements, where their signs agree */
    CKPT_AVERAGE_SLERP   /* of two files: on the arc between both */
} ckpt_average_method;
typedef enum {
    CKPT_NORMALIZE_USUAL, /* linear without a base, and ties */
    CKPT_NORMALIZE_YES,   /* divide weighted sums by the sum of the weights */
    CKPT_NORMALIZE_NO
} ckpt_normalize;
/* How ckpt_plan_average makes a tensor of those of several files; ckpt-average(1) has the formulas. */
typedef struct {
    uint32_t struct_size;
    uint32_t method;          /* ckpt_average_method */
    uint32_t normalize;       /* ckpt_normalize */
    uint32_t others_equal;    /* what is not averaged must be equal in all files */
    const char *const *paths; /* of the files, in the order in which their numbers are summed up */
    size_t npaths;
    size_t own;              /* index of the path of the plan's file, which is not opened again */
    const char *base;        /* path of the base, from which the files differ; NULL: none */
    const char *root;        /* the part of the other files that is used, as in ckpt_plan_root; NULL: all */
    const double *weights;   /* by file; NULL: equal */
    const double *densities; /* of ties, by file: which share of its differences is kept; NULL: all */
    const double *lambda;    /* the factor of the sum of differences; NULL: 1 */
    const double *t;         /* of slerp, 0 is the first file, 1 the second; NULL: 0.5 */
} ckpt_average_options;
/* ckpt_plan_average - makes each tensor of floats and complex numbers of PLAN the average of those with its
 * name in all files. All is computed in float64, in the order of the files, and rounded once to the tensor's
 * dtype. Integers, bools, step counters, scalars of numpy and all that is no tensor stay as they are in
 * PLAN's file. Numbers are computed when PLAN is written; those that overflow are in a notice of the write,
 * and the names of their tensors in ckpt_plan_overflow_at. Tensors that are tied in every file stay tied.
 * Changes the file of PLAN, which must have no other plan. Other files are opened with the limits of PLAN's
 * file. CKPT_ELOSSY: names, shapes, dtypes or, with others_equal, values differ; ckpt_plan_mismatch_at lists
 * where. CKPT_EUNSUPPORTED: a tensor is quantized, sparse or of a dtype that has no average. */
CKPT_API CKPT_MUST_CHECK ckpt_status ckpt_plan_average(ckpt_plan *plan, const ckpt_average_options *opts,
                                                       ckpt_error *err);
/* What ckpt_plan_average did. */
typedef struct {
    uint64_t averaged; /* tensors that are averages */
    uint64_t taken;    /* tensors that are as in the plan's file */
} ckpt_averaged;
/* ckpt_plan_averaged - returns what ckpt_plan_average did; NULL: it was not called, or failed. */
CKPT_API const ckpt_averaged *ckpt_plan_averaged(const ckpt_plan *plan);
typedef enum {
    CKPT_MISMATCH_MISSING, /* the file lacks the tensor */
    CKPT_MISMATCH_EXTRA,   /* the plan's file lacks it */
    CKPT_MISMATCH_FORM,    /* dtypes or shapes differ */
    CKPT_MISMATCH_VALUE    /* values differ that had to be equal */
} ckpt_mismatch_kind;
/* A difference because of which files have no average. */
typedef struct {
    uint32_t what; /* ckpt_mismatch_kind */
    uint32_t reserved;
    ckpt_str name;
    const char *path, *own_path; /* of the file that differs, and of the plan's file */
    ckpt_str form, own_form;     /* "float32 [3, 4]", in each of them; empty unless these differ */
} ckpt_mismatch;
/* ckpt_plan_mismatch_at - returns difference INDEX of the files of ckpt_plan_average; NULL past the end. */
CKPT_API const ckpt_mismatch *ckpt_plan_mismatch_at(const ckpt_plan *plan, size_t index);
/* ckpt_plan_overflow_at - returns the name of number INDEX of the computed tensors with numbers beyond the
 * largest of their dtypes in the last write of PLAN; NULL past the end. */
CKPT_API const ckpt_str *ckpt_plan_overflow_at(const ckpt_plan *plan, size_t index);
/* An adapter, and what its changes are multiplied by. */
typedef struct {
    const char *path; /* a folder of peft, or a file of any format */
    double scale;     /* 1: as the adapter has it */
} ckpt_lora_adapter;
typedef struct {
    uint32_t struct_size;
    uint32_t reserved;
    const char *const
        *only; /* globs that select tensors of the adapters; others are not used. NULL: all are */
    size_t nonly;
} ckpt_lora_options;
/* ckpt_plan_lora - adds the COUNT low-rank ADAPTERS (LoRA) to the weights of PLAN, in this order: a weight
 * becomes its sum with the scaled product of two matrices, computed in float64 and rounded once, when it is
 * written. Names are those below the root of PLAN, matched from their end. It changes the file of PLAN, which
 * must have no other plan; adapters are opened with the limits of that file. OPTS may be NULL.
 * CKPT_ENOTFOUND: a tensor of an adapter meets no weight, or does not fit it; ckpt_plan_lora_match_at has the
 * reasons. CKPT_EUNSUPPORTED: an adapter is of a kind that is not merged. */
CKPT_API CKPT_MUST_CHECK ckpt_status ckpt_plan_lora(ckpt_plan *plan, const ckpt_lora_adapter *adapters,
                                                    size_t count, const ckpt_lora_options *opts,
                                                    ckpt_error *err);
/* What became of a tensor of an adapter. */
typedef struct {
    uint32_t adapter; /* index */
    uint32_t reserved;
    ckpt_str tensor, weight; /* names in the adapter and in the plan; WEIGHT is empty if there is a problem */
    const char
        *role; /* "down", "up", "bias", "magnitude", "alpha", "replacement", or "addition": PLAN lacks it */
    uint64_t rank;            /* of the product; 0: the tensor is no part of one */
    double scale;             /* by which the product is multiplied */
    ckpt_str stripped, added; /* the prefix that only TENSOR has, and the one that only WEIGHT has */
    ckpt_str problem;         /* why it is not used; empty: it is */
    ckpt_str nearest;         /* a name in the plan that is similar; may be empty */
} ckpt_lora_match;
/* ckpt_plan_lora_match_at - returns what became of number INDEX of the tensors of all adapters; NULL past
 * the end. */
CKPT_API const ckpt_lora_match *ckpt_plan_lora_match_at(const ckpt_plan *plan, size_t index);

/* ------------------------------------------------------------------ match */

/* How the names and shapes of a checkpoint fit a model, and rules that make them fit. */
typedef struct ckpt_match ckpt_match;
typedef struct {
    uint32_t struct_size;
    uint32_t reserved;
    const char *root;        /* only what is below it in the file is compared; NULL or "auto": the weights */
    const char *wanted_root; /* the same for what is wanted */
} ckpt_match_options;

/* ckpt_match_new - sets *OUT to the comparison of FILE with the names and shapes of WANTED: a checkpoint, or
 * what ckpt_open_names opened. No tensor is read. FILE must have no plan, and can only be closed
 * after ckpt_match_apply. The caller passes *OUT to ckpt_match_free(). CKPT_ENOTFOUND: there is nothing at a
 * root of OPTS. */
CKPT_API CKPT_MUST_CHECK ckpt_status ckpt_match_new(ckpt_file *wanted, ckpt_file *file,
                                                    const ckpt_match_options *opts, ckpt_match **out,
                                                    ckpt_error *err);
/* ckpt_match_free - frees MATCH and all that was obtained from it. NULL is allowed. */
CKPT_API void ckpt_match_free(ckpt_match *match);
/* ckpt_match_root - returns what the rules need as --root of `ckpt edit`; "": nothing. */
CKPT_API const char *ckpt_match_root(const ckpt_match *match);
/* ckpt_match_is_cut - returns true if the names differ in so many forms that rules may exist that were not
 * found. */
CKPT_API bool ckpt_match_is_cut(const ckpt_match *match);

/* Numbers of names. */
typedef struct {
    uint64_t same;       /* wanted, and in the file, with equal shapes as far as these are known */
    uint64_t no_shape;   /* of these, the shape of one is not known */
    uint64_t missing;    /* wanted only */
    uint64_t unexpected; /* in the file only */
    uint64_t reshaped;   /* in both, with other shapes */
} ckpt_match_counts;
/* ckpt_match_count - returns the numbers, after ckpt_match_apply those that the rules make. */
CKPT_API const ckpt_match_counts *ckpt_match_count(const ckpt_match *match);

typedef enum { CKPT_MATCH_MISSING, CKPT_MATCH_UNEXPECTED, CKPT_MATCH_RESHAPED } ckpt_match_what;
/* A name that differs. */
typedef struct {
    uint32_t what;        /* ckpt_match_what */
    uint32_t wanted, row; /* numbers of the tensors in both files, or CKPT_NO_TENSOR */
    ckpt_str name;        /* below the roots, as the rules change it */
} ckpt_match_item;
/* ckpt_match_item_at - returns difference INDEX; NULL past the end. After ckpt_match_apply they are those
 * that the rules leave. */
CKPT_API const ckpt_match_item *ckpt_match_item_at(const ckpt_match *match, size_t index);

/* A rule of ckpt-rules(5). */
typedef struct {
    ckpt_str text;     /* "rename ^encoder\\. => model.encoder." */
    ckpt_str evidence; /* one line; escaped */
    uint32_t certain;  /* 0: it is one of several possibilities, or changes values; a comment */
    uint32_t reserved;
    uint64_t names;        /* how many names it explains */
    uint64_t equal_shapes; /* of these, the shapes are known, and agree after the rule */
} ckpt_match_rule;
/* ckpt_match_rule_at - returns rule INDEX, in the order in which they have to be applied; NULL past the
 * end. */
CKPT_API const ckpt_match_rule *ckpt_match_rule_at(const ckpt_match *match, size_t index);
/* ckpt_match_apply - applies the certain rules, as ckpt_plan_edit does, to a plan that is not written, so
 * that ckpt_match_count and ckpt_match_item_at return what is true after them. Any status but CKPT_OK: `ckpt
 * edit` refuses the rules, for the reason in ERR. */
CKPT_API CKPT_MUST_CHECK ckpt_status ckpt_match_apply(ckpt_match *match, ckpt_error *err);

/* ------------------------------------------------------------------- cast */

/* ckpt_plan_cast - casts tensors to DTYPE as they are written, rounded to nearest, ties to even. If several
 * calls cast a tensor, the last one counts. With a GLOB, casts the floating tensors whose name, or the name
 * of a container around them, matches it. If GLOB is NULL, casts the floating tensors of the mappings that
 * ckpt_weights_at lists, and tensors that share bytes with them; a notice of the write counts the others.
 * float8_e8m0fnu (scales), a 0-dim `step` (a counter), integers and bools are cast only if GLOB is their
 * full name. CKPT_DT_Q8_0, which only GGUF has, needs a last size that is a multiple of 32; tensors of one
 * dimension are cast to it only by their full names. Applies to the tensors and names that the plan has at
 * the time of the call. */
CKPT_API CKPT_MUST_CHECK ckpt_status ckpt_plan_cast(ckpt_plan *plan, const char *glob, ckpt_dtype dtype,
                                                    ckpt_error *err);

/* ckpt_plan_dequantize - makes quantized weights, which ckpt_quantized_at counts, the floats that they stand
 * for: of the dtype and with the bits that their library gives them. Their scales are left out. The numbers
 * are computed as they are written. ggml's blocks become float32. The tensors of the plan's file change, too:
 * call it after ckpt_plan_keep and ckpt_plan_drop, before ckpt_plan_cast, and only for the last plan of a
 * file. Fails if a weight cannot be dequantized: CKPT_EUNSUPPORTED or CKPT_EFORMAT with the reason. */
CKPT_API CKPT_MUST_CHECK ckpt_status ckpt_plan_dequantize(ckpt_plan *plan, ckpt_error *err);
/* A weight that ckpt_plan_dequantize changed. */
typedef struct {
    ckpt_str name;   /* of the quantized tensor, in the file */
    ckpt_str scheme; /* as in ckpt_quantized */
    uint32_t dtype;  /* ckpt_dtype that it became */
} ckpt_dequantized;
/* ckpt_plan_dequantized_at - returns weight INDEX that ckpt_plan_dequantize changed; NULL past the end. */
CKPT_API const ckpt_dequantized *ckpt_plan_dequantized_at(const ckpt_plan *plan, size_t index);

/* ckpt_plan_sanitize - reduces PLAN to tensors and builtin types, as torch.load(weights_only=True) accepts
 * them. May come after ckpt_plan_root, but not with new names or dtypes. FORMAT: the format of the output;
 * NULL: torch zip. */
CKPT_API CKPT_MUST_CHECK ckpt_status ckpt_plan_sanitize(ckpt_plan *plan, const char *format, ckpt_error *err);

/* A value that ckpt_plan_sanitize changed to `instead` ("tensor", "float" …), or left out: then `lost` is
 * 1, and `instead` is "None" in a list and else empty. callable: what loading the value would call. path
 * NULL: the value is a call whose result nothing uses. */
typedef struct {
    ckpt_str name; /* path joined with '.' */
    const ckpt_path_elem *path;
    uint32_t npath;
    uint32_t lost;
    ckpt_str type, callable, instead;
} ckpt_sanitized;
/* ckpt_plan_sanitized_count, ckpt_plan_sanitized_at - return the number of values that ckpt_plan_sanitize
 * changed or left out, and number INDEX of them; NULL past the end. */
CKPT_API size_t ckpt_plan_sanitized_count(const ckpt_plan *plan);
CKPT_API const ckpt_sanitized *ckpt_plan_sanitized_at(const ckpt_plan *plan, size_t index);
/* ckpt_plan_rename_count, ckpt_plan_rename_at - return the number of new names, and number INDEX of them;
 * NULL past the end, or out of memory, because the list is made on first use. */
CKPT_API size_t ckpt_plan_rename_count(const ckpt_plan *plan);
CKPT_API const ckpt_rename *ckpt_plan_rename_at(const ckpt_plan *plan, size_t index);
/* ckpt_plan_mapping_count - returns the number of mappings, for ckpt_plan_mapping_at; 0 before anything was
 * renamed. */
CKPT_API size_t ckpt_plan_mapping_count(const ckpt_plan *plan);
/* ckpt_plan_prefix - returns the prefix that ckpt_plan_strip removed if its PREFIX lacked the dot at the end,
 * else NULL. */
CKPT_API const char *ckpt_plan_prefix(const ckpt_plan *plan);
/* ckpt_plan_mapping_at - returns mapping INDEX that was searched for names; NULL past the end. */
CKPT_API const ckpt_mapping *ckpt_plan_mapping_at(const ckpt_plan *plan, size_t index);
/* ckpt_plan_tensor_count - returns the number of tensors that PLAN writes. */
CKPT_API uint64_t ckpt_plan_tensor_count(const ckpt_plan *plan);

/* ckpt_plan_notice_at - returns notice INDEX of the operations on PLAN, as ckpt_notice_at does. */
CKPT_API const char *ckpt_plan_notice_at(const ckpt_plan *plan, size_t index);

/* ------------------------------------------------------------------ write */

typedef enum { CKPT_TIES_DROP, CKPT_TIES_COPY, CKPT_TIES_ERROR } ckpt_ties;
typedef enum { CKPT_RECOVERED_NOTHING, CKPT_RECOVERED_OLD, CKPT_RECOVERED_NEW } ckpt_recovered;

typedef struct {
    uint32_t struct_size;
    uint32_t force;        /* replace an existing output */
    uint32_t strict;       /* fail if something would be left out, or overflow in a cast */
    uint32_t dry_run;      /* do everything except write */
    uint32_t no_sync;      /* skip the fsyncs */
    uint32_t follow_links; /* in place: edit even if PATH is a symbolic link, or the file has several names */
    uint32_t ties;         /* ckpt_ties: for targets without shared storages */
    uint32_t threads;      /* as in ckpt_work */
    const char *format;    /* NULL: by the suffix of the output, else that of the input */
    uint64_t max_shard;    /* maximum bytes of each file; 0: writes one file */
    int (*progress)(void *user, uint64_t done, uint64_t total); /* nonzero: stop */
    void *user;
    uint64_t shards; /* number of files of a distributed checkpoint; 0: one, or as many as the input has */
    const char *architecture; /* GGUF: general.architecture; NULL: that of the input, which must have one */
    uint32_t compress;        /* npz: deflate its members */
    uint32_t keep_shards;     /* of a set of shards: writes a set with the same shards, if max_shard is 0 */
    uint32_t part, parts;  /* PARTS not 0: writes only part PART of the output, of that many, to a path; see
                               * ckpt_parts_open. At most 65,536. No `force` */
    uint32_t part_by_file; /* a part has files of a set, not ranges of bytes */
    uint32_t reserved;
    /* planned - with `parts`: is called before the first byte is written, with the plan id of the result;
     * nonzero stops with CKPT_ECANCELLED. May be NULL. */
    int (*planned)(void *user, const char *plan_id);
} ckpt_write_options;

/* A value that a write left out, and why. */
typedef struct {
    ckpt_str name; /* path joined with '.' */
    const ckpt_path_elem *path;
    uint32_t npath;
    ckpt_str type, why;
} ckpt_dropped;
/* NAME was written as one more name of the tensor OF. */
typedef struct {
    ckpt_str name, of;
} ckpt_alias;
typedef struct {
    ckpt_str name;
    uint16_t from, to;   /* ckpt_dtype */
    uint64_t elements;   /* tensors that share bytes count once */
    uint64_t overflowed; /* how many of them are beyond the largest value of TO */
    const char *became;  /* what overflowed values became: "inf", "nan" or "448" */
} ckpt_cast;

/* The result of a write. What it points to belongs to the plan, and is valid until its next write. */
typedef struct {
    uint32_t struct_size;
    uint32_t reserved;
    const char *format;
    const char *const *outputs; /* paths, that of an index last; none for memory and descriptors */
    size_t noutputs;
    uint64_t tensors, bytes; /* written: tensors and file bytes */
    size_t ndropped;         /* how many ckpt_plan_dropped_at returns */
    size_t naliases;         /* how many ckpt_plan_alias_at returns */
    size_t ncasts;           /* how many ckpt_plan_cast_at returns */
    const char *plan_id;     /* of an output in parts, else NULL: equal for all of its parts */
    uint64_t part_bytes;     /* the bytes of the part; OUTPUTS, TENSORS, BYTES and the casts are those of all
                              * parts, but OVERFLOWED of a cast counts what this call has written */
    uint64_t part_found;     /* how many of them an earlier run of the part has written */
} ckpt_write_result;

/* ckpt_plan_write - writes PLAN to PATH ("-": standard output). The output
 * appears whole or not at all. OPTS and OUT may be NULL. */
CKPT_API CKPT_MUST_CHECK ckpt_status ckpt_plan_write(ckpt_plan *plan, const char *path,
                                                     const ckpt_write_options *opts, ckpt_write_result *out,
                                                     ckpt_error *err);

/* ckpt_plan_write_memory - writes PLAN into memory: sets *BYTES and their number *NBYTES. The caller passes
 * *BYTES to ckpt_free(). With dry_run, *BYTES is NULL and OUT->bytes is the size that would be written.
 * CKPT_EUSAGE: OPTS has max_shard, or has no format and that of the input cannot be written. Ignores force
 * and no_sync. */
CKPT_API CKPT_MUST_CHECK ckpt_status ckpt_plan_write_memory(ckpt_plan *plan, const ckpt_write_options *opts,
                                                            void **bytes, size_t *nbytes,
                                                            ckpt_write_result *out, ckpt_error *err);

/* ckpt_free - frees the result of ckpt_plan_write_memory or ckpt_table_json. NULL is allowed. */
CKPT_API void ckpt_free(void *bytes);

/* ckpt_plan_write_fd - writes PLAN to the descriptor FD, which must be open for writing: a file (from its
 * position on), a pipe or a socket, blocking or not. FD is neither closed nor synced. The output is first
 * written to a temporary file without a name in $TMPDIR and then copied. So FD gets all of it or, if the
 * call fails, nothing, unless writing to FD fails (CKPT_EIO: a full disk, or a reader that has closed it,
 * which also causes SIGPIPE). OPTS are used as by ckpt_plan_write_memory. */
CKPT_API CKPT_MUST_CHECK ckpt_status ckpt_plan_write_fd(ckpt_plan *plan, int fd,
                                                        const ckpt_write_options *opts,
                                                        ckpt_write_result *out, ckpt_error *err);

/* ckpt_plan_dropped_at, ckpt_plan_alias_at, ckpt_plan_cast_at - return value INDEX that the last write of
 * PLAN left out, name INDEX that it wrote as one more name of a tensor, cast INDEX that it made. NULL past
 * the end. */
CKPT_API const ckpt_dropped *ckpt_plan_dropped_at(const ckpt_plan *plan, size_t index);
CKPT_API const ckpt_alias *ckpt_plan_alias_at(const ckpt_plan *plan, size_t index);
CKPT_API const ckpt_cast *ckpt_plan_cast_at(const ckpt_plan *plan, size_t index);

/* ckpt_plan_write_in_place - renames the tensors in the file of PLAN itself. It changes only metadata, so
 * that the size of the tensors does not matter. It first saves the old bytes in FILE.ckpt-undo, with which
 * ckpt_recover can repair the file after a crash, and removes that at the end. PLAN may change names only;
 * with other changes it fails with CKPT_EUNSUPPORTED, CKPT_EUSAGE or CKPT_ELOSSY. Of OPTS, only dry_run,
 * no_sync and follow_links are used. Reopen the file afterwards. OUT may be NULL. */
CKPT_API CKPT_MUST_CHECK ckpt_status ckpt_plan_write_in_place(ckpt_plan *plan, const ckpt_write_options *opts,
                                                              ckpt_write_result *out, ckpt_error *err);

/* ckpt_metadata_count, ckpt_metadata_at - return the number of pairs in the metadata, and pair INDEX. They
 * are in a safetensors header, in the index of a set, or in GGUF, whose long arrays are abbreviated. False:
 * past the end, and *OUT is empty. */
CKPT_API size_t ckpt_metadata_count(const ckpt_file *file);
CKPT_API bool ckpt_metadata_at(const ckpt_file *file, size_t index, ckpt_pair *out);
/* ckpt_metadata_is_tie - returns true if the key of pair INDEX is one more name of the tensor whose name is
 * its text. */
CKPT_API bool ckpt_metadata_is_tie(const ckpt_file *file, size_t index);
/* ckpt_file_metadata - returns all pairs as one mapping; NULL: the file has none. It is not below
 * ckpt_file_root, nor in the leaves. */
CKPT_API const ckpt_value *ckpt_file_metadata(const ckpt_file *file);
/* ckpt_metadata_write - writes FILE, safetensors or GGUF, to PATH with the COUNT PAIRS as its metadata, and
 * without other changes. Pairs that record ties are replaced, too. A pair of GGUF keeps its type; a new pair
 * is a text unless its key ends in a type, see ckpt-meta(1). PATH NULL: changes the file itself, as
 * ckpt_plan_write_in_place does, if the pairs fit into its header. *BYTES, which may be NULL, becomes the
 * length of the header. Of OPTS, only force, dry_run, no_sync and follow_links are used. CKPT_EUNSUPPORTED:
 * FILE is of a different format, or there is no room. */
CKPT_API CKPT_MUST_CHECK ckpt_status ckpt_metadata_write(ckpt_file *file, const ckpt_pair *pairs,
                                                         size_t count, const char *path,
                                                         const ckpt_write_options *opts, uint64_t *bytes,
                                                         ckpt_error *err);

/* ckpt_recover - repairs PATH after an in-place edit that was interrupted; until then, opening it fails
 * with CKPT_ECHANGED. Undoes the edit, or keeps it if it is complete. *WHAT: what was done, or with
 * dry_run in OPTS would be done; WHAT may be NULL. CKPT_ECHANGED: the undo file is damaged, belongs to a
 * different file, or is not what an edit leaves (a different user may have written it, or it would change
 * more than names); it is not removed then. */
CKPT_API CKPT_MUST_CHECK ckpt_status ckpt_recover(const char *path, const ckpt_write_options *opts,
                                                  ckpt_recovered *what, ckpt_error *err);

/* ckpt_write_format - returns the name of the format that PATH_OR_NAME selects, as the name of a format or by
 * its suffix; NULL: it selects none that can be written. */
CKPT_API const char *ckpt_write_format(const char *path_or_name);

/* ckpt_write_format_at - returns the name of format INDEX of those that can be written, as ckpt_write_options
 * takes it; NULL past the end. */
CKPT_API const char *ckpt_write_format_at(size_t index);

/* ckpt_write_format_suffixes - returns the file name suffixes of the format NAME, separated by blanks, the
 * usual one first; NULL: it has none. */
CKPT_API const char *ckpt_write_format_suffixes(const char *name);

/* ckpt_write_format_is_flat - returns true if the format NAME can be written and has only named tensors and
 * texts. NAME may be NULL. */
CKPT_API bool ckpt_write_format_is_flat(const char *name);

/* ckpt_write_format_is_folder - returns true if the format NAME can be written, as a folder of several files.
 * NAME may be NULL. */
CKPT_API bool ckpt_write_format_is_folder(const char *name);

/* ckpt_emergency_cleanup - removes the temporary files of all writes that are in progress, which can only
 * fail afterwards. Async-signal-safe: for a signal handler that ends the process. */
CKPT_API void ckpt_emergency_cleanup(void);

/* ---------------------------------------------------------------- extract */

/* What becomes of tensors that changed, but that a pair of LoRA cannot express. */
typedef enum {
    CKPT_OTHERS_ERROR, /* they are an error */
    CKPT_OTHERS_DROP,  /* they are left out */
    CKPT_OTHERS_SAVE   /* biases become lora_bias, of others the module is saved: modules_to_save */
} ckpt_others;
typedef struct {
    uint32_t struct_size;
    uint32_t rank;           /* the largest rank of a pair, at least 1 */
    uint32_t dtype;          /* ckpt_dtype of the pairs, a float; CKPT_DT_NONE: float32 */
    uint32_t others;         /* ckpt_others */
    uint32_t fan_in_fan_out; /* matrices are [in, out], as those of Conv1D of transformers */
    uint32_t threads;        /* as in ckpt_work */
    const char *const *only; /* globs that select tensors; others are not compared. NULL: all are */
    size_t nonly;
    const char *const *embeddings; /* globs of weights of embeddings with other names than the usual ones */
    size_t nembeddings;
    int (*progress)(void *user, uint64_t done, uint64_t total); /* as in ckpt_work */
    void *user;
} ckpt_extract_options;
/* An adapter of LoRA that is the difference of two models. */
typedef struct ckpt_extraction ckpt_extraction;
/* ckpt_extract_lora - extracts from the differences of the tensors of TUNED and BASE, which have the same
 * names below the roots of these plans, an adapter as peft has it: for each matrix, and each convolution as
 * a matrix, the largest singular values of its difference and their vectors. All is computed in float64, by
 * LAPACK, and checked; the same LAPACK gives the same bits for any number of threads. Each thread needs
 * memory for the largest difference and for the square of its smaller side. Changes neither plan; both, and
 * their files, must exist as long as *OUT, which the caller passes to ckpt_extraction_free(). CKPT_ELOSSY:
 * a difference cannot be expressed. *OUT is then the list of the reasons, which ckpt_extracted_at returns,
 * and nothing else; after any other failure it is NULL. CKPT_ENOTFOUND: no matrix differs.
 * CKPT_EUNSUPPORTED with sys_errno ENOSYS: LAPACK is not installed. */
CKPT_API CKPT_MUST_CHECK ckpt_status ckpt_extract_lora(ckpt_plan *base, ckpt_plan *tuned,
                                                       const ckpt_extract_options *opts,
                                                       ckpt_extraction **out, ckpt_error *err);
/* ckpt_extraction_free - frees EXTRACTION and all that was obtained from it. NULL is allowed. */
CKPT_API void ckpt_extraction_free(ckpt_extraction *extraction);
typedef enum {
    CKPT_EXTRACTED_PAIR,  /* a pair of matrices */
    CKPT_EXTRACTED_BIAS,  /* the bias of a pair, without loss */
    CKPT_EXTRACTED_SAVED, /* the tensor itself */
    CKPT_EXTRACTED_TIED,  /* nothing: it shares its elements with an earlier one, in both models */
    CKPT_EXTRACTED_NONE   /* nothing: `why` is the reason */
} ckpt_extracted_kind;
/* What became of a tensor that differs, or is saved with others. */
typedef struct {
    ckpt_str name;
    uint32_t kind; /* ckpt_extracted_kind */
    uint32_t is_embedding;
    uint64_t rank;   /* of a pair */
    double norm;     /* of a pair: of the difference, the square root of the sum of the squares */
    double kept;     /* of a pair: which share of that sum its rank keeps, from 0 to 1 */
    const char *why; /* why it is no pair; NULL: it is one */
} ckpt_extracted;
/* ckpt_extracted_at - returns what became of number INDEX of these tensors, in the order of TUNED; NULL past
 * the end. */
CKPT_API const ckpt_extracted *ckpt_extracted_at(const ckpt_extraction *extraction, size_t index);
/* ckpt_extraction_unchanged - returns how many tensors of both models are equal. */
CKPT_API uint64_t ckpt_extraction_unchanged(const ckpt_extraction *extraction);
/* ckpt_extraction_plan - returns the plan of the adapter's tensors, which EXTRACTION owns; NULL after
 * CKPT_ELOSSY. */
CKPT_API ckpt_plan *ckpt_extraction_plan(ckpt_extraction *extraction);
/* ckpt_extraction_config - returns the text of its adapter_config.json. */
CKPT_API ckpt_str ckpt_extraction_config(const ckpt_extraction *extraction);
/* ckpt_extraction_write - writes the adapter as the folder PATH, with adapter_model.safetensors and
 * adapter_config.json: it appears with both or not at all. A folder that has other files is not replaced.
 * Of OPTS, which may be NULL, force, strict, dry_run, no_sync, threads, progress and user count. OUT may be
 * NULL. What OUT points to is valid until EXTRACTION is freed or written again. */
CKPT_API CKPT_MUST_CHECK ckpt_status ckpt_extraction_write(ckpt_extraction *extraction, const char *path,
                                                           const ckpt_write_options *opts,
                                                           ckpt_write_result *out, ckpt_error *err);

/* ------------------------------------------------------------------ parts */

/* An output that several processes write, each by ckpt_plan_write with another `part` in its options, and
 * that appears when all are done, by ckpt_parts_merge. Until then its bytes and a record of each part are
 * in a folder .ckpt-ID next to it, where ID is the plan id. They are the same bytes as one process writes,
 * whatever the number of parts. ckpt-scale(7) describes files, failures and limits. */
typedef struct ckpt_parts ckpt_parts;

typedef enum {
    CKPT_PART_MISSING, /* nothing is recorded of it */
    CKPT_PART_BEGUN,   /* it runs, or was interrupted */
    CKPT_PART_FAILED,
    CKPT_PART_DONE
} ckpt_part_state;

typedef struct {
    uint32_t struct_size;
    uint32_t state;       /* ckpt_part_state */
    uint64_t bytes, done; /* what it has to write; what is recorded as written */
    int64_t updated;      /* when that was recorded, in seconds since 1970; 0: never */
    ckpt_str failure;     /* why it failed; empty: it did not */
    uint64_t overflowed;  /* values that overflowed in casts */
} ckpt_part;

typedef struct {
    uint32_t struct_size;
    uint32_t verify;  /* read all bytes again, and compare them with the digests in the records */
    uint32_t no_sync; /* skip the fsyncs */
    uint32_t reserved;
    int (*progress)(void *user, uint64_t done, uint64_t total); /* of verify; nonzero: stop */
    void *user;
} ckpt_merge_options;

/* ckpt_parts_open - reads the records of the output PATH, a file or the folder of a set; *OUT goes to
 * ckpt_parts_close(). CKPT_ENOTFOUND: no part of it was begun. CKPT_EEXIST: there are parts of two outputs.
 * CKPT_EFORMAT: a record is malformed, or of another plan. */
CKPT_API CKPT_MUST_CHECK ckpt_status ckpt_parts_open(const char *path, ckpt_parts **out, ckpt_error *err);
/* ckpt_parts_open_at - reads the records of output INDEX, from 0, of those that were begun in FOLDER, as
 * ckpt_parts_open does. CKPT_ENOTFOUND: there is none with this index. After any other error, the outputs
 * with other indexes can be opened. */
CKPT_API CKPT_MUST_CHECK ckpt_status ckpt_parts_open_at(const char *folder, size_t index, ckpt_parts **out,
                                                        ckpt_error *err);
CKPT_API void ckpt_parts_close(ckpt_parts *parts); /* NULL is allowed */
/* ckpt_parts_path - returns the path of the output: as given to ckpt_parts_open; after ckpt_parts_open_at,
 * its file, or the file that those of a set are numbered after. */
CKPT_API const char *ckpt_parts_path(const ckpt_parts *parts);
/* ckpt_parts_count, ckpt_parts_at - return the number of parts, and the state of part INDEX when they were
 * opened. False: past the end. */
CKPT_API uint32_t ckpt_parts_count(const ckpt_parts *parts);
CKPT_API bool ckpt_parts_at(const ckpt_parts *parts, uint32_t index, ckpt_part *out);
CKPT_API const char *ckpt_parts_plan_id(const ckpt_parts *parts);
/* ckpt_parts_file_count, ckpt_parts_file_at - return the number of files of the output, and the path of
 * file INDEX, that of an index last; *NBYTES, which may be NULL, becomes its size. NULL: past the end, or
 * out of memory. */
CKPT_API size_t ckpt_parts_file_count(const ckpt_parts *parts);
CKPT_API const char *ckpt_parts_file_at(const ckpt_parts *parts, size_t index, uint64_t *nbytes);
/* ckpt_parts_merge - checks that the records agree and have each byte once, moves the files into place,
 * the index last, and removes the records. OPTS may be NULL. CKPT_ENOTFOUND: parts are not done.
 * CKPT_EFORMAT: records do not agree. CKPT_ECHECKSUM: bytes are not those recorded. CKPT_EEXIST: a file of
 * the output exists. Unless moving them fails, no file is moved then. If moving is interrupted, merging
 * again continues it. */
CKPT_API CKPT_MUST_CHECK ckpt_status ckpt_parts_merge(ckpt_parts *parts, const ckpt_merge_options *opts,
                                                      ckpt_error *err);
/* ckpt_parts_clean - removes all parts of the output PATH, also of several plans. CKPT_EEXIST: they are being
 * merged. */
CKPT_API CKPT_MUST_CHECK ckpt_status ckpt_parts_clean(const char *path, ckpt_error *err);

/* ckpt_parts_command - returns of which command the parts are results, such as "hash", see
 * ckpt_results_open; empty: they are of an output. */
CKPT_API const char *ckpt_parts_command(const ckpt_parts *parts);

/* ---------------------------------------------------------------- results */

/* What several processes find out about a file, each a part, by ckpt_digest_tensors, ckpt_stat, ckpt_diff or
 * ckpt_verify. Each records its results in a folder that all share; when all are done, any process takes them
 * from there and reads no tensor. ckpt_parts_open, with the path of the folder, has the state of the parts;
 * ckpt_parts_clean removes them. */
typedef struct ckpt_results ckpt_results;

typedef enum {
    CKPT_RESULTS_TAKEN,    /* the operation has all results */
    CKPT_RESULTS_RECORDED, /* those of the part are in the folder */
    CKPT_RESULTS_FOUND     /* they were there before, and nothing was read */
} ckpt_results_outcome;

/* ckpt_results_open - sets *OUT to the results of part PART of PARTS, which are recorded in FOLDER; PARTS 0:
 * to those of all parts, which are taken from there. COMMAND is a word for ckpt_parts_command, up to 16
 * lower-case letters. With PARTS 0, CKPT_ENOTFOUND: no part was begun, and CKPT_EEXIST: the parts there are
 * of another command. *OUT goes to ckpt_results_close(). */
CKPT_API CKPT_MUST_CHECK ckpt_status ckpt_results_open(const char *folder, const char *command, uint32_t part,
                                                       uint32_t parts, ckpt_results **out, ckpt_error *err);
/* ckpt_results_share - sets part, parts, exchange and exchange_user of WORK, with which the caller runs one
 * operation before ckpt_results_close(). */
CKPT_API void ckpt_results_share(ckpt_results *results, ckpt_work *work);
/* ckpt_results_close - frees RESULTS (may be NULL). ST and *ERR: how the operation ended. Returns CKPT_OK and
 * sets *OUTCOME to a ckpt_results_outcome, or returns why the operation failed. CKPT_EEXIST: parts of another
 * plan, or of another number of parts, are in the folder. CKPT_ENOTFOUND: parts are not done; the error lists
 * them. CKPT_EFORMAT: what a part has recorded is malformed. */
CKPT_API CKPT_MUST_CHECK ckpt_status ckpt_results_close(ckpt_results *results, ckpt_status st,
                                                        uint32_t *outcome, ckpt_error *err);

/* ------------------------------------------------------------------- diff */

typedef struct {
    uint32_t struct_size;
    uint32_t equal_nan;    /* any two NaN are equal (identical bytes always are) */
    uint32_t keys_only;    /* names, dtypes and shapes; no data is read */
    uint32_t ignore_dtype; /* a different dtype alone is no difference: the numbers are compared */
    uint32_t tensors_only; /* the caller will not compare values: a glob must match a tensor, not a value */
    uint32_t norms;        /* compute rel_l2 and cosine, for which equal tensors have to be decoded, too */
    uint32_t threads;      /* as in ckpt_work */
    uint32_t reserved;
    double rtol, atol; /* |a-b| <= atol + rtol*|b| counts as same */
    const char *root;  /* compare only names below this path, which is removed from them, in each file
                         that has such names; "auto": the weights; NULL: all */
    const char *root_a, *root_b; /* the same for one file, which must have such names; NULL: root */
    const char *ignore_prefix;   /* removed from names of both files, after root; NULL: none */
    const char *const *globs;    /* only names that match a glob and no "!GLOB"; NULL: all */
    size_t nglobs;
    int (*progress)(void *user, uint64_t done, uint64_t total);
    void *user;
    uint32_t allow_none; /* ignore_prefix or a glob may match nothing; otherwise that is CKPT_ENOTFOUND */
    uint32_t reserved2;
    const ckpt_work *how; /* instead of `threads`, `progress` and `user`; NULL: those */
} ckpt_diff_options;

typedef enum {
    CKPT_DIFF_ONLY_A,
    CKPT_DIFF_ONLY_B,
    CKPT_DIFF_RENAMED,     /* the same dtype, shape and bytes under a different name */
    CKPT_DIFF_CHANGED,     /* dtype, shape, type of a key, or values */
    CKPT_DIFF_SAME,        /* identical, or within tolerance */
    CKPT_DIFF_NOT_COMPARED /* nothing that could be read differs, but not all of it could be read */
} ckpt_diff_what;

typedef struct {
    uint32_t what;             /* ckpt_diff_what */
    uint32_t within_tolerance; /* SAME, but not byte for byte */
    ckpt_str name, other;      /* other: the name in B when renamed */
    uint32_t a, b;             /* numbers of the tensors; CKPT_NO_TENSOR: that file has none */
    uint32_t dtype_differs, shape_differs, values_differ, compared;
    uint64_t differing, elements; /* how many elements differ, and how many there are */
    double max_abs, max_rel;      /* NaN if a number that differs is NaN */
    double mean_abs;
    /* NaN without `norms`. rel_l2: |a-b| / |b|, infinite or NaN if max_abs is; cosine: a.b / (|a| |b|), NaN
     * if |a| or |b| is 0. Pairs of numbers that are not finite are left out of both. */
    double rel_l2, cosine;
    uint32_t key_differs; /* a key in the path is an int in one file, a text in the other: 1 and '1' */
    uint32_t reserved;
} ckpt_diff_event;

typedef struct {
    uint32_t struct_size;
    uint32_t reserved;
    uint64_t same, changed, only_a, only_b, renamed;
    uint64_t not_compared; /* not counted in `same` */
} ckpt_diff_totals;

/* ckpt_diff - compares the tensors of LEFT and RIGHT by name, in bounded memory. Calls EVENT for each tensor
 * in natural order of names; nonzero stops. EVENT and TOTALS may be NULL. A renamed pair has a RENAMED event
 * in addition to its ONLY_A and ONLY_B. */
CKPT_API CKPT_MUST_CHECK ckpt_status ckpt_diff(ckpt_file *left, ckpt_file *right,
                                               const ckpt_diff_options *opts,
                                               int (*event)(void *user, const ckpt_diff_event *), void *user,
                                               ckpt_diff_totals *totals, ckpt_error *err);

/* A value (a leaf that is no tensor) that differs. */
typedef struct {
    uint32_t what; /* CKPT_DIFF_ONLY_A, CKPT_DIFF_ONLY_B, CKPT_DIFF_CHANGED or CKPT_DIFF_NOT_COMPARED */
    ckpt_str name;
    const ckpt_leaf *a, *b; /* NULL: that file has none */
} ckpt_diff_value;

typedef struct {
    uint32_t struct_size;
    uint32_t compared;   /* both files have values */
    uint64_t in_a, in_b; /* how many values each file has below the root */
    uint64_t same, changed, only_a, only_b;
    uint64_t not_compared; /* not counted in `same` */
} ckpt_diff_value_totals;

/* ckpt_diff_values - compares the values of LEFT and RIGHT by name: their types and contents, but not the
 * order of keys, the protocol of the pickle or the version of Python. Of OPTS, only the roots, ignore_prefix
 * and globs are used. Calls EVENT for each value that differs, in natural order of names; nonzero stops. A
 * list or mapping whose type differs comes before the first value in it. If one of the files has no values,
 * nothing is compared. EVENT and TOTALS may be NULL. */
CKPT_API CKPT_MUST_CHECK ckpt_status ckpt_diff_values(ckpt_file *left, ckpt_file *right,
                                                      const ckpt_diff_options *opts,
                                                      int (*event)(void *user, const ckpt_diff_value *),
                                                      void *user, ckpt_diff_value_totals *totals,
                                                      ckpt_error *err);

/* ------------------------------------------------------------------- scan */

/* What loading a file would do: the worst of its pickles. */
typedef enum {
    CKPT_SCAN_DATA_ONLY,        /* nothing is imported */
    CKPT_SCAN_ALLOW_LISTED,     /* every import and call is on the lists */
    CKPT_SCAN_UNKNOWN_CALLABLE, /* an import or call is on no list */
    CKPT_SCAN_UNRESOLVED,       /* a name is computed while loading, and cannot be read from the file */
    CKPT_SCAN_KNOWN_EXEC        /* a call is known to run code */
} ckpt_scan_verdict;
/* ckpt_scan_verdict_name - returns the name of VERDICT, such as "DATA-ONLY"; "" if there is none. */
CKPT_API const char *ckpt_scan_verdict_name(ckpt_scan_verdict verdict);

typedef enum {
    CKPT_SCAN_NONE,
    CKPT_SCAN_NOTE,
    CKPT_SCAN_INCOMPLETE, /* could not be inspected */
    CKPT_SCAN_WARNING,
    CKPT_SCAN_ERROR
} ckpt_scan_level;
/* ckpt_scan_level_name - returns the name of LEVEL, such as "note"; "" if there is none. */
CKPT_API const char *ckpt_scan_level_name(ckpt_scan_level level);

typedef struct {
    const char *id;   /* "PKL002"; never changes */
    const char *name; /* "known-exec" */
    const char *text;
    uint32_t level;   /* ckpt_scan_level */
    uint32_t verdict; /* ckpt_scan_verdict */
} ckpt_scan_rule;
/* ckpt_scan_rule_at - returns rule INDEX of those that `scan` reports by; NULL past the end. */
CKPT_API const ckpt_scan_rule *ckpt_scan_rule_at(size_t index);

typedef enum {
    CKPT_SCAN_PICKLE,  /* a pickle begins: the records up to the next pickle belong to it */
    CKPT_SCAN_CALL,    /* a call, in order of execution; also a finding if `rule` is set */
    CKPT_SCAN_FINDING, /* anything else */
    CKPT_SCAN_MEMBER   /* a member of an archive, with its SHA-256; only with the option sha256 */
} ckpt_scan_what;

enum {
    CKPT_SCAN_BY_DIRECTORY = 1, /* readers of a zip that use its central directory: most, and torch */
    CKPT_SCAN_BY_LOCAL = 2      /* readers that use the local headers */
};

/* What ckpt_scan found. Valid until the callback returns. */
typedef struct {
    uint32_t what;                 /* ckpt_scan_what */
    uint32_t level;                /* ckpt_scan_level */
    const ckpt_scan_rule *rule;    /* NULL: nothing is wrong with it */
    uint32_t verdict;              /* ckpt_scan_verdict of this call or import */
    ckpt_str where;                /* "archive/data.pkl", "inner.zip!data.pkl"; empty: the file itself */
    uint64_t offset;               /* in `where`; CKPT_NO_OFFSET: the record is about all of it */
    uint64_t file_offset;          /* in the file, if it is stored uncompressed; else CKPT_NO_OFFSET */
    const char *opcode;            /* "REDUCE", or NULL */
    uint64_t call;                 /* number in order of execution, from 1; 0: no call */
    ckpt_str module, name;         /* of the callable or import as spelled; empty: none, or unknown */
    ckpt_str new_module, new_name; /* as Python 3 imports it */
    const ckpt_value *args;        /* tuple of arguments as far as they are constants, or NULL */
    int32_t weights_only;    /* torch.load(weights_only=True) 1: accepts this; 0: refuses; -1: unknown */
    int32_t result_used;     /* of a call: 1: it is used; 0: it is dropped at once; -1: unknown */
    uint64_t error_offset;   /* where its pickle is malformed after this; CKPT_NO_OFFSET: nowhere */
    uint32_t framed;         /* seen only by loaders that read by frames */
    uint32_t plain;          /* seen only by pickle.load; joblib.load skips it as the bytes of an array */
    ckpt_str text;           /* a message, escaped; empty for most calls */
    ckpt_str found, allowed; /* as in ckpt_error: what is at fault, what would be valid; may be empty */
    uint64_t bytes;          /* of a member, unpacked */
    const uint8_t *sha256;   /* of these bytes, CKPT_DIGEST_MAX long; NULL if it is not a member */
    uint32_t readers;        /* of a member of a zip: who reads these bytes, CKPT_SCAN_BY_… */
} ckpt_scan_record;

typedef struct {
    uint32_t struct_size;
    uint32_t all_calls;    /* also report calls that are on the lists */
    uint32_t sha256;       /* compute SHA-256 of the file and of each member, which reads all bytes */
    uint32_t max_depth;    /* of archives in archives; 0: 4 */
    uint64_t max_unpacked; /* bytes that one archive or compressed file may unpack to; 0: 4 GiB */
    /* opened - is called when the file is open and none of its bytes was read. No other file has to be opened
     * after that: the process can give up the right to open files. Nonzero: CKPT_ECANCELLED. May be NULL. */
    int (*opened)(void *user);
    /* callbacks - read the bytes to be scanned; PATH is only their name, and nothing is looked for next to
     * it. They stay the caller's: close is not called. A read that fails makes ckpt_scan fail with
     * CKPT_EIO. NULL: the file at PATH is scanned. */
    const ckpt_callbacks *callbacks;
} ckpt_scan_options;

typedef struct {
    uint32_t struct_size;
    uint32_t verdict;                 /* ckpt_scan_verdict */
    uint64_t found[8];                /* findings of each ckpt_scan_level; the last are for levels to come */
    uint64_t pickles, calls, members; /* how many were scanned */
    const char *format;               /* "torch-zip", "pickle", "text" …; NULL: unknown */
    uint64_t bytes, accounted;        /* bytes of the file; how many of them have a known purpose */
    /* Parts of `accounted` that are stored uncompressed; the others are headers and compressed data. */
    uint64_t in_pickles, in_tensors, in_text;
    uint8_t sha256[CKPT_DIGEST_MAX]; /* of the file, with the option sha256 */
} ckpt_scan_result;

/* ckpt_scan_lists - sets OUT to the SHA-256 of the lists of harmless names. */
CKPT_API CKPT_MUST_CHECK ckpt_status ckpt_scan_lists(uint8_t out[CKPT_DIGEST_MAX], ckpt_error *err);
/* ckpt_scan_preload - loads libarchive, libzip and libcrypto, which scanning may need, before the process
 * gives up the right to open files. False: archives that need them will be CKPT_SCAN_INCOMPLETE. */
CKPT_API bool ckpt_scan_preload(void);

/* ckpt_scan - follows every pickle in the file at PATH without running it, and passes what a loader would do
 * to REPORT (nonzero stops with CKPT_ECANCELLED). CKPT_OK: it was scanned as far as RESULT states; it is fine
 * if no finding is above CKPT_SCAN_NOTE and accounted equals bytes. If it fails, RESULT has what was found
 * until then. */
CKPT_API CKPT_MUST_CHECK ckpt_status ckpt_scan(const char *path, const ckpt_scan_options *opts,
                                               int (*report)(void *user, const ckpt_scan_record *),
                                               void *user, ckpt_scan_result *result, ckpt_error *err);

/* ------------------------------------------------------------------- mem */

/* A network, for estimates of the device memory that its training takes. They count the bytes of tensors,
 * but not what the allocator, kernels and the driver need. A ckpt_mem may be used by one thread at a time. */
typedef struct ckpt_mem ckpt_mem;

typedef struct {
    uint32_t struct_size;
    uint32_t reserved;
    const char *root;          /* where in the file the weights are, as for ckpt_file_narrow; NULL: "auto" */
    const char *config;        /* path of a config.json of transformers that belongs to the file, or NULL */
    const char *const *frozen; /* parameters whose names match one of these globs are not trained */
    size_t nfrozen;
} ckpt_mem_options;

/* ckpt_mem_new - sets *OUT to the network whose weights FILE has or, if FILE is NULL, to the one that the
 * config of OPTS describes. FILE can be closed afterwards. The caller passes *OUT to ckpt_mem_free().
 * CKPT_EUNSUPPORTED, with the reason: weights that are not trained as they are (quantized, adapters without
 * their model). CKPT_ENOTFOUND: a glob of frozen matches no parameter. CKPT_EFORMAT: the config cannot be
 * read. */
CKPT_API CKPT_MUST_CHECK ckpt_status ckpt_mem_new(ckpt_file *file, const ckpt_mem_options *opts,
                                                  ckpt_mem **out, ckpt_error *err);
/* ckpt_mem_free - frees MEM and all that was obtained from it. NULL is allowed. */
CKPT_API void ckpt_mem_free(ckpt_mem *mem);

typedef enum {
    CKPT_MEM_AS_STORED, /* parameters in the dtypes of the file */
    CKPT_MEM_FP32,
    CKPT_MEM_BF16,       /* parameters, gradients and states in 2 bytes */
    CKPT_MEM_BF16_MIXED, /* fp32, and autocast to 2 bytes */
    CKPT_MEM_FP16_MASTER /* 2 bytes, and an fp32 copy of the parameters for the optimizer */
} ckpt_mem_precision;

typedef enum {
    CKPT_MEM_KEEP_ALL,
    CKPT_MEM_BLOCK,           /* each block is a segment */
    CKPT_MEM_BLOCK_REENTRANT, /* the same, with use_reentrant=True */
    CKPT_MEM_SEGMENTS,        /* `segments` segments; the last one has the blocks that are left over */
    CKPT_MEM_SEQUENTIAL,      /* the same by checkpoint_sequential: the last one is kept */
    CKPT_MEM_SQRT,            /* as many segments as the root of the number of blocks */
    CKPT_MEM_SELECTIVE,       /* results of matrix products and attention are kept */
    CKPT_MEM_PLAN             /* the segments that ckpt_mem_plan found last; CKPT_EUSAGE if there are none */
} ckpt_mem_checkpoint;

typedef enum { CKPT_MEM_SDPA, CKPT_MEM_EAGER } ckpt_mem_attention;
typedef enum { CKPT_MEM_DROPOUT_CONFIG, CKPT_MEM_DROPOUT_ON, CKPT_MEM_DROPOUT_OFF } ckpt_mem_dropout;

/* How the network is trained. */
typedef struct {
    uint32_t struct_size;
    uint32_t precision;     /* ckpt_mem_precision */
    const char *optimizer;  /* as ckpt_mem_optimizer_at; NULL: that of the file, else "adamw-foreach" */
    uint64_t batch;         /* 0: activations are not counted */
    uint64_t seq;           /* tokens of each text */
    uint64_t height, width; /* of images; 0: those of the position embedding */
    uint64_t heads;         /* 0: as the file and its config have it */
    uint32_t attention;     /* ckpt_mem_attention */
    uint32_t dropout;       /* ckpt_mem_dropout */
    uint32_t checkpoint;    /* ckpt_mem_checkpoint */
    uint32_t segments;      /* of CKPT_MEM_SEGMENTS and _SEQUENTIAL */
    uint32_t zero;          /* stage of ZeRO, 0 to 3 */
    uint32_t ranks;         /* number of devices that ZeRO divides over; 0: 1 */
} ckpt_mem_run;

typedef struct {
    uint64_t bytes;
    uint32_t known; /* 0: it is not known, or was not requested */
    uint32_t exact; /* bytes is exact, as torch counts its tensors */
} ckpt_mem_amount;

/* Blocks FIRST to FIRST + BLOCKS - 1: kept, or recomputed as one segment. */
typedef struct {
    uint32_t first, blocks;
    uint32_t recomputed;
    uint32_t reserved;
} ckpt_mem_segment;

/* What it points to is valid until the next call with that ckpt_mem. */
typedef struct {
    uint32_t struct_size;
    uint32_t blocks;           /* how many can be checkpointed; 0: activations are not known */
    const char *family;        /* "gpt2" …; NULL: none that is known */
    const char *family_title;  /* "GPT-2", or what a network of no family is, "an encoder and a decoder" */
    const char *recognized_by; /* the tensor name, or key of the config, by which it was recognized */
    const char *optimizer;     /* "adamw-foreach", or what the file holds: "Adam-like, 42 states" */
    const char *precision;     /* "fp32", "bf16-mixed", "as stored" … */
    uint64_t trained, frozen;  /* elements of parameters */
    uint64_t tensors;          /* parameters that are trained */
    ckpt_mem_amount parameters, buffers, gradients, optimizer_states, step_transient;
    ckpt_mem_amount activations_kept;
    ckpt_mem_amount peak;            /* activations, temporaries and gradients */
    ckpt_mem_amount total;           /* all memory at the moment at which it is largest */
    const char *peak_place;          /* "backward of transformer.h.11"; NULL: not known */
    const ckpt_mem_segment *segment; /* nsegments of them */
    size_t nsegments;
    uint64_t seq;         /* tokens of a sequence; of images: patches and class token */
    double extra_forward; /* work that is done again: so many forward passes */
    uint32_t plan_proven; /* of ckpt_mem_plan: no other segments are better; 0: not all were tried */
    uint32_t reserved;
    const char *setup; /* Python to run before: "model.config.use_cache = False"; or NULL */
} ckpt_mem_result;

/* ckpt_mem_estimate - sets *OUT to the memory that RUN takes. CKPT_EUNSUPPORTED: RUN has a batch, but the
 * family is not known, or the file has tensors that the family lacks. CKPT_EUSAGE: RUN lacks a value that is
 * needed (seq, heads), or does not fit the network. */
CKPT_API CKPT_MUST_CHECK ckpt_status ckpt_mem_estimate(ckpt_mem *mem, const ckpt_mem_run *run,
                                                       ckpt_mem_result *out, ckpt_error *err);

/* ckpt_mem_plan - finds the best segments for RUN: with LIMIT 0 those with the lowest peak, else those with
 * the least work done again at a total of LIMIT bytes or less. Ignores RUN->checkpoint. Sets *OUT as
 * ckpt_mem_estimate does. CKPT_ENOTFOUND: no plan is below LIMIT; *OUT is that of the lowest peak then. */
CKPT_API CKPT_MUST_CHECK ckpt_status ckpt_mem_plan(ckpt_mem *mem, const ckpt_mem_run *run, uint64_t limit,
                                                   ckpt_mem_result *out, ckpt_error *err);

/* ckpt_mem_largest_batch - sets *BATCH to the largest batch with which RUN takes LIMIT bytes or less in
 * total; 0: not even a batch of 1 does. Ignores RUN->batch. With CKPT_MEM_PLAN each batch has the plan of its
 * lowest peak. */
CKPT_API CKPT_MUST_CHECK ckpt_status ckpt_mem_largest_batch(ckpt_mem *mem, const ckpt_mem_run *run,
                                                            uint64_t limit, uint64_t *batch, ckpt_error *err);

/* ckpt_mem_assumed_at, ckpt_mem_unknown_at - return line INDEX of what the last estimate assumes, and of what
 * it leaves out, escaped; NULL past the end. */
CKPT_API const char *ckpt_mem_assumed_at(const ckpt_mem *mem, size_t index);
CKPT_API const char *ckpt_mem_unknown_at(const ckpt_mem *mem, size_t index);
/* ckpt_mem_block_name - returns the name of block INDEX in Python: "transformer.h[3]"; NULL past the end. */
CKPT_API const char *ckpt_mem_block_name(const ckpt_mem *mem, uint32_t index);

/* An optimizer's state for one group of parameters, as the file has it. */
typedef struct {
    uint64_t parameters; /* tensors in the group */
    uint64_t bytes;      /* of the state, each storage once */
} ckpt_mem_group;
/* ckpt_mem_group_at - sets *OUT to group INDEX of the file's optimizer. False: past the end. */
CKPT_API bool ckpt_mem_group_at(const ckpt_mem *mem, size_t index, ckpt_mem_group *out);

/* ckpt_mem_optimizer_at - returns the name of known optimizer INDEX; NULL past the end. */
CKPT_API const char *ckpt_mem_optimizer_at(size_t index);

/* ----------------------------------------------------------------- verify */

/* One thing that is wrong with a file. Valid until the callback returns. */
typedef struct {
    const char *id;              /* "checksum"; never changes, see ckpt_finding_text */
    const ckpt_error *error;     /* file, offset, where, what was found and what is allowed, hint */
    uint64_t nan, inf, elements; /* of a tensor that is not finite */
} ckpt_finding;

/* ckpt_finding_text - returns what the finding ID means; NULL: there is no such id. */
CKPT_API const char *ckpt_finding_text(const char *id);

typedef struct {
    uint32_t struct_size;
    uint32_t finite;      /* NaN and Inf are findings */
    uint32_t force;       /* write_manifest replaces a file */
    uint32_t algorithm;   /* ckpt_algorithm for write_manifest; `manifest` has its own */
    uint32_t ignore_case; /* of ASCII letters, where globs are matched */
    uint32_t reserved;
    const char *manifest;       /* path of a list of tensors that must be those of the file, or NULL */
    const char *write_manifest; /* path to write a manifest to, if nothing is found; "-": standard output */
    const char *root;           /* check only the tensors below it, as for ckpt_file_narrow; NULL: all */
    const ckpt_work *how;       /* or NULL */
    const ckpt_limits *limits;  /* or NULL */
    const char *const *globs;   /* and of these only those that match; the structure is always checked */
    size_t nglobs;
    uint32_t allow_none; /* the globs may select nothing; otherwise that is CKPT_ENOTFOUND */
    uint32_t reserved2;
} ckpt_verify_options;

typedef struct {
    uint32_t struct_size;
    uint32_t checksums; /* all tensor bytes are covered by checksums in the file */
    const char *format; /* as ckpt_file_format; NULL: it could not be opened at all */
    uint64_t findings;
    uint64_t tensors, records; /* all tensors; the records that have a checksum */
    uint64_t bytes, read;      /* of the files; of tensors and records that were read */
    uint64_t unread;           /* tensors for which ckpt_tensor_is_unread is true */
} ckpt_verify_result;

/* ckpt_verify - checks the file or folder at PATH against the rules of its format and passes every
 * violation to REPORT, not only the first (nonzero stops with CKPT_ECANCELLED). CKPT_OK: it was checked,
 * and RESULT has the outcome. Any other status: whether the file is intact is unknown. OPTS may be NULL. */
CKPT_API CKPT_MUST_CHECK ckpt_status ckpt_verify(const char *path, const ckpt_verify_options *opts,
                                                 int (*report)(void *user, const ckpt_finding *), void *user,
                                                 ckpt_verify_result *result, ckpt_error *err);

/* ----------------------------------------------------------------- doctor */

/* What fixes a file. The first four are calls of this library, the others are for the user to do. */
typedef enum {
    CKPT_FIX_SALVAGE = 1, /* ckpt_salvage, and write the plan */
    CKPT_FIX_STRIP,       /* ckpt_plan_strip_auto */
    CKPT_FIX_SANITIZE,    /* ckpt_plan_sanitize */
    CKPT_FIX_CONVERT,     /* write it again, with `root` and `format` */
    CKPT_FIX_DOWNLOAD,    /* download it again */
    CKPT_FIX_LFS_PULL,    /* git lfs pull */
    CKPT_FIX_UNPACK       /* unpack it: see `packing` */
} ckpt_fix_action;

typedef struct {
    uint32_t action;     /* ckpt_fix_action. All texts below are constants */
    const char *root;    /* for ckpt_plan_root; NULL: everything */
    const char *format;  /* of the output; NULL: chosen by its name */
    const char *suffix;  /* that the name of the output should have; NULL: that of the file */
    const char *packing; /* "gzip", "7-Zip" …; else NULL */
} ckpt_fix;

/* What is wrong with a file, and what fixes it. Valid until the callback returns. */
typedef struct {
    const char *id;      /* "lfs-pointer"; never changes */
    uint32_t problem;    /* 0: it is only a note */
    const char *text;    /* one line, escaped */
    const ckpt_fix *fix; /* NULL: there is none */
    const char *hint;    /* what else can be done; may be empty */
    const char *first;   /* what should be tried before FIX; may be empty */
} ckpt_diagnosis;

typedef struct {
    uint32_t struct_size;
    uint32_t quick;  /* skip what needs the data: checksums */
    uint32_t finite; /* NaN and Inf count as problems */
    uint32_t reserved;
    const ckpt_work *how;      /* or NULL */
    const ckpt_limits *limits; /* or NULL */
} ckpt_doctor_options;

typedef struct {
    uint32_t struct_size;
    uint32_t reserved;
    const char *format; /* as ckpt_file_format; NULL: it is no checkpoint */
    uint64_t problems, notes;
    uint64_t tensors, bytes, read;
    uint64_t unread; /* tensors for which ckpt_tensor_is_unread is true */
} ckpt_doctor_result;

/* ckpt_doctor - finds out why PATH does not load, or is not as it should be, and passes each reason to
 * REPORT, the worst first; nonzero stops with CKPT_ECANCELLED. For a healthy file, RESULT has no
 * problems. A file that is not a checkpoint is a problem, too. Any status but CKPT_OK: PATH could not be
 * read. OPTS may be NULL. */
CKPT_API CKPT_MUST_CHECK ckpt_status ckpt_doctor(const char *path, const ckpt_doctor_options *opts,
                                                 int (*report)(void *user, const ckpt_diagnosis *),
                                                 void *user, ckpt_doctor_result *result, ckpt_error *err);

#ifdef __cplusplus
}
#endif
#endif
