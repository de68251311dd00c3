/* pickle_trace.h - follows a pickle as leniently as any loader would, and tells
 * every import, call and change it would bring about, in order. */
#ifndef CODEC_PICKLE_TRACE_H
#define CODEC_PICKLE_TRACE_H

#include "core/trace.h"

struct trace_options {
    bool framed;         /* read as CPython's C unpickler read files by frames, see pickle_trace.c */
    bool plain;          /* as pickle.load: joblib's arrays are not passed over */
    bool payloads;       /* tell TRACE_STEP_PAYLOAD */
    uint64_t calls;      /* told before: the first call gets the next number */
    uint64_t *left;      /* opcodes that may still be followed, in all; NULL: any number */
    uint64_t max_memory; /* 0: 64 MiB and 16 times the pickle */
    bool (*step)(void *user, const struct trace_step *step); /* false: stop here */
    void *user;
};

/* pickle_trace - runs the pickle that begins at POS of SRC. END is filled in
 * however it ends; steps told before a failure stay true. CKPT_ECANCELLED: a
 * step said so. */
ckpt_status pickle_trace(source *src, uint64_t pos, uint64_t end, const struct trace_options *opts,
                         struct trace_end *out, ckpt_error *err);

#endif
