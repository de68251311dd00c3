/* oom.h - what faults and the ckpt whose allocations it makes fail have in common: a page of memory. */
#ifndef FAIL_OOM_H
#define FAIL_OOM_H

#include <stdatomic.h>
#include <stdbool.h>

#define OOM_VARIABLE "CKPT_TEST_OOM" /* the number of its descriptor */

struct oom {
    _Atomic long count; /* of allocations so far */
    long at;            /* the one that fails, from 1 */
    long lasting;       /* so do all after it */
};

/* oom_use - O decides from now on, in this program; where ASK is not NULL, it does, of each call from O->at
 * on, until one fails. oom_fails - counts a call; is it one that fails? */
void oom_use(struct oom *o, bool (*ask)(void));
bool oom_fails(void);

#endif
