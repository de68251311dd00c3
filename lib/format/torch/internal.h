/* internal.h - what graph.c, persistent_id.c, rebuild.c, numpy.c, placements.c and unrecoverable_objects.c of
 * this folder share with each other and with paddle/pickle.c. No other file uses it. */
#ifndef FORMAT_TORCH_INTERNAL_H
#define FORMAT_TORCH_INTERNAL_H

#include "format/torch/graph.h"

struct graph {
    ckpt_file *f;
    const struct torch_graph_input *input;
    ckpt_error *err;
    const ckpt_value *last_global;      /* the last constructor that find_rebuild was called for … */
    const struct rebuild *last_rebuild; /* … and what it returned */
    struct cached_sizes {
        const ckpt_value *tuple;
        const uint64_t *sizes; /* the integers of TUPLE */
    } cached_sizes[64];        /* tuples read recently: tensors of one shape often share the tuple */
    unsigned constructor_depth; /* of constructors that are arguments of constructors */
};

/* A component of a composite tensor, such as the scales of a quantized one. It becomes a row of its own. */
struct component {
    const char *name;
    const ckpt_value *value;
};

#define MAX_COMPONENTS 5
#define MAX_WRAPPERS   4 /* calls that may be around a tensor or a bytes object; files have one or two */

/* The tensor that a node makes, as described by the node's arguments. */
struct tensor_description {
    bool is_tensor;
    struct row row; /* without path and steps */
    struct component components[MAX_COMPONENTS];
    unsigned ncomponents;
};

/* A constructor of tensors: one line of rebuild.def. READ fills *M from the arguments of CALL. */
struct rebuild {
    const char *module, *name;
    uint32_t min_args;
    ckpt_status (*read)(struct graph *g, const ckpt_value *call, struct tensor_description *m);
};

/* torch_describe - fills *M if V is a tensor, else sets M->is_tensor to false. Of components, *M has only the
 * names and nodes. */
ckpt_status torch_describe(struct graph *g, const ckpt_value *v, struct tensor_description *m);
/* torch_wrapped_tensor - returns the tensor in the call V, such as the one in a Parameter, or NULL. Sets
 * *STATE to the attributes that Python code set on V; NULL: it has none. */
const ckpt_value *torch_wrapped_tensor(struct graph *g, const ckpt_value *v, const ckpt_value **state);
/* torch_parameter_data - returns what state_dict() has for V: the tensor in a Parameter, or V itself. */
ckpt_value *torch_parameter_data(ckpt_value *v);
/* torch_describe_numbers - if V is a list of numbers, fills *M as for a tensor of one dimension: before torch
 * 1.5, scales and zero points were lists. Else leaves *M as it is. */
ckpt_status torch_describe_numbers(struct graph *g, const ckpt_value *v, struct tensor_description *m);
/* torch_add_memory_storage - adds a storage of BYTES, which must be in the arena. *INDEX is its index. */
ckpt_status torch_add_memory_storage(struct graph *g, ckpt_str bytes, ckpt_dtype dtype, uint64_t numel,
                                     uint32_t *index);
/* torch_describe_numpy - fills *M if V is a numpy array or scalar. */
ckpt_status torch_describe_numpy(struct graph *g, const ckpt_value *v, struct tensor_description *m);

/* torch_get_storage - sets *INDEX to the index in the table of the storage that node V names, *DTYPE to the
 * dtype of its class and *NUMEL to its number of elements. If V names a legacy view, *NUMEL and *VIEW_OFFSET
 * are those of the view; else *VIEW_OFFSET is 0. CKPT_EFORMAT if V is no storage. */
ckpt_status torch_get_storage(struct graph *g, const ckpt_value *v, uint32_t *index, ckpt_dtype *dtype,
                              uint64_t *numel, uint64_t *view_offset);
bool torch_is_storage(const ckpt_value *v);

/* graph_open_bytes - opens the bytes of V as a source. V is BYTES, BYTEARRAY, a Python 2 str, or a call of
 * bytes, bytearray or _codecs.encode (Python 3's bytes in protocol <= 2); else *OUT is NULL. */
ckpt_status graph_open_bytes(struct graph *g, const ckpt_value *v, source **out);

/* torch_read_sizes - sets *OUT to the *N integers >= 0 in V (tuple, list, torch.Size). Errors call V WHAT. */
ckpt_status torch_read_sizes(struct graph *g, const ckpt_value *v, const char *what, uint32_t *n,
                             const uint64_t **out);

/* object_attr - returns attribute NAME of the object V, or NULL. Searches the state that BUILD sets: a dict,
 * or both of a pair (dict, slots). V may also be the state itself. */
const ckpt_value *object_attr(const ckpt_value *v, const char *name);
/* value_class - returns the class or function that V calls; NULL: V is no CALL. */
const ckpt_value *value_class(const ckpt_value *v);

/* has_argument_items - returns true if the arguments of CALL V are its items, as in a namedtuple. */
static inline bool has_argument_items(const ckpt_value *v)
{
    return v->u.call.args->type == CKPT_V_TUPLE &&
           (v->call == CALL_NEWOBJ || v->call == CALL_OBJ || v->call == CALL_INST);
}

/* graph_hides_attributes - returns true if KLASS is a class of Python or torch itself. Of the attributes
 * of its objects (hooks, configuration) only tensors are listed. */
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
