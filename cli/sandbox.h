/* sandbox.h - runs a piece of work in a child process, which can give up all rights but to read and write the
 * files that it has open. */
#ifndef CLI_SANDBOX_H
#define CLI_SANDBOX_H

#include <stdbool.h>
#include <sys/types.h>

/* child_start - forks and returns what fork() returns; after a pid, the caller calls child_wait. The child
 * handles signals by default. If this process is killed by SIGKILL, Linux ends the child. */
pid_t child_start(void);
/* child_wait - waits for CHILD and returns its status as waitpid() does. Meanwhile SIGINT, SIGTERM and SIGHUP
 * end the child first, then this process. */
int child_wait(pid_t child);
/* child_limit - limits the processor time of the calling process to SECONDS, after which SIGXCPU ends it.
 * Returns the limit, which is lower if there was a lower one before. */
unsigned long child_limit(unsigned long seconds);

/* sandbox_enter - makes the kernel refuse, with EPERM, all system calls of this process but those that use
 * its open files and manage its memory: it cannot open files, connect, run a program or make memory
 * executable. This cannot be undone. Returns false if the system has no such sandbox. */
bool sandbox_enter(void);
/* sandbox_self_test - tries what must be refused and prints the results. Returns true if all was refused. */
bool sandbox_self_test(void);

#endif
