/* tracer.h - the parts of pickle_trace.c that know no opcode's meaning: the window
 * over the stream and its frames, lines, the stack with its marks, the memo.
 * Private to tracer.c and pickle_trace.c. Every bool is false after a failure,
 * which is in the tracer's status and error. */
#ifndef CODEC_TRACER_H
#define CODEC_TRACER_H

#include "base/map.h"
#include "codec/pickle_trace.h"
#include "io/reader.h"

#define LONGEST_NAME 4096u
#define SEEN_NAMES   256u /* a power of two */

struct tracer {
    struct trace t; /* first: steps hand it out */
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
    map *huge;       /* digits of an index from 2^63 on -> how many of those were met before */
    uint64_t buffer; /* framed: where the loader's buffer ends; flat: the frame's end, UINT64_MAX in none */
    uint64_t at;     /* of the opcode that runs */
    uint64_t start;
    uint8_t op, protocol;
    struct trace_global *names[SEEN_NAMES];   /* lately met */
    struct trace_global *by_refs[SEEN_NAMES]; /* the same, by what STACK_GLOBAL took for them */
    trace_ref name_refs[SEEN_NAMES][2];
    char *line; /* of GET and PUT */
    size_t cap_line;
    struct trace_node *spare_nodes; /* that may be used again */
    trace_ref *spare_items[9];      /* arrays of 2^i items */
    bool jumped;                    /* framed: the argument was not read where the opcode stands */
    arena *a;
    reader r;
    size_t want;
    uint64_t max_memory;
    ckpt_status status;
    ckpt_error *err;
};

bool tracer_stop(struct tracer *t, ckpt_status status, const char *fmt, ...) CKPT_PRINTF(3, 4);
bool tracer_memory(struct tracer *t);
bool tracer_underflow(struct tracer *t, size_t n);
/* tracer_grow - doubles a malloc'ed array; ARRAY is the address of its pointer. */
bool tracer_grow(struct tracer *t, void *array, size_t *cap, size_t size);
/* tracer_fill - at least N <= READER_WINDOW bytes into the window. */
bool tracer_fill(struct tracer *t, size_t n);
/* tracer_seek - to POS, which is not behind the end. */
void tracer_seek(struct tracer *t, uint64_t pos);
/* tracer_cross - framed: N bytes are wanted; what the buffer lacks is read behind it. */
bool tracer_cross(struct tracer *t, uint64_t n);
/* tracer_skip - N bytes of text; BYTES: loaders read them in one go wherever they lie. */
bool tracer_skip(struct tracer *t, uint64_t n, bool bytes);
/* tracer_line - one of text, without its newline, into COPY (LONGEST_NAME bytes; may be
 * NULL, as NCOPY), cut after the last character that fits. */
bool tracer_line(struct tracer *t, char *copy, size_t *ncopy);
bool tracer_mark(struct tracer *t);
/* tracer_unmark - takes the last mark away; *FROM: the item behind it. */
bool tracer_unmark(struct tracer *t, size_t *from);
bool tracer_put(struct tracer *t, uint64_t index);
bool tracer_get(struct tracer *t, uint64_t index);
/* tracer_memo_line - GET and PUT, whose entry is a line. */
bool tracer_memo_line(struct tracer *t);
/* tracer_tell - hands S out, its general parts filled in; tracer_note: one without a subject. */
bool tracer_tell(struct tracer *t, struct trace_step *s);
bool tracer_note(struct tracer *t, enum trace_what what, uint64_t number);

/* tracer_share - R is held by more than its place on the stack. */
static inline void tracer_share(trace_ref r)
{
    struct trace_node *n = (struct trace_node *)(uintptr_t)trace_node(r);
    if (n)
        n->shared = true;
}
static inline uint64_t here(const struct tracer *t) { return t->lim_pos - (uint64_t)(t->lim - t->p); }
static inline uint64_t left(const struct tracer *t) { return t->r.end - here(t); }
/* take - the next N <= READER_WINDOW bytes, valid until the next take, or NULL. */
static inline const unsigned char *take(struct tracer *t, size_t n)
{
    if (t->o->framed && !tracer_cross(t, n))
        return NULL;
    if ((size_t)(t->lim - t->p) < n && !tracer_fill(t, n))
        return NULL;
    t->p += n;
    return t->p - n;
}
static inline bool need(struct tracer *t, size_t n)
{
    return t->top - t->fence >= n || tracer_underflow(t, n);
}
static inline bool push(struct tracer *t, trace_ref r)
{
    if (!r || (t->top == t->cap && !tracer_grow(t, &t->stack, &t->cap, sizeof *t->stack)))
        return false;
    t->stack[t->top++] = r;
    return true;
}
/* constant - what the opcode that runs pushes. */
static inline trace_ref constant(const struct tracer *t)
{
    return t->at << 9 | (uint64_t)t->op << 1; /* bounded: no file has 2^55 bytes */
}

#endif
