/* internal.h - what torch/graph.c, torch/persistent_id.c, torch/rebuild.c and torch/numpy.c share; private
 * to them, to unrecoverable_objects.c and to paddle/pickle.c. */
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
    } sizes[64];    /* cache of tuples of integers: pickles share their nodes */
    unsigned depth; /* nesting of constructors */
};

/* A component of a composite tensor; becomes a row of its own. */
struct component {
    const char *name;
    const ckpt_value *value;
};

#define MAX_COMPONENTS 5

/* What torch_describe found a node to be. */
struct tensor_description {
    bool is_tensor;
    struct row row; /* without path and steps */
    struct component components[MAX_COMPONENTS];
    unsigned ncomponents;
};

/* A constructor of tensors: one line of torch/rebuild.def. */
struct rebuild {
    const char *module, *name;
    uint32_t min_args;
    ckpt_status (*build)(struct graph *g, const ckpt_value *call, struct tensor_description *m);
};

/* torch_describe - is V a tensor, and which? Does not descend into components. */
ckpt_status torch_describe(struct graph *g, const ckpt_value *v, struct tensor_description *m);
/* torch_wrapped_tensor - the tensor that V, a tensor, wraps, or NULL. *STATE has the Python attributes of
 * V; NULL: none. */
const ckpt_value *torch_wrapped_tensor(struct graph *g, const ckpt_value *v, const ckpt_value **state);
/* torch_parameter_data - the value of V in state_dict(): the tensor in a Parameter, else V itself. */
ckpt_value *torch_parameter_data(ckpt_value *v);
/* torch_describe_numbers - a list of numbers as a 1-D tensor: what scales and zero points were before torch
 * 1.5. Leaves *M alone if V is not one. */
ckpt_status torch_describe_numbers(struct graph *g, const ckpt_value *v, struct tensor_description *m);
/* torch_add_memory_storage - adds a storage of BYTES, which must be in the arena. */
ckpt_status torch_add_memory_storage(struct graph *g, ckpt_str bytes, ckpt_dtype dtype, uint64_t numel,
                                     uint32_t *index);
/* torch_describe_numpy - the same for numpy arrays and scalars. */
ckpt_status torch_describe_numpy(struct graph *g, const ckpt_value *v, struct tensor_description *m);

/* torch_storage - the storage of node V: its index in the table, dtype of its class and numel; VIEW_OFFSET
 * is that of a legacy view. CKPT_EFORMAT if V is no storage. */
ckpt_status torch_storage(struct graph *g, const ckpt_value *v, uint32_t *index, ckpt_dtype *dtype,
                          uint64_t *numel, uint64_t *view_offset);
bool torch_is_storage(const ckpt_value *v);

/* value_bytes - opens the bytes of V as a source: BYTES, BYTEARRAY, Python 2 str, and what Python 3 makes
 * of bytes in protocol <= 2 (_codecs.encode of latin-1 text). *OUT is NULL if V is not bytes. */
ckpt_status value_bytes(struct graph *g, const ckpt_value *v, source **out);

/* torch_read_sizes - reads a tuple (or list, or torch.Size) of integers >= 0 as an array in the arena. */
ckpt_status torch_read_sizes(struct graph *g, const ckpt_value *v, const char *what, uint32_t *n,
                             const uint64_t **out);

/* object_attr - attribute NAME of an object, from the dict, or either half of the (dict, slots) pair, that
 * BUILD set; NULL: none. */
const ckpt_value *object_attr(const ckpt_value *v, const char *name);
/* value_class - the class of which a CALL makes an instance, or NULL. */
const ckpt_value *value_class(const ckpt_value *v);

/* graph_hides_attributes - is KLASS one of Python or torch itself, whose attributes (hooks, configuration)
 * are not listed? */
bool graph_hides_attributes(const ckpt_value *klass);

/* graph_offset - the file offset of the opcode that made node V. */
uint64_t graph_offset(const struct graph *g, const ckpt_value *v);
/* graph_fail - reports CKPT_EFORMAT at node V. */
ckpt_status graph_fail(struct graph *g, const ckpt_value *v, const char *fmt, ...) CKPT_PRINTF(3, 4);
/* graph_fail_expected - the same, with the message "MUST {=THESE}, found {FOUND}" (NULL: nothing). */
ckpt_status graph_fail_expected(struct graph *g, const ckpt_value *v, const char *must, const char *these,
                                const ckpt_value *found);

#endif
