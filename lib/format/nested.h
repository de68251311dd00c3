/* nested.h - builds nested dicts and lists out of values and their paths, such as ("optimizer", "state", 0,
 * "step"). */
#pragma once

#include "base/buf.h"
#include "core/value.h"

struct nested {
    arena *a;
    ckpt_value **nodes; /* the containers, the root first, and NULL for each value of the caller */
    size_t n, cap;
    map *child_of;      /* (container, element) as in set_child_key -> index into NODES */
    buf child_key;      /* room for a key of CHILD_OF */
    uint64_t max_items; /* the most items that a list may have */
};

/* nested_begin - makes an empty dict the root of NESTED. False: no memory. The caller calls nested_end in any
 * case. */
bool nested_begin(struct nested *nested, arena *a, uint64_t max_items);
void nested_end(struct nested *nested);
/* nested_put - puts VALUE at the COUNT elements of PATH. Containers that are missing on the way are made: a
 * list if the next element is a number, else a dict. Refuses a path that is empty, that exists already or
 * that goes through a value of the caller. Also refuses a name in a list, and an item number of MAX_ITEMS or
 * more. */
ckpt_status nested_put(struct nested *nested, const ckpt_path_elem *path, uint32_t count, ckpt_value *value,
                       ckpt_error *err);
static inline ckpt_value *nested_root(const struct nested *nested) { return nested->nodes[0]; }
