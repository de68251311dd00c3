/*
 * slow.c - makes the store that ckpt reads from slow: each read of an input, a file that is open for reading
 * only, takes SLOW_MS milliseconds more. Link with --wrap for the functions __wrap_….
 *
 * SLOW=FILE: at its end, the program writes "MOST READS SUM" to FILE: the most reads at a time, their number,
 * and the sum of how many ran when each began: SUM / READS is how many run at a time. No time is measured, so
 * that a machine that is busy changes little.
 */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

static atomic_int running, most, nreads;
static atomic_llong sum;

__attribute__((destructor)) static void report(void)
{
    const char *path = getenv("SLOW");
    FILE *out = path ? fopen(path, "w") : NULL;
    if (!out)
        return;
    fprintf(out, "%d %d %lld\n", atomic_load(&most), atomic_load(&nreads), atomic_load(&sum));
    fclose(out);
}

static void wait_for_store(void)
{
    const char *ms = getenv("SLOW_MS");
    long ns = ms ? strtol(ms, NULL, 10) * 1000000 : 0;
    struct timespec time = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    int now = atomic_fetch_add(&running, 1) + 1, before = atomic_load(&most);
    while (now > before && !atomic_compare_exchange_weak(&most, &before, now))
        ;
    atomic_fetch_add(&sum, now);
    atomic_fetch_add(&nreads, 1);
    (void)nanosleep(&time, NULL);
    atomic_fetch_sub(&running, 1);
}

static void delay(int fd)
{
    if ((fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY)
        wait_for_store();
}

#pragma GCC visibility push(default)

#ifdef __GLIBC__ /* which has this name for 64-bit offsets */
ssize_t __real_pread64(int fd, void *to, size_t nbytes, off_t at);
ssize_t __wrap_pread64(int fd, void *to, size_t nbytes, off_t at);
ssize_t __wrap_pread64(int fd, void *to, size_t nbytes, off_t at)
{
    delay(fd);
    return __real_pread64(fd, to, nbytes, at);
}
#endif

ssize_t __real_copy_file_range(int in, off_t *at, int out, off_t *to, size_t nbytes, unsigned flags);
ssize_t __wrap_copy_file_range(int in, off_t *at, int out, off_t *to, size_t nbytes, unsigned flags);
ssize_t __wrap_copy_file_range(int in, off_t *at, int out, off_t *to, size_t nbytes, unsigned flags)
{
    delay(in);
    return __real_copy_file_range(in, at, out, to, nbytes, flags);
}
