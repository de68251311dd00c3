/* progress.h - prints a progress line on stderr: only on a terminal, after half a second, at most ten times a
 * second. SIGUSR1 prints the line once, terminal or not. */
#pragma once

#include <stdint.h>

void progress_begin(const char *what); /* "converting" */
/* progress_step - the progress callback for functions of ckpt.h: prints the line if it was not printed
 * in the last 0.1 s. USER is a name to show, or NULL. */
int progress_step(void *user, uint64_t done, uint64_t total);
double progress_seconds(void);    /* since progress_begin */
void progress_request_line(void); /* async-signal-safe: the next progress_step prints a line */
void progress_wipe(void);         /* async-signal-safe: removes the line */
