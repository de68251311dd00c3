/* trace_node.h - the values of a trace that are no constants. Those that leave the stack and that nothing
 * else has are used again, so that memory depends on what is held at one time. Private to pickle_trace.c. */
#ifndef CODEC_TRACE_NODE_H
#define CODEC_TRACE_NODE_H

#include "codec/tracer.h"

static inline trace_ref node_ref(const void *node) { return (uint64_t)(uintptr_t)node | 1; }

/* node_new - a node without items; NULL: no memory, which is in the tracer. */
struct trace_node *node_new(struct tracer *t, enum trace_kind kind);
/* node_add - N items at FROM, which V takes over; it keeps MOST of all of them. */
bool node_add(struct tracer *t, struct trace_node *v, const trace_ref *from, size_t n, uint32_t most);
/* node_held - tells of those among N values at FROM that are classes or functions: whoever has the value that
 * they become part of may call them. */
bool node_held(struct tracer *t, const trace_ref *from, size_t n);
/* node_release - nothing refers to R any more, unless it is shared. */
void node_release(struct tracer *t, trace_ref r);

#endif
