/* nested.h - rebuilds nested dicts and lists from values and the paths at which they were, such as
 * ("optimizer", "state", 0, "step"). */
#ifndef FORMAT_DISTRIBUTED_NESTED_H
#define FORMAT_DISTRIBUTED_NESTED_H

#include "base/buf.h"
#include "base/map.h"
#include "core/value.h"

struct nested {
    arena *a;
    map *known; /* spelled path -> index into node */
    struct nested_node {
        ckpt_value *v; /* a dict or list; NULL: a value, below which there is nothing */
    } * node;
    size_t n, cap;
    uint64_t most; /* items that a list may have */
    buf spelled;   /* the path as text: numbers and names differ in form, so no two paths are spelled alike */
};

/* nested_begin - starts with an empty dict as root; a list may have at most MOST items. False: no memory. */
bool nested_begin(struct nested *t, arena *a, uint64_t most);
void nested_end(struct nested *t);
/* nested_put - puts V at PATH, which has N elements, and makes the containers on the way. A container is a
 * list if the first element below it is a number, else a dict. Refuses a path that was put before or leads
 * through a value, a name in a list, and an item number of MOST or more. */
ckpt_status nested_put(struct nested *t, const ckpt_path_elem *path, uint32_t n, ckpt_value *v,
                       ckpt_error *err);
static inline ckpt_value *nested_root(const struct nested *t) { return t->node[0].v; }

#endif
