/* sandbox.h - a process that can do nothing any more but read what it has open, write to it, and end. */
#ifndef CLI_SANDBOX_H
#define CLI_SANDBOX_H

#include <stdbool.h>

/* sandbox_enter - from here on the kernel refuses this process everything else with EPERM: to open, to
 * connect, to run a program, to make memory executable. It cannot be undone. False: there is no such
 * thing here. */
bool sandbox_enter(void);
/* sandbox_self_test - tries what must not work and prints what came of it: true when all was refused. */
bool sandbox_self_test(void);

#endif
