/* nested.h - builds nested dicts and lists out of values and their paths, such as ("optimizer", "state", 0,
 * "step"). */
#ifndef FORMAT_NESTED_H
#define FORMAT_NESTED_H

#include "base/buf.h"
#include "base/map.h"
#include "core/value.h"

struct nested {
    arena *a;
    map *index;         /* index of a container in NODES, and a key or item in it -> index in NODES */
    ckpt_value **nodes; /* the containers, the root first; NULL: not a container, but a value of the caller */
    size_t n, cap;
    uint64_t max_items; /* the most items that a list may have */
    buf key;            /* room for a key of INDEX */
};

/* nested_begin - makes an empty dict the root of T. False: no memory. The caller ends T in any case. */
bool nested_begin(struct nested *t, arena *a, uint64_t max_items);
void nested_end(struct nested *t);
/* nested_put - puts V at the N elements of PATH, and makes the containers on the way: a list if the next
 * element is a number, else a dict. Refuses a path that is empty, exists already, goes through a value that
 * was put, or has a name or an item beyond MAX_ITEMS in a list. */
ckpt_status nested_put(struct nested *t, const ckpt_path_elem *path, uint32_t n, ckpt_value *v,
                       ckpt_error *err);
static inline ckpt_value *nested_root(const struct nested *t) { return t->nodes[0]; }

#endif
