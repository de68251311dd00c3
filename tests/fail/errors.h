/* errors.h - what is known of system calls. */
#ifndef FAIL_ERRORS_H
#define FAIL_ERRORS_H

#include "trace.h"

/* errors_of - in what ways a call may fail, ended by -1; -2: it transfers half, 0: it is at the end. */
const int *errors_of(const struct trace_call *c);
/* errors_looks - does it read the input, or go by what was read? */
bool errors_looks(const struct trace_call *c);
/* errors_attributes - can a new file lack the old one's attributes when it fails? */
bool errors_attributes(const struct trace_call *c);

#endif
