/* numpy.h - numpy arrays and bytes objects in a graph. */
#pragma once

#include "format/graph/graph.h"

/* graph_describe_numpy - fills *DESCRIPTION if VALUE is a numpy array or scalar. */
ckpt_status graph_describe_numpy(struct graph *graph, const ckpt_value *value,
                                 struct tensor_description *description);
/* graph_open_bytes - opens the bytes of VALUE as a source. VALUE is BYTES, BYTEARRAY, a Python 2 str, or a
 * call of bytes, bytearray or _codecs.encode (Python 3's bytes in protocol <= 2); else *OUT is NULL. */
ckpt_status graph_open_bytes(struct graph *graph, const ckpt_value *value, source **out);
/* file_open_bytes - does graph_open_bytes for a node of F, after its graph was read. */
ckpt_status file_open_bytes(ckpt_file *f, const ckpt_value *value, source **out, ckpt_error *err);
