/*
 * count.c - runs a command and counts its system calls and the bytes they transfer, with ptrace(2):
 *
 *   count [-o FILE] COMMAND [ARG…]
 *
 * Prints "SYSCALLS READ WRITTEN KIB STATUS OPENS READS": the system calls of all threads of the command from
 * execve on, the bytes that these read and write (copy_file_range and the like do both), its peak memory, its
 * exit status, and how many of the calls open a file and read one. The output of the command goes to FILE
 * (/dev/null). Exits with 77 if ptrace is not permitted here.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#define TASKS_MAX    256 /* threads and processes of a command, at most */
#define CANNOT_TRACE 77

static struct {
    pid_t pid;
    uint64_t call; /* number of the system call that the task entered last */
} tasks[TASKS_MAX];
static unsigned long long ncalls, nopens, nreads, bytes_read, bytes_written;

static int fail_ptrace(const char *what)
{
    perror(what);
    return CANNOT_TRACE;
}

/* last_call - returns a pointer to the number of the system call that PID entered last. */
static uint64_t *last_call(pid_t pid)
{
    for (int i = 0; i < TASKS_MAX; i++) {
        if (!tasks[i].pid) /* PID is new */
            tasks[i].pid = pid;
        if (tasks[i].pid == pid)
            return &tasks[i].call;
    }
    fprintf(stderr, "count: more than %d tasks\n", TASKS_MAX);
    exit(CANNOT_TRACE);
}

static void count_call(uint64_t call)
{
    ncalls++;
    nopens += call == SYS_openat;
    nreads += call == SYS_read || call == SYS_pread64;
}

static void add_transfer(uint64_t call, unsigned long long n)
{
    switch (call) {
    case SYS_read:
    case SYS_pread64:
    case SYS_readv:
    case SYS_preadv:
    case SYS_preadv2: bytes_read += n; break;
    case SYS_write:
    case SYS_pwrite64:
    case SYS_writev:
    case SYS_pwritev:
    case SYS_pwritev2: bytes_written += n; break;
    case SYS_copy_file_range:
    case SYS_sendfile:
    case SYS_splice:
        bytes_read += n;
        bytes_written += n;
        break;
    }
}

/* record_call - counts the system call at whose entry or exit PID has stopped. Returns false if ptrace
 * failed. */
static bool record_call(pid_t pid)
{
    struct __ptrace_syscall_info info;
    if (ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof info, &info) < 0)
        return false;
    if (info.op == PTRACE_SYSCALL_INFO_ENTRY) {
        *last_call(pid) = info.entry.nr;
        count_call(info.entry.nr);
    } else if (info.op == PTRACE_SYSCALL_INFO_EXIT && info.exit.rval > 0) {
        add_transfer(*last_call(pid), (unsigned long long)info.exit.rval);
    }
    return true;
}

/* trace_threads - traces all threads until FIRST ends; returns its wait status, or -1. */
static int trace_threads(pid_t first, struct rusage *used)
{
    int status;
    pid_t pid;
    while ((pid = wait4(-1, &status, __WALL, used)) > 0) {
        int signal = 0; /* to deliver to the thread when it resumes */
        if (!WIFSTOPPED(status)) {
            if (pid == first)
                return status;
            continue;
        }
        if (WSTOPSIG(status) == (SIGTRAP | 0x80)) {
            if (!record_call(pid))
                return -1;
        } else if (status >> 8 == (SIGTRAP | PTRACE_EVENT_EXEC << 8)) {
            ncalls = nopens = nreads = bytes_read = bytes_written =
                0; /* before execve, run_command() made calls */
        } else if (!(status >> 16) && WSTOPSIG(status) != SIGSTOP) {
            signal = WSTOPSIG(status);
        }
        ptrace(PTRACE_SYSCALL, pid, NULL, (void *)(intptr_t)signal);
    }
    return -1;
}

static void run_command(char **argv, const char *output)
{
    int fd = open(output, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (fd < 0 || dup2(fd, 1) < 0 || dup2(fd, 2) < 0 || ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
        _exit(CANNOT_TRACE);
    close(fd);
    raise(SIGSTOP);
    execvp(argv[0], argv);
    _exit(127);
}

int main(int argc, char **argv)
{
    const long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEEXEC | PTRACE_O_TRACECLONE |
                         PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_EXITKILL;
    const char *output = "/dev/null";
    struct rusage used = {0};
    int opt, status = 0;
    while ((opt = getopt(argc, argv, "+o:")) == 'o')
        output = optarg;
    if (opt != -1 || optind >= argc) {
        fprintf(stderr, "usage: count [-o FILE] COMMAND [ARG...]\n");
        return 2;
    }
    pid_t pid = fork();
    if (pid == 0)
        run_command(argv + optind, output);
    if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status))
        return fail_ptrace("ptrace");
    if (ptrace(PTRACE_SETOPTIONS, pid, NULL, (void *)options) < 0 ||
        ptrace(PTRACE_SYSCALL, pid, NULL, NULL) < 0)
        return fail_ptrace("ptrace");
    status = trace_threads(pid, &used);
    if (status < 0)
        return fail_ptrace("ptrace");
    printf("%llu %llu %llu %ld %d %llu %llu\n", ncalls, bytes_read, bytes_written, used.ru_maxrss,
           WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), nopens, nreads);
    return 0;
}
