/* sandbox.h - restricts this process to reading and writing the files that it has open. */
#ifndef CLI_SANDBOX_H
#define CLI_SANDBOX_H

#include <stdbool.h>

/* sandbox_enter - makes the kernel refuse all other system calls of this process with EPERM: to open, to
 * connect, to run a program, to make memory executable. It cannot be undone. Returns false if this system
 * cannot do it. */
bool sandbox_enter(void);
/* sandbox_self_test - tries what must be refused and prints the results. Returns true if all was refused. */
bool sandbox_self_test(void);

#endif
