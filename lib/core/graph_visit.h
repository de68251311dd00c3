/* graph_visit.h - visits every node of the value graph that is reachable from given nodes, each once. */
#pragma once

#include "core/value.h"

/* graph_visit_children - calls VISIT for each node that VALUE consists of. False: VISIT returned false. */
bool graph_visit_children(const ckpt_value *value, bool (*visit)(void *user, const ckpt_value *child),
                          void *user);

/* A visit of each node once. It skips values without children, except texts of Python 2 (STR8). Initialize
 * SEEN with map_new() and the other fields with zeros. */
struct graph_visit {
    const ckpt_value **waiting;
    size_t n, cap;
    map *seen;
};

/* graph_visit_add - queues VALUE (may be NULL) unless it was seen. False: out of memory. */
bool graph_visit_add(struct graph_visit *visit, const ckpt_value *value);
/* graph_visit_next - returns the next node and queues its children. NULL: there are no more; or out of
 * memory, if *OK is false. */
const ckpt_value *graph_visit_next(struct graph_visit *visit, bool *ok);
void graph_visit_free(struct graph_visit *visit);
