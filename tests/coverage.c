/*
 * coverage.c - linked into programs that count branches, so that their counts reach the disk: gcov writes
 * them when a program exits, but not on _exit, nor inside a sandbox that opens no files, which is left out
 * and does not pass for one; and under a limit of a file's size it would leave cut ones. Linked with --wrap
 * for these functions.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

void __gcov_dump(void);
void __real__exit(int status) __attribute__((noreturn));
void __wrap__exit(int status) __attribute__((noreturn));
bool __wrap_sandbox_enter(void);
bool __wrap_sandbox_try(void);

static bool may_write(void)
{
    struct rlimit most;
    return getrlimit(RLIMIT_FSIZE, &most) == 0 && most.rlim_cur == RLIM_INFINITY;
}

void __wrap__exit(int status)
{
    if (may_write())
        __gcov_dump();
    __real__exit(status);
}

bool __wrap_sandbox_enter(void) { return true; }
bool __wrap_sandbox_try(void) { return false; }

static void leave(int status, void *unused)
{
    (void)unused;
    if (may_write())
        return;
    fflush(NULL);
    __real__exit(status);
}

__attribute__((constructor)) static void watch_exit(void) { on_exit(leave, NULL); }
