/* child.h - a process of our own that does one piece of work, and never outlives this one. */
#ifndef CLI_CHILD_H
#define CLI_CHILD_H

#include <sys/types.h>

/* child_start - forks. In the child, which gets 0, signals do what they do by default; where this process
 * ends without a chance to pass one on (SIGKILL), Linux ends the child. Next after -1 is errno, after a pid
 * child_wait. */
pid_t child_start(void);
/* child_wait - how CHILD ended, as waitpid has it. SIGINT, SIGTERM and SIGHUP end the child first, then this
 * process. */
int child_wait(pid_t child);
/* child_limit - the calling child may take SECONDS of processor time, or what it may take already, if that is
 * less, which is returned; then SIGXCPU ends it. */
unsigned long child_limit(unsigned long seconds);

#endif
