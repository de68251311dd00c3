/* oom.c - see oom.h. Replaces malloc() and the like for the objects that are linked into the program; under
 * ASan, which replaces them itself, the linker's --wrap redirects the calls. Allocations in shared libraries
 * do not fail, because libarchive ends the program if one of its own fails. */
#include "oom.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "../sanitized.h"

static struct oom *oom;
static bool (*may_fail)(void);

__attribute__((constructor)) static void oom_begin(void)
{
    const char *fd = getenv(OOM_VARIABLE);
    const int prot = PROT_READ | PROT_WRITE;
    void *memory = fd ? mmap(NULL, sizeof *oom, prot, MAP_SHARED, (int)strtol(fd, NULL, 10), 0) : MAP_FAILED;
    oom = memory == MAP_FAILED ? NULL : memory;
}

void oom_set(struct oom *state, bool (*accept)(void))
{
    oom = state;
    may_fail = accept;
}

/* is_failing - returns whether call number N must fail. If may_fail() is set and has accepted the call,
 * oom->failing_call becomes N. */
static bool is_failing(long n)
{
    const long first_failing = oom->failing_call;
    if (!first_failing || n < first_failing)
        return false;
    if (!may_fail)
        return n == first_failing || oom->fail_all_after;
    if (!may_fail())
        return false;
    oom->failing_call = n;
    return true;
}

bool call_should_fail(void)
{
    if (!oom)
        return false;
    long n = atomic_fetch_add(&oom->ncalls, 1) + 1;
    if (!is_failing(n))
        return false;
    errno = ENOMEM;
    return true;
}

#if defined(__GLIBC__) && !defined(SANITIZED)

/* REAL: the function that allocates; FAILING: the name of the function that replaces it */
#define REAL(name)    __libc_##name
#define FAILING(name) name

void *__libc_memalign(size_t, size_t);

#else

#define REAL(name)    __real_##name
#define FAILING(name) __wrap_##name

void *__real_aligned_alloc(size_t, size_t);
char *__real_strdup(const char *);
char *__wrap_strdup(const char *);

char *__wrap_strdup(const char *s) { return call_should_fail() ? NULL : __real_strdup(s); }

#endif

void *REAL(malloc)(size_t);
void *REAL(calloc)(size_t, size_t);
void *REAL(realloc)(void *, size_t);
void *FAILING(malloc)(size_t);
void *FAILING(calloc)(size_t, size_t);
void *FAILING(realloc)(void *, size_t);
void *FAILING(aligned_alloc)(size_t, size_t);

void *FAILING(malloc)(size_t n) { return call_should_fail() ? NULL : REAL(malloc)(n); }

void *FAILING(calloc)(size_t n, size_t size) { return call_should_fail() ? NULL : REAL(calloc)(n, size); }

void *FAILING(realloc)(void *p, size_t n) { return call_should_fail() ? NULL : REAL(realloc)(p, n); }

void *FAILING(aligned_alloc)(size_t align, size_t n)
{
#if defined(__GLIBC__) && !defined(SANITIZED)
    return call_should_fail() ? NULL : __libc_memalign(align, n);
#else
    return call_should_fail() ? NULL : __real_aligned_alloc(align, n);
#endif
}
