/* judge.h - judges imports by the lists of known names, and calls by the arguments that picklers write. */
#pragma once

#include "core/findings.h"
#include "core/trace_dtype.h"

struct judge;

/* judge_new - makes a judge that reports to SCAN, and sets its callbacks in SCAN. */
ckpt_status judge_new(struct scan *scan, struct judge **out, ckpt_error *err);
void judge_free(struct judge *judge); /* NULL is allowed */

/* What follows is private to judge.c and judge_numpy.c. */

/* A dtype that many arrays share is read once and cached here. */
struct numpy_judge {
    const struct trace_node *cached_node; /* the last dtype that was read; NULL: none */
    uint64_t cached_items;                /* the number of its items at that time */
    struct trace_dtype cached_dtype;      /* what it describes */
    ckpt_error err;                       /* set if a function below fails */
};

/* numpy_judge_build, numpy_judge_call - set *WHY to what is dangerous about STEP; to NULL if nothing is. For
 * the first, STEP changes an object that MODULE.NAME made; for the second, STEP calls MODULE.NAME. */
ckpt_status numpy_judge_build(struct numpy_judge *judge, const struct trace_step *step, ckpt_str module,
                              ckpt_str name, const char **why);
ckpt_status numpy_judge_call(struct numpy_judge *judge, const struct trace_step *step, ckpt_str module,
                             ckpt_str name, const char **why);
