/* sandbox.h - makes this process give up all rights but to read and write the files that it has open. */
#pragma once

#include <stdbool.h>

/* sandbox_enter - makes the kernel refuse, with EPERM, all system calls of this process but those that use
 * its open files and manage its memory: it cannot open files, connect, run a program or make memory
 * executable. This cannot be undone. Returns false if the system has no such sandbox. */
bool sandbox_enter(void);
/* sandbox_self_test - tries what must be refused and prints the results. Returns true if all was refused. */
bool sandbox_self_test(void);
