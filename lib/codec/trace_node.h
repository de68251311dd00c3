/* trace_node.h - allocates the values of a trace that are not constants. Nodes that leave the stack and have
 * no other reference are reused, so that a long pickle takes little memory. Private to pickle_trace.c. */
#ifndef CODEC_TRACE_NODE_H
#define CODEC_TRACE_NODE_H

#include "codec/tracer.h"

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

#endif
