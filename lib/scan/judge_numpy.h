/* judge_numpy.h - arrays whose bytes numpy would take for addresses of objects. Private to judge.c. */
#ifndef SCAN_JUDGE_NUMPY_H
#define SCAN_JUDGE_NUMPY_H

#include "core/trace_dtype.h"

/* What is known of dtypes: of one that many arrays share, once. */
struct numpy_judge {
    const struct trace_node *dtype; /* the last one that is kept by the memo; NULL */
    uint64_t items;                 /* of its node then */
    struct trace_dtype is;
    ckpt_error err; /* where a status is not CKPT_OK */
};

/* numpy_change, numpy_call - what speaks against the BUILD or the call S, of an object that MODULE.NAME
 * made; *WHY is NULL: nothing. */
ckpt_status numpy_change(struct numpy_judge *j, const struct trace_step *s, ckpt_str module, ckpt_str name,
                         const char **why);
ckpt_status numpy_call(struct numpy_judge *j, const struct trace_step *s, ckpt_str module, ckpt_str name,
                       const char **why);

#endif
