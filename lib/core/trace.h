/* trace.h - what a pickle would do if a loader ran it, told step by step while it
 * is read. Nothing is built: a value is a place in the file or a node that
 * remembers as much as a report shows. codec/pickle_trace.c makes these. */
#ifndef CORE_TRACE_H
#define CORE_TRACE_H

#include "core/value.h"

/* A value: the constant whose opcode OP stands at OFFSET, or a struct trace_node. */
typedef uint64_t trace_ref;

enum trace_kind {
    TRACE_GLOBAL, /* struct trace_global */
    TRACE_CALL,   /* items: callable, arguments, keywords (0: none), states of BUILD; those that there are */
    TRACE_PERSID, /* items: the id */
    TRACE_TUPLE,
    TRACE_LIST,
    TRACE_DICT, /* items: key, value, key … */
    TRACE_SET,
    TRACE_FROZENSET,
    TRACE_OPAQUE /* an extension code, an out-of-band buffer: not in the file */
};

struct trace_node {
    uint8_t kind; /* enum trace_kind */
    bool shared;  /* the memo has it, or the stack has it twice */
    uint16_t cap;
    uint32_t kept; /* items that are in ITEMS: the first ones */
    uint64_t n;    /* items there are */
    trace_ref *items;
};

struct trace_global {
    struct trace_node node;
    ckpt_str module, name; /* as spelled in the file */
    uint8_t protocol; /* at that point: below 3, names of Python 2 are mapped; from 4 on, dots are followed */
    bool literal;     /* false: an operand of STACK_GLOBAL was no constant */
    int32_t verdict;  /* whoever judges it keeps the answer here; -1: not judged */
    ckpt_str python3[2]; /* and what module and name are there */
};

enum trace_what {
    TRACE_STEP_IMPORT, /* subject: the global */
    TRACE_STEP_CALL,   /* subject: the call; a number of its own */
    TRACE_STEP_CHANGE, /* BUILD, APPEND … of what is no plain container; subject: it, with: the operand */
    TRACE_STEP_PERSID, /* subject: the id */
    TRACE_STEP_EXTENSION,
    TRACE_STEP_BUFFER,
    TRACE_STEP_MEMO,   /* an entry is put again */
    TRACE_STEP_FRAME,  /* an argument or a frame crosses the end of a frame */
    TRACE_STEP_LEFT,   /* number: items that lie on the stack at STOP */
    TRACE_STEP_HELD,   /* subject: a global in a value or the result, not called there */
    TRACE_STEP_DROP,   /* POP of a call's result that nothing else has; subject: the call */
    TRACE_STEP_PAYLOAD /* subject: a text or bytes that may be a file; see payload */
};

/* How the bytes of a payload are kept. */
enum trace_as {
    TRACE_AS_BYTES,
    TRACE_AS_LATIN1,  /* text, each character up to U+00FF a byte */
    TRACE_AS_UNICODE, /* the line of UNICODE */
    TRACE_AS_STRING   /* that of STRING, without its quotes */
};

struct trace_payload {
    uint64_t start, size;
    enum trace_as as;
    bool pickle;            /* it does not begin like a file, but may run as a pickle */
    unsigned char head[64]; /* the first bytes that it stands for */
    size_t nhead;
};

struct trace;

struct trace_step {
    const struct trace *t;
    enum trace_what what;
    const char *opname;
    uint8_t opcode;
    uint8_t protocol;
    uint64_t offset; /* of the opcode, in its source */
    uint64_t number;
    trace_ref subject, with;
    const struct trace_payload *payload;
};

struct trace {
    /* value - REF as nodes of A, no more than NODES of them; NULL: no memory, or it cannot be read again;
     * ERR is set. */
    ckpt_value *(*value)(const struct trace *t, trace_ref ref, arena *a, size_t nodes, ckpt_error *err);
};

/* How a trace ended. */
struct trace_end {
    uint64_t next;       /* behind STOP, or where it broke off */
    bool stopped;        /* it came to STOP */
    bool framed_differs; /* a loader that reads frame by frame sees other opcodes */
    uint64_t opcodes, calls;
    uint64_t arrays; /* of joblib, whose bytes were passed over */
    uint64_t array_bytes;
    uint64_t array;          /* where those of the first array of numbers begin; UINT64_MAX: there is none */
    uint64_t first_use[256]; /* offset of each opcode's first use; UINT64_MAX: none */
};

static inline const struct trace_node *trace_node(trace_ref r)
{
    return r & 1 ? (const struct trace_node *)(uintptr_t)(r & ~UINT64_C(1)) : NULL;
}
static inline const struct trace_global *trace_global(trace_ref r)
{
    const struct trace_node *n = trace_node(r);
    return n && n->kind == TRACE_GLOBAL ? (const struct trace_global *)n : NULL;
}
/* Of a constant: its opcode and where that stands. */
static inline uint8_t trace_opcode(trace_ref r) { return (uint8_t)(r >> 1); }
static inline uint64_t trace_offset(trace_ref r) { return r >> 9; }

#endif
