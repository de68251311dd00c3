/* tracer.h - the state of a trace: the frames of the stream, the stack, recently seen globals, nodes for
 * reuse. Private to the files that follow a pickle. Functions that return false or NULL have set status and
 * error. */
#pragma once

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

/* tracer_ensure_buffered - with options->buffer_frames, prepares to read COUNT bytes. If the buffer has
 * fewer, moves to its end, because the loader would read all COUNT bytes from there. */
bool tracer_ensure_buffered(struct tracer *tracer, uint64_t count);
/* tracer_skip - skips COUNT bytes of an argument. CROSSES_FRAMES: loaders read them across the end of a
 * frame. */
bool tracer_skip(struct tracer *tracer, uint64_t count, bool crosses_frames);
/* tracer_read_line - reads a line. Copies it without its newline to COPY, which has LONGEST_NAME bytes, and
 * sets *NCOPY to the length of the copy. A longer line is truncated after a character. COPY and NCOPY may be
 * NULL. */
bool tracer_read_line(struct tracer *tracer, char *copy, size_t *ncopy);
/* tracer_read_text - reads the text of the constant REF as pickle_copy_text does. False: REF is not a text;
 * or, if the status of the tracer is set, it cannot be read. */
bool tracer_read_text(struct tracer *tracer, trace_ref ref, char *out, size_t cap, size_t *count);
bool tracer_put_memo(struct tracer *tracer, uint64_t index);
bool tracer_get_memo(struct tracer *tracer, uint64_t index);
/* tracer_run_memo_line - runs GET or PUT, whose index is a line. */
bool tracer_run_memo_line(struct tracer *tracer);
/* tracer_report - reports STEP. The caller has set the fields `what`, subject, operand, number and
 * payload. */
bool tracer_report(struct tracer *tracer, struct trace_step *step);
bool tracer_report_number(struct tracer *tracer, enum trace_what what, uint64_t number);

/* tracer_mark_shared - records that REF has a reference besides that of the stack. */
static inline void tracer_mark_shared(trace_ref ref)
{
    struct trace_node *n = (struct trace_node *)(uintptr_t)trace_node(ref);
    if (n)
        n->shared = true;
}
/* tracer_take - returns the next COUNT <= READER_WINDOW bytes, valid until the next call, or NULL. */
static inline const unsigned char *tracer_take(struct tracer *tracer, size_t count)
{
    return tracer->options->buffer_frames && !tracer_ensure_buffered(tracer, count)
               ? NULL
               : unpickler_take(&tracer->u, count);
}
static inline bool tracer_push(struct tracer *tracer, trace_ref ref)
{
    if (!ref || (tracer->u.top == tracer->cap_stack &&
                 !unpickler_grow(&tracer->u, &tracer->stack, &tracer->cap_stack, sizeof *tracer->stack)))
        return false;
    tracer->stack[tracer->u.top++] = ref;
    return true;
}
/* tracer_constant_ref - returns the reference to the constant that the current opcode pushes. */
static inline trace_ref tracer_constant_ref(const struct tracer *tracer)
{
    return tracer->u.at << 9 | (uint64_t)tracer->u.op << 1;
}

/* trace_node.c: the values that are not constants. Nodes that leave the stack and have no other reference are
 * reused, so that a long pickle takes little memory. */

static inline trace_ref node_ref(const void *node) { return (uint64_t)(uintptr_t)node | 1; }

/* node_new - returns a node without items; NULL: out of memory, and the tracer's status is set. */
struct trace_node *node_new(struct tracer *tracer, enum trace_kind kind);
/* node_add_items - adds the COUNT items at FROM to NODE, which then owns their references. NODE keeps at most
 * MAX items. */
bool node_add_items(struct tracer *tracer, struct trace_node *node, const trace_ref *from, size_t count,
                    uint32_t max);
/* node_report_globals - reports each of the COUNT values at FROM that is a class or function, because they
 * become part of a value whose code may call them. */
bool node_report_globals(struct tracer *tracer, const trace_ref *from, size_t count);
/* node_release - drops the reference REF, and frees its node unless that is shared. */
void node_release(struct tracer *tracer, trace_ref ref);

/* trace_payload.c: texts and bytes of a pickle that may be files or pickles themselves. */

/* payload_report_bytes - reports the next COUNT bytes if they may be a file or pickle. */
bool payload_report_bytes(struct tracer *tracer, uint64_t count);
/* payload_report_line - skips the line of UNICODE or STRING, and reports it if it may encode a file or
 * pickle. */
bool payload_report_line(struct tracer *tracer);

/* trace_joblib.c */

/* joblib_skip_array - after BUILD of TARGET with STATE, skips the bytes that joblib.load reads as an array.
 * If they are a pickle of objects, follows it. */
bool joblib_skip_array(struct tracer *tracer, trace_ref target, trace_ref state);
