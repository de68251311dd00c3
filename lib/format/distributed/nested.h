/* nested.h - dicts and lists made anew from values and the paths at which they were. */
#ifndef FORMAT_DISTRIBUTED_NESTED_H
#define FORMAT_DISTRIBUTED_NESTED_H

#include "base/buf.h"
#include "base/map.h"
#include "core/value.h"

struct nested {
    arena *a;
    map *known; /* path, spelled so that no two are alike -> node */
    struct nested_node {
        ckpt_value *v; /* a dict or list; NULL: a value that was put */
    } * node;
    size_t n, cap;
    uint64_t most; /* items that a list may have */
    buf spelled;
};

/* nested_begin - around an empty dict; lists have at most MOST items. False: no memory. */
bool nested_begin(struct nested *t, arena *a, uint64_t most);
void nested_end(struct nested *t);
/* nested_put - V at the N elements of PATH: numbers are items of lists, unless their container is a dict
 * already. Refuses a path that goes through a value, is there already, or has an item beyond MOST. */
ckpt_status nested_put(struct nested *t, const ckpt_path_elem *path, uint32_t n, ckpt_value *v,
                       ckpt_error *err);
static inline ckpt_value *nested_root(const struct nested *t) { return t->node[0].v; }

#endif
