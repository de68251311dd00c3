/* oom.h - the memory that faults shares with the ckpt in which it makes allocations fail. */
#ifndef FAIL_OOM_H
#define FAIL_OOM_H

#include <stdatomic.h>
#include <stdbool.h>

#define OOM_VARIABLE "CKPT_TEST_OOM" /* the environment variable with the descriptor of that memory */

struct oom {
    _Atomic long count; /* of allocations so far */
    long at;            /* the number of the allocation that fails, from 1; 0: none */
    long lasting;       /* 1: all later allocations fail, too */
};

/* oom_set - makes oom_should_fail() use O in this program; NULL: no call fails. If ACCEPT is not NULL, not
 * call O->at fails, but the first from there on for which ACCEPT returns true.
 * oom_should_fail - counts a call and returns whether it must fail. */
void oom_set(struct oom *o, bool (*accept)(void));
bool oom_should_fail(void);

#endif
