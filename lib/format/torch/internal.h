/* internal.h - what torch/graph.c, persistent_id.c, rebuild.c, numpy.c and unrecoverable_objects.c share with
 * paddle/pickle.c. Private to them. */
#ifndef FORMAT_TORCH_INTERNAL_H
#define FORMAT_TORCH_INTERNAL_H

#include "format/torch/graph.h"

struct graph {
    ckpt_file *f;
    const struct torch_storages *st;
    ckpt_error *err;
    const ckpt_value *last_global;      /* the last constructor that was looked up … */
    const struct rebuild *last_rebuild; /* … and its line of rebuild.def */
    struct cached_sizes {
        const ckpt_value *tuple;
        const uint64_t *sizes; /* the integers of TUPLE */
    } cached_sizes[64];        /* tuples read recently: tensors of one shape often share the tuple */
    unsigned depth;         /* how deep calls of constructors are nested at the current node */
};

/* A component of a composite tensor, such as the scales of a quantized one. It becomes a row of its own. */
struct component {
    const char *name;
    const ckpt_value *value;
};

#define MAX_COMPONENTS 5
#define MAX_WRAPPERS   4 /* calls around a tensor or bytes that are looked through; files have one or two */

/* The tensor that a node stands for. */
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

/* torch_describe - fills *M if V is a tensor; M->is_tensor is false if it is not. Components are only listed
 * in *M, not described. */
ckpt_status torch_describe(struct graph *g, const ckpt_value *v, struct tensor_description *m);
/* torch_wrapped_tensor - returns the tensor that the tensor V wraps, or NULL. Sets *STATE to the Python
 * attributes of V; NULL: it has none. */
const ckpt_value *torch_wrapped_tensor(struct graph *g, const ckpt_value *v, const ckpt_value **state);
/* torch_parameter_data - returns what state_dict() has for V: the tensor in a Parameter, else V itself. */
ckpt_value *torch_parameter_data(ckpt_value *v);
/* torch_describe_numbers - fills *M if V is a list of numbers, as a 1-D tensor: before torch 1.5, scales and
 * zero points were lists. Else *M stays as it is. */
ckpt_status torch_describe_numbers(struct graph *g, const ckpt_value *v, struct tensor_description *m);
/* torch_add_memory_storage - adds a storage of BYTES, which must be in the arena, and sets *INDEX to it. */
ckpt_status torch_add_memory_storage(struct graph *g, ckpt_str bytes, ckpt_dtype dtype, uint64_t numel,
                                     uint32_t *index);
/* torch_describe_numpy - fills *M if V is a numpy array or scalar. */
ckpt_status torch_describe_numpy(struct graph *g, const ckpt_value *v, struct tensor_description *m);

/* torch_get_storage - finds the storage that node V names: its index in the table, the dtype of its class and
 * its numel. *VIEW_OFFSET is that of a legacy view, else 0. CKPT_EFORMAT if V is no storage. */
ckpt_status torch_get_storage(struct graph *g, const ckpt_value *v, uint32_t *index, ckpt_dtype *dtype,
                              uint64_t *numel, uint64_t *view_offset);
bool torch_is_storage(const ckpt_value *v);

/* graph_open_bytes - opens the bytes of V as a source: BYTES, BYTEARRAY, Python 2 str, or _codecs.encode of
 * latin-1 text, as Python 3 writes bytes in protocol <= 2. Sets *OUT to NULL if V is not bytes. */
ckpt_status graph_open_bytes(struct graph *g, const ckpt_value *v, source **out);

/* torch_read_sizes - reads V, a tuple, list or torch.Size of integers >= 0, to an array in the arena. WHAT
 * is its name in errors. */
ckpt_status torch_read_sizes(struct graph *g, const ckpt_value *v, const char *what, uint32_t *n,
                             const uint64_t **out);

/* object_attr - returns attribute NAME of the object V, or NULL. BUILD set its attributes by a dict or by a
 * pair (dict, slots), of which both are searched. */
const ckpt_value *object_attr(const ckpt_value *v, const char *name);
/* value_class - returns the class of which the CALL V makes an instance, or NULL. */
const ckpt_value *value_class(const ckpt_value *v);

/* has_argument_items - returns true if the arguments of CALL V are its items, as in a namedtuple. */
static inline bool has_argument_items(const ckpt_value *v)
{
    return v->u.call.args->type == CKPT_V_TUPLE &&
           (v->call == CALL_NEWOBJ || v->call == CALL_OBJ || v->call == CALL_INST);
}

/* graph_hides_attributes - returns true if KLASS is a class of Python or torch itself, whose attributes
 * (hooks, configuration) are not listed. */
bool graph_hides_attributes(const ckpt_value *klass);

/* graph_offset - returns the file offset of the opcode that made node V. */
uint64_t graph_offset(const struct graph *g, const ckpt_value *v);
/* graph_fail - fails with CKPT_EFORMAT at node V. */
ckpt_status graph_fail(struct graph *g, const ckpt_value *v, const char *fmt, ...) CKPT_PRINTF(3, 4);
/* graph_fail_expected - fails at V with the message "MUST_BE {=EXPECTED}, found {FOUND}". If FOUND is NULL,
 * it is shown as "nothing". */
ckpt_status graph_fail_expected(struct graph *g, const ckpt_value *v, const char *must_be,
                                const char *expected, const ckpt_value *found);

#endif
