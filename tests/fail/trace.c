/* trace.c - see trace.h. ptrace stops each call twice: on entry, where its number can be replaced by one that
 * does not exist, and on exit, where its result can be replaced. Only the first thread is traced. */
#include "trace.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXIT_CANNOT_RUN 125 /* exit status of a child that could not start the command */
#define KEEP_RESULT     1   /* the call runs and keeps its result; injected results are 0 or -errno */

#ifdef __x86_64__

#define REG(name) offsetof(struct user_regs_struct, name)

static bool set_register(pid_t pid, size_t reg, unsigned long value)
{
    return ptrace(PTRACE_POKEUSER, pid, reg, value) == 0;
}

static struct trace_call read_call(pid_t pid)
{
    struct user_regs_struct r = {0};
    ptrace(PTRACE_GETREGS, pid, NULL, &r);
    return (struct trace_call){(unsigned long)r.orig_rax,
                               {(unsigned long)r.rdi, (unsigned long)r.rsi, (unsigned long)r.rdx,
                                (unsigned long)r.r10, (unsigned long)r.r8, (unsigned long)r.r9}};
}

/* skip_call - replaces the number of the call by one that does not exist, so that the kernel does nothing. */
static bool skip_call(pid_t pid) { return set_register(pid, REG(orig_rax), (unsigned long)-1); }

static bool set_result(pid_t pid, long value) { return set_register(pid, REG(rax), (unsigned long)value); }

/* find_entry - returns the address at which the program begins after its loader has run; 0: unknown. */
static unsigned long find_entry(pid_t pid)
{
    char path[64];
    unsigned long pair[2], entry = 0;
    snprintf(path, sizeof path, "/proc/%d/auxv", (int)pid);
    FILE *auxv = fopen(path, "r");
    while (auxv && !entry && fread(pair, sizeof pair, 1, auxv) == 1)
        entry = pair[0] == AT_ENTRY ? pair[1] : 0;
    if (auxv)
        fclose(auxv);
    return entry;
}

/* skip_loader - lets the child, which is about to run, continue to its entry by a breakpoint there: stopping
 * at each call of the loader takes long. */
static bool skip_loader(pid_t pid)
{
    const unsigned long breakpoint = 0xcc, entry = find_entry(pid);
    int status;
    errno = 0;
    unsigned long code = (unsigned long)ptrace(PTRACE_PEEKTEXT, pid, entry, NULL);
    return entry && !errno && ptrace(PTRACE_POKETEXT, pid, entry, (code & ~0xfful) | breakpoint) == 0 &&
           ptrace(PTRACE_CONT, pid, NULL, NULL) == 0 && waitpid(pid, &status, 0) == pid &&
           WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP &&
           ptrace(PTRACE_POKETEXT, pid, entry, code) == 0 && set_register(pid, REG(rip), entry);
}

/* halve_length - halves the argument of the call that is a number of bytes: the third, or the fifth of
 * copy_file_range(). */
static bool halve_length(pid_t pid, const struct trace_call *c)
{
    bool is_copy = c->number == SYS_copy_file_range;
    return set_register(pid, is_copy ? REG(r8) : REG(rdx), (c->arg[is_copy ? 4 : 2] + 1) / 2);
}

#else /* other processors: these are never called, because trace_is_allowed() returns false */

static struct trace_call read_call(pid_t pid)
{
    (void)pid;
    return (struct trace_call){0};
}

static bool skip_call(pid_t pid) { return pid < 0; }
static bool skip_loader(pid_t pid) { return pid < 0; }
static bool set_result(pid_t pid, long value) { return pid < 0 && value; }
static bool halve_length(pid_t pid, const struct trace_call *c) { return pid < 0 && c; }

#endif

static bool append_call(struct trace *t, struct trace_call c)
{
    if (t->ncalls == t->cap_calls) {
        t->cap_calls = t->cap_calls ? t->cap_calls * 2 : 512;
        t->calls = realloc(t->calls, t->cap_calls * sizeof *t->calls);
        if (!t->calls)
            return false;
    }
    t->calls[t->ncalls++] = c;
    return true;
}

static bool writes_file(const struct trace_call *c)
{
    switch (c->number) {
    case SYS_write: return c->arg[0] > STDERR_FILENO;
    case SYS_pwrite64:
    case SYS_copy_file_range:
    case SYS_fallocate:
    case SYS_fsync:
    case SYS_fdatasync: return true;
    default: return false;
    }
}

/* enter_call - applies the fault, if any, to the call that the child is entering. Sets *RESULT to what the
 * call is to return, or to KEEP_RESULT. Returns false on an error. */
