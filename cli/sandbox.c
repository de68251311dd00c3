/* sandbox.c - a child process that never outlives this one, and its sandbox by seccomp(2) of Linux: a filter
 * program in the kernel checks the number and the arguments of each system call. All but the listed ones fail
 * with EPERM, those of other architectures too. open() may only make a temporary file without a name
 * (O_TMPFILE), into which archives are unpacked. */
#include "sandbox.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef __linux__
#include <sys/prctl.h>
#if defined(__x86_64__) || defined(__aarch64__)
#define HAVE_SECCOMP
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#endif
#endif

/* ------------------------------------------------------------ child process */

static const int end_signals[] = {SIGINT, SIGTERM, SIGHUP};

#define N_END_SIGNALS (sizeof end_signals / sizeof *end_signals)

static struct sigaction old_actions[N_END_SIGNALS];
static sigset_t old_mask;                   /* signals that were blocked before the fork */
static volatile sig_atomic_t pid;           /* the child's process id, or 0 */
static volatile sig_atomic_t passed_signal; /* the last signal passed on to the child, or 0 */

static void pass_signal_on(int sig)
{
    passed_signal = sig;
    if (pid)
        (void)kill((pid_t)pid, sig);
}

/* end_with_parent - makes the kernel end this process when PARENT ends. */
static void end_with_parent(pid_t parent)
{
#ifdef __linux__
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) == 0 && getppid() != parent)
        _exit(EXIT_FAILURE); /* PARENT ended before prctl() */
#else
    (void)parent;
#endif
}

/* reset_end_signals - sets the signals that main handles back to their defaults, so that they end the child.
 * A handler of main would raise the signal again, which the sandbox forbids, and the child would go on. */
static void reset_end_signals(void)
{
    static const int all[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGQUIT, SIGXCPU};
    struct sigaction act;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (sigaction(all[i], NULL, &act) == 0 && act.sa_handler != SIG_IGN)
            (void)signal(all[i], SIG_DFL);
}

/* pass_end_signals - makes this process pass the signals that would end it on to the child, and saves its
 * handlers in old_actions. Ignored signals stay ignored. */
static void pass_end_signals(void)
{
    struct sigaction act = {.sa_handler = pass_signal_on, .sa_flags = SA_RESTART};
    sigemptyset(&act.sa_mask);
    for (size_t i = 0; i < N_END_SIGNALS; i++)
        if (sigaction(end_signals[i], NULL, &old_actions[i]) == 0 && old_actions[i].sa_handler != SIG_IGN)
            (void)sigaction(end_signals[i], &act, NULL);
}

/* child_start - blocks the signals that end a process until the parent has set its handlers, so that no
 * signal is lost. */
pid_t child_start(void)
{
    sigset_t block;
    pid_t parent = getpid();
    sigemptyset(&block);
    for (size_t i = 0; i < N_END_SIGNALS; i++)
        sigaddset(&block, end_signals[i]);
    (void)sigprocmask(SIG_BLOCK, &block, &old_mask);
    pid_t child = fork();
    passed_signal = 0;
    pid = child > 0 ? child : 0;
    if (child == 0) {
        end_with_parent(parent);
        reset_end_signals();
    } else if (child > 0)
        pass_end_signals();
    int failed = errno;
    (void)sigprocmask(SIG_SETMASK, &old_mask, NULL);
    errno = failed;
    return child;
}

int child_wait(pid_t child)
{
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    pid = 0;
    for (size_t i = 0; i < N_END_SIGNALS; i++)
        (void)sigaction(end_signals[i], &old_actions[i], NULL);
    if (passed_signal)
        raise(passed_signal);
    return status;
}

unsigned long child_limit(unsigned long seconds)
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

/* ------------------------------------------------------------------ seccomp */

#ifdef HAVE_SECCOMP

