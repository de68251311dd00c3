/* reach.h - every node that a node reaches, whatever it means. */
#ifndef CORE_REACH_H
#define CORE_REACH_H

#include "base/map.h"
#include "core/value.h"

/* reach_children - VISIT for each node that V is made of; false: VISIT said so. */
bool reach_children(const ckpt_value *v, bool (*visit)(void *user, const ckpt_value *child), void *user);

/* A walk that meets each node once. Single values, which have no children and no
 * text of Python 2, are left aside. Zeroed but for seen, which is map_new(). */
struct reach {
    const ckpt_value **waiting;
    size_t n, cap;
    map *seen;
};

/* reach_add - V (or NULL) is to be met, unless it was; false: no memory. */
bool reach_add(struct reach *r, const ckpt_value *v);
/* reach_next - the next node, its children added; NULL: no more, or *OK is false: no memory. */
const ckpt_value *reach_next(struct reach *r, bool *ok);
void reach_free(struct reach *r);

#endif
