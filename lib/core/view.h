/* view.h - a node as the Python object that it would become: its class, and whether it is like a list, a
 * mapping or an object with attributes. */
#pragma once

#include "core/value.h"

enum view_kind {
    VIEW_LEAF,  /* single values, tensors, objects of which nothing is known */
    VIEW_ITEMS, /* list, tuple, set, deque, torch.Size, list subclass, named tuple */
    VIEW_PAIRS, /* dict, OrderedDict, defaultdict, Counter, dict subclass */
    VIEW_ATTRS  /* an object's attributes */
};

/* One array of N children: pairs, or items; OF_PAIRS: each item is a [key, value] sequence. */
struct view_array {
    const value_pair *pairs;
    ckpt_value *const *items;
    bool of_pairs;
    uint32_t n;
};

struct view {
    enum view_kind kind;
    bool are_arguments; /* the items are the arguments of the constructor */
    struct view_array arrays[2];
    size_t n; /* children */
};

/* How a CALL creates its object, whatever the protocol. */
struct creation {
    const ckpt_value *class_node; /* the class, or another callable; usually a GLOBAL */
    const ckpt_value *args;       /* its arguments are those from FIRST_ARG on in this sequence; NULL: the
                                   * protocol does not record arguments */
    uint32_t first_arg;
    const ckpt_value *kwargs;  /* keyword arguments, or NULL */
    const ckpt_value *content; /* the dict or list that is copied into the object, or NULL */
    const ckpt_value *base;    /* the builtin base of the class, if the protocol records it; else NULL */
    bool by_new;               /* by class.__new__, which does not call class.__init__ */
};

/* creation_of - returns how the CALL VALUE creates its object, in constant time. */
struct creation creation_of(const ckpt_value *value);

/* view_content - returns the value that VALUE is read as, if VALUE is a call around it. A C++ program's
 * torch::pickle_save calls torch.jit._pickle.restore_type_tag(value, type), build_intlist(list) and others,
 * which return their argument (torch/jit/_pickle.py); a TensorDict has its entries in a dict or list
 * (tensordict/_reductions.py). NULL: VALUE is read as itself. */
const ckpt_value *view_content(const ckpt_value *value);
/* view_of - returns the view of VALUE, in constant time. */
struct view view_of(const ckpt_value *value);
/* view_is_empty_mapping - returns true if VALUE is a dict or an OrderedDict without entries. */
bool view_is_empty_mapping(const ckpt_value *value);
/* view_item - sets *VAL to child INDEX and *KEY to its key, NULL in a sequence. False: past the end. */
bool view_item(const struct view *view, size_t index, const ckpt_value **key, const ckpt_value **val);
/* view_arguments - returns the arguments of a CALL, without those of copyreg's functions, as a sequence. */
struct view view_arguments(const ckpt_value *value);

/* view_ordered_dict_argument - returns the sequence of [key, value] that OrderedDict is called with, as
 * Python 2 pickles it (CPython 2.7, Lib/collections.py, OrderedDict.__reduce__), or NULL. */
const ckpt_value *view_ordered_dict_argument(const ckpt_value *value);
/* view_class - returns the node that names the class of the object that the CALL VALUE creates, usually a
 * GLOBAL. NULL: VALUE is not a CALL. */
const ckpt_value *view_class(const ckpt_value *value);
/* is_builtin - returns true if VALUE is the global NAME of module builtins, in Python 2 __builtin__. */
bool is_builtin(const ckpt_value *value, const char *name);