#ifdef __x86_64__
#define ARCH AUDIT_ARCH_X86_64
#else
#define ARCH AUDIT_ARCH_AARCH64
#endif

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)offsetof(struct seccomp_data, field))
/* Loads the low half of argument I: both processors are little-endian. */
#define LOAD_ARG(i)    LOAD(args[i])
#define RET(what)      BPF_STMT(BPF_RET | BPF_K, what)
#define REFUSE         RET(SECCOMP_RET_ERRNO | EPERM)
#define ALLOW(name)    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name, 0, 1), RET(SECCOMP_RET_ALLOW)
/* These skip the next instruction, which allows the call, unless the loaded argument has none of BITS, or all
 * of them. */
#define IF_NONE(bits) BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, 1, 0)
#define IF_ALL(bits)                                                                                         \
    BPF_STMT(BPF_ALU | BPF_AND | BPF_K, bits), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, bits, 0, 1)
/* Allows NAME if its argument I has none of BITS, or all of them. For another call, skips the instructions
 * after the first one. */
#define ALLOW_IF_NONE(name, i, bits)                                                                         \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name, 0, 4), LOAD_ARG(i), IF_NONE(bits),                       \
        RET(SECCOMP_RET_ALLOW), REFUSE
#define ALLOW_IF_ALL(name, i, bits)                                                                          \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name, 0, 5), LOAD_ARG(i), IF_ALL(bits),                        \
        RET(SECCOMP_RET_ALLOW), REFUSE

bool sandbox_enter(void)
{
    static struct sock_filter rules[] = {
        LOAD(arch),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCH, 1, 0),
        REFUSE,
        LOAD(nr),
        ALLOW(read),
        ALLOW(pread64),
        ALLOW(write),
        ALLOW(writev),
        ALLOW(pwrite64),
        ALLOW(lseek),
        ALLOW(close),
        ALLOW(fstat),
        ALLOW(newfstatat),
#ifdef __x86_64__ /* as musl calls them there */
        ALLOW(stat),
        ALLOW(lstat),
        ALLOW(readv),
#endif
        ALLOW(fadvise64),
        ALLOW(munmap),
        ALLOW(mremap),
        ALLOW(madvise),
        ALLOW(brk),
        ALLOW(futex),
        ALLOW(getrandom),
        ALLOW(clock_gettime),
        ALLOW(sysinfo),
        ALLOW(getpid),
        ALLOW(gettid),
        ALLOW(rt_sigprocmask),
        ALLOW(rt_sigreturn),
        ALLOW(sigaltstack),
        ALLOW(exit),
        ALLOW(exit_group),
        ALLOW_IF_NONE(mmap, 2, PROT_EXEC),
        ALLOW_IF_NONE(mprotect, 2, PROT_EXEC),
        ALLOW_IF_ALL(openat, 2, O_TMPFILE),
#ifdef __x86_64__ /* musl's open() there */
        ALLOW_IF_ALL(open, 1, O_TMPFILE),
#endif
        REFUSE,
    };
    const struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}

static bool check_refused(const char *what, long result)
{
    bool yes = result < 0 && errno == EPERM;
    printf("%-18s %s\n", what, yes ? "refused" : result < 0 ? strerror(errno) : "NOT REFUSED");
    return yes;
}

bool sandbox_self_test(void)
{
    char *none[] = {NULL};
    void *code = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    bool all = check_refused("open", open("/etc/passwd", O_RDONLY | O_CLOEXEC));
    all = check_refused("create", open("/tmp/ckpt", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600)) && all;
    all = check_refused("execve", execve("/bin/true", none, none)) && all;
    all = check_refused("fork", syscall(SYS_clone, (long)SIGCHLD, 0L, 0L, 0L, 0L)) && all;
    all = check_refused("socket", socket(AF_INET, SOCK_STREAM, 0)) && all;
    all = check_refused("unlink", unlink("/tmp/ckpt")) && all;
    all = check_refused("kill", syscall(SYS_kill, (long)getpid(), 0L)) && all;
    all = check_refused("ptrace", syscall(SYS_ptrace, 0L, 0L, 0L, 0L)) && all;
    all = check_refused("executable memory", code == MAP_FAILED ? -1 : 0) && all;
    return all;
}

#else

bool sandbox_enter(void) { return false; }
bool sandbox_self_test(void) { return false; }

#endif
