/* progress.h - one line on stderr while something takes long: on a terminal
 * only, after half a second, at most ten times a second. SIGUSR1 prints the
 * state once, terminal or not. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stdint.h>

void progress_begin(const char *verb); /* "converting" */
/* progress_step - fits the callbacks of ckpt.h; USER may be a name to show. */
int progress_step(void *user, uint64_t done, uint64_t total);
void progress_end(void);
double progress_seconds(void); /* since progress_begin */
void progress_request(void);   /* async-signal-safe: the next step prints a line */
void progress_wipe(void);      /* async-signal-safe: removes the line */

#endif
