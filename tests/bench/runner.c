/*
 * runner.c - measures a command, alone or alternating with a yardstick command:
 *
 *   runner [-b BATCHES] [-n RUNS] [-o FILE] [-p PREPARE] [-t BYTES] COMMAND [ARG…] [-- YARDSTICK [ARG…]]
 *
 * Prints "MS KIB STATUS": the median wall time of COMMAND, the peak resident memory of all its runs and its
 * highest exit status. With a yardstick also "MS RATIO LOW HIGH": the median time of the yardstick, and the
 * median, lowest and highest ratio of COMMAND to the yardstick. Each batch has one ratio.
 *
 * A batch is RUNS (7) runs of each command, in turn. If there is more than one run, an additional first run
 * is not counted. Before each run, the shell runs PREPARE, and BYTES of memory are touched and freed: a
 * virtual machine may have to get pages from its host, which would slow the run. The output of the commands
 * goes to FILE (/dev/null).
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define RUNS_MAX 1000

static const char *output = "/dev/null", *prepare;
static size_t touched_bytes;

struct command {
    char **argv;
    double ms[RUNS_MAX];       /* times of all runs */
    double batch_ms[RUNS_MAX]; /* times of the runs in the current batch */
    long peak_kib;
    int highest_status;
};

static double clock_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* touch_memory - lets a child process touch as many bytes as -t gives. */
static void touch_memory(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        char *p = mmap(NULL, touched_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        for (size_t i = 0; p != MAP_FAILED && i < touched_bytes; i += 4096)
            p[i] = 1;
        _exit(0);
    }
    waitpid(pid, NULL, 0);
}

/* run_shell - runs COMMAND and returns whether it succeeded. */
static bool run_shell(const char *command)
{
    int status = 1;
    pid_t pid = fork();
    if (pid == 0) {
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

/* run_once - runs C and returns its time in ms. */
static double run_once(struct command *c)
{
    struct rusage used;
    int status = 0;
    if (prepare && !run_shell(prepare))
        c->highest_status = 127;
    if (touched_bytes)
        touch_memory();
    double begin = clock_ms();
    pid_t pid = vfork();
    if (pid == 0) {
        int fd = open(output, O_WRONLY | O_CREAT | O_TRUNC, 0666);
        if (fd < 0 || dup2(fd, 1) < 0 || dup2(fd, 2) < 0)
            _exit(127);
        execvp(c->argv[0], c->argv);
        _exit(127);
    }
    if (pid < 0 || wait4(pid, &status, 0, &used) != pid) {
        perror(c->argv[0]);
        exit(2);
    }
    double ms = clock_ms() - begin;
    if (used.ru_maxrss > c->peak_kib)
        c->peak_kib = used.ru_maxrss;
    status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (status > c->highest_status)
        c->highest_status = status;
    return ms;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* median - sorts N numbers and returns their median. */
static double median(double *numbers, long n)
{
    qsort(numbers, (size_t)n, sizeof *numbers, compare_doubles);
    return numbers[n / 2];
}

/* measure - runs all batches and prints the result. */
static void measure(struct command *ours, struct command *yardstick, long batches, long runs)
{
    static double ratio[RUNS_MAX];
    if (batches * runs > 1) {
        run_once(ours);
        if (yardstick->argv)
            run_once(yardstick);
    }
    for (long b = 0; b < batches; b++) {
        for (long i = 0; i < runs; i++) {
            ours->ms[b * runs + i] = ours->batch_ms[i] = run_once(ours);
            if (yardstick->argv)
                yardstick->ms[b * runs + i] = yardstick->batch_ms[i] = run_once(yardstick);
        }
        if (yardstick->argv)
            ratio[b] = median(ours->batch_ms, runs) / median(yardstick->batch_ms, runs);
    }
    printf("%.3f %ld %d", median(ours->ms, batches * runs), ours->peak_kib, ours->highest_status);
    if (yardstick->argv) {
        double median_ratio = median(ratio, batches); /* sorts the ratios */
        printf(" %.3f %.4f %.4f %.4f", median(yardstick->ms, batches * runs), median_ratio, ratio[0],
               ratio[batches - 1]);
    }
    printf("\n");
}

int main(int argc, char **argv)
{
    static struct command ours, yardstick;
    int opt;
    long runs = 7, batches = 1;
    while ((opt = getopt(argc, argv, "+b:n:o:p:t:")) != -1) {
        switch (opt) {
        case 'b': batches = strtol(optarg, NULL, 10); break;
        case 'n': runs = strtol(optarg, NULL, 10); break;
        case 'o': output = optarg; break;
        case 'p': prepare = optarg; break;
        case 't': touched_bytes = strtoul(optarg, NULL, 10); break;
        default: runs = 0;
        }
    }
    if (optind >= argc || runs < 1 || batches < 1 || runs > RUNS_MAX || batches > RUNS_MAX / runs) {
        fprintf(stderr, "usage: runner [-b BATCHES] [-n RUNS] [-o FILE] [-p PREPARE] [-t BYTES] "
                        "COMMAND [ARG...] [-- YARDSTICK [ARG...]]\n");
        return 2;
    }
    ours.argv = argv + optind;
    for (int i = optind; i < argc && !yardstick.argv; i++) {
        if (strcmp(argv[i], "--") == 0) {
            argv[i] = NULL;
            yardstick.argv = argv + i + 1;
        }
    }
    measure(&ours, &yardstick, batches, runs);
    if (yardstick.highest_status)
        fprintf(stderr, "%s: exit status %d\n", yardstick.argv[0], yardstick.highest_status);
    return 0;
}
