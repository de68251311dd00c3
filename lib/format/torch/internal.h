/* internal.h - what torch/graph.c, torch/persistent_id.c, torch/rebuild.c, torch/numpy.c
 * and torch/unreferenced_storages.c share, and nobody else. */
#ifndef FORMAT_TORCH_INTERNAL_H
#define FORMAT_TORCH_INTERNAL_H

#include "format/torch/graph.h"

struct graph {
    ckpt_file *f;
    const struct torch_storages *st;
    ckpt_error *err;
    const ckpt_value *last_global; /* the constructor looked up last … */
    const struct rebuild *last_rebuild;
    struct sizes {
        const ckpt_value *v;
        const uint64_t *at;
    } sizes[64];    /* tuples of integers lately read: a pickle shares their nodes */
    unsigned depth; /* of constructors within constructors */
};

/* A composite's component, to be walked below it. */
struct part {
    const char *name;
    const ckpt_value *value;
};

#define MAX_PARTS 5

/* What a node turned out to be. */
struct meaning {
    bool is_tensor;
    struct row row; /* path and steps still to be filled in */
    struct part parts[MAX_PARTS];
    unsigned nparts;
};

/* A constructor of tensors: one line of torch/rebuild.def. */
struct rebuild {
    const char *module, *name;
    uint32_t min_args;
    ckpt_status (*build)(struct graph *g, const ckpt_value *call, struct meaning *m);
};

/* torch_meaning - is V a tensor, and which? Never looks below composites. */
ckpt_status torch_meaning(struct graph *g, const ckpt_value *v, struct meaning *m);
/* torch_wrapped_tensor - the tensor that V, a tensor, is made of, or NULL. *STATE holds the Python
 * attributes of V; NULL: it has none. */
const ckpt_value *torch_wrapped_tensor(struct graph *g, const ckpt_value *v, const ckpt_value **state);
/* torch_parameter_data - what state_dict() shows of V: the tensor in a Parameter, else V itself. */
ckpt_value *torch_parameter_data(ckpt_value *v);
/* numbers_meaning - a list of numbers as a 1-D tensor: what scales and zero
 * points were before torch 1.5. Leaves *M alone when V is none. */
ckpt_status numbers_meaning(struct graph *g, const ckpt_value *v, struct meaning *m);
/* memory_storage - BYTES, which live in the arena, as a storage of its own. */
ckpt_status memory_storage(struct graph *g, ckpt_str bytes, ckpt_dtype dtype, uint64_t numel,
                           uint32_t *index);
/* numpy_meaning - the same for numpy arrays and scalars. */
ckpt_status numpy_meaning(struct graph *g, const ckpt_value *v, struct meaning *m);

/* torch_storage - the storage node V stands for: its index in the table, its
 * storage class' dtype and numel; VIEW (may be NULL) gets the offset of a
 * legacy view. CKPT_EFORMAT when V is no storage. */
ckpt_status torch_storage(struct graph *g, const ckpt_value *v, uint32_t *index, ckpt_dtype *dtype,
                          uint64_t *numel, uint64_t *view_offset);
bool torch_is_storage(const ckpt_value *v);
/* torch_expected - how many tensors and storages there likely are: most pickles
 * name each storage for one tensor. */
size_t torch_expected(const ckpt_file *f);

/* value_bytes - the bytes that V is, as a source to keep: BYTES, BYTEARRAY,
 * Python 2 str, and what Python 3 makes of bytes in protocol <= 2
 * (_codecs.encode of latin-1 text). *OUT NULL when V is no bytes. */
ckpt_status value_bytes(struct graph *g, const ckpt_value *v, source **out);

/* uint_tuple - a tuple (or list, or torch.Size) of integers >= 0 as an array in
 * the arena. */
ckpt_status uint_tuple(struct graph *g, const ckpt_value *v, const char *what, uint32_t *n,
                       const uint64_t **out);

/* object_attr - attribute NAME of an object: of the dict, or of either half of
 * the (dict, slots) pair, that BUILD gave it; NULL: none. */
const ckpt_value *object_attr(const ckpt_value *v, const char *name);
/* value_class - the class a CALL makes an instance of, or NULL. */
const ckpt_value *value_class(const ckpt_value *v);

/* graph_own_business - is KLASS one whose attributes are its own business (hooks, configuration)? */
bool graph_own_business(const ckpt_value *klass);

/* graph_at - where node V was made. */
uint64_t graph_at(const struct graph *g, const ckpt_value *v);
/* graph_fail - malformed at node V. */
ckpt_status graph_fail(struct graph *g, const ckpt_value *v, const char *fmt, ...) CKPT_PRINTF(3, 4);
/* graph_unlike - the same: it MUST be THESE, and is FOUND (NULL: nothing). */
ckpt_status graph_unlike(struct graph *g, const ckpt_value *v, const char *must, const char *these,
                         const ckpt_value *found);

#endif
