/*
 * steps.c - counts the steps of a program that is compiled with -fsanitize-coverage=trace-pc: the basic
 * blocks that it executes, and what functions of libraries do for it. The number is the same on every
 * machine, and neither a tool nor a permission is needed. Link with --wrap for the functions __wrap_….
 *
 * STEPS=FILE: at its end, the program writes to FILE how many steps it, its threads and its child processes
 * took.
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>
#include <zlib.h>

#define BYTES_PER_STEP 8   /* of memory that is copied, compared or set */
#define CALL           100 /* steps of a system call */
#ifdef __clang__
#define NOT_COUNTED __attribute__((no_sanitize("coverage")))
#else
#define NOT_COUNTED __attribute__((no_sanitize_coverage))
#endif

static uint64_t before_init;
static uint64_t *steps = &before_init; /* shared with child processes */
static pid_t parent;

void __sanitizer_cov_trace_pc(void);

NOT_COUNTED static void count(uint64_t n) { (void)__atomic_fetch_add(steps, n, __ATOMIC_RELAXED); }

NOT_COUNTED static void count_bytes(uint64_t n) { count(1 + n / BYTES_PER_STEP); }

NOT_COUNTED void __sanitizer_cov_trace_pc(void) { count(1); }

NOT_COUNTED __attribute__((constructor)) static void begin(void)
{
    void *shared = mmap(NULL, sizeof *steps, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared != MAP_FAILED)
        steps = shared;
    parent = getpid();
}

NOT_COUNTED __attribute__((destructor)) static void end(void)
{
    const char *path = getenv("STEPS");
    FILE *out = path && getpid() == parent ? fopen(path, "w") : NULL;
    if (!out)
        return;
    fprintf(out, "%llu\n", (unsigned long long)*steps);
    fclose(out);
}

#pragma GCC visibility push(default) /* libzip calls inflate, too */

/* WRAP(result, name, parameters, arguments, amount) - counts AMOUNT before each call of NAME. */
#define WRAP(result, name, parameters, arguments, amount)                                                    \
    result __real_##name parameters;                                                                         \
    result __wrap_##name parameters;                                                                         \
    NOT_COUNTED result __wrap_##name parameters                                                              \
    {                                                                                                        \
        amount;                                                                                              \
        return __real_##name arguments;                                                                      \
    }

WRAP(void *, memcpy, (void *to, const void *from, size_t n), (to, from, n), count_bytes(n))
WRAP(void *, memmove, (void *to, const void *from, size_t n), (to, from, n), count_bytes(n))
WRAP(void *, memset, (void *to, int byte, size_t n), (to, byte, n), count_bytes(n))
WRAP(void *, calloc, (size_t n, size_t size), (n, size), count_bytes(n *size))
WRAP(void *, realloc, (void *p, size_t n), (p, n), count_bytes(n / 8))
#ifdef __GLIBC__ /* which has these names for 64-bit offsets */
WRAP(ssize_t, pread64, (int fd, void *to, size_t n, off_t at), (fd, to, n, at), count(CALL))
WRAP(int, open64, (const char *path, int flags, mode_t mode), (path, flags, mode), count(CALL))
WRAP(int, lstat64, (const char *path, struct stat *st), (path, st), count(CALL))
#endif

void *__real_memchr(const void *in, int byte, size_t n);
void *__wrap_memchr(const void *in, int byte, size_t n);
NOT_COUNTED void *__wrap_memchr(const void *in, int byte, size_t n)
{
    void *found = __real_memchr(in, byte, n);
    count_bytes(found ? (size_t)((const char *)found - (const char *)in) : n);
    return found;
}

int __wrap_memcmp(const void *a, const void *b, size_t n);
NOT_COUNTED int __wrap_memcmp(const void *a, const void *b, size_t n)
{
    const unsigned char *x = a, *y = b;
    size_t i = 0;
    while (i < n && x[i] == y[i])
        i++;
    count_bytes(i);
    return i == n ? 0 : x[i] < y[i] ? -1 : 1;
}

int __real_inflate(z_stream *z, int flush);
int __wrap_inflate(z_stream *z, int flush);
NOT_COUNTED int __wrap_inflate(z_stream *z, int flush)
{
    uInt before = z->avail_out;
    int code = __real_inflate(z, flush);
    count_bytes(before - z->avail_out);
    return code;
}
