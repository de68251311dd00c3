/*
 * coverage.c - linked into programs that count branches with gcov, which writes the counts only at exit().
 * This file makes _exit() write the counts, too. It disables the sandbox, in which gcov could not open a
 * file. Under a limit of the file size, which would truncate the counts, it writes none. Linked with --wrap
 * for the functions __wrap_….
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
bool __wrap_sandbox_self_test(void);

static bool can_write_counts(void)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur == RLIM_INFINITY;
}

void __wrap__exit(int status)
{
    if (can_write_counts())
        __gcov_dump();
    __real__exit(status);
}

bool __wrap_sandbox_enter(void) { return true; }
bool __wrap_sandbox_self_test(void) { return false; }

static void exit_if_counts_are_limited(int status, void *unused)
{
    (void)unused;
    if (can_write_counts())
        return;
    fflush(NULL);
    __real__exit(status);
}

__attribute__((constructor)) static void register_exit(void) { on_exit(exit_if_counts_are_limited, NULL); }
