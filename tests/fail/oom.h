/* oom.h - makes allocations and other calls fail on request. faults.c controls this in a ckpt that is linked
 * with oom.c, by memory that both share. */
#ifndef FAIL_OOM_H
#define FAIL_OOM_H

#include <stdatomic.h>
#include <stdbool.h>

#define OOM_VARIABLE "CKPT_TEST_OOM" /* environment variable: the descriptor of the shared memory */

struct oom {
    _Atomic long ncalls; /* calls so far */
    long failing_call;   /* number of the call that fails, from 1; 0: no call fails */
    bool fail_all_after; /* all calls after failing_call fail, too */
};

/* oom_set - makes call_should_fail() use STATE in this process; if STATE is NULL, no call fails. With
 * MAY_FAIL, the call that fails is the first one, from STATE->failing_call on, for which MAY_FAIL returns
 * true. */
void oom_set(struct oom *state, bool (*may_fail)(void));
/* call_should_fail - counts a call and returns whether it must fail. */
bool call_should_fail(void);

#endif
