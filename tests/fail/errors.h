/* errors.h - with which errors a system call may fail, and what its failure may affect. */
#ifndef FAIL_ERRORS_H
#define FAIL_ERRORS_H

#include "trace.h"

enum {
    ERRORS_EOF = 0,    /* the call reads 0 bytes, as at the end of a file */
    ERRORS_END = -1,   /* ends an array */
    ERRORS_SHORT = -2, /* the call transfers half of its bytes */
};

/* errors_of_call - returns an array of the errno values with which C may fail and of the values above. */
const int *errors_of_call(const struct trace_call *c);
/* errors_uses_input - returns whether C reads the input or its size, or writes bytes that were read from
 * it. */
bool errors_uses_input(const struct trace_call *c);
/* errors_loses_attributes - returns whether a new file may lack the old one's attributes if C fails. */
bool errors_loses_attributes(const struct trace_call *c);

#endif
