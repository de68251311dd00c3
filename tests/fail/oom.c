/* oom.c - linked into a ckpt whose allocations fail on request. It replaces malloc() and the like of the C
 * library; under ASan, which does that itself, the linker's --wrap redirects the calls instead. Libraries
 * loaded at run time allocate without failing, because libarchive ends the program when memory is lacking. */
#include "oom.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static struct oom *oom;
static bool (*accepts)(void);

__attribute__((constructor)) static void oom_begin(void)
{
    const char *fd = getenv(OOM_VARIABLE);
    void *at = fd ? mmap(NULL, sizeof *oom, PROT_READ | PROT_WRITE, MAP_SHARED, (int)strtol(fd, NULL, 10), 0)
                  : MAP_FAILED;
    oom = at == MAP_FAILED ? NULL : at;
}

void oom_set(struct oom *o, bool (*accept)(void))
{
    oom = o;
    accepts = accept;
}

/* is_failing - returns whether call N must fail; if `accepts` chose it, sets oom->at to N. */
static bool is_failing(long n)
{
    if (!accepts)
        return n == oom->at || (oom->lasting && oom->at && n > oom->at);
    if (!oom->at || n < oom->at || !accepts())
        return false;
    oom->at = n;
    return true;
}

bool oom_should_fail(void)
{
    if (!oom)
        return false;
    long n = atomic_fetch_add(&oom->count, 1) + 1;
    if (!is_failing(n))
        return false;
    errno = ENOMEM;
    return true;
}

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__)

#define REAL(name) __libc_##name
#define OURS(name) name

void *__libc_memalign(size_t, size_t);

#else

#define REAL(name) __real_##name
#define OURS(name) __wrap_##name

void *__real_aligned_alloc(size_t, size_t);
char *__real_strdup(const char *);
char *__wrap_strdup(const char *);

char *__wrap_strdup(const char *s) { return oom_should_fail() ? NULL : __real_strdup(s); }

#endif

void *REAL(malloc)(size_t);
void *REAL(calloc)(size_t, size_t);
void *REAL(realloc)(void *, size_t);
void *OURS(malloc)(size_t);
void *OURS(calloc)(size_t, size_t);
void *OURS(realloc)(void *, size_t);
void *OURS(aligned_alloc)(size_t, size_t);

void *OURS(malloc)(size_t n) { return oom_should_fail() ? NULL : REAL(malloc)(n); }

void *OURS(calloc)(size_t n, size_t size) { return oom_should_fail() ? NULL : REAL(calloc)(n, size); }

void *OURS(realloc)(void *p, size_t n) { return oom_should_fail() ? NULL : REAL(realloc)(p, n); }

void *OURS(aligned_alloc)(size_t align, size_t n)
{
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__)
    return oom_should_fail() ? NULL : __libc_memalign(align, n);
#else
    return oom_should_fail() ? NULL : __real_aligned_alloc(align, n);
#endif
}
