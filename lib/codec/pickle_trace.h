/* pickle_trace.h - follows a pickle as leniently as any loader would, and reports every import, call and
 * change that loading it would cause, in order. */
#pragma once

#include "core/trace.h"

struct trace_options {
    bool buffer_frames; /* read each FRAME into a buffer, as CPython's C unpickler does; see pickle_trace.c */
    bool joblib_arrays_as_opcodes;   /* run the bytes of joblib's arrays as opcodes, as pickle.load does */
    bool reports_payloads;           /* report TRACE_STEP_PAYLOAD, and look for sought_texts */
    const char *const *sought_texts; /* at most 32, NULL after the last; each 3 to 16 characters of ASCII */
    uint64_t calls_before;           /* the number of the last call that an earlier trace reported */
    uint64_t *opcodes_left; /* opcodes that may still be followed in all traces together; NULL: any number */
    uint64_t max_memory;    /* most bytes of memory; 0: 16 times the pickle, at least 64 MiB */
    bool (*step)(void *user, const struct trace_step *step); /* returns false to stop the trace */
    void *user;
};

/* pickle_trace - follows the pickle that begins at POS of SRC. Fills in OUT even after a failure; the steps
 * that were reported before it are valid. CKPT_ECANCELLED: a step returned false. */
ckpt_status pickle_trace(source *src, uint64_t pos, uint64_t end, const struct trace_options *opts,
                         struct trace_end *out, ckpt_error *err);