static bool enter_call(pid_t pid, struct trace *t, long *result)
{
    struct trace_call c = read_call(pid);
    *result = KEEP_RESULT;
    if (t->ncalls == 0 && c.number != SYS_rt_sigaction)
        return true; /* a call before main() */
    if (!append_call(t, c))
        return false;
    size_t call = t->ncalls - 1;
    if (t->no_tmpfile && c.number == SYS_openat && (c.arg[2] & O_TMPFILE) == O_TMPFILE)
        *result = -EOPNOTSUPP;
    if (t->no_links && c.number == SYS_linkat)
        *result = -EPERM;
    if (t->action == TRACE_FULL && call >= t->call && writes_file(&c))
        *result = -t->error;
    if (t->action == TRACE_ERROR && call == t->call)
        *result = -t->error;
    if (t->action == TRACE_KILL && call == t->call)
        return kill(pid, SIGKILL) == 0;
    if (t->action == TRACE_CALLBACK && call == t->call)
        t->callback(t->user);
    if (t->action == TRACE_SHORT && call == t->call)
        return halve_length(pid, &c);
    return *result == KEEP_RESULT || skip_call(pid);
}

/* is_done - returns true if no later call is to be changed or listed. */
static bool is_done(const struct trace *t)
{
    bool acts_once = t->action != TRACE_LIST && t->action != TRACE_FULL;
    return acts_once && t->ncalls > t->call && !t->no_tmpfile && !t->no_links;
}

/* continue_until_stop - continues the child, with signal SIG if it is not 0, and waits until it stops or
 * ends; it stops at calls unless IGNORES_CALLS. */
static bool continue_until_stop(pid_t pid, bool ignores_calls, int sig, int *status)
{
    return ptrace(ignores_calls ? PTRACE_CONT : PTRACE_SYSCALL, pid, NULL, (void *)(long)sig) == 0 &&
           waitpid(pid, status, 0) == pid;
}

/* trace_child - lets the child, which has called PTRACE_TRACEME, run to its end; returns false on an
 * error. */
static bool trace_child(pid_t pid, struct trace *t)
{
    int status;
    long result = KEEP_RESULT;
    bool in_call = false;
    if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status) ||
        ptrace(PTRACE_SETOPTIONS, pid, NULL, (void *)(PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL)) != 0 ||
        !skip_loader(pid))
        return false;
    for (int sig = 0; continue_until_stop(pid, !in_call && is_done(t), sig, &status);) {
        if (WIFEXITED(status) || WIFSIGNALED(status)) {
            t->code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
            t->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
            return t->code != EXIT_CANNOT_RUN;
        }
        sig = 0;
        if (WSTOPSIG(status) != (SIGTRAP | 0x80)) { /* not a system call, see PTRACE_O_TRACESYSGOOD */
            sig = WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);
            continue;
        }
        in_call = !in_call;
        bool ok = true;
        if (in_call)
            ok = enter_call(pid, t, &result);
        else if (result != KEEP_RESULT)
            ok = set_result(pid, result);
        if (!ok)
            break;
    }
    /* The child may have been killed between two stops. */
    if (waitpid(pid, &status, WNOHANG) == pid && WIFSIGNALED(status)) {
        t->signal = WTERMSIG(status);
        return true;
    }
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    t->signal = SIGKILL;
    return t->action == TRACE_KILL;
}

bool trace_run(const char *dir, int out, int err, char *const argv[], struct trace *t)
{
    t->ncalls = 0;
    t->code = -1;
    t->signal = 0;
    pid_t pid = fork();
    if (pid < 0)
        return false;
    if (pid == 0) {
        if (chdir(dir) != 0 || dup2(out, 1) < 0 || dup2(err, 2) < 0 ||
            ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
            _exit(EXIT_CANNOT_RUN);
        execv(argv[0], argv);
        _exit(EXIT_CANNOT_RUN);
    }
    return trace_child(pid, t);
}

int trace_run_untraced(const char *dir, int out, int err, char *const argv[])
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        if (chdir(dir) != 0 || dup2(out, 1) < 0 || dup2(err, 2) < 0)
            _exit(EXIT_CANNOT_RUN);
        execvp(argv[0], argv);
        _exit(EXIT_CANNOT_RUN);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return EXIT_CANNOT_RUN;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

bool trace_is_allowed(void)
{
#ifdef __x86_64__
    char *argv[] = {"/bin/sh", "-c", "trap : 1; read x <.; exit 7", NULL};
    struct trace t = {.action = TRACE_LIST};
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    bool allowed = null >= 0 && trace_run("/", null, null, argv, &t) && t.ncalls > 0;
    if (null >= 0)
        close(null);
    free(t.calls);
    return allowed;
#else
    return false;
#endif
}
