/* trace_node.h - the values of a trace other than constants. Nodes that leave the stack and have no
 * other reference are reused, so that memory depends on what is referenced at one time. Private to
 * pickle_trace.c. */
#ifndef CODEC_TRACE_NODE_H
#define CODEC_TRACE_NODE_H

#include "codec/tracer.h"

static inline trace_ref node_ref(const void *node) { return (uint64_t)(uintptr_t)node | 1; }

/* node_new - a node without items. NULL: out of memory, which is in the tracer. */
struct trace_node *node_new(struct tracer *t, enum trace_kind kind);
/* node_add - adds N items at FROM, whose references V takes over; it keeps at most MOST items in total. */
bool node_add(struct tracer *t, struct trace_node *v, const trace_ref *from, size_t n, uint32_t most);
/* node_report_held - reports each of the N values at FROM that is a class or function: code that has the
 * value they become part of may call them. */
bool node_report_held(struct tracer *t, const trace_ref *from, size_t n);
/* node_release - drops a reference to R, which is the last one unless R is shared. */
void node_release(struct tracer *t, trace_ref r);

#endif
