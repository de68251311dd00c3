/* judge_numpy.h - finds numpy arrays whose bytes would be used as addresses of objects. Private to
 * judge.c. */
#ifndef SCAN_JUDGE_NUMPY_H
#define SCAN_JUDGE_NUMPY_H

#include "core/trace_dtype.h"

/* A dtype that many arrays share is read once and cached here. */
struct numpy_judge {
    const struct trace_node *dtype; /* the dtype of the memo that was read last; NULL: none */
    uint64_t dtype_items;           /* the number of its items at that time */
    struct trace_dtype cached;      /* what it describes */
    ckpt_error err;                 /* set if a function below fails */
};

/* numpy_change, numpy_call - set *WHY to what is dangerous about S, the BUILD of an object that MODULE.NAME
 * made, or a call of MODULE.NAME; NULL: nothing. */
ckpt_status numpy_change(struct numpy_judge *j, const struct trace_step *s, ckpt_str module, ckpt_str name,
                         const char **why);
ckpt_status numpy_call(struct numpy_judge *j, const struct trace_step *s, ckpt_str module, ckpt_str name,
                       const char **why);

#endif
