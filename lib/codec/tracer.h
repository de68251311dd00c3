/* tracer.h - the state of a trace: the window over the stream and its frames, the stack with its marks, the
 * memo. Private to the files that follow a pickle. Functions that return false or NULL have set the tracer's
 * status and error. */
#ifndef CODEC_TRACER_H
#define CODEC_TRACER_H

#include "base/map.h"
#include "codec/pickle_trace.h"
#include "io/reader.h"

#define LONGEST_NAME 4096u
#define SEEN_NAMES   256u /* a power of two */

struct tracer {
    struct trace t; /* first: steps point to it */
    const struct trace_options *o;
    struct trace_end *out;
    const unsigned char *p, *lim; /* what is left of the window */
    uint64_t lim_pos;             /* offset of lim in the source */
    trace_ref *stack;
    size_t top, cap, fence;
    size_t *marks, nmarks, cap_marks;
    trace_ref *memo, *far; /* 0: no entry */
    size_t memo_len, memo_cap, nfar, cap_far;
    uint64_t memo_count;
    map *sparse;     /* index -> position in far */
    map *huge;       /* digits of an index >= 2^63 -> how many such indexes came before it */
    uint64_t buffer; /* framed: end of the loader's buffer; else end of the frame, UINT64_MAX: in none */
    uint64_t at;     /* offset of the current opcode */
    uint64_t start;
    uint8_t op, protocol;
    struct trace_global *names[SEEN_NAMES];   /* recently seen */
    struct trace_global *by_refs[SEEN_NAMES]; /* the same, by the operands of STACK_GLOBAL */
    trace_ref name_refs[SEEN_NAMES][2];
    char *line; /* of GET and PUT */
    size_t cap_line;
    struct trace_node *spare_nodes; /* for reuse */
    trace_ref *spare_items[9];      /* arrays of 2^i items */
    bool jumped;                    /* framed: the argument was not read from the bytes after the opcode */
    arena *a;
    reader r;
    size_t want;
    uint64_t max_memory;
    ckpt_status status;
    ckpt_error *err;
};

bool tracer_fail(struct tracer *t, ckpt_status status, const char *fmt, ...) CKPT_PRINTF(3, 4);
bool tracer_fail_memory(struct tracer *t);
bool tracer_fail_underflow(struct tracer *t, size_t n);
/* tracer_grow - doubles an array allocated with malloc; ARRAY is the address of its pointer. */
bool tracer_grow(struct tracer *t, void *array, size_t *cap, size_t size);
/* tracer_fill - reads on until at least N <= READER_WINDOW bytes are in the window. */
bool tracer_fill(struct tracer *t, size_t n);
/* tracer_seek - moves forward to POS, which is not after the end. */
void tracer_seek(struct tracer *t, uint64_t pos);
/* tracer_cross - when framed, prepares to read N bytes: if the buffer has fewer, moves to the end of the
 * buffer, where the loader would read all N. */
bool tracer_cross(struct tracer *t, uint64_t n);
/* tracer_skip - skips N bytes of text or, if BYTES, of an argument that loaders read even across the end of a
 * frame. */
bool tracer_skip(struct tracer *t, uint64_t n, bool bytes);
/* tracer_line - reads a line. Copies it without its newline to COPY, which has LONGEST_NAME bytes, cut after
 * the last character that fits, and sets *NCOPY to its length. Both may be NULL. */
bool tracer_line(struct tracer *t, char *copy, size_t *ncopy);
/* tracer_read_text - reads the text of the constant R as show_text does. False: R is not a text, or cannot be
 * read; then the status of the tracer is set. */
bool tracer_read_text(struct tracer *t, trace_ref r, char *out, size_t cap, size_t *n);
bool tracer_push_mark(struct tracer *t);
/* tracer_pop_mark - removes the last mark, and sets *FROM to the stack index of the first item above it. */
bool tracer_pop_mark(struct tracer *t, size_t *from);
bool tracer_put(struct tracer *t, uint64_t index);
bool tracer_get(struct tracer *t, uint64_t index);
/* tracer_memo_line - runs GET or PUT, whose index is a line. */
bool tracer_memo_line(struct tracer *t);
/* tracer_report - reports S, in which the caller has set what, subject, with, number and payload. */
bool tracer_report(struct tracer *t, struct trace_step *s);
/* tracer_report_number - reports a step that has a number and no subject. */
bool tracer_report_number(struct tracer *t, enum trace_what what, uint64_t number);

/* tracer_share - records that R has a reference besides that of the stack. */
static inline void tracer_share(trace_ref r)
{
    struct trace_node *n = (struct trace_node *)(uintptr_t)trace_node(r);
    if (n)
        n->shared = true;
}
static inline uint64_t tracer_offset(const struct tracer *t)
{
    return t->lim_pos - (uint64_t)(t->lim - t->p);
}
static inline uint64_t tracer_bytes_left(const struct tracer *t) { return t->r.end - tracer_offset(t); }
/* tracer_take - returns the next N <= READER_WINDOW bytes, valid until the next call, or NULL. */
static inline const unsigned char *tracer_take(struct tracer *t, size_t n)
{
    if (t->o->framed && !tracer_cross(t, n))
        return NULL;
    if ((size_t)(t->lim - t->p) < n && !tracer_fill(t, n))
        return NULL;
    t->p += n;
    return t->p - n;
}
static inline bool tracer_need(struct tracer *t, size_t n)
{
    return t->top - t->fence >= n || tracer_fail_underflow(t, n);
}
static inline bool tracer_push(struct tracer *t, trace_ref r)
{
    if (!r || (t->top == t->cap && !tracer_grow(t, &t->stack, &t->cap, sizeof *t->stack)))
        return false;
    t->stack[t->top++] = r;
    return true;
}
/* tracer_constant - returns the reference to the constant that the current opcode pushes. */
static inline trace_ref tracer_constant(const struct tracer *t)
{
    return t->at << 9 | (uint64_t)t->op << 1; /* bounded: no file has 2^55 bytes */
}

/* trace_node.c: the values that are not constants. Nodes that leave the stack and have no other reference are
 * reused, so that a long pickle takes little memory. */

static inline trace_ref node_ref(const void *node) { return (uint64_t)(uintptr_t)node | 1; }

/* node_new - returns a node without items; NULL: out of memory, and the tracer's status is set. */
struct trace_node *node_new(struct tracer *t, enum trace_kind kind);
/* node_add - adds the N items at FROM to V, which then owns their references. V keeps at most MOST items. */
bool node_add(struct tracer *t, struct trace_node *v, const trace_ref *from, size_t n, uint32_t most);
/* node_report_held - reports each of the N values at FROM that is a class or function, because they become
 * part of a value whose code may call them. */
bool node_report_held(struct tracer *t, const trace_ref *from, size_t n);
/* node_release - drops a reference to R, and frees R unless it is shared. */
void node_release(struct tracer *t, trace_ref r);

/* trace_payload.c: texts and bytes of a pickle that may be files or pickles themselves. */

/* payload_report_counted - reports the next N bytes if they may be a file or pickle. */
bool payload_report_counted(struct tracer *t, uint64_t n);
/* payload_report_line - skips the line of UNICODE or STRING, and reports it if it may encode a file or
 * pickle. */
bool payload_report_line(struct tracer *t);

/* trace_joblib.c */

/* joblib_skip_array - after BUILD of TARGET with STATE, skips the bytes that joblib.load reads as an array.
 * If they are a pickle of objects, follows it. */
bool joblib_skip_array(struct tracer *t, trace_ref target, trace_ref state);

#endif
