/* errors.h - returns the errors with which a system call may fail, and what its failure may affect. */
#ifndef FAIL_ERRORS_H
#define FAIL_ERRORS_H

#include "trace.h"

enum {
    ERRORS_EOF = 0,    /* the call reads 0 bytes, as at the end of a file */
    ERRORS_END = -1,   /* ends an array */
    ERRORS_SHORT = -2, /* the call transfers half of its bytes */
};

/* errors_of_call - returns an array of the errors with which the call C may fail: values of errno, ERRORS_EOF
 * and ERRORS_SHORT. ERRORS_END ends the array. */
const int *errors_of_call(const struct trace_call *c);
/* errors_uses_input - returns whether the call C may read the input or its size, or may write data of the
 * input, sync them or reserve space for them. */
bool errors_uses_input(const struct trace_call *c);
/* errors_loses_attributes - returns whether the new file may lack the owner, mode or extended attributes of
 * the file that it replaces if the call C fails. */
bool errors_loses_attributes(const struct trace_call *c);

#endif
