/* trace.h - runs a command under ptrace and makes one of its system calls fail or transfer less, or kills the
 * command before that call. */
#ifndef FAIL_TRACE_H
#define FAIL_TRACE_H

#include <stdbool.h>
#include <stddef.h>

enum trace_action {
    TRACE_LIST,  /* only lists the calls */
    TRACE_KILL,  /* sends SIGKILL before call number `at` */
    TRACE_ERROR, /* call `at` does nothing and fails with errno `error`; 0: it returns 0, as at end of file */
    TRACE_FULL,  /* from call `at` on, all calls that write to a file fail with errno `error` */
    TRACE_SHORT, /* call `at` transfers half of its bytes */
    TRACE_CALLBACK, /* calls `callback` before call `at` */
};

struct trace_call {
    unsigned long nr, arg[6];
};

struct trace {
    enum trace_action what;
    size_t at;
    int error;
    bool no_tmpfile; /* O_TMPFILE always fails */
    bool no_links;   /* linkat() always fails */
    void (*callback)(void *user);
    void *user;
    /* The outcome. Calls are counted from the first rt_sigaction on, which main() makes. */
    struct trace_call *calls;
    size_t n, cap;
    int code;   /* exit status of the command; -1: a signal ended it */
    int signal; /* the signal that ended it, or 0 */
};

/* trace_is_allowed - returns whether this machine permits tracing and changing calls. */
bool trace_is_allowed(void);

/* trace_run - runs ARGV in folder DIR with its output to OUT and ERR; false: the tracing itself failed. */
bool trace_run(char *const argv[], const char *dir, int out, int err, struct trace *t);
/* trace_run_untraced - runs ARGV in DIR without tracing it; returns the exit status, or -1 if a signal ended
 * it. */
int trace_run_untraced(const char *dir, int out, int err, char *const argv[]);

#endif
