/* child.c - a child process that never outlives this one: signals that would end this process are
 * passed on to the child. */
#include "child.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef __linux__
#include <sys/prctl.h>
#endif

static const int fatal_signals[] = {SIGINT, SIGTERM, SIGHUP};

#define N_FATAL_SIGNALS (sizeof fatal_signals / sizeof *fatal_signals)

static struct sigaction old_actions[N_FATAL_SIGNALS];
static sigset_t old_mask;                   /* signals that were blocked before the fork */
static volatile sig_atomic_t child_pid;     /* the child's process id, or 0 */
static volatile sig_atomic_t passed_signal; /* the last signal passed on to the child, or 0 */
static volatile sig_atomic_t ends_at_once;  /* a signal also ends this process at once */

/* raise_again - sets the handler of SIG back to the one that it had, and raises it: that handler is called as
 * soon as this one returns. */
static void raise_again(int sig)
{
    for (size_t i = 0; i < N_FATAL_SIGNALS; i++)
        if (fatal_signals[i] == sig)
            (void)sigaction(sig, &old_actions[i], NULL);
    (void)raise(sig);
}

static void pass_signal_on(int sig)
{
    passed_signal = sig;
    if (child_pid)
        (void)kill((pid_t)child_pid, sig);
    if (ends_at_once)
        raise_again(sig);
}

/* die_with_parent - makes the kernel end this process when PARENT ends. */
static void die_with_parent(pid_t parent)
{
#ifdef __linux__
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) == 0 && getppid() != parent)
        _exit(EXIT_FAILURE); /* PARENT ended before prctl() */
#else
    (void)parent;
#endif
}

/* reset_signal_handlers - sets the signals that main handles back to their defaults, so that they end the
 * child. A handler of main would raise the signal again, which the sandbox forbids: the child would go on. */
static void reset_signal_handlers(void)
{
    static const int handled[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGQUIT, SIGXCPU};
    struct sigaction act;
    for (size_t i = 0; i < sizeof handled / sizeof *handled; i++)
        if (sigaction(handled[i], NULL, &act) == 0 && act.sa_handler != SIG_IGN)
            (void)signal(handled[i], SIG_DFL);
}

/* pass_signals_to_child - saves the handlers of fatal_signals in old_actions, and makes this process pass
 * these signals on to the child. Ignored signals stay ignored. */
static void pass_signals_to_child(void)
{
    struct sigaction act = {.sa_handler = pass_signal_on, .sa_flags = SA_RESTART};
    sigemptyset(&act.sa_mask);
    for (size_t i = 0; i < N_FATAL_SIGNALS; i++)
        if (sigaction(fatal_signals[i], NULL, &old_actions[i]) == 0 && old_actions[i].sa_handler != SIG_IGN)
            (void)sigaction(fatal_signals[i], &act, NULL);
}

/* child_start - blocks fatal_signals before the fork. The parent unblocks them after it has set its handlers,
 * so that no signal is lost. */
pid_t child_start(bool at_once)
{
    sigset_t block;
    pid_t parent = getpid();
    sigemptyset(&block);
    for (size_t i = 0; i < N_FATAL_SIGNALS; i++)
        sigaddset(&block, fatal_signals[i]);
    (void)sigprocmask(SIG_BLOCK, &block, &old_mask);
    pid_t child = fork();
    passed_signal = 0;
    ends_at_once = at_once;
    child_pid = child > 0 ? child : 0;
    if (child == 0) {
        die_with_parent(parent);
        reset_signal_handlers();
    } else if (child > 0)
        pass_signals_to_child();
    int saved_errno = errno;
    (void)sigprocmask(SIG_SETMASK, &old_mask, NULL);
    errno = saved_errno;
    return child;
}

int child_wait(pid_t child)
{
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    child_pid = 0;
    for (size_t i = 0; i < N_FATAL_SIGNALS; i++)
        (void)sigaction(fatal_signals[i], &old_actions[i], NULL);
    if (passed_signal)
        raise(passed_signal);
    return status;
}

unsigned long child_limit_cpu(unsigned long seconds)
{
    struct rlimit l;
    if (getrlimit(RLIMIT_CPU, &l) != 0)
        return seconds;
    if (l.rlim_cur != RLIM_INFINITY && l.rlim_cur <= seconds)
        return (unsigned long)l.rlim_cur;
    l.rlim_cur = seconds; /* not the hard limit, which ends the process by SIGKILL: that does not show why */
    (void)setrlimit(RLIMIT_CPU, &l);
    return seconds;
}
