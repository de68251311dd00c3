/* trace.h - what a loader would do when it runs a pickle, as steps that codec/pickle_trace.c reports while it
 * reads the pickle. No object is created: a node keeps of a value what a report shows. */
#pragma once

#include "core/value.h"

/* Refers to a value: a constant by its opcode and that opcode's offset, others by the trace_node; 0: none. */
typedef uint64_t trace_ref;

enum trace_kind {
    TRACE_GLOBAL, /* struct trace_global */
    TRACE_CALL,   /* items: callable, arguments[, keywords (0: none)[, operand of the first BUILD]] */
    TRACE_PERSID, /* items: the id */
    TRACE_TUPLE,
    TRACE_LIST,
    TRACE_DICT, /* items: key, value, key … */
    TRACE_SET,
    TRACE_FROZENSET,
    TRACE_OPAQUE /* an extension code or an out-of-band buffer: its value is not in the file */
};

struct trace_node {
    uint8_t kind; /* enum trace_kind */
    bool shared;  /* it is in the memo, or on the stack twice */
    uint16_t cap;
    uint32_t nkept;  /* only the first NKEPT items are in ITEMS */
    uint64_t nitems; /* number of all items */
    trace_ref *items;
};

struct trace_global {
    struct trace_node node;
    ckpt_str module, name; /* as spelled in the file */
    uint8_t protocol; /* of the pickle; below 3, Python 2 names are mapped; from 4 on, NAME may be dotted */
    bool has_constant_name; /* false: an operand of STACK_GLOBAL is not a constant */
    int32_t verdict;        /* scan/judge caches its verdict here; -1: none yet */
    ckpt_str python3[2];    /* module and name that Python 3 imports */
};

enum trace_what {
    TRACE_STEP_IMPORT, /* subject: the global */
    TRACE_STEP_CALL,   /* subject: the call, which is a new value */
    TRACE_STEP_CHANGE, /* subject: the target of BUILD, or of APPEND … unless it is a builtin container */
    TRACE_STEP_PERSID, /* subject: the id */
    TRACE_STEP_EXTENSION,
    TRACE_STEP_BUFFER,
    TRACE_STEP_MEMO,     /* a memo entry is overwritten */
    TRACE_STEP_FRAME,    /* an argument or a frame crosses the end of a frame */
    TRACE_STEP_LEFTOVER, /* number: items left on the stack at STOP */
    TRACE_STEP_STORED,   /* subject: a global that a value or the result holds without calling it */
    TRACE_STEP_DROP,     /* POP of the only reference to a call's result; subject: the call */
    TRACE_STEP_WRAPPER,  /* subject: a wrapper of joblib, as joblib does not write it */
    TRACE_STEP_PAYLOAD   /* subject: text or bytes that may be a file; see payload */
};

/* How the bytes of a payload are encoded. */
enum trace_encoding {
    TRACE_ENC_BYTES,
    TRACE_ENC_LATIN1,  /* text with a byte for each character, at most U+00FF */
    TRACE_ENC_UNICODE, /* the line of a UNICODE opcode */
    TRACE_ENC_STRING   /* the line of a STRING opcode, without its quotes */
};

struct trace_payload {
    uint64_t start, size;
    enum trace_encoding encoding;
    bool may_be_file;       /* it begins like a file */
    bool may_be_compressed; /* it begins like zlib or lzma data, which have no magic number */
    bool may_be_pickle;     /* it does not begin like a file, but may run as a pickle */
    bool may_end_in_zip;    /* it has the end record of a zip archive, or was not searched for one */
    bool looks_encoded;     /* it begins like a pickle, zip or gzip in base64 or hexadecimal digits */
    unsigned char head[64]; /* the first bytes, decoded */
    size_t nhead;
};

struct trace;

struct trace_step {
    const struct trace *t;
    enum trace_what what;
    const char *opname;
    uint8_t opcode, protocol;
    uint64_t offset; /* of the opcode in its source */
    uint64_t number;
    trace_ref subject, operand; /* operand: of TRACE_STEP_CHANGE, the state or the first item added */
    const struct trace_payload *payload;
};

struct trace {
    /* value - returns REF as nodes in A, at most NODES. NULL: out of memory, or the pickle could not be read
     * again; ERR is set. */
    ckpt_value *(*value)(const struct trace *t, trace_ref ref, arena *a, size_t nodes, ckpt_error *err);
};

/* Where and how a trace ended. */
struct trace_end {
    uint64_t next_offset;  /* offset after STOP, or where the trace failed */
    bool reached_stop;     /* STOP was reached */
    bool by_frame_differs; /* a loader that reads frame by frame runs different opcodes */
    uint32_t sought_texts; /* bit I: a text is sought_texts[I] of the options, also as a text of numpy */
    uint64_t opcodes, calls;
    uint64_t narrays; /* joblib arrays, whose bytes are skipped */
    uint64_t array_bytes;
    uint64_t first_array;    /* offset of the bytes of the first array of numbers; UINT64_MAX: none */
    uint64_t first_use[256]; /* offset of each opcode's first use; UINT64_MAX: none */
};

static inline const struct trace_node *trace_node(trace_ref ref)
{
    return ref & 1 ? (const struct trace_node *)(uintptr_t)(ref & ~UINT64_C(1)) : NULL;
}
static inline const struct trace_global *trace_global(trace_ref ref)
{
    const struct trace_node *n = trace_node(ref);
    return n && n->kind == TRACE_GLOBAL ? (const struct trace_global *)n : NULL;
}
/* trace_opcode, trace_offset - return the opcode of a constant, and its offset. */
static inline uint8_t trace_opcode(trace_ref ref) { return (uint8_t)(ref >> 1); }
static inline uint64_t trace_offset(trace_ref ref) { return ref >> 9; }
