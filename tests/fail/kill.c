/*
 * kill.c - kill N COMMAND…: runs COMMAND and kills it before its Nth system call is
 * carried out. Exit: 0 it ended before that, 1 it was killed, 3 this machine lets
 * nobody trace.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#define CANNOT 3

static int follow(pid_t child, long n)
{
    int status;
    if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status) ||
        ptrace(PTRACE_SETOPTIONS, child, NULL, (void *)(PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL)) != 0)
        return CANNOT;
    for (long stops = 0;; stops++) {
        int signal = stops && WSTOPSIG(status) != (SIGTRAP | 0x80) ? WSTOPSIG(status) : 0;
        if (stops / 2 + 1 > n) { /* two stops a call: before and behind it */
            kill(child, SIGKILL);
            return waitpid(child, &status, 0) == child ? 1 : 2;
        }
        if (ptrace(PTRACE_SYSCALL, child, NULL, (void *)(long)signal) != 0 ||
            waitpid(child, &status, 0) != child)
            return 2;
        if (WIFEXITED(status) || WIFSIGNALED(status))
            return 0;
    }
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: kill N COMMAND…\n");
        return 2;
    }
    pid_t child = fork();
    if (child == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
            _exit(CANNOT);
        execvp(argv[2], argv + 2);
        _exit(2);
    }
    return child < 0 ? 2 : follow(child, strtol(argv[1], NULL, 10));
}
