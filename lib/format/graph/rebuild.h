/* rebuild.h - what the nodes of a graph make: tensors, objects with attributes. */
#pragma once

#include "format/graph/graph.h"

/* graph_describe - fills *DESCRIPTION if VALUE is a tensor, else sets DESCRIPTION->is_tensor to false. Of
 * components, *DESCRIPTION has only the names and nodes. */
ckpt_status graph_describe(struct graph *graph, const ckpt_value *value,
                           struct tensor_description *description);
/* graph_describe_numbers - if VALUE is a list of numbers, fills *DESCRIPTION as for a tensor of one
 * dimension: before torch 1.5, scales and zero points were lists. Else leaves *DESCRIPTION as it is. */
ckpt_status graph_describe_numbers(struct graph *graph, const ckpt_value *value,
                                   struct tensor_description *description);
/* torch_wrapped_tensor - returns the tensor in the call VALUE, such as the one in a Parameter, or NULL. Sets
 * *STATE to the attributes that Python code set on VALUE; NULL: it has none. */
const ckpt_value *torch_wrapped_tensor(struct graph *graph, const ckpt_value *value,
                                       const ckpt_value **state);
/* torch_parameter_data - returns what state_dict() has for VALUE: the tensor in a Parameter, or VALUE
 * itself. */
ckpt_value *torch_parameter_data(ckpt_value *value);
/* object_attr - returns attribute NAME of the object VALUE, or NULL. Searches the state that BUILD sets: a
 * dict, or both of a pair (dict, slots). VALUE may also be the state itself. */
const ckpt_value *object_attr(const ckpt_value *value, const char *name);
/* value_class - returns the class or function that VALUE calls; NULL: VALUE is no CALL. */
const ckpt_value *value_class(const ckpt_value *value);
