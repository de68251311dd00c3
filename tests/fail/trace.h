/* trace.h - runs a command under ptrace and makes one of its system calls fail or transfer less, or kills the
 * command before that call. */
#ifndef FAIL_TRACE_H
#define FAIL_TRACE_H

#include <stdbool.h>
#include <stddef.h>

enum trace_action {
    TRACE_LIST,     /* only lists the calls */
    TRACE_KILL,     /* sends SIGKILL before call number `call` */
    TRACE_ERROR,    /* call `call` does nothing and fails with `error`; error 0: it returns 0 */
    TRACE_FULL,     /* from call `call` on, all calls that write to a file fail with `error` */
    TRACE_SHORT,    /* call `call` transfers half of the bytes requested */
    TRACE_CALLBACK, /* `callback` is called before call `call` */
};

struct trace_call {
    unsigned long number, arg[6]; /* number: SYS_read, … */
};

struct trace {
    enum trace_action action;
    size_t call;     /* index in `calls` */
    int error;       /* an errno value */
    bool no_tmpfile; /* O_TMPFILE always fails */
    bool no_links;   /* linkat() always fails */
    void (*callback)(void *user);
    void *user;
    /* The outcome. `calls` begins with the first rt_sigaction(), which main() calls; earlier calls, those of
     * the dynamic loader, are not in it. */
    struct trace_call *calls;
    size_t ncalls, cap_calls;
    int code;   /* exit status of the command; -1: a signal ended the command */
    int signal; /* the signal that ended the command, or 0 */
};

/* trace_is_allowed - returns whether this machine permits tracing a process and changing its calls. */
bool trace_is_allowed(void);

/* trace_run - runs ARGV in folder DIR, with standard output and error to the descriptors OUT and ERR, and
 * fills in the outcome of T. Returns false if tracing failed. */
bool trace_run(const char *dir, int out, int err, char *const argv[], struct trace *t);
/* trace_run_untraced - runs ARGV in DIR without tracing it; returns the exit status, or -1 if a signal ended
 * it. */
int trace_run_untraced(const char *dir, int out, int err, char *const argv[]);

#endif
