/* child.h - runs a task in a child process. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* child_start - forks and returns what fork() returns. The parent then calls child_wait. In the child,
 * signals have their default effects. If SIGKILL ends this process, Linux ends the child. Until the end of
 * child_wait, SIGINT, SIGTERM and SIGHUP end the child first, then this process: with AT_ONCE in the
 * middle of what it does, else in child_wait. */
pid_t child_start(bool at_once);
/* child_wait - waits for CHILD and returns its status as waitpid() does. */
int child_wait(pid_t child);
/* child_limit_cpu - limits the processor time of the calling process to SECONDS, after which SIGXCPU ends it.
 * Returns the limit, which is lower if there was a lower one before. */
unsigned long child_limit_cpu(unsigned long seconds);
