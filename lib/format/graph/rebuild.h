/* rebuild.h - what the nodes of a graph make: tensors, objects with attributes. */
#ifndef FORMAT_GRAPH_REBUILD_H
#define FORMAT_GRAPH_REBUILD_H

#include "format/graph/graph.h"

/* graph_describe - fills *M if V is a tensor, else sets M->is_tensor to false. Of components, *M has only the
 * names and nodes. */
ckpt_status graph_describe(struct graph *g, const ckpt_value *v, struct tensor_description *m);
/* graph_describe_numbers - if V is a list of numbers, fills *M as for a tensor of one dimension: before torch
 * 1.5, scales and zero points were lists. Else leaves *M as it is. */
ckpt_status graph_describe_numbers(struct graph *g, const ckpt_value *v, struct tensor_description *m);
/* torch_wrapped_tensor - returns the tensor in the call V, such as the one in a Parameter, or NULL. Sets
 * *STATE to the attributes that Python code set on V; NULL: it has none. */
const ckpt_value *torch_wrapped_tensor(struct graph *g, const ckpt_value *v, const ckpt_value **state);
/* torch_parameter_data - returns what state_dict() has for V: the tensor in a Parameter, or V itself. */
ckpt_value *torch_parameter_data(ckpt_value *v);
/* object_attr - returns attribute NAME of the object V, or NULL. Searches the state that BUILD sets: a dict,
 * or both of a pair (dict, slots). V may also be the state itself. */
const ckpt_value *object_attr(const ckpt_value *v, const char *name);
/* value_class - returns the class or function that V calls; NULL: V is no CALL. */
const ckpt_value *value_class(const ckpt_value *v);

#endif
