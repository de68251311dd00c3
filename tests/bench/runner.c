/*
 * runner.c - runs a command and measures it:
 *
 *   runner [-n RUNS] [-o FILE] COMMAND [ARG…]
 *
 * Prints "MS KIB STATUS": the median wall time of RUNS runs (7), the most memory that was resident in any of
 * them, and the exit status of the last. The command's output goes to FILE (/dev/null).
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define RUNS_MAX 1000

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static int run(char **argv, const char *output, double *ms, long *kib)
{
    struct rusage used;
    int status = 0;
    double begin = now();
    pid_t pid = vfork();
    if (pid == 0) {
        int fd = open(output, O_WRONLY | O_CREAT | O_TRUNC, 0666);
        if (fd < 0 || dup2(fd, 1) < 0 || dup2(fd, 2) < 0)
            _exit(127);
        execvp(argv[0], argv);
        _exit(127);
    }
    if (pid < 0 || wait4(pid, &status, 0, &used) != pid)
        return 127;
    *ms = now() - begin;
    if (used.ru_maxrss > *kib)
        *kib = used.ru_maxrss;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    static double ms[RUNS_MAX];
    const char *output = "/dev/null";
    int opt, status = 0;
    long runs = 7, kib = 0;
    while ((opt = getopt(argc, argv, "+n:o:")) != -1) {
        if (opt == 'n')
            runs = strtol(optarg, NULL, 10);
        else if (opt == 'o')
            output = optarg;
    }
    if (optind >= argc || runs < 1 || runs > RUNS_MAX) {
        fprintf(stderr, "usage: runner [-n RUNS] [-o FILE] COMMAND [ARG...]\n");
        return 2;
    }
    for (long i = 0; i < runs; i++)
        status = run(argv + optind, output, &ms[i], &kib);
    qsort(ms, (size_t)runs, sizeof *ms, by_size);
    printf("%.2f %ld %d\n", ms[runs / 2], kib, status);
    return 0;
}
