/* view.h - a node as the Python object that it would become: what class, and
 * whether it behaves like a list, a mapping or a thing with attributes. */
#ifndef CORE_VIEW_H
#define CORE_VIEW_H

#include "core/value.h"

enum view_kind {
    VIEW_LEAF,
    VIEW_ITEMS, /* list, tuple, set, deque, torch.Size, list subclass, named tuple */
    VIEW_PAIRS, /* dict, OrderedDict, defaultdict, Counter, dict subclass */
    VIEW_ATTRS  /* an object's attributes */
};

/* One run of children: pairs, or items, or items that are [key, value] each. */
struct view_part {
    const value_pair *pairs;
    ckpt_value *const *items;
    bool of_pairs;
    uint32_t n;
};

struct view {
    enum view_kind kind;
    bool arguments; /* ITEMS: what the class was called with */
    struct view_part parts[2];
    size_t n; /* children */
};

/* view_of - costs the same for every node, whatever its size. */
struct view view_of(const ckpt_value *v);
/* view_item - child I; KEY is NULL in a sequence. false past the end. */
bool view_item(const struct view *view, size_t i, const ckpt_value **key, const ckpt_value **val);
/* view_arguments - the arguments of a CALL as a sequence. */
struct view view_arguments(const ckpt_value *v);

/* view_pairs_given - the sequence of [key, value] that OrderedDict was called with, as Python 2
 * pickles one (CPython 2.7, Lib/collections.py, OrderedDict.__reduce__), or NULL. */
const ckpt_value *view_pairs_given(const ckpt_value *v);
/* view_class - the node that names the class of the object which CALL V makes:
 * a GLOBAL mostly. NULL when V is no CALL. */
const ckpt_value *view_class(const ckpt_value *v);
/* is_builtin - NAME of module builtins, in Python 2 __builtin__. */
bool is_builtin(const ckpt_value *v, const char *name);
/* is_reconstructor - a call of copyreg._reconstructor(class, base, state of base),
 * which makes the instances of protocols 0 and 1. */
bool is_reconstructor(const ckpt_value *v);

#endif
