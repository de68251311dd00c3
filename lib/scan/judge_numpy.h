/* judge_numpy.h - finds numpy arrays whose bytes would be used as addresses of objects. Private to
 * judge.c. */
#ifndef SCAN_JUDGE_NUMPY_H
#define SCAN_JUDGE_NUMPY_H

#include "core/trace_dtype.h"

/* A dtype that many arrays share is read once and cached here. */
struct numpy_judge {
    const struct trace_node *dtype; /* the last one read that is in the memo; NULL: none */
    uint64_t dtype_items;           /* number of items of its node when it was read */
    struct trace_dtype cached;
    ckpt_error err; /* set if a function below fails */
};

/* numpy_change, numpy_call - *WHY: what is dangerous about the BUILD or call S of an object made by
 * MODULE.NAME; NULL: nothing. */
ckpt_status numpy_change(struct numpy_judge *j, const struct trace_step *s, ckpt_str module, ckpt_str name,
                         const char **why);
ckpt_status numpy_call(struct numpy_judge *j, const struct trace_step *s, ckpt_str module, ckpt_str name,
                       const char **why);

#endif
