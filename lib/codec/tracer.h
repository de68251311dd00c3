/* tracer.h - the state of a trace: the frames of the stream, the stack, recently seen globals, nodes for
 * reuse. Private to the files that follow a pickle. Functions that return false or NULL have set status and
 * error. */
#ifndef CODEC_TRACER_H
#define CODEC_TRACER_H

#include "codec/pickle_trace.h"
#include "codec/unpickler.h"

#define LONGEST_NAME 4096u
#define SEEN_NAMES   256u /* a power of two */

struct tracer {
    struct trace t; /* the first field: trace_step.t points to it, and is cast to the tracer */
    const struct trace_options *options;
    struct trace_end *result;
    struct unpickler u;
    trace_ref *stack; /* u.top items */
    size_t cap_stack;
    map *huge_indexes;   /* digits of a memo index >= 2^63 -> how many such indexes came before it */
    uint64_t buffer_end; /* end of the loader's buffer (buffer_frames), or of the frame; UINT64_MAX: none */
    struct trace_global *seen_by_name[SEEN_NAMES]; /* recently seen, by a hash of module and name */
    struct trace_global *seen_by_refs[SEEN_NAMES]; /* recently seen, by a hash of STACK_GLOBAL's operands */
    trace_ref seen_refs[SEEN_NAMES][2];            /* [i]: the operands of seen_by_refs[i] */
    char *line;                                    /* the index of GET or PUT, as text */
    size_t cap_line;
    struct trace_node *spare_nodes; /* for reuse */
    trace_ref *spare_items[9];      /* [i]: an array of 2^i items, for reuse */
    bool argument_after_buffer;     /* the argument is not right after the opcode, but after the buffer */
};

/* tracer_ensure_buffered - with options->buffer_frames, prepares to read N bytes. If the buffer has fewer,
 * moves to its end, because the loader would read all N bytes from there. */
bool tracer_ensure_buffered(struct tracer *t, uint64_t n);
/* tracer_skip - skips N bytes of an argument. CROSSES_FRAMES: loaders read them across the end of a frame. */
bool tracer_skip(struct tracer *t, uint64_t n, bool crosses_frames);
/* tracer_read_line - reads a line. Copies it without its newline to COPY, which has LONGEST_NAME bytes, and
 * sets *NCOPY to the length of the copy. A longer line is truncated after a character. COPY and NCOPY may be
 * NULL. */
bool tracer_read_line(struct tracer *t, char *copy, size_t *ncopy);
/* tracer_read_text - reads the text of the constant R as pickle_copy_text does. False: R is not a text; or,
 * if the status of the tracer is set, it cannot be read. */
bool tracer_read_text(struct tracer *t, trace_ref r, char *out, size_t cap, size_t *n);
bool tracer_put_memo(struct tracer *t, uint64_t index);
bool tracer_get_memo(struct tracer *t, uint64_t index);
/* tracer_run_memo_line - runs GET or PUT, whose index is a line. */
bool tracer_run_memo_line(struct tracer *t);
/* tracer_report - reports S. The caller has set the fields `what`, subject, operand, number and payload. */
bool tracer_report(struct tracer *t, struct trace_step *s);
bool tracer_report_number(struct tracer *t, enum trace_what what, uint64_t number);

/* tracer_mark_shared - records that R has a reference besides that of the stack. */
static inline void tracer_mark_shared(trace_ref r)
{
    struct trace_node *n = (struct trace_node *)(uintptr_t)trace_node(r);
    if (n)
        n->shared = true;
}
/* tracer_take - returns the next N <= READER_WINDOW bytes, valid until the next call, or NULL. */
static inline const unsigned char *tracer_take(struct tracer *t, size_t n)
{
    return t->options->buffer_frames && !tracer_ensure_buffered(t, n) ? NULL : unpickler_take(&t->u, n);
}
static inline bool tracer_push(struct tracer *t, trace_ref r)
{
    if (!r ||
        (t->u.top == t->cap_stack && !unpickler_grow(&t->u, &t->stack, &t->cap_stack, sizeof *t->stack)))
        return false;
    t->stack[t->u.top++] = r;
    return true;
}
/* tracer_constant_ref - returns the reference to the constant that the current opcode pushes. */
static inline trace_ref tracer_constant_ref(const struct tracer *t)
{
    return t->u.at << 9 | (uint64_t)t->u.op << 1;
}

/* trace_node.c: the values that are not constants. Nodes that leave the stack and have no other reference are
 * reused, so that a long pickle takes little memory. */

static inline trace_ref node_ref(const void *node) { return (uint64_t)(uintptr_t)node | 1; }

/* node_new - returns a node without items; NULL: out of memory, and the tracer's status is set. */
struct trace_node *node_new(struct tracer *t, enum trace_kind kind);
/* node_add_items - adds the N items at FROM to V, which then owns their references. V keeps at most MAX
 * items. */
bool node_add_items(struct tracer *t, struct trace_node *v, const trace_ref *from, size_t n, uint32_t max);
/* node_report_globals - reports each of the N values at FROM that is a class or function, because they become
 * part of a value whose code may call them. */
bool node_report_globals(struct tracer *t, const trace_ref *from, size_t n);
/* node_release - drops the reference R, and frees its node unless that is shared. */
void node_release(struct tracer *t, trace_ref r);

/* trace_payload.c: texts and bytes of a pickle that may be files or pickles themselves. */

/* payload_report_bytes - reports the next N bytes if they may be a file or pickle. */
bool payload_report_bytes(struct tracer *t, uint64_t n);
/* payload_report_line - skips the line of UNICODE or STRING, and reports it if it may encode a file or
 * pickle. */
bool payload_report_line(struct tracer *t);

/* trace_joblib.c */

/* joblib_skip_array - after BUILD of TARGET with STATE, skips the bytes that joblib.load reads as an array.
 * If they are a pickle of objects, follows it. */
bool joblib_skip_array(struct tracer *t, trace_ref target, trace_ref state);

#endif
