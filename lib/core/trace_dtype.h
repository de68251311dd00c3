/* trace_dtype.h - numpy dtypes in a trace: what an array of the dtype contains, and whether its
 * description is consistent. */
#pragma once

#include "core/trace.h"

enum trace_holds {
    HOLDS_UNKNOWN, /* no pickler writes a dtype this way, or the dtype is not in the file */
    HOLDS_NUMBERS,
    HOLDS_OBJECTS /* at least as a component of each item */
};

struct trace_dtype {
    enum trace_holds holds;
    uint64_t size;             /* of an item in bytes; UINT64_MAX: unknown */
    bool subarray;             /* each item is an array */
    bool has_subarrays;        /* each item is an array, or has a field that is one, at any depth */
    const char *contradiction; /* what contradicts itself in the description; NULL: nothing */
};

/* trace_dtype - describes the dtype REF in OUT. STATE: the operand of the BUILD about to run, 0: none.
 * Nodes are allocated in A. Fails if the pickle cannot be read or memory runs out. */
ckpt_status trace_dtype(const struct trace *trace, trace_ref ref, trace_ref state, arena *a,
                        struct trace_dtype *out, ckpt_error *err);
/* trace_is_scalar_type - returns true if NAME is a type of scalars of numpy or ml_dtypes that are no objects:
 * numpy.dtype(NAME) is then no dtype of objects, as it is for every other class. */
bool trace_is_scalar_type(ckpt_str name);
/* trace_as_call_of - returns the node of REF if REF is a call of MODULE.NAME, or NULL. */
const struct trace_node *trace_as_call_of(trace_ref ref, const char *module, const char *name);
