/* oom.h - the memory that faults shares with the ckpt in which it makes allocations fail. */
#ifndef FAIL_OOM_H
#define FAIL_OOM_H

#include <stdatomic.h>
#include <stdbool.h>

#define OOM_VARIABLE "CKPT_TEST_OOM" /* the environment variable with the descriptor of that memory */

struct oom {
    _Atomic long count; /* of allocations so far */
    long at;            /* the number of the one that fails, from 1; 0: none */
    long lasting;       /* all after it fail, too */
};

/* oom_set - makes oom_should_fail() go by O in this program, NULL: never fail. If ASK is not NULL, the first
 * call from O->at on for which ASK returns true fails instead.
 * oom_should_fail - counts a call and returns whether it must fail. */
void oom_set(struct oom *o, bool (*ask)(void));
bool oom_should_fail(void);

#endif
