/* errors.h - in which ways a system call may fail, and what its failure may affect. */
#ifndef FAIL_ERRORS_H
#define FAIL_ERRORS_H

#include "trace.h"

/* ERRORS_SHORT: transfers half of its bytes; ERRORS_EOF: reads 0 bytes, as at the end of a file. */
enum { ERRORS_EOF = 0, ERRORS_END = -1, ERRORS_SHORT = -2 };

/* errors_of_call - returns the errno values with which C may fail, with the values above, up to
 * ERRORS_END. */
const int *errors_of_call(const struct trace_call *c);
/* errors_uses_input - returns whether C reads the input or its size, or writes what was read of it. */
bool errors_uses_input(const struct trace_call *c);
/* errors_loses_attributes - returns whether a new file may lack the old one's attributes if C fails. */
bool errors_loses_attributes(const struct trace_call *c);

#endif
