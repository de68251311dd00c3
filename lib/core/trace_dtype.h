/* trace_dtype.h - dtypes of numpy in a trace: what an array of one holds, and whether numpy reads it as it
 * looks. */
#ifndef CORE_TRACE_DTYPE_H
#define CORE_TRACE_DTYPE_H

#include "core/trace.h"

enum trace_holds {
    HOLDS_UNKNOWN, /* spelled in a way that no pickler uses, or not in the file */
    HOLDS_NUMBERS,
    HOLDS_OBJECTS /* in a part of each item, at least */
};

struct trace_dtype {
    enum trace_holds holds;
    uint64_t size;   /* of an item; UINT64_MAX: not known */
    bool subarray;   /* each item is an array */
    const char *odd; /* how it contradicts itself; NULL: it does not */
};

/* trace_dtype - of R; STATE: of the BUILD that is about to be, 0: of none. Nodes come from A. Fails where
 * the pickle cannot be read, or memory is short. */
ckpt_status trace_dtype(const struct trace *t, trace_ref r, trace_ref state, arena *a,
                        struct trace_dtype *out, ckpt_error *err);
/* trace_calls - the call that R is of MODULE.NAME, or NULL. */
const struct trace_node *trace_calls(trace_ref r, const char *module, const char *name);

#endif
