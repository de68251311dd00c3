/* trace.h - runs a command with one of its system calls made to fail, to transfer less, or never to
 * be carried out. */
#ifndef FAIL_TRACE_H
#define FAIL_TRACE_H

#include <stdbool.h>
#include <stddef.h>

enum trace_do {
    TRACE_ONLY,   /* lists the calls */
    TRACE_KILL,   /* SIGKILL before call number AT */
    TRACE_ERROR,  /* call AT fails with ERROR and does nothing; 0: it is told 0, the end of a file */
    TRACE_FULL,   /* so do, from there on, all that write to a file */
    TRACE_SHORT,  /* call AT transfers half */
    TRACE_MEDDLE, /* MEDDLE is called before call AT */
};

struct trace_call {
    unsigned long nr, arg[6];
};

struct trace {
    enum trace_do what;
    size_t at;
    int error;
    bool no_unnamed; /* O_TMPFILE is refused, always */
    bool no_links;   /* so are hard links */
    void (*meddle)(void *user);
    void *user;
    /* What came of it. Calls are counted from the first rt_sigaction on: that is main(). */
    struct trace_call *calls;
    size_t n, cap;
    int code;   /* exit status, -1 when it was not one */
    int signal; /* that ended it */
};

/* trace_can - does this machine let us trace, and change calls? */
bool trace_can(void);

/* trace_run - ARGV in folder DIR, its output to OUT and ERR; false: the tracing itself failed. */
bool trace_run(char *const argv[], const char *dir, int out, int err, struct trace *t);
/* trace_not - the same, left alone; its exit status, -1: a signal ended it. */
int trace_not(const char *dir, int out, int err, char *const argv[]);

#endif
